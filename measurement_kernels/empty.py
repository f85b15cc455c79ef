"""A kernel that does nothing, launched as if each work-item had an element of an n × n matrix to work on.

Stevens and Klöckner, section 4.1, ninth class. The class is in the set for the two properties of overhead: the launch
(constant) and the number of work-groups. Its time is also what the harness holds the other kernels' smallest sizes
against (section 4.2).

The ladder doubles the smallest multiple of lcm(gx, gy) from 256 on, which is a power of two where the paper's 2^(p+t)
is a multiple of the group's sides. There is no array, so memory sets no limit. The harness takes six entries.

Besides, one group is launched several times in a row, so that what further launches cost is measured by two classes
(``several_launches.py`` is the other).

Counts: n²/(gx·gy) work-groups, one launch, nothing else; or so many launches, of a work-group each.
"""

from functools import partial
from math import lcm

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Group, Sizes, doubling

NAME = "empty kernel"

LAUNCHES = (1, 3, 6, 12)
GROUP = 64
LARGEST = 2**15
"""The paper's largest n: 2^(p+t) with p = 10, t = 5."""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each 2-D group size that the device can hold, and for each number of launches."""
    in_a_row = [
        Configuration(
            label=f"{number} in a row, group {GROUP}",
            build=partial(empty_in_a_row, number),
            sizes=({"n": GROUP},),
            arguments=arguments,
            reference=nothing,
            steps=1,
        )
        for number in LAUNCHES
    ]
    return in_a_row + [
        Configuration(
            label=f"group {group[0]}x{group[1]}",
            build=partial(empty, group),
            sizes=tuple({"n": n} for n in doubling(at_least=256, multiple_of=lcm(*group), at_most=LARGEST)),
            arguments=arguments,
            reference=nothing,
            steps=6,
        )
        for group in limits.groups_2d()
    ]


def empty(group: Group) -> lp.TranslationUnit:
    """Return the kernel for groups of (extent of l.0, extent of l.1) work-items."""
    columns, rows = group
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        # Without an instruction that has the inames, loopy would launch a single work-item.
        "... nop {inames=i:j}",
        [lp.ValueArg("n", np.int32)],
        name="empty",
        assumptions=f"n mod {lcm(columns, rows)} = 0 and n >= {lcm(columns, rows)}",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", rows, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", columns, outer_tag="g.0", inner_tag="l.0")


def empty_in_a_row(number: int) -> lp.TranslationUnit:
    """Return the kernel of so many launches, of groups of 64 work-items."""
    inames = [f"i{launch}" for launch in range(number)]
    unit = lp.make_kernel(
        f"{{[{', '.join(inames)}]: {' and '.join(f'0 <= {iname} < n' for iname in inames)}}}",
        "\n... gbarrier\n".join(f"... nop {{inames={iname}}}" for iname in inames),
        [lp.ValueArg("n", np.int32)],
        name=f"empty_{number}",
        seq_dependencies=True,
        assumptions=f"n mod {GROUP} = 0 and n >= {GROUP}",
        lang_version=(2018, 2),
    )
    for iname in inames:
        unit = lp.split_iname(unit, iname, GROUP, outer_tag="g.0", inner_tag="l.0")
    return unit


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return n, the only argument."""
    return {"n": np.int32(sizes["n"])}


def nothing(arguments: Arguments) -> dict[str, Array]:
    """Return no array: none is written."""
    return {}
