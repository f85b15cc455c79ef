"""The examples compute what they say, are predicted for a GPU without one, and are tuned on the OpenCL device."""

import importlib
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from loopyperf.search.exploration import Restrictions
from loopyperf.search.space import spaced
from tests.documents import ROOT

POINTS = {"element_einsum": 2688, "stencil_chain": 486, "sparse_formats": 28}
"""example -> points that meet the restrictions"""
FEW: dict[str, dict[str, tuple[Any, ...]]] = {
    "element_einsum": {
        "lanes": ("elements", "nodes"),
        "elements": (4,),
        "per_item": (2,),
        "unroll": (5,),
        "prefetch": ("", "Du"),
        "operator": ("F",),
        "layout": ("F",),
    },
    "stencil_chain": {
        "first": ("global", "local", "inline"),
        "second": ("local",),
        "width": (32,),
        "height": (4,),
        "rows": (2,),
        "prefetch": (True,),
    },
    "sparse_formats": {"form": ("csr", "ell", "sliced"), "lanes": (1, 8), "group": (128,)},
}
"""example -> a small part of its space"""


@pytest.fixture(params=POINTS)
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return an example as it is; it is removed from the imported modules afterwards."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.setitem(sys.modules, request.param, None)
    monkeypatch.delitem(sys.modules, request.param)
    return importlib.import_module(request.param)


def test_space_has_the_stated_number_of_points(example: ModuleType) -> None:
    space = spaced(example.SPACE)
    admitted = Restrictions.of(getattr(example, "RESTRICTIONS", ()), space)
    assert sum(admitted.admit(space.choice(point)) for point in range(space.points)) == POINTS[example.__name__]


def test_fastest_point_on_a_gpu_is_predicted(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(example, "SPACE", FEW[example.__name__])
    found = example.main()
    assert found.points == found.predicted > 2
    assert (found.ended, found.device, found.failures) == ("no backend", "nvidia-h200", {})
    assert 1e-6 < found.seconds < 1e-2


def smoothed(u: NDArray[np.float32]) -> NDArray[np.float32]:
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return np.float32(0.5) * u[1:-1, 1:-1] + np.float32(0.125) * around


def data(name: str) -> dict[str, Any]:
    """Return size, arguments and reference of the example *name*; that of sparse matrices has its own."""
    rng = np.random.default_rng(0)
    if name == "element_einsum":
        operator, nodes = rng.random((35, 35)), rng.random((384, 35))
        arguments = {"D": np.asarray(operator, order="F"), "u": np.asarray(nodes, order="F")}
        return {"n": 384, "arguments": arguments, "reference": {"out": nodes @ operator.T}}
    if name == "stencil_chain":
        u = rng.random((258, 258), dtype=np.float32)
        return {"n": 128, "arguments": {"u": u}, "reference": {"out": smoothed(smoothed(smoothed(u)))[:128, :128]}}
    return {"n": 1024}


def test_results_equal_numpys_on_the_opencl_device(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyopencl")
    monkeypatch.setattr(example, "SPACE", FEW[example.__name__])
    options = {"regret": 0.0, "probability": 0.9999, "device": "nvidia-h200", "model": "roofline"}
    tuned = example.main("opencl", **data(example.__name__), **options)
    assert [step.reason for step in tuned.trail] == [""] * tuned.predicted
    assert not any("assumed 0" in note for note in tuned.notes)
