"""Data moves one way at run time too: no function of a lower layer calls one of a higher layer.

``test_layers.py`` checks imports, but not functions, bound methods or generators that are passed down and called there.
These tests profile calls of public functions. The remaining upward calls are listed with their reasons.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.files import os_reason
from loopyperf.testing.predictor_laws import KERNELS
from tests.test_layers import LEVEL, PACKAGE

Upward = tuple[str, str, str]
"""file and name of the calling function, and the layer of the called function"""

KNOWN_UPWARD_CALLS = {
    ("models/result.py", "_ExplainedLater.__getattr__", "predict"): "a search reads thousands of times and few reasons",
    ("executors.py", "limited", "search"): "a time limit calls the task that it limits",
}
"""remaining upward calls; do not add any"""


def path_of(code: CodeType) -> str | None:
    """Return the path within the package of the file that contains *code*; None for other packages."""
    path = Path(code.co_filename)
    return path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else None


def level_of(path: str) -> int:
    return LEVEL.get(path.split("/")[0].removesuffix(".py"), 0)


@contextmanager
def profiled() -> Iterator[tuple[set[Upward], set[str]]]:
    """Yield the upward calls that are made inside the context, and the files whose functions are called."""
    upward: set[Upward] = set()
    files: set[str] = set()
    paths: dict[CodeType, str | None] = {}

    def path(frame: FrameType) -> str | None:
        if frame.f_code not in paths:
            paths[frame.f_code] = path_of(frame.f_code)
        return paths[frame.f_code]

    def note(frame: FrameType, event: str, _: object) -> None:
        called = path(frame) if event == "call" else None
        if called is None:
            return
        files.add(called)
        caller = frame.f_back
        while caller is not None and path(caller) is None:
            caller = caller.f_back
        calling = None if caller is None else path(caller)
        if caller is not None and calling is not None and level_of(called) > level_of(calling):
            upward.add((calling, caller.f_code.co_qualname, called.split("/")[0]))

    sys.setprofile(note)
    try:
        yield upward, files
    finally:
        sys.setprofile(None)


def built(name: str) -> lp.TranslationUnit:
    """Return a new kernel, for which nothing is cached."""
    return KERNELS[name][0]()


def explained(kernel: str, **options: Any) -> object:
    return lpp.estimate(built(kernel), **options).breakdown


PIPELINE = {"device": "nvidia-v100", "model": "pipeline"}
VARIANTS = {"one": "matmul", "other": "triangle", "third": "column_sums"}
QUESTIONS: dict[str, Callable[[], object]] = {
    "a count": lambda: lpp.count(built("matmul")).properties().evaluate(length=64),
    "a fitted estimate": lambda: lpp.estimate(built("matmul"), length=256, device="amd-r9-fury"),
    "a fitted batch": lambda: lpp.estimate(built("scaled"), length=np.array([64, 128]), device="amd-r9-fury"),
    "a fitted estimate with its reason": partial(explained, "scaled", length=256, device="amd-r9-fury"),
    "an estimate of pipelines": partial(explained, "matmul", length=256, **PIPELINE),
    "an estimate of divergent warps": partial(explained, "triangle", length=128, **PIPELINE),
    "an estimate of two launches": partial(explained, "two_launches", length=256, **PIPELINE),
    "a ranking": lambda: lpp.rank(
        {name: built(kernel) for name, kernel in VARIANTS.items()}, length=256, height=64, device="amd-r9-fury"
    ),
    "a ranking with bounds": lambda: lpp.rank(
        {name: built(kernel) for name, kernel in VARIANTS.items()},
        length=256,
        height=64,
        device="nvidia-v100",
        model="pipeline",
        bounds=["roofline"],
        top=1,
    ),
}
ONE_WAY = {"a count", "a fitted estimate", "a fitted batch"}
"""tasks without any upward call"""


@pytest.mark.parametrize("question", QUESTIONS)
def test_only_known_calls_go_to_higher_layers(question: str) -> None:
    with profiled() as (upward, files):
        QUESTIONS[question]()
    assert len(files) > 20
    assert upward <= (set() if question in ONE_WAY else KNOWN_UPWARD_CALLS.keys())


def test_upward_calls_through_other_packages_are_found() -> None:
    class CallingUpwardError(OSError):
        """An error whose message calls a function of a higher layer."""

        def __str__(self) -> str:
            return str(max([1.0], key=lambda _: lpp.occupancy("nvidia-v100", 64).share))

    with profiled() as (upward, _):
        os_reason(CallingUpwardError())
    assert {(caller, name) for caller, name, layer in upward if layer == "device"} == {("files.py", "os_reason")}
