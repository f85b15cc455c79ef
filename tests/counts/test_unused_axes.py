"""Test counts of instructions with unused hardware axes against kernels in which Loopy adds these axes."""

from collections.abc import Mapping, Sequence
from typing import cast

import islpy as isl
import loopy as lp
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, note, reject, seed, settings
from loopy.diagnostic import LoopyError

from loopyperf.counts.execution import Counting
from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.errors import KernelError, UncountableError
from loopyperf.kernel import Kernel, load_kernel
from tests.counts import small_accesses, small_calls, small_loops, small_schedules, small_uncountable, small_vectors
from tests.counts.small_kernels import SMALL_KERNELS, SmallKernel
from tests.random_kernels import RandomKernel, random_kernels

Sizes = Sequence[Mapping[str, int]]
_ = (small_accesses, small_calls, small_loops, small_schedules, small_uncountable, small_vectors)
"""importing these modules fills SMALL_KERNELS"""


def outer_sum() -> lp.TranslationUnit:
    """Return an outer sum in groups of 4 × 4; one instruction is only in the loop over rows."""
    unit = lp.make_kernel(
        "{ [i, j]: 0 <= i < n and 0 <= j < m }",
        """
        for i
            <float32> row = 2*x[i]  {id=row}
            for j
                out[i, j] = row + y[j]  {dep=row}
            end
        end
        """,
        [lp.GlobalArg("x, y, out", np.float32, shape=lp.auto), "..."],
        lang_version=(2018, 2),
    )
    unit = lp.split_iname(unit, "i", 4, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(unit, "j", 4, outer_tag="g.1", inner_tag="l.1")


def with_unused_axes(unit: lp.TranslationUnit) -> Kernel | None:
    """Return the kernel after Loopy's own transformation, or None if that fails or changes nothing."""
    try:
        preprocessed = lp.preprocess_program(unit)  # adds loops along axes
        transformed = lp.add_inames_for_unused_hw_axes(preprocessed)
    except LoopyError:
        return None
    return None if transformed == preprocessed else load_kernel(transformed)


def counted(kernel: Kernel, counting: Counting, sizes: Sizes, size: int | None = None) -> list[dict[str, int]]:
    """Return the nonzero counts at each of *sizes*, with sub-groups of *size*."""
    properties = count_kernel(kernel, counting, sub_group_size=size).properties()
    return [{name: int(count) for name, count in properties.evaluate(**each).items() if count} for each in sizes]


@pytest.mark.parametrize(("n", "m", "times"), [(3, 3, 9), (4, 4, 16), (5, 3, 15), (8, 6, 48), (40, 41, 1640)])
def test_loop_bounds_along_an_unused_axis_limit_executions(n: int, m: int, times: int) -> None:
    # Each work-item with a valid j executes the product over i: n·m; `paper` counts it once for each i.
    kernel = load_kernel(outer_sum())
    assert [counts["f32 mul"] for counts in counted(kernel, "executed", [{"n": n, "m": m}])] == [times]
    assert [counts["f32 mul"] for counts in counted(kernel, "paper", [{"n": n, "m": m}])] == [n]


def test_executed_counts_equal_those_of_transformed_kernels() -> None:
    compared = [case for case in SMALL_KERNELS if _is_compared(case)]
    assert len(compared) >= 4, "kernels that leave an axis out which one loop has"


def _is_compared(case: SmallKernel) -> bool:
    transformed = with_unused_axes(case.build())
    if transformed is not None:
        _compare(load_kernel(case.build()), transformed, case.sizes)
    return transformed is not None


@seed(1)
@settings(
    max_examples=40, database=None, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
@given(random_kernels())
def test_executed_counts_equal_those_of_transformed_random_kernels(description: RandomKernel) -> None:
    note(repr(description))
    assume(description.share is None)
    try:
        unit = description.build()
        kernel, transformed = load_kernel(unit), with_unused_axes(unit)
    except (KernelError, LoopyError, isl.Error, ValueError, NotImplementedError, RuntimeError):
        reject()
    assume(transformed is not None and len(kernel.launches) == 1)
    _compare(kernel, cast("Kernel", transformed), description.sizes[::3])


def _compare(kernel: Kernel, transformed: Kernel, sizes: Sizes) -> None:
    expected = counted(transformed, "paper", sizes)
    assert expected == counted(transformed, "executed", sizes) == counted(kernel, "executed", sizes)
    try:
        expected = counted(transformed, "executed", sizes, 32)
    except UncountableError:  # the numbers of work-items depend on a size
        return
    assert expected == counted(kernel, "executed", sizes, 32)
