"""An empty kernel in the smallest grid that gives each core a group.

Its time is the launch overhead, which determines the minimum rounds of the other microbenchmarks.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.campaign import EMPTY_KERNEL
from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._rounds import in_groups, integers

NAME = EMPTY_KERNEL


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return the only configuration: one warp on each core."""
    lanes = limits.warp_size
    sizes = ({"groups": limits.cores, "lanes": lanes},)
    return [Configuration(f"group {lanes}", partial(empty, lanes), sizes, arguments, nothing)]


def empty(lanes: int) -> lp.TranslationUnit:
    """Return the kernel for groups of *lanes* work-items."""
    unit = lp.make_kernel(
        f"{{[g, l]: 0 <= g < groups and 0 <= l < {lanes}}}",
        "... nop {inames=g:l}",
        [lp.ValueArg("groups", np.int32)],
        name="empty",
        assumptions="groups >= 1",
        lang_version=(2018, 2),
    )
    return in_groups(unit)


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return the number of groups, the only argument."""
    return integers("groups", sizes)


def nothing(arguments: Arguments) -> dict[str, Array]:
    """Return no arrays, because none is written."""
    return {}
