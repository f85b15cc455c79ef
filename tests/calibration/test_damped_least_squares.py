"""Test the bounded least-squares minimizer of the overlap fit; SciPy provides the reference."""

import math
from copy import copy

import numpy as np
import pytest
from scipy import optimize

from loopyperf.calibration.overlap_fit import Evaluation, SolverResult, minimise
from loopyperf.models.linear import curvatures, overlapped

SCALE = 0.2
TWO_SIDES = ("memory",) * 6 + ("on chip",) * 5 + (None,)
EACH_ALONE = (*"abcdefghijk", None)
WIDTH = len(TWO_SIDES)
LEAST = np.append(np.zeros(WIDTH), 1.0)
MOST = 20.0


class Fitted:
    """A fit of a smooth maximum to noisy times of another one; a third of its weights are 0."""

    sides: tuple[str | None, ...] = TWO_SIDES
    sharpness = 3.0
    ridge, centre = 0.01, 0.0

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.amounts = 10 ** rng.uniform(-2, 0, (60, WIDTH)) * (rng.random((60, WIDTH)) < 0.7) + 1e-3
        weights = rng.uniform(0, 1, WIDTH) * (np.arange(WIDTH) % 3 > 0)
        exact = overlapped(self.amounts * weights, self.sides, self.sharpness).seconds
        self.logarithms = np.log(exact) + rng.normal(0, 0.1, 60)
        self.evaluations = 0

    def residuals(self, x: np.ndarray) -> np.ndarray:
        found = overlapped(self.amounts * x[:-1], self.sides, x[-1])
        return np.append(np.log(found.seconds) - self.logarithms, self.ridge * (x[:-1] - self.centre))

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        found = overlapped(self.amounts * x[:-1], self.sides, x[-1])
        slopes = np.hstack([self.amounts * found.factors, found.by_sharpness[:, None]]) / found.seconds[:, None]
        return np.vstack([slopes, self.ridge * np.eye(WIDTH, WIDTH + 1)])

    def curvature(self, x: np.ndarray, factors: np.ndarray) -> np.ndarray:
        costs = self.amounts * x[:-1]
        found = overlapped(costs, self.sides, x[-1])
        by_cost = curvatures(costs, self.sides, x[-1], found) / found.seconds[:, None]
        second = self.amounts**2 * (by_cost - (found.factors / found.seconds[:, None]) ** 2)
        return np.append(factors[: len(second)] @ second, 0.0)

    def evaluate(self, x: np.ndarray) -> Evaluation:
        self.evaluations += 1
        return Evaluation(self.residuals(x), lambda: self.jacobian(x), lambda factors: self.curvature(x, factors))

    def minimum(self) -> SolverResult:
        return minimise(self.evaluate, self.start, least=LEAST, last_at_most=MOST, scale=SCALE)

    start = np.append(np.full(WIDTH, 0.5), 2.0)


class FittedNearZero(Fitted):
    """A fit with weights regularized toward 1 that should be 0. Each weight has a side of its own.

    The derivative of T has an unbounded slope where such a weight is 0.
    """

    sides = EACH_ALONE
    sharpness = 1.3
    ridge, centre = 0.1, 1.0


TASKS: list[Fitted] = [kind(seed) for kind in (Fitted, FittedNearZero) for seed in range(4)]


def test_minimum_takes_100_evaluations_and_scipy_finds_no_lower_cost(subtests: pytest.Subtests):
    for task in TASKS:
        task.evaluations = 0
        with subtests.test(task=str(task)):
            # SciPy needs up to a hundred times as many evaluations if weights are on their bounds. Without second
            # derivatives, this minimizer needs 1500 evaluations near 0 and stops at costs up to 25 % higher.
            found = task.minimum()
            assert task.evaluations <= 100
            assert isinstance(task, FittedNearZero) or (found.parameters[:-1] == 0).any()  # exactly
            bounds = (LEAST, np.append(np.full(WIDTH, np.inf), MOST))
            start = np.clip(found.parameters, bounds[0] + 1e-9, bounds[1] - 1e-9)
            scipys = optimize.least_squares(
                task.residuals,
                start,
                task.jacobian,
                bounds=bounds,
                loss="soft_l1",
                f_scale=SCALE,
                x_scale="jac",
                gtol=None,
            )
            # SciPy stops if a step gains less than 1e-8 of the cost; this minimizer, if a damped step gains less than
            # 1e-13.
            assert found.cost <= scipys.cost * (1 + 1e-6)


def test_gradient_is_zero_or_points_out_of_bounds_at_the_minimum(subtests: pytest.Subtests):
    for task in TASKS:
        with subtests.test(task=str(task)):
            found = task.minimum()
            residuals, slopes = found.evaluation.residuals, found.evaluation.jacobian()
            gradient = slopes.T @ (residuals / np.sqrt(1 + (residuals / SCALE) ** 2))
            # A step along a gradient γ gains γ²/2h, where h is the curvature: 1e-13 of the cost where the minimizer
            # stops. Damped steps gain less. 1e-15 allows for rounding where the cost does not depend on a parameter.
            size = np.sqrt(1e-7 * found.cost * (slopes**2).sum(axis=0)) + 1e-15
            at_least, at_most = (
                found.parameters == LEAST,
                np.append(np.zeros(WIDTH, bool), found.parameters[-1] == MOST),
            )
            assert (gradient[~at_least] <= size[~at_least]).all()
            assert (gradient[~at_most] >= -size[~at_most]).all()
            assert found.cost == pytest.approx(SCALE**2 * (np.sqrt(1 + (residuals / SCALE) ** 2) - 1).sum(), rel=1e-12)
            assert (found.parameters >= LEAST).all()
            assert found.parameters[-1] <= MOST


def test_minimum_does_not_depend_on_the_order_of_rows(subtests: pytest.Subtests):
    for task in TASKS:
        with subtests.test(task=str(task)):
            # With another order of rows, as on another processor, sums differ in their last digits.
            found = task.minimum().parameters
            order = np.random.default_rng(1).permutation(len(task.logarithms))
            moved = copy(task)
            moved.amounts, moved.logarithms = task.amounts[order], task.logarithms[order]
            assert moved.minimum().parameters == pytest.approx(found, abs=1e-6)


def test_last_parameter_stops_at_its_upper_bound():
    # The residuals are x₀ − 1 and x₁ − 7, with x₁ at most 4. At the minimum x₀ = 1, and the second residual is −3.
    def evaluate(x: np.ndarray) -> Evaluation:
        return Evaluation(x - np.array([1.0, 7.0]), lambda: np.eye(2), np.zeros_like)

    found = minimise(evaluate, np.array([5.0, 2.0]), least=np.array([0.0, 1.0]), last_at_most=4.0, scale=1.0)
    assert found.parameters == pytest.approx([1.0, 4.0], abs=1e-5)
    assert found.parameters[1] == 4.0
    assert found.cost == pytest.approx(math.sqrt(10) - 1, rel=1e-9)


def test_parameter_without_influence_keeps_its_value():
    def evaluate(x: np.ndarray) -> Evaluation:
        return Evaluation(x[:1] - 1, lambda: np.array([[1.0, 0.0]]), lambda _: np.zeros(2))

    found = minimise(evaluate, np.array([3.0, 2.0]), least=np.array([0.0, 1.0]), last_at_most=4.0, scale=1.0)
    assert found.parameters == pytest.approx([1.0, 2.0], abs=1e-4)
