"""Tests of charts of predicted and measured times."""

import pytest
from msgspec import structs

from loopyperf.calibration.accuracy import Prediction
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.problem import Observation
from loopyperf.errors import CalibrationError
from loopyperf.explain.plots import plot_predictions, plot_residuals
from loopyperf.explain.plots.plot_accuracy import columns_by_share

WEIGHTED = Fit(model="linear", device="D", slug="d", counting="executed", weights={"f32 add": 1.0, "f32 mul": 3.0})
ROWS = [
    Observation("a", "x", {}, {"f32 add": 1, "f32 mul": 1}, 4.0),
    Observation("b", "x", {}, {"f32 mul": 2}, 3.0),
]


def test_predictions_are_points_with_intervals_and_a_diagonal() -> None:
    rows = [
        Prediction("copy", {"n": 1}, predicted=2e-3, measured=1e-3, interval=(1e-3, 4e-3)),
        Prediction("copy", {"n": 2}, predicted=5e-3, measured=4e-3),
        Prediction("sum", {"n": 1}, predicted=1e-2, measured=2e-2),
    ]
    (ax,) = plot_predictions(rows).axes
    copies, sums, diagonal, below, above = ax.lines
    (interval,) = ax.collections
    assert (list(copies.get_xdata()), list(copies.get_ydata())) == ([1e-3, 4e-3], [2e-3, 5e-3])
    assert [each.tolist() for each in interval.get_segments()] == [[[1e-3, 1e-3], [1e-3, 4e-3]]]
    assert copies.get_color() != sums.get_color()
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [1e-3, 2e-2]
    assert list(below.get_ydata()) == pytest.approx([0.8e-3, 1.6e-2])
    assert list(above.get_ydata()) == pytest.approx([1.2e-3, 2.4e-2])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["copy", "sum", "20 % off"]


def test_residuals_of_kernels_with_a_column_are_plotted_over_its_share() -> None:
    (ax,) = plot_residuals(ROWS, WEIGHTED, "f32 mul").axes
    first, second, _ = ax.lines
    assert (list(first.get_xdata()), list(first.get_ydata())) == (pytest.approx([0.75]), pytest.approx([0.0]))
    # 6 s are predicted, 3 s were measured: ln 2.
    assert (list(second.get_xdata()), list(second.get_ydata())) == ([1.0], pytest.approx([0.6931], abs=1e-4))
    assert ax.get_xlabel() == "share of f32 mul in the predicted time"
    assert plot_residuals(ROWS, WEIGHTED, "f32 add").axes[0].get_legend_handles_labels()[1] == ["a"]


def test_columns_are_sorted_by_their_mean_share() -> None:
    # Multiplications are 3/4 and all of the times, additions 1/4 and nothing; no kernel divides.
    fit = structs.replace(WEIGHTED, weights={"f32 div": 1.0, **WEIGHTED.weights})
    assert columns_by_share(ROWS, fit) == ["f32 mul", "f32 add"]


def test_times_below_0_are_omitted_and_counted_in_the_legend() -> None:
    below = structs.replace(WEIGHTED, weights={"f32 add": 1.0, "f32 mul": -0.5})
    (ax,) = plot_residuals(ROWS, below, "f32 add").axes
    assert ax.get_legend_handles_labels()[1] == ["a", "not shown: 1 predicted below 0"]
    pairs = [Prediction("a", {}, predicted=1.0, measured=1.0), Prediction("b", {}, predicted=-2.0, measured=3.0)]
    (ax,) = plot_predictions(pairs).axes
    assert ax.get_legend_handles_labels()[1] == ["a", "20 % off", "not shown: 1 predicted below 0"]


def test_invalid_arguments_are_refused() -> None:
    pipelines = structs.replace(WEIGHTED, model="overlap", basis="pipelines", weights={"DRAM": 1.0, "L2": 1.0})
    never = structs.replace(WEIGHTED, weights={"f32 add": -1.0, "f32 mul": -1.0})
    for draw, message in (
        (lambda: plot_predictions([]), "none of 0 predictions is above 0 s; pass at least one"),
        (lambda: plot_residuals([], WEIGHTED, "f32 add"), "none of 0 observations has the columns"),
        (lambda: plot_residuals(ROWS, pipelines, "DRAM"), r"columns of the fit \(pipelines\)"),
        (lambda: plot_residuals(ROWS, never, "f32 add"), "none of 2 predicted times is above 0 s"),
        (lambda: plot_residuals(ROWS, WEIGHTED, "f32 div"), "no weight for 'f32 div'; choose one of f32 add,"),
    ):
        with pytest.raises(CalibrationError, match=message):
            draw()
