"""Weights and sharpness that measurements were made with come out again."""

import warnings

import numpy as np
import pytest

from loopyperf.calibration import overlap_fit as solver
from loopyperf.calibration.dependence import non_negative_least_squares
from loopyperf.calibration.overlap_fit import (
    EXPLAINED,
    FURTHER_STARTS,
    LEAST,
    RIDGE,
    STARTS,
    _best,
    _Fitted,
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
def test_counts(sharpness: float):
    found = solve_overlap(pose_problem(measured(COUNTS, WEIGHTS, sharpness, "counts")))
    assert list(found.weights) == list(COUNTS)
    # The ridge draws by a ten-thousandth.
    assert list(found.weights.values()) == pytest.approx(WEIGHTS, rel=0.02)
    assert found.sharpness == pytest.approx(sharpness, rel=0.05)
    assert max(map(abs, found.residuals)) < 0.01


def test_pipelines_near_what_is_described():
    # What is drawn to the description comes out nearer to it, by less the more is measured.
    weights = np.array([0.8, 1.1, 0.9, 1.0, 8e-6])
    found = solve_overlap(pose_problem(measured(PIPELINES, weights, 2.2, "pipelines", number=400), "pipelines"))
    assert list(found.weights.values()) == pytest.approx(weights, rel=0.04)
    assert (found.model, found.basis) == ("overlap", "pipelines")
    assert found.sharpness == pytest.approx(2.2, rel=0.05)


def off_after(number: int, weights: np.ndarray, sharpness: float, prior: Solution | None = None) -> float:
    """Return the median error, on 200 other kernels, of eight fits to *number* kernels with 20 % noise."""
    rows = measured(PIPELINES, weights, sharpness, "pipelines", number=200 + 8 * number, noise=0.2)
    true = overlapped(*costs(rows[:200], weights), sharpness).seconds
    asked = [row.pipelines for row in rows[:200]]
    told = [rows[200 + number * turn : 200 + number * (turn + 1)] for turn in range(8)]
    fits = [solve_overlap(pose_problem(each, "pipelines"), prior) for each in told]
    return float(np.median([np.abs(np.log(each.seconds(asked) / true)) for each in fits]))


def costs(rows: list[Observation], weights: np.ndarray) -> tuple[np.ndarray, list[str | None]]:
    """Return what each pipeline costs each of *rows*, and their sides."""
    amounts = np.array([[row.pipelines[name] for name in PIPELINES] for row in rows])
    return amounts * weights, [side(name, "pipelines") for name in PIPELINES]


def test_one_kernel_hardly_moves_weights_that_are_described_well():
    assert off_after(1, np.array([1.0, 1.0, 1.0, 1.0, 5e-6]), 2.0) < 0.08


def test_ten_kernels_tell_that_a_device_is_slower_as_a_whole():
    slower = np.array([1.6, 1.6, 1.6, 1.6, 5e-6])
    assert off_after(10, slower, 2.0) < np.log(1.6) / 4


def test_ten_kernels_tell_more_to_who_knows_a_device_like_it():
    # A pipeline takes four times what is described, as on another device.
    unlike = np.array([1.0, 1.0, 4.0, 1.0, 5e-6])
    other = solve_overlap(pose_problem(measured(PIPELINES, unlike, 1.5, "pipelines", number=400), "pipelines"))
    assert off_after(10, unlike, 1.5, other) < off_after(10, unlike, 1.5) / 5


def test_what_was_not_measured_takes_what_the_prior_says():
    unlike = np.array([1.0, 1.0, 4.0, 1.0, 5e-6])
    other = solve_overlap(pose_problem(measured(PIPELINES, unlike, 2.0, "pipelines", number=400), "pipelines"))
    idle = [
        Observation(row.kernel_class, row.label, {}, {}, row.seconds, {"DRAM": row.seconds, "launches": 1e-9})
        for row in measured(PIPELINES, unlike, 2.0, "pipelines", number=5)
    ]
    found = solve_overlap(pose_problem(idle, "pipelines"), other)
    assert found.weights["L1: local"] == pytest.approx(other.weights["L1: local"], rel=0.1)


def test_a_pipeline_that_hardly_matters_takes_what_is_described():
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


def test_kernels_that_nothing_explains_have_less_to_say():
    rows = measured(COUNTS, WEIGHTS, 2.0, "counts")
    spoilt = [
        Observation(row.kernel_class, row.label, {}, row.properties, row.seconds * (20 if place % 16 == 0 else 1))
        for place, row in enumerate(rows)
    ]
    found = solve_overlap(pose_problem(spoilt))
    fair = [abs(residual) for place, residual in enumerate(found.residuals) if place % 16]
    assert np.median(fair) < 0.1


def test_the_covariance_is_that_of_repeated_fits():
    # Weights of measurements with 2 % noise scatter as the covariance says, for the noise's variance.
    fits = []
    for seed in range(40):
        rng = np.random.default_rng(100 + seed)
        rows = [
            Observation(row.kernel_class, row.label, {}, row.properties, row.seconds * np.exp(0.02 * rng.normal()))
            for row in measured(COUNTS, WEIGHTS, 2.0, "counts")
        ]
        fits.append(solve_overlap(pose_problem(rows)))
    scatter = np.std([list(fit.weights.values()) for fit in fits], axis=0)
    stated = 0.02 * np.sqrt(np.diag(fits[0].covariance))[:-1]
    assert scatter / stated == pytest.approx(np.ones(len(COUNTS)), abs=0.45)


def test_a_column_that_costs_nothing_is_at_its_bound():
    free = WEIGHTS * np.array([1.0, 1.0, 0.0, 1.0, 1.0])
    found = solve_overlap(pose_problem(measured(COUNTS, free, 2.0, "counts", noise=0.01)))
    assert (
        found.at_bound
        == tuple(name for name, weight in found.weights.items() if weight == 0)
        == ("global store 32-bit stride 1",)
    )


def test_measurements_are_explained_at_least_as_well_as_by_the_weights_that_made_them(subtests: pytest.Subtests):
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

            def lost(logarithms: np.ndarray) -> float:
                return float(np.sqrt(1 + (logarithms / EXPLAINED) ** 2).sum())

            # The ridge draws every weight by a ten-thousandth of what it explains.
            assert lost(np.log(1 - np.array(found.residuals))) <= lost(noise) * (1 + 1e-3)


def test_second_derivatives_are_those_of_differences():
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


def test_kernels_that_are_nearly_all_launch_are_no_hindrance(subtests: pytest.Subtests):
    for seed in range(60):
        with subtests.test(seed=seed):
            # What overlaps is lost in T there: it must not be told from a difference to it.
            rng = np.random.default_rng(seed)
            overlapping = 10 ** rng.uniform(-14, 0, (14, 3)) * (rng.random((14, 3)) < 0.6)
            measured = np.exp(0.3 * rng.normal(size=14))
            task = _Fitted(np.column_stack([np.ones(14), overlapping]), measured, (None, "a", "a", "b"), *drawn_to_0(4))
            found = [task.minimum(np.array([0.5, 1e-3, 1e-3, 1e-3, p])) for p in STARTS]
            assert all(np.isfinite(each.parameters).all() and np.isfinite(each.cost) for each in found)


def drawn_to_0(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return to what counts of so many columns are drawn, and how."""
    return np.zeros(width + 1), RIDGE * np.eye(width, width + 1)


# {{{ searches that stop short


def ill_posed(seed: int) -> tuple[_Fitted, np.ndarray]:
    """Return counts that hardly tell their weights apart with times that are mostly noise, and where to begin."""
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
    begin = non_negative_least_squares(np.vstack([rates * scales, RIDGE * np.eye(width)]), weights)
    return _Fitted(rates * scales * seconds[:, None], seconds, sides, *drawn_to_0(width)), np.maximum(begin, LEAST)


ILL_POSED = (
    *("f32 add", "global load 32-bit stride 1/1", "f32 mul", "local load 32-bit", "work-groups", "launches"),
    *("global store 32-bit stride 1/1", "barriers"),
)


def test_where_all_searches_stop_short_another_goes_on():
    task, begin = ill_posed(22)
    first = [task.minimum(np.append(begin, sharpness)) for sharpness in STARTS]
    assert not any(each.is_converged for each in first)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        found = _best(task, begin)
    assert found.is_converged
    further = [task.minimum(np.append(begin, sharpness)) for sharpness in FURTHER_STARTS]
    assert found.cost <= min(each.cost for each in (*first, *further))


def test_a_search_without_steps_left_says_so(monkeypatch: pytest.MonkeyPatch):
    task, begin = ill_posed(169)
    whole = _best(task, begin)
    monkeypatch.setattr(solver, "MOST_STEPS", 3)
    assert not task.minimum(np.append(begin, STARTS[0])).is_converged
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        assert _best(task, begin).cost > whole.cost


# }}}
