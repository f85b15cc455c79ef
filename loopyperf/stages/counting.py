"""Counts of a kernel, cached: exact functions of its sizes, the input of fits of counts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast, get_args

from loopyperf.counts.execution import Counting
from loopyperf.counts.kernel_counts import KernelCounts, check_options, count_kernel
from loopyperf.counts.sizes import check_typical_values
from loopyperf.counts.transcription import counts_as_json, read_counts
from loopyperf.kernel import Kernel, Program
from loopyperf.polyhedral.quasipolynomial import engine_is_exact
from loopyperf.stages.cache import ResultKind
from loopyperf.stages.cache_keys import content_text
from loopyperf.stages.case import (
    found_by_text,
    has_arrays,
    integer_sizes,
    layout_of,
    prepared,
    restricted_assumptions,
)

COUNTS = ResultKind[KernelCounts]("counts", 256, counts_as_json, read_counts, is_analysis=True)
"""counts, ten to a hundred kilobytes each in memory"""


@dataclass(frozen=True)
class CountingOptions:
    """Options of counting; see :func:`count`."""

    counting: Counting = "executed"
    typical: Mapping[str, Any] | None = None
    sub_group_size: int | None = None
    layout: tuple[tuple[str, int | None], ...] = ()
    """(name, value) of the strides and offsets that were given; the value is None for an array"""

    def __post_init__(self) -> None:
        check_options(self.counting, self.sub_group_size)
        if self.typical is not None:
            check_typical_values(self.typical)

    @cached_property
    def text(self) -> str | None:
        """Return the options as part of a key, made once, since it takes as long as an estimate; None if impossible."""
        return content_text((self.counting, self.typical, self.sub_group_size, self.layout))

    def count(self, kernel: Kernel) -> KernelCounts:
        """Return the counts of *kernel* with these options; see :func:`count`."""
        laid_out = kernel.laid_out(dict(self.layout))
        return count_kernel(laid_out, self.counting, typical=self.typical, sub_group_size=self.sub_group_size)


USUAL: Mapping[Counting, CountingOptions] = {
    counting: CountingOptions(counting) for counting in cast("tuple[Counting, ...]", get_args(Counting))
}
"""the default options, made once, since a search uses only these"""


def count(
    program: Program,
    counting: Counting = "executed",
    *,
    typical: Mapping[str, Any] | None = None,
    sub_group_size: int | None = None,
) -> KernelCounts:
    """Return the counts of a kernel as exact functions of its sizes.

    Loopy's preprocessing and the counting run once for equal programs while the result is in the cache.

    Parameters
    ----------
    program
        A Loopy kernel or translation unit.
    counting
        ``"executed"`` counts what the hardware executes. ``"paper"`` counts each instruction over its own inames only,
        as Stevens and Klöckner do: work of a group that does not use a hardware axis counts once along it.
    typical
        Typical values for what the source does not determine, by the keywords that the errors name: trip counts of
        loops with loaded bounds, probabilities (0 to 1) of conditions on data, patterns of arrays with loaded
        addresses, and the operations of foreign code (a mapping from properties to numbers). The keyword of a condition
        is its text in terms of the loops before splitting, such as ``"x[i] > 0"``, the only array that it reads, or the
        instruction whose only condition on data it is.
    sub_group_size
        Count sub-groups (warps) of this many lanes, if at least one of their lanes is active, instead of work-items.

    Returns
    -------
    KernelCounts
        The counts of each property.

    Raises
    ------
    KernelError
        If Loopy cannot preprocess the kernel.
    UncountableError
        If a construct has no exact count.
    ParameterError
        If an option or a typical value is invalid.

    Examples
    --------
    >>> import loopy as lp, loopyperf as lpp, numpy as np
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0<=i<n}",
    ...     "out[i] = 2*a[i]",
    ...     [lp.GlobalArg("a,out", np.float32, shape="n"), "..."],
    ...     lang_version=(2018, 2),
    ... )
    >>> counts = lpp.count(knl)
    >>> print(counts)
    loopy_kernel, executed counting: ...
      property  ...
      f32 mul   ...n
      ...
    """
    return _counted(program, CountingOptions(counting, typical, sub_group_size))


def count_at(program: Program, options: CountingOptions, sizes: Mapping[str, Any]) -> KernelCounts:
    """Return the counts of a kernel in a form that can be evaluated at *sizes*.

    With barvinok in islpy, this is :func:`count`. Without it, a single size can still be counted exactly: the kernel
    assumes these sizes, and the counts are plain numbers. Raises :class:`EngineError` for arrays of sizes without
    barvinok, and :class:`ParameterError` for sizes that are missing, not integers or outside the kernel's assumptions.
    """
    if engine_is_exact() or has_arrays(sizes):
        counted = _counted(program, options)
        named = counted.kernel.contiguous & sizes.keys()
        return _counted(program, replace(options, layout=layout_of(named, sizes))) if named else counted
    kernel = prepared(program, sizes)
    assumptions = restricted_assumptions(kernel, integer_sizes(kernel, sizes))
    # The same schedule, with the assumption that the sizes are these.
    return options.count(replace(kernel, loopy_kernel=kernel.loopy_kernel.copy(assumptions=assumptions)))


def _counted(program: Program, options: CountingOptions) -> KernelCounts:
    return found_by_text(COUNTS, program, options.text, lambda: options.count(prepared(program)))
