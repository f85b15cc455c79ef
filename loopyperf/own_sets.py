"""Copies of isl's sets that nobody else holds.

isl may write a set with fewer constraints whenever it looks at it, and does so in place: all who hold the set see it
written in another way, though it holds the same points. Generating code so rewrites the domains of a user's kernel.
"""

import islpy as isl
from loopy.kernel import LoopKernel


def own(points: isl.BasicSet) -> isl.BasicSet:
    """Return *points* as they are written, in memory that is not shared with anybody."""
    for kind in (isl.dim_type.set, isl.dim_type.param):
        name = points.get_dim_name(kind, 0) if points.dim(kind) else None
        if name is not None:
            return points.set_dim_name(kind, 0, name)  # isl copies what it renames
    return points


def minimal(points: isl.BasicSet) -> isl.BasicSet:
    """Return *points* without constraints that follow from others; *points* stay as they are written."""
    return own(points).remove_redundancies()


def with_own_sets(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* with domains and assumptions that isl may rewrite, and nobody else sees it."""
    return kernel.copy(domains=[own(domain) for domain in kernel.domains], assumptions=own(kernel.assumptions))
