"""If bounds hold, a cascade gives the result of the model alone with fewer predictions."""

from dataclasses import dataclass
from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.models.result import Breakdown, Estimate
from loopyperf.search.cascade import Beaten, Cascade
from loopyperf.search.task import Task, Unanswered
from loopyperf.search.task_runner import TaskRunner
from loopyperf.search.variants import Variant
from tests.kernels import doubled

KERNEL = doubled()


@dataclass
class TablePredictor:
    """A predictor that looks its estimates up in a table."""

    model: str
    table: dict[str, float | None]

    def __post_init__(self) -> None:
        self.predicted_names: list[str] = []

    def answer(self, variant: Variant) -> Estimate | Unanswered:
        self.predicted_names.append(variant.name)
        seconds = self.table[variant.name]
        if seconds is None:
            return Unanswered("nobody knows", is_final=False)
        return Estimate("k", {}, "d", self.model, "executed", seconds, Breakdown(()))


def predicted(task: Task) -> Estimate | Unanswered:
    return task.predictor.answer(task.variant)


def run_cascade(predictors: list[TablePredictor], names: list[str], top: int | None) -> Cascade:
    cascade = Cascade(predictors, [Variant(name, KERNEL) for name in names], {}, None, top)
    for current, answer in TaskRunner(predicted).about(cascade.tasks()):
        cascade.take(current, answer)
    return cascade


def run_cascade_out_of_order(
    predictors: list[TablePredictor], names: list[str], top: int | None, ahead: int, rng: Random
) -> Cascade:
    """Run a cascade with several tasks in flight whose results arrive in random order, as from an executor."""
    cascade = Cascade(predictors, [Variant(name, KERNEL) for name in names], {}, None, top)
    remaining, waiting, is_over = cascade.tasks(), [], False
    while not is_over or waiting:
        while not is_over and len(waiting) < ahead:
            current = next(remaining, "over")
            is_over = current == "over"
            if is_over or current is None:
                break
            waiting.append(current)
        if waiting:
            current = waiting.pop(rng.randrange(len(waiting)))
            cascade.take(current, predicted(current))
    return cascade


times = st.one_of(st.none(), st.integers(1, 12).map(float))


@st.composite
def times_and_bounds(draw) -> tuple[list[float | None], list[list[float | None]]]:
    """Draw times of variants, and for each of several predictors bounds that are not larger; some are unknown."""
    found = draw(st.lists(times, min_size=1, max_size=12))
    stages = draw(st.integers(0, 3))
    shares = st.one_of(st.none(), st.floats(0, 1))
    bounds = [
        [None if share is None else share * (seconds or 5.0) for seconds in found for share in [draw(shares)]]
        for _ in range(stages)
    ]
    return found, bounds


@given(times_and_bounds(), st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**16))
def test_cascade_finds_the_fastest_variants_of_the_model_alone(case, top, ahead, seed):
    found, bounds = case
    names = [f"v{place}" for place in range(len(found))]

    def predictors() -> list[TablePredictor]:
        stages = [TablePredictor(f"bound {n}", dict(zip(names, each, strict=True))) for n, each in enumerate(bounds)]
        return [*stages, TablePredictor("model", dict(zip(names, found, strict=True)))]

    every = run_cascade(predictors()[-1:], names, None)
    for cascade in (
        run_cascade(predictors(), names, top),
        run_cascade_out_of_order(predictors(), names, top, ahead, Random(seed)),
    ):
        # If two variants are equally fast, either may be listed.
        assert [float(e) for e in cascade.fastest.values()] == [float(e) for e in every.fastest.values()][:top]
        # No variant is lost, and no skipped one can be faster than those that were kept.
        beaten = {each.name for each in cascade.beaten}
        assert sorted([*cascade.fastest, *beaten, *cascade.failures]) == sorted(names)
        slowest = max((float(e) for e in cascade.fastest.values()), default=-inf)
        assert all(each.at_least >= slowest for each in cascade.beaten)
        assert not cascade.notes


