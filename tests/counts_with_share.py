"""Counts of kernels with one share for all data-dependent conditions."""

from fractions import Fraction

from loopyperf.counts.execution import Counting
from loopyperf.counts.kernel_counts import KernelCounts, count_kernel
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel


def settled(kernel: Kernel, counting: Counting, share: Fraction) -> KernelCounts:
    """Return the counts of *kernel* if each data-dependent condition holds in *share* of the executions."""
    typical: dict[str, Fraction] = {}
    while True:
        try:
            return count_kernel(kernel, counting, typical=typical)
        except UncountableError as error:
            if error.keyword is None or error.keyword in typical:
                raise
            typical[error.keyword] = share
