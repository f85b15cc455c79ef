"""What is left to know of a kernel once it is counted: its name, the sizes that it takes, how large its groups are."""

from dataclasses import dataclass

import islpy as isl

from loopyperf.kernel.group_resources import Group


@dataclass(frozen=True, slots=True)
class Signature:
    """A kernel's name, sizes and groups; without what Loopy knows of it, so that it can be kept."""

    name: str
    """of the entry point"""
    assumptions: isl.BasicSet
    """a set of parameters: those that the kernel takes, where their values are admitted"""
    group: Group
    """what a group takes of a core, at least"""
    contiguous: frozenset[str] = frozenset()
    """strides and offsets that it takes too, and that were given no value: its arrays are contiguous"""
