"""A pytest plugin for loopy's own tests: every translation unit that a test brings to Loopy's scheduler is pickled.

It runs in loopy's test process (``-p recorder``), where neither loopyperf nor our tests are imported. Records go to the
folder that ``RECORDED_KERNELS`` names, one file for each distinct pickle, as (name of the test, pickled unit).
"""

import functools
import hashlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import loopy as lp
import loopy.codegen
import loopy.preprocess
import loopy.schedule
from loopy.translation_unit import TranslationUnit

FOLDER = Path(os.environ["RECORDED_KERNELS"])
SCHEDULING = (
    (loopy.preprocess, "preprocess_program"),
    (loopy.schedule, "linearize"),
    (loopy.codegen, "generate_code_v2"),
    (lp, "preprocess_program"),
    (lp, "preprocess_kernel"),
    (lp, "linearize"),
    (lp, "generate_code_v2"),
)
"""what a unit passes through on its way to code, wherever in Loopy it is called from"""


def record(unit: Any) -> None:
    """Keep *unit* under the name of the test that runs."""
    if not isinstance(unit, TranslationUnit):
        return
    test = os.environ.get("PYTEST_CURRENT_TEST", "collection").removesuffix(" (call)")
    pickled = pickle.dumps(unit)
    path = FOLDER / hashlib.sha256(pickled).hexdigest()
    if not path.exists():
        path.write_bytes(pickle.dumps((test, pickled)))


def recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function*, recording its first argument."""

    @functools.wraps(function)
    def recorded(unit: Any, *args: Any, **kwargs: Any) -> Any:
        record(unit)
        return function(unit, *args, **kwargs)

    return recorded


def compared_without_running(reference: Any, context: Any, test: Any = None, **_: Any) -> None:
    """Record both sides of a comparison; that they agree is loopy's concern."""
    for unit in (reference, test):
        record(unit)


def pytest_configure() -> None:
    """Record from now on."""
    for module, name in SCHEDULING:
        setattr(module, name, recording(getattr(module, name)))
    lp.auto_test_vs_ref = compared_without_running
