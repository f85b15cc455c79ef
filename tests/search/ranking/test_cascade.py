"""A cascade answers as the model alone does, where bounds are bounds, and asks it less."""

from dataclasses import dataclass
from math import inf
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.models.result import Breakdown, Estimate
from loopyperf.search.cascade import Beaten, Cascade, order_of_asking
from loopyperf.search.task import LOOKED_AT, Task, Unanswered
from loopyperf.search.tasks_in_flight import TaskRunner
from loopyperf.search.variants import Variant
from tests.kernels import doubled

KERNEL = doubled()


@dataclass
class Stated:
    """A predictor whose answers stand in a table."""

    model: str
    says: dict[str, float | None]

    def __post_init__(self) -> None:
        self.was_asked: list[str] = []

    def answer(self, variant: Variant) -> Estimate | Unanswered:
        self.was_asked.append(variant.name)
        seconds = self.says[variant.name]
        if seconds is None:
            return Unanswered("nobody knows", is_final=False)
        return Estimate("k", {}, "d", self.model, "executed", seconds, Breakdown(()))


def asked(task: Task) -> Estimate | Unanswered:
    return task.predictor.answer(task.variant)


def answered(predictors: list[Stated], names: list[str], top: int | None) -> Cascade:
    cascade = Cascade(predictors, [Variant(name, KERNEL) for name in names], {}, None, top)
    for question, answer in TaskRunner(asked).about(cascade.tasks()):
        cascade.take(question, answer)
    return cascade


def in_disorder(predictors: list[Stated], names: list[str], top: int | None, ahead: int, rng: Random) -> Cascade:
    """The same with several questions at a time, whose answers come in any order, as from an executor."""
    cascade = Cascade(predictors, [Variant(name, KERNEL) for name in names], {}, None, top)
    questions, waiting, is_over = cascade.tasks(), [], False
    while not is_over or waiting:
        while not is_over and len(waiting) < ahead:
            question = next(questions, "over")
            is_over = question == "over"
            if is_over or question is None:
                break
            waiting.append(question)
        if waiting:
            question = waiting.pop(rng.randrange(len(waiting)))
            cascade.take(question, asked(question))
    return cascade


times = st.one_of(st.none(), st.integers(1, 12).map(float))


@st.composite
def bounded(draw) -> tuple[list[float | None], list[list[float | None]]]:
    """Times of variants, and for each of some predictors bounds that are no larger; some are not known."""
    found = draw(st.lists(times, min_size=1, max_size=12))
    stages = draw(st.integers(0, 3))
    shares = st.one_of(st.none(), st.floats(0, 1))
    bounds = [
        [None if share is None else share * (seconds or 5.0) for seconds in found for share in [draw(shares)]]
        for _ in range(stages)
    ]
    return found, bounds


@given(bounded(), st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**16))
def test_the_fastest_are_those_of_the_model_alone(case, top, ahead, seed):
    found, bounds = case
    names = [f"v{place}" for place in range(len(found))]

    def predictors() -> list[Stated]:
        stages = [Stated(f"bound {n}", dict(zip(names, each, strict=True))) for n, each in enumerate(bounds)]
        return [*stages, Stated("model", dict(zip(names, found, strict=True)))]

    every = answered(predictors()[-1:], names, None)
    for cascade in (
        answered(predictors(), names, top),
        in_disorder(predictors(), names, top, ahead, Random(seed)),
    ):
        # Of those that are equally fast, either may be there.
        assert [float(e) for e in cascade.fastest.values()] == [float(e) for e in every.fastest.values()][:top]
        # Nothing is lost, and nothing that was left out can be faster than what was kept.
        beaten = {each.name for each in cascade.beaten}
        assert sorted([*cascade.fastest, *beaten, *cascade.failures]) == sorted(names)
        slowest = max((float(e) for e in cascade.fastest.values()), default=-inf)
        assert all(each.at_least >= slowest for each in cascade.beaten)
        assert not cascade.notes


