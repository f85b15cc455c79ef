"""Charts of predicted and measured times: what is on the axes is what was given."""

import pytest

from loopyperf.calibration.accuracy import Prediction
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.problem import Observation
from loopyperf.plots import plot_predictions, plot_residuals


def test_predictions_are_points_with_their_intervals_about_the_diagonal() -> None:
    rows = [
        Prediction("copy", {"n": 1}, predicted=2e-3, measured=1e-3, interval=(1e-3, 4e-3)),
        Prediction("copy", {"n": 2}, predicted=5e-3, measured=4e-3),
        Prediction("sum", {"n": 1}, predicted=1e-2, measured=2e-2),
    ]
    (ax,) = plot_predictions(rows).axes
    copies, interval, sums, diagonal, below, above = ax.lines
    assert (list(copies.get_xdata()), list(copies.get_ydata())) == ([1e-3, 4e-3], [2e-3, 5e-3])
    assert (list(interval.get_xdata()), list(interval.get_ydata())) == ([1e-3, 1e-3], [1e-3, 4e-3])
    assert interval.get_color() == copies.get_color() != sums.get_color()
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [1e-3, 2e-2]
    assert list(below.get_ydata()) == pytest.approx([0.8e-3, 1.6e-2])
    assert list(above.get_ydata()) == pytest.approx([1.2e-3, 2.4e-2])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["copy", "sum"]


def test_residuals_stand_over_the_share_of_a_column() -> None:
    fit = Fit(model="linear", device="D", slug="d", counting="executed", weights={"f32 add": 1.0, "f32 mul": 3.0})
    rows = [
        Observation("a", "x", {}, {"f32 add": 1, "f32 mul": 1}, 4.0),
        Observation("b", "x", {}, {"f32 mul": 2}, 3.0),
    ]
    (ax,) = plot_residuals(rows, fit, "f32 mul").axes
    first, second, _ = ax.lines
    assert list(first.get_xdata()) == pytest.approx([0.75])
    assert list(first.get_ydata()) == pytest.approx([0.0])
    assert list(second.get_xdata()) == pytest.approx([1.0])
    assert list(second.get_ydata()) == pytest.approx([0.6931], abs=1e-4)
    assert ax.get_xlabel() == "share of f32 mul in the predicted time"
