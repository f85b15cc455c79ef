"""Counting a kernel once, however often it is asked about."""

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import islpy as isl
import loopy as lp
from loopy.kernel import LoopKernel
from loopy.translation_unit import TranslationUnit

from loopyperf.counts.execution import Counting
from loopyperf.counts.quasipolynomial import engine_is_exact
from loopyperf.errors import ParameterError
from loopyperf.kernel import Kernel, load_kernel
from loopyperf.properties.counted_kernel import KernelCounts, count_properties

Program = TranslationUnit | LoopKernel


def count(program: Program, counting: Counting = "executed") -> KernelCounts:
    """Return what a Loopy kernel does, as exact functions of its sizes.

    *counting* is ``"executed"`` (what the hardware runs) or ``"paper"`` (each instruction over its own inames; see
    :mod:`loopyperf.counts.execution`). Loopy's passes and the counting run once for each program object; the answer is
    remembered as long as the object lives.

    Raises :class:`KernelError` for a kernel that Loopy cannot prepare, :class:`UncountableError` for a construct that
    has no exact count.
    """
    analysis = _remembered(program)
    if counting not in analysis.counted:
        analysis.counted[counting] = count_properties(analysis.kernel, counting)
    return analysis.counted[counting]


def count_at(program: Program, counting: Counting, sizes: Mapping[str, Any]) -> KernelCounts:
    """Return what a Loopy kernel does, able to be evaluated at *sizes*.

    Like :func:`count` where islpy has barvinok. Without it, one size can still be counted exactly: once the kernel
    assumes its sizes to be just these, the counts are plain numbers.
    """
    if engine_is_exact() or not all(isinstance(size, int) for size in sizes.values()):
        return count(program, counting)
    kernel = _remembered(program).kernel
    named = {name: size for name, size in sizes.items() if name in kernel.parameters}
    equalities = " and ".join(f"{name} = {size}" for name, size in named.items())
    if not equalities:
        return count(program, counting)
    asked = isl.BasicSet(f"[{', '.join(named)}] -> {{ : {equalities} }}")
    if kernel.assumptions.intersect(asked.align_params(kernel.assumptions.get_space())).is_empty():
        raise ParameterError(f"{equalities} is outside what the kernel assumes: {kernel.assumptions}")
    assuming = cast("Program", lp.assume(cast("Any", program), equalities))
    return count_properties(load_kernel(assuming), counting)


@dataclass(slots=True)
class _Analysis:
    kernel: Kernel
    counted: dict[str, KernelCounts] = field(default_factory=dict[str, KernelCounts])


_analyses: dict[int, _Analysis] = {}
"""by the program's identity: hashing a program's content takes longer than an estimate"""


def _remembered(program: Any) -> _Analysis:
    key = id(program)
    if key not in _analyses:
        analysis = _Analysis(load_kernel(program))
        weakref.finalize(program, _analyses.pop, key, None)
        _analyses[key] = analysis
    return _analyses[key]
