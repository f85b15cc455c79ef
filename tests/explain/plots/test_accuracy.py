"""Tests of charts of predicted and measured times."""

from collections.abc import Callable

import pytest
from msgspec import structs

from loopyperf.calibration.accuracy import Prediction
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.problem import Observation
from loopyperf.errors import CalibrationError
from loopyperf.explain.plots import plot_predictions, plot_residual_panels, plot_residuals

WEIGHTED = Fit(model="linear", device="D", slug="d", counting="executed", weights={"f32 add": 1.0, "f32 mul": 3.0})


def test_predictions_are_points_with_intervals_and_a_diagonal() -> None:
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
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["copy", "sum", "20 % off"]


def test_residuals_are_plotted_over_the_share_of_a_column() -> None:
    rows = [
        Observation("a", "x", {}, {"f32 add": 1, "f32 mul": 1}, 4.0),
        Observation("b", "x", {}, {"f32 mul": 2}, 3.0),
    ]
    (ax,) = plot_residuals(rows, WEIGHTED, "f32 mul").axes
    first, second, _ = ax.lines
    assert list(first.get_xdata()) == pytest.approx([0.75])
    assert list(first.get_ydata()) == pytest.approx([0.0])
    assert list(second.get_xdata()) == pytest.approx([1.0])
    assert list(second.get_ydata()) == pytest.approx([0.6931], abs=1e-4)
    assert ax.get_xlabel() == "share of f32 mul in the predicted time"


def test_class_without_a_point_is_only_in_the_legend_of_panels() -> None:
    rows = [Observation(name, "x", {}, {work: 1}, 1.0) for name, work in (("a", "f32 add"), ("b", "f32 mul"))]
    (ax,) = plot_residuals(rows, WEIGHTED, "f32 mul").axes
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["b"]
    (legend,) = plot_residual_panels(rows, WEIGHTED).legends
    assert {text.get_text() for text in legend.get_texts()} == {"a", "b"}


def test_panels_are_sorted_by_the_largest_share() -> None:
    rows = [
        Observation("a", "x", {}, {"f32 add": 1, "f32 mul": 1}, 4.0),
        Observation("b", "x", {}, {"f32 mul": 2}, 3.0),
    ]
    figure = plot_residual_panels(rows, WEIGHTED)
    assert [ax.get_xlabel().split()[3] for ax in figure.axes] == ["mul", "add"]
    # additions are a quarter of the time of class a
    assert list(figure.axes[1].lines[0].get_xdata()) == pytest.approx([0.25])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    assert len(plot_residual_panels(rows, WEIGHTED, at_most=1).axes) == 1


@pytest.mark.parametrize("number", [1, 5, 7, 13, 31])
def test_only_measured_properties_have_a_panel(number: int) -> None:
    names = [f"property {place}" for place in range(number)]
    rows = [Observation(f"class {each}", "x", {}, {each: 2, "f32 add": 0}, 3.0) for each in names]
    weights = dict.fromkeys([*names, "barriers"], 1.0)
    figure = plot_residual_panels(rows, Fit(model="linear", device="D", slug="d", counting="executed", weights=weights))
    assert sorted(ax.get_xlabel() for ax in figure.axes) == sorted(f"share of {name}" for name in names)
    # A class without a property has no point in its panel.
    assert [sum(len(line.get_xdata()) for line in ax.lines[:-1]) for ax in figure.axes] == [1] * number
    figure.draw_without_rendering()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1


@pytest.mark.parametrize("weights", [{"f32 add": 1.0}, {"f32 add": 1.0, "f32 div": 0.0}])
def test_property_without_weight_has_a_panel_over_its_rate(weights: dict[str, float]) -> None:
    rows = [
        Observation("a", "x", {}, {"f32 add": 4, "f32 div": 2}, 4.0),
        Observation("b", "x", {}, {"f32 add": 4, "f32 div": 8}, 8.0),
        Observation("c", "x", {}, {"f32 add": 4}, 8.0),
    ]
    found = Fit(model="linear", device="D", slug="d", counting="executed", weights=weights)
    weighted, unweighted = plot_residual_panels(rows, found).axes
    assert weighted.get_xlabel() == "share of f32 add"
    assert " ".join(unweighted.get_xlabel().split()) == "f32 div per second, relative to the maximum (no weight)"
    # 2 in 4 s is half the rate of 8 in 8 s.
    assert [x for line in unweighted.lines[:-1] for x in line.get_xdata()] == [0.5, 1.0]


def test_times_below_0_are_omitted_and_counted_in_the_legend() -> None:
    below = Fit(model="linear", device="D", slug="d", counting="executed", weights={"f32 add": 1.0, "f32 mul": -1.0})
    rows = [
        Observation("a", "x", {}, {"f32 add": 2, "f32 mul": 1}, 1.0),
        Observation("b", "x", {}, {"f32 mul": 2}, 3.0),
    ]
    (ax,) = plot_residuals(rows, below, "f32 add").axes
    assert ax.get_legend_handles_labels()[1][-1] == "not shown: 1 predicted below 0"
    assert [line.get_label() for line in ax.lines[:1]] == ["a"]
    pairs = [Prediction("a", {}, predicted=1.0, measured=1.0), Prediction("b", {}, predicted=-2.0, measured=3.0)]
    (ax,) = plot_predictions(pairs).axes
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown == ["a", "20 % off", "not shown: 1 predicted below 0"]
    never = structs.replace(below, weights={"f32 add": -1.0, "f32 mul": -1.0})
    with pytest.raises(CalibrationError, match="above 0"):
        plot_residual_panels(rows, never)


ROWS = [Observation("a", "x", {}, {"f32 add": 1}, 1.0)]
PIPELINES = Fit(
    model="overlap", device="D", slug="d", counting="executed", basis="pipelines", weights={"DRAM": 1.0, "L2": 1.0}
)
REFUSED = {
    "no predictions": (lambda: plot_predictions([]), "none of 0 predictions is above 0 s; pass at least one"),
    "no observations": (lambda: plot_residuals([], WEIGHTED, "f32 add"), "none of 0 observations has the columns"),
    "other columns": (lambda: plot_residuals(ROWS, PIPELINES, "DRAM"), r"columns of the fit \(pipelines\)"),
    "no weight": (
        lambda: plot_residuals(ROWS, WEIGHTED, "f32 div"),
        "no weight for 'f32 div'; choose one of f32 add, f32",
    ),
    "no panels": (lambda: plot_residual_panels(ROWS, WEIGHTED, at_most=0), "at_most must be >= 1, got 0"),
}


@pytest.mark.parametrize(("draw", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_arguments_are_refused(draw: Callable[[], object], message: str) -> None:
    with pytest.raises(CalibrationError, match=message):
        draw()


def test_fifty_classes_or_kernels_are_distinct_without_color() -> None:
    rows = [Observation(f"class {number}", "x", {}, {"f32 add": 1}, 1.0) for number in range(50)]
    (residuals,) = plot_residuals(rows, WEIGHTED, "f32 add").axes
    (predictions,) = plot_predictions([Prediction(f"k{number}", {}, 1.0, 1.0) for number in range(50)]).axes
    for ax in (residuals, predictions):
        looks = [(line.get_marker(), line.get_fillstyle()) for line in ax.lines[:50]]
        assert len(set(looks)) == 50
        # The first reused marker is hollow.
        assert looks[11] == (looks[0][0], "none")
