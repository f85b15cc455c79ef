"""Test overlap fits: they recover weights and sharpness of synthetic measurements and respect the prior."""

import warnings

import numpy as np
import pytest

from loopyperf.calibration import overlap_fit as solver
from loopyperf.calibration.overlap_fit import (
    FURTHER_STARTS,
    MIN_START,
    OUTLIER,
    RIDGE,
    STARTS,
    _best,
    _Fitted,
    non_negative_least_squares,
    solve_overlap,
)
from loopyperf.calibration.problem import Observation, Solution, pose_problem
from loopyperf.errors import ConvergenceWarning
from loopyperf.models.linear import overlapped, side

COUNTS = ("f32 add", "global load 32-bit stride 1", "global store 32-bit stride 1", "launches", "local load 32-bit")
WEIGHTS = np.array([2e-12, 8e-12, 9e-12, 5e-6, 3e-12])
PIPELINES = ("DRAM", "L1: global", "L1: local", "fp64", "launches")


def measured(
    columns: tuple[str, ...], weights: np.ndarray, sharpness: float, basis: str, number: int = 80, noise: float = 0.0
) -> list[Observation]:
    rng = np.random.default_rng(3)
    largest = (
        10.0 ** rng.uniform(6, 9, (number, len(columns)))
        if basis == "counts"
        else rng.uniform(0, 1e-3, (number, len(columns)))
    )
    amounts = np.where(rng.random((number, len(columns))) < 0.3, 0, largest)
    amounts = np.round(amounts) if basis == "counts" else amounts
    amounts[:, columns.index("launches")] = 1
    sides = [side(name, basis) for name in columns]
    seconds = overlapped(amounts * weights, sides, sharpness).seconds * np.exp(noise * rng.standard_normal(number))
    return [
        Observation(
            f"class {place % 7}",
            str(place),
            {},
            dict(zip(columns, row.tolist(), strict=True)) if basis == "counts" else {},
            float(time),
            dict(zip(columns, row.tolist(), strict=True)) if basis == "pipelines" else {},
        )
        for place, (row, time) in enumerate(zip(amounts, seconds, strict=True))
    ]


@pytest.mark.parametrize("sharpness", [1.0, 2.0, 6.0])
def test_weights_and_sharpness_of_counts_are_recovered(sharpness: float):
    found = solve_overlap(pose_problem(measured(COUNTS, WEIGHTS, sharpness, "counts")))
    assert list(found.weights) == list(COUNTS)
    # The ridge shrinks weights by about 1e-4.
    assert list(found.weights.values()) == pytest.approx(WEIGHTS, rel=0.02)
    assert found.sharpness == pytest.approx(sharpness, rel=0.05)
    assert max(map(abs, found.residuals)) < 0.01


def test_weights_of_pipelines_near_the_prior_are_recovered():
    # Regularization moves the weights toward the prior; more measurements reduce this bias.
    weights = np.array([0.8, 1.1, 0.9, 1.0, 8e-6])
    found = solve_overlap(pose_problem(measured(PIPELINES, weights, 2.2, "pipelines", number=400), "pipelines"))
    assert list(found.weights.values()) == pytest.approx(weights, rel=0.04)
    assert (found.model, found.basis) == ("overlap", "pipelines")
    assert found.sharpness == pytest.approx(2.2, rel=0.05)


def off_after(number: int, weights: np.ndarray, sharpness: float, prior: Solution | None = None) -> float:
    """Return the median error, on 200 other kernels, of eight fits to *number* kernels with 20 % noise."""
    rows = measured(PIPELINES, weights, sharpness, "pipelines", number=200 + 8 * number, noise=0.2)
    true = overlapped(*costs(rows[:200], weights), sharpness).seconds
    pipelines_of_rows = [row.pipelines for row in rows[:200]]
    training_sets = [rows[200 + number * turn : 200 + number * (turn + 1)] for turn in range(8)]
    fits = [solve_overlap(pose_problem(each, "pipelines"), prior) for each in training_sets]
    return float(np.median([np.abs(np.log(each.seconds(pipelines_of_rows) / true)) for each in fits]))


def costs(rows: list[Observation], weights: np.ndarray) -> tuple[np.ndarray, list[str | None]]:
    """Return the cost of each pipeline in each of *rows*, and the sides of the pipelines."""
    amounts = np.array([[row.pipelines[name] for name in PIPELINES] for row in rows])
    return amounts * weights, [side(name, "pipelines") for name in PIPELINES]


def test_one_kernel_hardly_changes_accurate_prior_weights():
    assert off_after(1, np.array([1.0, 1.0, 1.0, 1.0, 5e-6]), 2.0) < 0.08


def test_ten_kernels_reveal_a_uniformly_slower_device():
    slower = np.array([1.6, 1.6, 1.6, 1.6, 5e-6])
    assert off_after(10, slower, 2.0) < np.log(1.6) / 4


