"""A pytest plugin: pickle every translation unit that tests or examples pass to Loopy's scheduler or to an executor.

It runs in the process of the recorded project (``-p recorder``, or ``python recorder.py example.py``), where neither
loopyperf nor our tests are imported. Records go to the folder that ``RECORDED_KERNELS`` names, one file for each
distinct pickle: (name of the test, pickled unit, arguments). The arguments are the sizes of the call that needed the
code: a shape for each array, a number for each integer; empty where code was generated without a call.

``RECORDED_RESULTS`` names functions, as ``module:function``, whose results are recorded too: generators whose units are
tested without code generation.
"""

import functools
import hashlib
import importlib
import os
import pickle
import runpy
import sys
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, cast

import loopy as lp
import loopy.codegen
import loopy.preprocess
import loopy.schedule
import numpy as np
from loopy.target.execution import ExecutorBase
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
"""functions that process a unit before and during code generation, under all names by which Loopy calls them"""
SOURCE = ContextVar("SOURCE", default="import")
"""the running example"""
ARGUMENTS: ContextVar[dict[str, Any]] = ContextVar("ARGUMENTS")
"""of the running call"""


def record(unit: Any) -> None:
    """Store *unit* under the name of the running test or example, with the sizes of the running call."""
    if not isinstance(unit, TranslationUnit):
        return
    source = os.environ.get("PYTEST_CURRENT_TEST", SOURCE.get()).removesuffix(" (call)")
    try:
        pickled = pickle.dumps(unit)
    except (AttributeError, TypeError, pickle.PicklingError):
        return  # contains a function that the test defines
    path = FOLDER / hashlib.sha256(pickled).hexdigest()
    if not path.exists():
        path.write_bytes(pickle.dumps((source, pickled, sizes(ARGUMENTS.get({})))))


def sizes(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the shape of each array and the value of each integer in *arguments*."""
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        shape = cast("tuple[Any, ...]", getattr(value, "shape", ()))
        if shape:
            found[name] = tuple(int(length) for length in shape)
        elif isinstance(value, int | np.integer):
            found[name] = int(cast("int", value))
    return found


def recording(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function*, recording its first argument."""

    @functools.wraps(function)
    def recorded(unit: Any, *args: Any, **kwargs: Any) -> Any:
        record(unit)
        return function(unit, *args, **kwargs)

    return recorded


def recording_result(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return *function*, recording its result or the items of a tuple."""

    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        result: Any = function(*args, **kwargs)
        for each in cast("tuple[Any, ...]", result if isinstance(result, tuple) else (result,)):
            record(each)
        return cast("Any", result)

    return recorded


def with_arguments(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return *call* of an executor, with its arguments available to :func:`record` while it runs."""

    @functools.wraps(call)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = ARGUMENTS.set(kwargs)
        try:
            return call(self, *args, **kwargs)
        finally:
            ARGUMENTS.reset(token)

    return called


def compared_without_running(reference: Any, context: Any, test: Any = None, **_: Any) -> None:
    """Record both sides of a comparison without comparing them."""
    for unit in (reference, test):
        record(unit)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Keep ``RECORDED_PARAMETERS`` of each test, evenly spaced: some tests loop over all operators and types."""
    most = int(os.environ.get("RECORDED_PARAMETERS", len(items)))
    of_test: dict[str, list[Any]] = {}
    for item in items:
        of_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    items[:] = [item for each in of_test.values() for item in each[:: -(-len(each) // most)]]


def pytest_configure() -> None:
    """Record from now on."""
    for module, name in SCHEDULING:
        setattr(module, name, recording(getattr(module, name)))
    for place in filter(None, os.environ.get("RECORDED_RESULTS", "").split(",")):
        module, _, name = place.partition(":")
        owner = importlib.import_module(module)
        setattr(owner, name, recording_result(getattr(owner, name)))
    for target in ("c.c_execution", "pyopencl_execution"):
        module = importlib.import_module(f"loopy.target.{target}")
        for executor in vars(module).copy().values():
            if isinstance(executor, type) and issubclass(executor, ExecutorBase) and "__call__" in vars(executor):
                setattr(executor, "__call__", with_arguments(cast("Any", executor).__call__))  # noqa: B010
    lp.auto_test_vs_ref = compared_without_running


if __name__ == "__main__":
    pytest_configure()
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    SOURCE.set(Path(sys.argv[0]).stem)
    runpy.run_path(sys.argv[0], run_name="__main__")