def test_model_predicts_only_variants_with_small_bounds():
    # The two fastest take 2 and 3. The bounds of the others are above 3, except that of "c", which is 1.
    model = TablePredictor("model", {"a": 2.0, "b": 3.0, "c": 9.0, "d": 5.0, "e": 6.0})
    bound = TablePredictor("bound", {"a": 1.5, "b": 2.5, "c": 1.0, "d": 4.0, "e": 3.5})
    cascade = run_cascade([bound, model], list("abcde"), top=2)
    assert list(cascade.fastest) == ["a", "b"]
    assert sorted(model.predicted_names) == ["a", "b", "c"]
    assert cascade.beaten == (Beaten("e", 3.5, "bound"), Beaten("d", 4.0, "bound"), Beaten("c", 9.0, "model"))


def test_bound_is_computed_only_for_variants_left_by_the_cheaper_one():
    cheap = TablePredictor("cheap", {"a": 1.0, "b": 7.0, "c": 8.0})
    expensive = TablePredictor("dear", {"a": 2.0, "b": 7.5, "c": 8.5})
    model = TablePredictor("model", {"a": 3.0, "b": 9.0, "c": 9.0})
    run_cascade([cheap, expensive, model], list("abc"), top=1)
    assert (sorted(cheap.predicted_names), expensive.predicted_names, model.predicted_names) == (
        list("abc"),
        ["a"],
        ["a"],
    )


@dataclass
class FailingPredictor:
    """A predictor of variants that cannot be built."""

    model: str

    def __post_init__(self) -> None:
        self.predicted = 0

    def answer(self, variant: Variant) -> Unanswered:
        self.predicted += 1
        return Unanswered("building failed")


def test_variant_that_cannot_be_built_is_tried_once():
    predictors = [FailingPredictor("bound"), FailingPredictor("model")]
    cascade = run_cascade(predictors, ["a", "b"], top=1)
    assert [each.predicted for each in predictors] == [2, 0]
    assert cascade.failures == {"a": "building failed", "b": "building failed"}


def test_variants_spread_over_the_list_are_predicted_first():
    predictor = TablePredictor("model", {f"v{place}": 1.0 for place in range(80)})
    cascade = run_cascade([predictor], list(predictor.table), None)
    assert predictor.predicted_names[:9] == ["v0", "v10", "v20", "v30", "v40", "v50", "v60", "v70", "v1"]
    assert list(cascade.fastest) == list(predictor.table)


def test_violated_bound_gives_a_note():
    bound = TablePredictor("bound", {"a": 5.0, "b": 6.0})
    cascade = run_cascade([bound, TablePredictor("model", {"a": 4.0, "b": 1.0})], ["a", "b"], top=1)
    assert list(cascade.fastest) == ["a"]  # and b is faster
    assert cascade.notes == (
        "'bound' is not a lower bound of 'model', which predicts less for 1 variant; skipped variants may be faster",
    )


def test_note_on_a_violated_bound_names_the_model_of_the_bound():
    cheap = TablePredictor("cheap", {"a": 10.0, "b": 20.0})
    expensive = TablePredictor("dear", {"a": None, "b": 11.0})
    cascade = run_cascade([cheap, expensive, TablePredictor("model", {"a": 5.0, "b": 6.0})], ["a", "b"], top=1)
    (note,) = cascade.notes
    assert note.startswith("'cheap' is not a lower bound of 'model'")
    assert cascade.beaten == (Beaten("b", 20.0, "cheap"),)


@pytest.mark.parametrize(("seconds", "order"), [(0.0, ["b", "a"]), (-1.0, ["a", "b"])])
def test_variants_with_nonpositive_times_are_sorted(seconds, order):
    # Weights of a linear fit may be negative.
    times = {"a": 1.0, "b": seconds}
    assert list(run_cascade([TablePredictor("model", times)], ["a", "b"], None).fastest) == order
    bound = TablePredictor("bound", {"a": 0.5, "b": 0.0})
    assert list(run_cascade([bound, TablePredictor("model", times)], ["a", "b"], 1).fastest) == order[:1]
