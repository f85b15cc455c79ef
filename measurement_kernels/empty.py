"""An empty kernel, launched as if each work-item processed an element of an n × n matrix.

Stevens and Klöckner, section 4.1, ninth class. Purpose: the two properties of overhead, the launch (constant) and the
number of work-groups. Its time also determines the smallest sizes of the other kernels (section 4.2).

The schedule doubles the smallest multiple of lcm(gx, gy) that is at least 256, a power of two where the paper's 2^(p+t)
is a multiple of the group's sides. There is no array, so memory is no limit. Six entries are measured.

In addition, one group is launched several times in a row, so that two classes measure the cost of further launches
(``several_launches.py`` is the other one).

Counts: n²/(gx·gy) work-groups and one launch; or several launches of one work-group each.
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
"""the paper's largest n: 2^(p+t) with p = 10, t = 5"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each 2-D group size that the device supports and for each number of launches."""
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
        # Without an instruction within the inames, Loopy would launch a single work-item.
        "... nop {inames=i:j}",
        [lp.ValueArg("n", np.int32)],
        name="empty",
        assumptions=f"n mod {lcm(columns, rows)} = 0 and n >= {lcm(columns, rows)}",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", rows, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", columns, outer_tag="g.0", inner_tag="l.0")


def empty_in_a_row(number: int) -> lp.TranslationUnit:
    """Return the kernel of *number* launches, for groups of 64 work-items."""
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
    """Return no arrays, because none is written."""
    return {}
