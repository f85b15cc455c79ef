"""Laws of findings over random kernels: each time is that of the changed kernel, and each recipe keeps the results.

To test other kernels, and more of them: ``LOOPYPERF_RANDOM_FINDINGS=1000 pytest -m slow`` with this file.
"""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, reject, seed, settings

import loopyperf as lpp
from loopyperf.explain import execution_candidates, findings, memory_candidates
from tests.explain.explanation.every_recipe import V100, every_recipe
from tests.explain.explanation.on_pocl import assert_same_results
from tests.random_kernels import RandomKernel, random_kernels

KERNELS = int(os.environ.get("LOOPYPERF_RANDOM_FINDINGS", 300))
"""number of random kernels"""
BATCH = 10
"""number of kernels of a seed; only the first batch is quick"""
LARGEST = 256
"""largest size, so that the kernels can be executed"""


SEEDS = [1, *(pytest.param(each, marks=pytest.mark.slow) for each in range(2, 1 + -(-KERNELS // BATCH)))]


def for_random_kernels(first: int, test: Callable[[Any, Mapping[str, int]], None]) -> None:
    """Run *test* with random kernels and sizes; kernels that Loopy or the model refuses are rejected."""

    @seed(first)
    @settings(
        max_examples=BATCH, database=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate],
        deadline=None,
    )  # fmt: skip
    @given(random_kernels())
    def tested(description: RandomKernel) -> None:
        note(repr(description))
        sizes = {name: min(size, LARGEST) for name, size in description.class_sizes.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                unit = description.build()
                lpp.estimate(unit, device=V100, model="pipeline", parameters=sizes)
            except Exception:  # transformations raise exceptions of isl, pymbolic and Python
                reject()
            test(unit, sizes)

    tested()


@pytest.fixture(autouse=True)
def thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make candidates of wastes that are small or that do not matter: random kernels are short."""
    monkeypatch.setattr(execution_candidates, "launched", lambda seen: iter(()))
    monkeypatch.setattr(findings, "SMALL", 0.0)
    monkeypatch.setattr(execution_candidates, "WAITED_MOST", 0.0)
    for module in (execution_candidates, memory_candidates):
        monkeypatch.setattr(module, "BUSY", 0.0)
    monkeypatch.setattr(execution_candidates, "WAITED", 0.0)


@pytest.mark.parametrize("first", SEEDS)
def test_time_of_each_finding_is_that_of_the_changed_kernel(first: int):
    found = Counter[str]()

    def holds(unit: Any, sizes: Mapping[str, int]) -> None:
        for each in lpp.advise(unit, device=V100, parameters=sizes).findings:
            found.update([str(each.kind)])
            if each.seconds is not None:
                found.update(["with a time"])
                changed = each.apply(unit)
                estimate = lpp.estimate(changed, device=V100, model="pipeline", parameters=sizes)
                assert estimate.seconds == pytest.approx(each.seconds, rel=1e-9), each.change
                roofline = lpp.estimate(changed, device=V100, model="roofline", parameters=sizes)
                assert each.seconds >= roofline.seconds * (1 - 1e-9), each.change

    for_random_kernels(first, holds)
    print(dict(found))
    assert found["with a time"] or first > 1, "the first batch has findings with a time; a later one may have none"


@pytest.mark.parametrize("first", SEEDS)
def test_every_recipe_keeps_the_results(first: int):
    found = Counter[str]()

    def holds(unit: Any, sizes: Mapping[str, int]) -> None:
        is_executable = all(each.shape is not None for each in unit.default_entrypoint.args if hasattr(each, "shape"))
        for kind, recipe, changed in every_recipe(unit, sizes):
            found.update([f"{kind}: {'applied' if changed else 'refused'}"])
            if changed is not None and is_executable:
                note(recipe.source)
                assert_same_results(unit, changed, sizes)

    for_random_kernels(first, holds)
    print(dict(found))
    assert any("applied" in each for each in found)
