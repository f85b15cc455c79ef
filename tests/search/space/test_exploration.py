"""Which points are asked about: none twice, the same with any executor, and better ones than by chance."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any

import optuna
import pytest

from loopyperf.models.result import Breakdown, Estimate
from loopyperf.search.search import Exploration
from loopyperf.search.space import Adviser, sampler_of, spaced
from loopyperf.search.task import Task, Unanswered
from loopyperf.search.tasks_in_flight import TaskRunner
from loopyperf.search.variants import Variant
from tests.kernels import doubled

CHOICES = {"x": range(24), "y": tuple(2**power for power in range(12)), "how": ("a", "b", "c")}
"""864 points"""
SEEDS = range(6)
Says = Callable[..., float | None]


def bowl(x: int, y: int, how: str) -> float:
    """1 at x = 17, y = 2⁵, how = b, and more the farther from there."""
    return 1.0 + abs(x - 17) + 2 * abs(y.bit_length() - 6) + 5 * (how != "b")


def half_a_bowl(x: int, y: int, how: str) -> float | None:
    """There is nothing beyond x = 8."""
    return None if x > 8 else bowl(x, y, how)


@dataclass
class Stated:
    """A predictor that knows the time of a point from its choices."""

    says: Says
    model: str = "stated"
    device: str = "d"
    uncertainty: None = None
    notes: tuple[str, ...] = ()
    was_asked: Counter[str] = field(default_factory=Counter)

    def answer(self, variant: Variant) -> Estimate | Unanswered:
        self.was_asked[variant.name] += 1
        seconds = self.says(**variant.build.keywords)
        if seconds is None:
            return Unanswered("out of bounds")
        return Estimate("k", {}, "d", self.model, "executed", seconds, Breakdown(()))


def asked(task: Task) -> Estimate | Unanswered:
    return task.predictor.answer(task.variant)


def explored(
    says: Says = bowl,
    how: object = "tpe",
    *,
    trials: int = 64,
    batch: int = 8,
    seed: int = 0,
    choices: dict[str, Any] = CHOICES,
    executor: Executor | None = None,
) -> Exploration:
    space = spaced(choices)
    adviser = Adviser(space, sampler_of(how, seed))
    exploration = Exploration(space, doubled, Stated(says), {}, None, adviser, trials, batch, seed)
    for question, answer in TaskRunner(asked, executor).about(exploration.tasks()):
        exploration.take(question, answer)
    assert len(exploration.variants) == trials
    assert set(exploration.predictor.was_asked.values()) == {1}
    return exploration


def best(exploration: Exploration) -> float:
    return min(map(float, exploration.estimates.values()), default=inf)


def test_the_estimator_finds_better_points_than_chance():
    found = [best(explored(how="tpe", seed=seed)) for seed in SEEDS]
    by_chance = [best(explored(how="random", seed=seed)) for seed in SEEDS]
    assert sum(found) < sum(by_chance)
    assert min(found) == bowl(17, 2**5, "b")


def test_the_estimator_learns_where_there_is_nothing():
    # 15 of 24 values of x are beyond.
    failures = {
        how: sum(len(explored(half_a_bowl, how, seed=seed).failures) for seed in SEEDS) for how in ("tpe", "random")
    }
    assert failures["tpe"] < failures["random"] / 1.5


@pytest.mark.parametrize("how", ["tpe", "random"])
@pytest.mark.parametrize("batch", [1, 5, 100])
def test_as_many_trials_as_points_are_all_points(how, batch):
    choices = {"x": range(5), "y": (1, 2, 4), "how": ("a", "b", "c")}
    exploration = explored(how=how, trials=45, batch=batch, choices=choices)
    assert sorted(exploration.variants) == list(range(45))
    ranking = exploration.ranking([])
    # In the order of their times; of equal times, in that of the space.
    names = [exploration.space.name(point) for point in range(45)]
    assert list(ranking.order) == sorted(names, key=lambda name: float(exploration.estimates[name]))


class Stubborn(optuna.samplers.BaseSampler):
    """Always wants the first point; remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[dict[str, int], object]] = []

    def infer_relative_search_space(self, study, trial):
        return {}

    def sample_relative(self, study, trial, search_space):
        return {}

    def sample_independent(self, study, trial, param_name, param_distribution):
        return 0

    def after_trial(self, study, trial, state, values):
        self.told.append((trial.params, values and values[0]))


@pytest.mark.parametrize("batch", [1, 4])
def test_who_asks_again_is_told_what_is_known_and_others_are_asked_about(batch):
    sampler = Stubborn()
    exploration = explored(how=sampler, trials=6, batch=batch, choices={"x": (3, 5, 9), "y": (1, 2), "how": ("b",)})
    assert len(exploration.variants) == 6
    assert {params["x"] for params, _ in sampler.told} == {0, 1, 2}
    again = [seconds for params, seconds in sampler.told if params == {"x": 0, "y": 0, "how": 0}]
    assert len(again) > 10
    assert set(again) == {bowl(3, 1, "b")}


def test_no_trial_is_left_open():
    exploration = explored(half_a_bowl, trials=20)
    states = Counter(trial.state.name for trial in exploration.adviser._study.trials)
    assert set(states) == {"COMPLETE", "PRUNED"}
    assert states["PRUNED"] >= len(exploration.failures) > 0


def test_any_executor_asks_about_the_same_points_in_the_same_order():
    alone = explored(half_a_bowl, seed=3)
    with ThreadPoolExecutor(3) as executor:
        together = explored(half_a_bowl, seed=3, executor=executor)
    assert list(together.variants) == list(alone.variants)
    assert together.ranking([]).order == alone.ranking([]).order


def test_the_order_of_answers_does_not_matter():
    space = spaced(CHOICES)
    exploration = Exploration(space, doubled, Stated(bowl), {}, None, Adviser(space, sampler_of("tpe", 0)), 30, 8, 0)
    questions, waiting, rng = exploration.tasks(), [], Random(1)
    for question in questions:
        if question is not None:
            waiting.append(question)
        else:
            answered = waiting.pop(rng.randrange(len(waiting)))
            exploration.take(answered, asked(answered))
    assert list(exploration.variants) == list(explored(trials=30).variants)


def test_times_that_are_no_numbers_stop_nobody():
    exploration = explored(lambda x, y, how: inf if x % 2 else bowl(x, y, how), trials=30)
    assert len(exploration.estimates) == 30
