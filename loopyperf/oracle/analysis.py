"""Counting a kernel once, however often it is asked about."""

import weakref
from dataclasses import dataclass, field
from typing import Any

from loopy.kernel import LoopKernel
from loopy.translation_unit import TranslationUnit

from loopyperf.counts.execution import Counting
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
