"""A kernel of several hundred instructions: potentials of distant charges by Taylor expansions of 1/r around boxes.

The Taylor coefficients bₖ = (-1)^|k|/k! ∂ᵏ(1/r), k = (kx, ky, kz), of the potential obey a recurrence (Duan and Krasny,
An adaptive treecode for computing nonbonded potential energy in classical molecular systems, J. Comput. Chem. 22, 2001,
eq. 19), with x the vector from box to target and eᵢ the unit vectors:

    |k| r² bₖ = (2|k| - 1) Σᵢ xᵢ b₍ₖ₋ₑᵢ₎ - (|k| - 1) Σᵢ b₍ₖ₋₂ₑᵢ₎

A code generator for expansions creates one scalar assignment per coefficient.
"""

from collections.abc import Iterator
from itertools import product
from math import comb

import loopy as lp
import numpy as np

Index = tuple[int, int, int]
AXES = "xyz"


def multipole_expansion(order: int) -> lp.TranslationUnit:
    """Return the kernel that evaluates the expansions of all boxes, up to *order*, at all targets.

    Each work-item computes one target. There are comb(order + 3, 3) coefficients, each with its own assignment.
    """
    moments = comb(order + 3, 3)
    points = [lp.GlobalArg(f"target_{axis}", np.float64, shape="n") for axis in AXES]
    points += [lp.GlobalArg(f"box_{axis}", np.float64, shape="boxes") for axis in AXES]
    knl = lp.make_kernel(
        "{[target, box]: 0 <= target < n and 0 <= box < boxes}",
        "\n".join(_lines(order)),
        [
            *points,
            lp.GlobalArg("moment", np.float64, shape=f"boxes, {moments}"),
            lp.GlobalArg("potential", np.float64, shape="n"),
            lp.ValueArg("n, boxes", np.int32),
        ],
        name="multipole_expansion",
        assumptions="n mod 128 = 0 and n >= 128 and boxes >= 1",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "target", 128, outer_tag="g.0", inner_tag="l.0")


def _lines(order: int) -> Iterator[str]:
    """Yield the lines of the source: one per instruction, and the ``for`` and ``end`` lines of the loops."""
    indices = sorted((k for k in product(range(order + 1), repeat=3) if sum(k) <= order), key=lambda k: (sum(k), k))
    yield "for target"
    yield "<> sum = 0.0 {id=start}"
    yield "for box"
    yield from (f"<> {axis} = target_{axis}[target] - box_{axis}[box]" for axis in AXES)
    yield "<> square = x**2 + y**2 + z**2"
    yield f"<> {_name((0, 0, 0))} = 1/sqrt(square)"
    yield from (f"<> {_name(k)} = {_recurrence(k)}" for k in indices[1:])
    for degree in range(order + 1):
        terms = (f"moment[box, {place}]*{_name(k)}" for place, k in enumerate(indices) if sum(k) == degree)
        before = "start" if degree == 0 else f"degree_{degree - 1}"
        yield f"sum = sum + {' + '.join(terms)} {{id=degree_{degree}, dep=*:{before}}}"
    yield "end"
    yield f"potential[target] = sum {{dep=degree_{order}}}"
    yield "end"


def _recurrence(k: Index) -> str:
    degree = sum(k)
    first = " + ".join(f"{axis}*{_name(b)}" for axis, b in zip(AXES, _lowered(k, 1), strict=True) if min(b) >= 0)
    second = " + ".join(_name(b) for b in _lowered(k, 2) if min(b) >= 0)
    rest = f" - {degree - 1}.0*({second})" if second else ""
    return f"({2 * degree - 1}.0*({first}){rest})/({degree}.0*square)"


def _lowered(k: Index, by: int) -> list[Index]:
    """Return three copies of *k*; each has one index reduced by *by*."""
    x, y, z = k
    return [(x - by, y, z), (x, y - by, z), (x, y, z - by)]


def _name(k: Index) -> str:
    return "b_" + "_".join(map(str, k))
