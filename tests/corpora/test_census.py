"""Tests of the outcomes that the census reports."""

import os
import pickle
import signal
from typing import Any

import loopy as lp
import numpy as np
import pytest

from loopyperf.counts.execution import COUNTINGS
from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.kernel import load_kernel
from tests.kernels import doubled

from .census import outcome
from .check import checked
from .outcome import Outcome
from .specimen import Specimen


class Call:
    """Calls a function when it is unpickled."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


def gathered() -> lp.TranslationUnit:
    """Return a kernel whose row lengths and condition depend on data."""
    unit = lp.make_kernel(
        ["{[i]: 0<=i<n}", "[s, e] -> {[j]: s<=j<e}"],
        "<> s = start[i]\n<> e = start[i+1]\nfor j\nif a[j] > 0\nout[j] = 2*a[j]\nend\nend",
        [lp.GlobalArg("a,out", np.float32, shape=None), lp.GlobalArg("start", np.int32, shape="n+1"), ...],
        seq_dependencies=True,
        lang_version=(2018, 2),
    )
    return lp.assume(unit, "n >= 1")


def unsaved() -> lp.TranslationUnit:
    """Return a program for which Loopy generates no code, because registers do not persist between launches."""
    code = "for i\n<>t = i\n... gbarrier\nout[i] = t\nend"
    return lp.make_kernel("{[i]: 0<=i<8}", code, seq_dependencies=True, lang_version=(2018, 2))


@pytest.mark.parametrize(
    ("what", "kind", "reason"),
    [
        (doubled(), "counted", "enumeration agrees"),
        (gathered(), "settled", "counted once the values are stated that the refusals ask for"),
        ("text", "refused", "KernelError: expected a loopy TranslationUnit or LoopKernel, got str"),
        (unsaved(), "no code", "KernelError: loopy cannot generate code for kernel 'loopy_kernel': temporary variable"),
        (Call(int, "x"), "crashed", "ValueError at specimen.py"),
        (Call(os._exit, 3), "crashed", "the process ended with status 3"),
        (Call(signal.raise_signal, signal.SIGALRM), "too slow", "more than 60 s"),
    ],
)
def test_census_distinguishes_all_outcomes(what: Any, kind: str, reason: str) -> None:
    found = outcome(Specimen("one", pickle.dumps(what)))
    assert kind == found.kind
    assert found.reason.startswith(reason)


def test_enumeration_rejects_the_counts_of_another_kernel() -> None:
    # Seven elements are one group of 16 work-items, but two of 4.
    counts = {counting: count_kernel(load_kernel(doubled(group=4)), counting).properties() for counting in COUNTINGS}
    found = checked(load_kernel(doubled(group=16)), counts)
    assert found.kind == "wrong"
    assert found.reason.endswith("at {'n': 7}: {'work-groups': (1, 2)}")


def test_class_of_reason_does_not_depend_on_the_kernel() -> None:
    reasons = (
        f"UncountableError: instruction '{name}': no count for Foreign in {expression}"
        for name, expression in (("load", "a[i]"), ("store", "b[i % 8]"))
    )
    assert len({Outcome("refused", reason).class_of_reason for reason in reasons}) == 1