def test_prior_of_a_similar_device_improves_a_fit_of_ten_kernels():
    # One pipeline takes four times the published time, as on the device of the prior.
    unlike = np.array([1.0, 1.0, 4.0, 1.0, 5e-6])
    other = solve_overlap(pose_problem(measured(PIPELINES, unlike, 1.5, "pipelines", number=400), "pipelines"))
    assert off_after(10, unlike, 1.5, other) < off_after(10, unlike, 1.5) / 5


def test_unmeasured_pipeline_keeps_its_prior_weight():
    unlike = np.array([1.0, 1.0, 4.0, 1.0, 5e-6])
    other = solve_overlap(pose_problem(measured(PIPELINES, unlike, 2.0, "pipelines", number=400), "pipelines"))
    idle = [
        Observation(row.kernel_class, row.label, {}, {}, row.seconds, {"DRAM": row.seconds, "launches": 1e-9})
        for row in measured(PIPELINES, unlike, 2.0, "pipelines", number=5)
    ]
    found = solve_overlap(pose_problem(idle, "pipelines"), other)
    assert found.weights["L1: local"] == pytest.approx(other.weights["L1: local"], rel=0.1)


def test_weight_of_a_nearly_idle_pipeline_stays_near_the_prior():
    weights = np.array([0.8, 1.1, 0.9, 1.0, 8e-6])
    rows = measured(PIPELINES, weights, 2.5, "pipelines")
    faint = [
        Observation(row.kernel_class, row.label, {}, {}, row.seconds, {**row.pipelines, "sfu": 1e-9}) for row in rows
    ]
    found = solve_overlap(pose_problem(faint, "pipelines"))
    of_others = np.mean([found.weights[name] for name in ("DRAM", "L1: global", "L1: local", "fp64")])
    assert of_others < found.weights["sfu"] < 1.0
    assert found.seconds([{"unheard of": 1.0}]) == pytest.approx([1.0])
    assert found.unknown({"unheard of": 1.0}) == ()


def test_outliers_have_limited_influence():
    rows = measured(COUNTS, WEIGHTS, 2.0, "counts")
    with_outliers = [
        Observation(row.kernel_class, row.label, {}, row.properties, row.seconds * (20 if place % 16 == 0 else 1))
        for place, row in enumerate(rows)
    ]
    found = solve_overlap(pose_problem(with_outliers))
    residuals_of_others = [abs(residual) for place, residual in enumerate(found.residuals) if place % 16]
    assert np.median(residuals_of_others) < 0.1


def test_covariance_matches_the_scatter_of_repeated_fits():
    # Weights fitted to measurements with 2 % noise scatter with the fit's covariance times the variance of the noise.
    fits = []
    for seed in range(40):
        rng = np.random.default_rng(100 + seed)
        rows = [
            Observation(row.kernel_class, row.label, {}, row.properties, row.seconds * np.exp(0.02 * rng.normal()))
            for row in measured(COUNTS, WEIGHTS, 2.0, "counts")
        ]
        fits.append(solve_overlap(pose_problem(rows)))
    scatter = np.std([list(fit.weights.values()) for fit in fits], axis=0)
    predicted_scatter = 0.02 * np.sqrt(np.diag(fits[0].covariance))[:-1]
    assert scatter / predicted_scatter == pytest.approx(np.ones(len(COUNTS)), abs=0.45)


def test_column_without_cost_is_at_its_bound():
    free = WEIGHTS * np.array([1.0, 1.0, 0.0, 1.0, 1.0])
    found = solve_overlap(pose_problem(measured(COUNTS, free, 2.0, "counts", noise=0.01)))
    assert (
        found.at_bound
        == tuple(name for name, weight in found.weights.items() if weight == 0)
        == ("global store 32-bit stride 1",)
    )


def test_cost_is_at_most_that_of_the_true_weights(subtests: pytest.Subtests):
    for seed in range(12):
        with subtests.test(seed=seed):
            rng = np.random.default_rng(seed)
            columns = (
                *(f"global load 32-bit stride {n}" for n in range(6)),
                *(f"f{n} add" for n in range(5)),
                "launches",
            )
            amounts = np.round(10 ** rng.uniform(5, 7, (60, 12)) * (rng.random((60, 12)) < 0.7)) + 1e4
            weights = rng.uniform(0, 1e-10, 12) * (np.arange(12) % 3 > 0)
            seconds = overlapped(amounts * weights, [side(name, "counts") for name in columns], 3.0).seconds
            noise = rng.normal(0, 0.1, 60)
            rows = [
                Observation("a class", str(place), {}, dict(zip(columns, row, strict=True)), time)
                for place, (row, time) in enumerate(
                    zip(amounts.astype(int).tolist(), (seconds * np.exp(noise)).tolist(), strict=True)
                )
            ]
            found = solve_overlap(pose_problem(rows))

            def robust_cost(logarithms: np.ndarray) -> float:
                return float(np.sqrt(1 + (logarithms / OUTLIER) ** 2).sum())

            # The ridge adds about 1e-4 of the cost per weight.
            assert robust_cost(np.log(1 - np.array(found.residuals))) <= robust_cost(noise) * (1 + 1e-3)


