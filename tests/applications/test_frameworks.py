"""Programs of frameworks, where they can be imported."""

import numpy as np
import pytest

import loopyperf as lpp
from tests.documents import ROOT


def test_conjugate_gradients_of_arraycontext(monkeypatch):
    pytest.importorskip("arraycontext", reason="arraycontext is not installed")
    monkeypatch.syspath_prepend(ROOT / "examples")
    example = __import__("conjugate_gradients")
    with lpp.profile(["nvidia-h200"], transform=lpp.parallelized) as profiled:
        square = example.solve(16, 5)
    assert np.isfinite(square)
    kernels = {row.name: row for row in profiled.result.rows if row.work == "kernel"}
    assert sum(row.calls for row in kernels.values()) == 10
    assert all(row.on[0].seconds for row in kernels.values())
    assert not any(row.name == "unknown" for row in profiled.result.rows)
