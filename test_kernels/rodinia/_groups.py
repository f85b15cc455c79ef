"""Kernels in groups along one axis: one configuration, at sizes of which each is a whole number of groups."""

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
    """Return the kernel in groups of *group* work-items, for n up to *at_most* beside its *others*, or nothing.

    There is nothing where the device cannot hold such a group.
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
