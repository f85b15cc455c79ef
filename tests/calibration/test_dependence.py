"""Test how fits find linearly dependent columns, exclude some of them, and report them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import optimize

from loopyperf.calibration.overlap_fit import Solution, own_parts, separate, solve
from loopyperf.calibration.problem import Indistinguishable, Observation, changed_counts, doubts, pose_problem

EXACT = 1e-8
"""A tolerance below the distances of all independent columns of small integers."""


def separated(columns: dict[str, list[float]], tolerance: float = EXACT):
    names = tuple(columns)
    kept, groups = separate(np.array(list(columns.values()), dtype=float).T, names, tolerance)
    return [names[index] for index in kept], groups


def solved(counts: np.ndarray, seconds: np.ndarray, non_negative: bool) -> Solution:
    rows = [
        Observation("class", f"row {row}", {}, {f"p{column}": int(n) for column, n in enumerate(line)}, time)
        for row, (line, time) in enumerate(zip(counts, seconds, strict=True))
    ]
    return solve(pose_problem(rows), non_negative=non_negative, ridge=0.0, tolerance=EXACT)


# Every row has a launch, because a kernel without counts would be refused.
counts_of_kernels = arrays(int, (7, 5), elements=st.integers(0, 3)).map(
    lambda counts: np.hstack([counts, np.ones((7, 1))])
)
run_times = arrays(float, 7, elements=st.floats(0.5, 2.0))


def test_independent_columns_are_all_kept():
    assert separated({"a": [1, 0, 1], "b": [0, 1, 1]}) == (["a", "b"], ())


def test_later_of_two_proportional_columns_is_excluded_with_their_ratio():
    kept, groups = separated({"barriers": [2, 4, 0], "launches": [1, 1, 1], "local store 32-bit": [3, 6, 0]})
    assert kept == ["barriers", "launches"]
    (group,) = groups
    assert group.left_out == {"local store 32-bit": {"barriers": 1.5}}
    assert group.properties == ("barriers", "local store 32-bit")
    assert group.mismatch < EXACT


@pytest.mark.parametrize("order", [("total", "x", "y"), ("x", "total", "y"), ("x", "y", "total")])
def test_total_is_excluded_in_any_order_of_total_and_parts(order: tuple[str, ...]):
    columns = {"x": [1.0, 0.0, 2.0], "y": [0.0, 3.0, 1.0], "total": [1.0, 3.0, 3.0]}
    kept, groups = separated({name: columns[name] for name in order})
    assert kept == [name for name in order if name != "total"]
    assert groups[0].left_out == {"total": {"x": 1.0, "y": 1.0}}


def test_last_column_is_excluded_if_none_is_a_total():
    # a + b = c + d, and no column is a non-negative combination of the others
    kept, groups = separated({"a": [1, 1, 0, 0], "b": [0, 0, 1, 1], "c": [1, 0, 1, 0], "d": [0, 1, 0, 1]})
    assert kept == ["a", "b", "c"]
    assert groups[0].left_out == {"d": {"a": 1.0, "b": 1.0, "c": -1.0}}


def test_dependencies_without_a_common_property_are_separate_groups():
    columns = {"a": [1, 0, 0], "b": [2, 0, 0], "c": [0, 1, 0], "d": [0, 3, 0], "free": [1, 1, 1]}
    _, groups = separated(columns)
    assert [group.properties for group in groups] == [("a", "b"), ("c", "d")]


def test_dependencies_with_a_common_property_are_one_group():
    columns = {"a": [1, 0, 0], "b": [0, 1, 0], "c": [2, 0, 0], "d": [0, 3, 0], "e": [1, 1, 0], "free": [1, 1, 1]}
    _, groups = separated(columns)
    (group,) = groups
    assert group.left_out == {"c": {"a": 2.0}, "d": {"b": 3.0}, "e": {"a": 1.0, "b": 1.0}}


@pytest.mark.parametrize(("own_part", "kept"), [(0.009, ["a"]), (0.011, ["a", "b"])])
def test_column_is_fitted_only_if_its_own_part_exceeds_the_tolerance(own_part: float, kept: list[str]):
    # b is a rotated by a small angle; its distance from the line through a is the sine of that angle
    found, groups = separated({"a": [1.0, 0.0], "b": [np.sqrt(1 - own_part**2), own_part]}, tolerance=0.01)
    assert found == kept
    assert [group.mismatch for group in groups] == pytest.approx([own_part] * (2 - len(kept)))


@settings(deadline=None)
@given(counts_of_kernels, run_times)
def test_number_of_kept_columns_is_the_rank_and_relations_are_exact(counts, seconds):
    solution = solved(counts, seconds, non_negative=False)
    assert solution.rank == len(solution.weights) == np.linalg.matrix_rank(counts)
    columns = {f"p{index}": column for index, column in enumerate(counts.T)}
    for group in solution.undetermined:
        for name, equal in group.left_out.items():
            assert equal.keys() <= solution.weights.keys()
            combined = sum(factor * columns[other] for other, factor in equal.items())
            # rounding only: factors are recorded with 12 digits
            np.testing.assert_allclose(combined, columns[name], atol=1e-7)


@settings(deadline=None)
@given(counts_of_kernels, run_times, run_times)
def test_excluded_columns_do_not_depend_on_the_run_times(counts, seconds, other_times):
    first, second = (solved(counts, times, non_negative=False) for times in (seconds, other_times))
    assert first.weights.keys() == second.weights.keys()


@settings(deadline=None)
@given(counts_of_kernels, run_times)
def test_excluding_columns_does_not_change_plain_predictions(counts, seconds):
    matrix = counts / seconds[:, np.newaxis]
    everything = matrix @ np.linalg.lstsq(matrix, np.ones(7), rcond=None)[0]
    # rounding only: the least-squares prediction of the measured kernels is unique
    np.testing.assert_allclose(1 - np.array(solved(counts, seconds, False).residuals), everything, atol=1e-6)


@settings(deadline=None)
@given(counts_of_kernels, run_times)
def test_excluding_totals_does_not_increase_the_non_negative_residual(counts, seconds):
    counts = np.hstack([counts[:, [0, 1, 5]], counts[:, [0]] + 2 * counts[:, [1]]])
    least = optimize.nnls(counts / seconds[:, np.newaxis], np.ones(7))[1]
    # rounding only: the smallest residual is unique
    assert np.linalg.norm(solved(counts, seconds, True).residuals) == pytest.approx(least, abs=1e-6)


TIED = Indistinguishable(left_out={"local store 32-bit": {"barriers": 2.0}}, mismatch=1e-16)


@pytest.mark.parametrize("counts", [{}, {"f32 add": 3}, {"barriers": 100, "local store 32-bit": 201}])
def test_kernel_that_satisfies_the_dependency_has_no_note(counts: dict[str, int]):
    assert changed_counts([TIED], counts) == ()
    assert doubts([TIED], counts) == ()


@pytest.mark.parametrize(
    "counts", [{"barriers": 7}, {"local store 32-bit": 7}, {"barriers": 100, "local store 32-bit": 205}]
)
def test_kernel_that_breaks_the_dependency_has_an_unknown_weight(counts: dict[str, int]):
    assert changed_counts([TIED], counts) == ("local store 32-bit",)


def test_rounded_factors_do_not_break_a_dependency_with_canceling_terms():
    third = Indistinguishable(left_out={"c": {"a": 0.333333333333, "b": -1.0}}, mismatch=1e-16)
    assert changed_counts([third], {"a": 3 * 10**12, "b": 10**12}) == ()
    assert changed_counts([third], {"a": 3 * 10**12, "b": 10**12, "c": 10**12}) == ("c",)


def test_note_names_the_property_the_dependency_and_both_counts():
    assert doubts([TIED], {"barriers": 7, "local store 32-bit": 3}) == (
        "the weight of 'local store 32-bit' is undetermined: the calibration kernels have 2 × 'barriers', here 14, "
        "but this kernel has 3",
    )


@given(arrays(float, (6, 4), elements=st.floats(0.1, 10)))
def test_own_parts_are_distances_from_the_span_of_the_others(matrix: np.ndarray):
    units = matrix / np.linalg.norm(matrix, axis=0)
    distances = []
    for column in range(4):
        others = np.delete(units, column, axis=1)
        nearest = others @ np.linalg.lstsq(others, units[:, column], rcond=None)[0]
        distances.append(np.linalg.norm(units[:, column] - nearest))
    # Own parts are computed from squared singular values, and rounding dominates the smallest: if two columns are
    # equal, the own parts of the others have errors of 1e-5.
    np.testing.assert_allclose(own_parts(units), distances, rtol=1e-4, atol=1e-7)