def test_second_derivatives_match_finite_differences():
    rng = np.random.default_rng(5)
    task = _Fitted(
        rng.uniform(0.1, 1, (20, 4)), rng.uniform(0.5, 2, 20), (None, "a", "b", "b"), np.ones(5), 0.3 * np.eye(5)
    )
    at, factors, step = np.array([0.7, 0.2, 1.3, 0.4, 1.6]), rng.normal(size=25), 1e-6
    found = task.evaluate(at).curvature(factors)
    for place in range(4):
        ahead, behind = at.copy(), at.copy()
        ahead[place] += step
        behind[place] -= step
        rise = (task.evaluate(ahead).jacobian() - task.evaluate(behind).jacobian())[:, place] / (2 * step)
        assert found[place] == pytest.approx(factors @ rise, rel=1e-6)
    assert found[4] == 0


def test_launch_bound_kernels_do_not_break_the_solver(subtests: pytest.Subtests):
    for seed in range(60):
        with subtests.test(seed=seed):
            # Overlapping costs are far below the rounding error of T. A difference from T would lose them.
            rng = np.random.default_rng(seed)
            overlapping = 10 ** rng.uniform(-14, 0, (14, 3)) * (rng.random((14, 3)) < 0.6)
            measured = np.exp(0.3 * rng.normal(size=14))
            task = _Fitted(
                np.column_stack([np.ones(14), overlapping]), measured, (None, "a", "a", "b"), *prior_of_counts(4)
            )
            found = [task.minimum(np.array([0.5, 1e-3, 1e-3, 1e-3, p])) for p in STARTS]
            assert all(np.isfinite(each.parameters).all() and np.isfinite(each.cost) for each in found)


def prior_of_counts(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the center and the ridge of a fit of *width* columns of counts."""
    return np.zeros(width + 1), RIDGE * np.eye(width, width + 1)


# {{{ searches that do not converge


def ill_posed(seed: int) -> tuple[_Fitted, np.ndarray]:
    """Return an ill-conditioned task with mostly noise in its times, and the start of its searches."""
    rng = np.random.default_rng(seed)
    rows, width = int(rng.integers(4, 40)), int(rng.integers(2, 9))
    amounts = np.exp(rng.normal(0, rng.uniform(0.5, 5), (rows, width)))
    match rng.integers(0, 4):
        case 1:
            amounts[:, -1] = amounts[:, 0] * (1 + 1e-6 * rng.normal(size=rows))
        case 2:
            amounts *= rng.random((rows, width)) < 0.4
            amounts[amounts.sum(axis=1) == 0, 0] = 1
        case 3:
            levels = np.outer(np.exp(rng.normal(0, 3, rows)), np.exp(rng.normal(0, 3, width)))
            amounts = levels * np.exp(rng.normal(0, 0.01, (rows, width)))
    if rng.random() < 0.5:
        seconds = np.exp(rng.normal(0, rng.uniform(0.1, 6), rows))
    else:
        seconds = (amounts @ np.exp(rng.normal(0, 2, width))) * np.exp(rng.normal(0, rng.uniform(0, 3), rows))
    rates = amounts / seconds[:, None]
    scales = 1 / np.linalg.norm(rates, axis=0)
    sides = tuple(side(name, "counts") for name in ILL_POSED[:width])
    weights = np.append(np.ones(rows), np.zeros(width))
    start = non_negative_least_squares(np.vstack([rates * scales, RIDGE * np.eye(width)]), weights)
    return _Fitted(rates * scales * seconds[:, None], seconds, sides, *prior_of_counts(width)), np.maximum(
        start, MIN_START
    )


ILL_POSED = (
    *("f32 add", "global load 32-bit stride 1/1", "f32 mul", "local load 32-bit", "work-groups", "launches"),
    *("global store 32-bit stride 1/1", "barriers"),
)


def test_further_starts_are_tried_if_no_search_converges():
    task, start = ill_posed(22)
    first = [task.minimum(np.append(start, sharpness)) for sharpness in STARTS]
    assert not any(each.is_converged for each in first)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        found = _best(task, start)
    assert found.is_converged
    further = [task.minimum(np.append(start, sharpness)) for sharpness in FURTHER_STARTS]
    assert found.cost <= min(each.cost for each in (*first, *further))


def test_exhausted_step_limit_gives_a_convergence_warning(monkeypatch: pytest.MonkeyPatch):
    task, start = ill_posed(169)
    whole = _best(task, start)
    monkeypatch.setattr(solver, "MAX_STEPS", 3)
    assert not task.minimum(np.append(start, STARTS[0])).is_converged
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        assert _best(task, start).cost > whole.cost


# }}}
