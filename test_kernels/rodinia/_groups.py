"""Kernels with 1-D groups: one configuration, at sizes that are multiples of the group size."""

from collections.abc import Callable
from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling


def in_groups_of(
    group: int,
    limits: DeviceLimits,
    build: Callable[[int], lp.TranslationUnit],
    arguments: Callable[[np.random.Generator, Sizes], Arguments],
    reference: Callable[[Arguments], dict[str, Array]],
    at_most: int,
    **others: int,
) -> list[Configuration]:
    """Return the kernel for groups of *group* work-items, at n up to *at_most* with its *others* fixed.

    The list is empty if the device does not support the group size.
    """
    if group > limits.group_size:
        return []
    return [
        Configuration(
            label=f"group {group}",
            build=partial(build, group),
            sizes=tuple({"n": n, **others} for n in doubling(at_least=1, multiple_of=group, at_most=at_most)),
            arguments=arguments,
            reference=reference,
        )
    ]
