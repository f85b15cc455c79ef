"""Test islpy without barvinok: counts at single sizes are exact, and symbolic counts are refused."""

import islpy as isl
import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import EngineError, ParameterError
from loopyperf.polyhedral import quasipolynomial
from loopyperf.stages import case
from tests.kernels import doubled, outer_product


@pytest.fixture
def plain_islpy(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (case, quasipolynomial):
        monkeypatch.setattr(module, "engine_is_exact", lambda: False)
    monkeypatch.delattr(isl.Set, "card")


@pytest.fixture
def fit(make_fit) -> lpp.Fit:
    return make_fit(weights=dict.fromkeys(lpp.count(doubled()).properties(), 1e-9))


@pytest.mark.parametrize("n", [1, 16, 17, 1000, np.int64(1000)])
@pytest.mark.parametrize("counting", ["paper", "executed"])
def test_one_size_is_counted_exactly(n, counting, fit, plain_islpy, monkeypatch):
    plain = lpp.estimate(doubled(), n=n, fit=fit, counting=counting)
    monkeypatch.undo()
    exact = lpp.estimate(doubled(), n=n, fit=fit, counting=counting)
    assert plain.to_dict() == exact.to_dict()


def test_kernel_without_sizes_is_counted(fit, plain_islpy):
    knl = lp.fix_parameters(doubled(), n=40)
    assert [row.count for row in lpp.estimate(knl, fit=fit).breakdown.rows if row.property == "f32 mul"] == [40]


def test_each_of_several_sizes_is_counted(fit, plain_islpy):
    knl = doubled()
    counts = [
        [row.count for row in lpp.estimate(knl, n=n, fit=fit).breakdown.rows if row.property == "work-groups"]
        for n in (16, 17, 160)
    ]
    assert counts == [[1], [2], [10]]


def test_symbolic_counts_are_refused_with_a_repair_command(plain_islpy):
    with pytest.raises(EngineError, match=r"islpy lacks barvinok.*pip install --force-reinstall --no-deps 'islpy-barv"):
        lpp.count(doubled())


def test_batch_is_refused_without_barvinok(fit, plain_islpy):
    with pytest.raises(EngineError, match="islpy lacks barvinok"):
        lpp.estimate(doubled(), n=np.array([16, 32]), fit=fit)


@pytest.mark.parametrize("sizes", [{"n": -1, "m": 16}, {"n": 1, "m": 17}])
def test_size_outside_the_kernels_assumptions_is_refused(sizes, fit, plain_islpy):
    with pytest.raises(ParameterError, match="violates the kernel's assumptions"):
        lpp.estimate(outer_product(), **sizes, fit=fit)
