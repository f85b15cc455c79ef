"""Exploration evaluates each point once, the same points with any executor, and better ones than at random."""

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
from loopyperf.search.task_runner import TaskRunner
from loopyperf.search.variants import Variant
from tests.kernels import doubled

CHOICES = {"x": range(24), "y": tuple(2**power for power in range(12)), "how": ("a", "b", "c")}
"""864 points"""
SEEDS = range(6)
TimeFunction = Callable[..., float | None]


def bowl(x: int, y: int, how: str) -> float:
    """Return 1 at x = 17, y = 2⁵, how = b, and more the farther a point is from there."""
    return 1.0 + abs(x - 17) + 2 * abs(y.bit_length() - 6) + 5 * (how != "b")


def half_a_bowl(x: int, y: int, how: str) -> float | None:
    """Return None beyond x = 8."""
    return None if x > 8 else bowl(x, y, how)


@dataclass
class FunctionPredictor:
    """A predictor that computes the time of a point from its choices."""

    time_of: TimeFunction
    model: str = "stated"
    device: str = "d"
    uncertainty: None = None
    notes: tuple[str, ...] = ()
    predictions: Counter[str] = field(default_factory=Counter)

    def answer(self, variant: Variant) -> Estimate | Unanswered:
        self.predictions[variant.name] += 1
        seconds = self.time_of(**variant.build.keywords)
        if seconds is None:
            return Unanswered("out of bounds")
        return Estimate("k", {}, "d", self.model, "executed", seconds, Breakdown(()))


def predicted(task: Task) -> Estimate | Unanswered:
    return task.predictor.answer(task.variant)


def explore(
    time_of: TimeFunction = bowl,
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
    exploration = Exploration(space, doubled, FunctionPredictor(time_of), {}, None, adviser, trials, batch, seed)
    for current, answer in TaskRunner(predicted, executor).about(exploration.tasks()):
        exploration.take(current, answer)
    assert len(exploration.variants) == trials
    assert set(exploration.predictor.predictions.values()) == {1}
    return exploration


def best(exploration: Exploration) -> float:
    return min(map(float, exploration.estimates.values()), default=inf)


def test_tpe_finds_better_points_than_random_search():
    found = [best(explore(how="tpe", seed=seed)) for seed in SEEDS]
    by_chance = [best(explore(how="random", seed=seed)) for seed in SEEDS]
    assert sum(found) < sum(by_chance)
    assert min(found) == bowl(17, 2**5, "b")


def test_tpe_avoids_points_that_fail():
    # 15 of 24 values of x fail.
    failures = {
        how: sum(len(explore(half_a_bowl, how, seed=seed).failures) for seed in SEEDS) for how in ("tpe", "random")
    }
    assert failures["tpe"] < failures["random"] / 1.5


@pytest.mark.parametrize("how", ["tpe", "random"])
@pytest.mark.parametrize("batch", [1, 5, 100])
def test_as_many_trials_as_points_cover_all_points(how, batch):
    choices = {"x": range(5), "y": (1, 2, 4), "how": ("a", "b", "c")}
    exploration = explore(how=how, trials=45, batch=batch, choices=choices)
    assert sorted(exploration.variants) == list(range(45))
    ranking = exploration.ranking([])
    # Sorted by time; points of equal times are in the order of the space.
    names = [exploration.space.name(point) for point in range(45)]
    assert list(ranking.order) == sorted(names, key=lambda name: float(exploration.estimates[name]))


class FirstPointSampler(optuna.samplers.BaseSampler):
    """Always suggests the first point, and records the results that are reported to it."""

    def __init__(self) -> None:
        self.reported: list[tuple[dict[str, int], object]] = []

    def infer_relative_search_space(self, study, trial):
        return {}

    def sample_relative(self, study, trial, search_space):
        return {}

    def sample_independent(self, study, trial, param_name, param_distribution):
        return 0

    def after_trial(self, study, trial, state, values):
        self.reported.append((trial.params, values and values[0]))


@pytest.mark.parametrize("batch", [1, 4])
def test_sampler_that_repeats_a_point_gets_its_known_time(batch):
    sampler = FirstPointSampler()
    exploration = explore(how=sampler, trials=6, batch=batch, choices={"x": (3, 5, 9), "y": (1, 2), "how": ("b",)})
    assert len(exploration.variants) == 6
    assert {params["x"] for params, _ in sampler.reported} == {0, 1, 2}
    repeated = [seconds for params, seconds in sampler.reported if params == {"x": 0, "y": 0, "how": 0}]
    assert len(repeated) > 10
    assert set(repeated) == {bowl(3, 1, "b")}


def test_every_trial_is_completed_or_pruned():
    exploration = explore(half_a_bowl, trials=20)
    states = Counter(trial.state.name for trial in exploration.adviser._study.trials)
    assert set(states) == {"COMPLETE", "PRUNED"}
    assert states["PRUNED"] >= len(exploration.failures) > 0


def test_points_and_their_order_do_not_depend_on_the_executor():
    alone = explore(half_a_bowl, seed=3)
    with ThreadPoolExecutor(3) as executor:
        together = explore(half_a_bowl, seed=3, executor=executor)
    assert list(together.variants) == list(alone.variants)
    assert together.ranking([]).order == alone.ranking([]).order


def test_points_do_not_depend_on_the_order_of_results():
    space = spaced(CHOICES)
    exploration = Exploration(
        space, doubled, FunctionPredictor(bowl), {}, None, Adviser(space, sampler_of("tpe", 0)), 30, 8, 0
    )
    remaining, waiting, rng = exploration.tasks(), [], Random(1)
    for current in remaining:
        if current is not None:
            waiting.append(current)
        else:
            completed = waiting.pop(rng.randrange(len(waiting)))
            exploration.take(completed, predicted(completed))
    assert list(exploration.variants) == list(explore(trials=30).variants)


def test_infinite_times_do_not_stop_the_exploration():
    exploration = explore(lambda x, y, how: inf if x % 2 else bowl(x, y, how), trials=30)
    assert len(exploration.estimates) == 30
