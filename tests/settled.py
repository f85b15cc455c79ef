"""Kernels counted once a share is stated for every condition on data that refusals ask for."""

from fractions import Fraction

from loopyperf.counts.counted_kernel import KernelCounts, count_properties
from loopyperf.counts.execution import Counting
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel


def settled(kernel: Kernel, counting: Counting, share: Fraction) -> KernelCounts:
    """Return the counts of *kernel*, each condition on data holding for *share* of the runs."""
    typical: dict[str, Fraction] = {}
    while True:
        try:
            return count_properties(kernel, counting, typical=typical)
        except UncountableError as refusal:
            if refusal.keyword is None or refusal.keyword in typical:
                raise
            typical[refusal.keyword] = share