def test_the_model_is_asked_about_no_more_than_it_takes():
    # The two fastest take 2 and 3; of the others the bounds are above 3, but for "c", whose bound is 1.
    model = Stated("model", {"a": 2.0, "b": 3.0, "c": 9.0, "d": 5.0, "e": 6.0})
    bound = Stated("bound", {"a": 1.5, "b": 2.5, "c": 1.0, "d": 4.0, "e": 3.5})
    cascade = answered([bound, model], list("abcde"), top=2)
    assert list(cascade.fastest) == ["a", "b"]
    assert sorted(model.was_asked) == ["a", "b", "c"]
    assert cascade.beaten == (Beaten("e", 3.5, "bound"), Beaten("d", 4.0, "bound"), Beaten("c", 9.0, "model"))


def test_a_bound_is_asked_only_of_what_the_cheaper_one_leaves():
    cheap = Stated("cheap", {"a": 1.0, "b": 7.0, "c": 8.0})
    dear = Stated("dear", {"a": 2.0, "b": 7.5, "c": 8.5})
    model = Stated("model", {"a": 3.0, "b": 9.0, "c": 9.0})
    answered([cheap, dear, model], list("abc"), top=1)
    assert (sorted(cheap.was_asked), dear.was_asked, model.was_asked) == (list("abc"), ["a"], ["a"])


@dataclass
class Dead:
    """A predictor of variants that cannot be built."""

    model: str

    def __post_init__(self) -> None:
        self.asked = 0

    def answer(self, variant: Variant) -> Unanswered:
        self.asked += 1
        return Unanswered("building failed")


def test_what_nobody_can_build_is_asked_about_once():
    predictors = [Dead("bound"), Dead("model")]
    cascade = answered(predictors, ["a", "b"], top=1)
    assert [each.asked for each in predictors] == [2, 0]
    assert cascade.failures == {"a": "building failed", "b": "building failed"}


def test_variants_from_all_over_the_list_are_asked_first():
    predictor = Stated("model", {f"v{place}": 1.0 for place in range(80)})
    cascade = answered([predictor], list(predictor.says), None)
    assert predictor.was_asked[:9] == ["v0", "v10", "v20", "v30", "v40", "v50", "v60", "v70", "v1"]
    assert list(cascade.fastest) == list(predictor.says)


def test_what_contradicts_a_bound_is_said():
    bound = Stated("bound", {"a": 5.0, "b": 6.0})
    cascade = answered([bound, Stated("model", {"a": 4.0, "b": 1.0})], ["a", "b"], top=1)
    assert list(cascade.fastest) == ["a"]  # and b is faster
    assert cascade.notes == (
        "'bound' is not a lower bound of 'model', which predicts less for 1 variant; skipped variants may be faster",
    )


def test_a_bound_that_is_contradicted_is_named_by_its_own_model():
    cheap = Stated("cheap", {"a": 10.0, "b": 20.0})
    dear = Stated("dear", {"a": None, "b": 11.0})
    cascade = answered([cheap, dear, Stated("model", {"a": 5.0, "b": 6.0})], ["a", "b"], top=1)
    (note,) = cascade.notes
    assert note.startswith("'cheap' is not a lower bound of 'model'")
    assert cascade.beaten == (Beaten("b", 20.0, "cheap"),)


@pytest.mark.parametrize(("seconds", "order"), [(0.0, ["b", "a"]), (-1.0, ["a", "b"])])
def test_times_below_zero_stand_behind_all_others(seconds, order):
    # Weights of a linear fit may be negative.
    times = {"a": 1.0, "b": seconds}
    assert list(answered([Stated("model", times)], ["a", "b"], None).fastest) == order
    bound = Stated("bound", {"a": 0.5, "b": 0.0})
    assert list(answered([bound, Stated("model", times)], ["a", "b"], 1).fastest) == order[:1]


def test_places_from_all_over_the_list_come_first():
    assert order_of_asking(3) == [0, 1, 2]
    assert order_of_asking(20)[:LOOKED_AT] == [0, 2, 5, 7, 10, 12, 15, 17]
    assert sorted(order_of_asking(20)) == list(range(20))
