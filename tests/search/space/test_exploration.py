"""Exploration evaluates each point once, and better ones than at random."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import optuna
import pytest

from loopyperf.models.result import Breakdown, Estimate
from loopyperf.search import search as searching
from loopyperf.search.cascade import Cascade
from loopyperf.search.search import Explored
from loopyperf.search.space import Adviser, sampler_of, spaced
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


def explore(
    time_of: TimeFunction = bowl,
    how: object = "tpe",
    *,
    trials: int = 64,
    batch: int = 8,
    seed: int = 0,
    choices: dict[str, Any] = CHOICES,
    adviser: Adviser | None = None,
) -> Explored:
    space, predictions = spaced(choices), Counter[str]()

    def predicted(variants: Sequence[Variant]) -> Cascade:
        cascade = Cascade((), variants, {}, None, None)
        for variant in variants:
            predictions[variant.name] += 1
            seconds = time_of(**variant.build.keywords)
            if seconds is None:
                cascade.failures[variant.name] = "out of bounds"
            else:
                cascade.estimates[variant.name] = Estimate("k", {}, "d", "m", "executed", seconds, Breakdown(()))
        return cascade

    adviser = adviser or Adviser(space, sampler_of(how, seed))
    explored = searching.explore(space, doubled, adviser, trials, batch, seed, predicted)
    assert len(explored.variants) == trials
    assert set(predictions.values()) == {1}
    return explored


def best(exploration: Explored) -> float:
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
    adviser = Adviser(spaced(CHOICES), sampler_of("tpe", 0))
    exploration = explore(half_a_bowl, trials=20, adviser=adviser)
    states = Counter(trial.state.name for trial in adviser._study.trials)
    assert set(states) == {"COMPLETE", "PRUNED"}
    assert states["PRUNED"] >= len(exploration.failures) > 0


def test_infinite_times_do_not_stop_the_exploration():
    exploration = explore(lambda x, y, how: inf if x % 2 else bowl(x, y, how), trials=30)
    assert len(exploration.estimates) == 30
