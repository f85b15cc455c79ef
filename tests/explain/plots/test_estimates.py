"""Tests of charts of an estimate: its breakdown, and its time over a size."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from msgspec import structs

from loopyperf.calibration.fits import Fit
from loopyperf.errors import ParameterError
from loopyperf.explain.plots import plot_breakdown, plot_sizes
from loopyperf.models.result import Alternative, Breakdown, BreakdownRow, Estimate

ROWS = (
    BreakdownRow("adds", "s1", 10, 1e-4, 1e-3),
    BreakdownRow("adds", "s2", 20, 1e-4, 2e-3),
    BreakdownRow("loads", "s2", 1, -5e-4, -5e-4),
    BreakdownRow("barriers", "", 1, 4e-3, 4e-3),
)
OTHERWISE = Alternative(9e-3, ("acc",), "the private array acc is in registers", "it is long")
ESTIMATE = Estimate("k", {"n": 1}, "d", "m", "executed", 6.5e-3, Breakdown(ROWS), (5e-3, 8e-3), (), (), (OTHERWISE,))


def bars(figure: Figure) -> dict[str, float]:
    """Return label -> width of the bars, from the top."""
    (ax,) = figure.axes
    names = dict(zip(ax.get_yticks(), (text.get_text() for text in ax.get_yticklabels()), strict=True))
    assert ax.yaxis_inverted()
    return {names[bar.get_y() + bar.get_height() / 2]: bar.get_width() for bar in ax.patches}


def test_bars_of_properties_are_sorted_with_negative_costs_last() -> None:
    figure = plot_breakdown(ESTIMATE)
    found = bars(figure)
    assert found == pytest.approx({"total, 6.5 ms": 6.5, "barriers": 4.0, "adds": 3.0, "loads": -0.5})
    assert list(found) == ["total, 6.5 ms", "barriers", "adds", "loads"]
    (ax,) = figure.axes
    assert ax.get_xlabel() == "time (ms)"
    assert [text.get_text() for text in ax.texts] == ["4 ms", "3 ms", "-500 µs"]
    assert ax.patches[-1].get_facecolor() != ax.patches[-2].get_facecolor()


def test_total_has_its_interval_which_may_be_cut_off_and_alternative_times() -> None:
    (ax,) = plot_breakdown(ESTIMATE).axes
    assert ax.collections[0].get_segments()[0][:, 0] == pytest.approx((5.0, 8.0))
    (other,) = [line for line in ax.lines if line.get_marker() == "D"]
    assert list(other.get_xdata()) == pytest.approx([9.0])
    assert ax.get_legend_handles_labels()[1] == [f"if {OTHERWISE.assumption}", "interval, 5 ms to 8 ms"]
    (ax,) = plot_breakdown(replace(ESTIMATE, interval=(5e-3, 1.0))).axes
    assert ax.get_xlim()[1] == pytest.approx(2 * 9.0)


@pytest.mark.parametrize("width", [3.4, 6.4])
def test_times_next_to_bars_stay_within_the_axes(width: float) -> None:
    ax = Figure(figsize=(width, 2.8), layout="constrained").subplots()
    named = BreakdownRow("global load 32-bit, stride 1, by a long name", "s1", 10, 1e-4, 1e-3)
    savings = BreakdownRow("loads", "s2", 1, -5e-3, -5e-3)
    plot_breakdown(replace(ESTIMATE, breakdown=Breakdown((named, *ROWS, savings))), ax=ax).draw_without_rendering()
    inside = ax.get_window_extent()
    boxes = [Text.get_window_extent(text) for text in ax.texts]
    assert len(boxes) == 4
    assert all(inside.x0 < box.x0 < box.x1 < inside.x1 for box in boxes)


def test_parts_are_by_source_or_merged_if_they_are_small() -> None:
    found = bars(plot_breakdown(ESTIMATE, by="source"))
    assert found == pytest.approx({"total, 6.5 ms": 6.5, "(no source)": 4.0, "s2": 1.5, "s1": 1.0})
    found = bars(plot_breakdown(ESTIMATE, most=1))
    assert found == pytest.approx({"total, 6.5 ms": 6.5, "barriers": 4.0, "2 others": 2.5})
    nothing = Estimate("k", {}, "d", "m", "executed", 0.0, Breakdown(()))
    assert bars(plot_breakdown(nothing)) == {"total, 0 s": 0.0}


def test_incomplete_time_is_labeled_as_a_lower_bound() -> None:
    assert "total, at least 6.5 ms" in bars(plot_breakdown(replace(ESTIMATE, left_out=("f32 pow",), interval=None)))
    labels = [line.get_label() for line in plot_sizes(replace(BATCH, left_out=("f32 pow",)), "n").axes[0].lines]
    assert labels == ["k, m (without f32 pow)"]


SIZES = np.array([4, 1, 2])
ADDS = BreakdownRow("adds", "", SIZES * 10, 1e-4, SIZES * 1e-3)
INTERVAL = SIZES * 0.5e-3, SIZES * 2e-3
BATCH = Estimate("k", {"n": SIZES}, "d", "m", "executed", SIZES * 1e-3, Breakdown((ADDS,)), INTERVAL)
FIT = Fit(model="m", device="D", slug="d", counting="executed", weights={"adds": 1e-4}, ranges={"adds": (5, 20)})


def test_times_are_plotted_over_sorted_sizes_with_interval_band() -> None:
    batch = replace(BATCH, alternatives=(replace(OTHERWISE, seconds=SIZES * 3e-3),))
    (ax,) = plot_sizes(batch, "n", measured=[(2, 3e-3), (1, 1e-3)]).axes
    line, other, measured = ax.lines
    assert (list(other.get_ydata()), other.get_linestyle()) == (pytest.approx([3e-3, 6e-3, 12e-3]), "--")
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 2, 4], pytest.approx([1e-3, 2e-3, 4e-3]))
    assert (list(measured.get_xdata()), list(measured.get_ydata())) == ([1, 2], [1e-3, 3e-3])
    (band,) = ax.collections
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}
    assert {(1.0, 0.5e-3), (4.0, 8e-3)} <= corners
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale(), ax.get_yscale()) == ("n", "run time (s)", "log", "log")
    assert ax.get_legend_handles_labels()[1] == ["k, m", "interval", f"if {OTHERWISE.assumption}", "measured"]


def test_markers_are_hollow_at_sizes_outside_the_range_of_the_fit() -> None:
    # 10, 20 and 40 additions; the range of a pipeline applies under its displayed name.
    loads = replace(BATCH, breakdown=Breakdown((structs.replace(ADDS, property="load/store: global"),)))
    of_pipelines = structs.replace(FIT, ranges={"local: global": (1, 20)}, basis="pipelines")
    for estimate, fit, sizes in (
        (BATCH, FIT, [4]),
        (BATCH, structs.replace(FIT, ranges={"adds": (15, 100)}), [1]),
        (BATCH, structs.replace(FIT, ranges={"adds": (1, 100)}), []),
        (loads, structs.replace(of_pipelines, weights={"local: global": 1e-4}), [4]),
    ):
        (ax,) = plot_sizes(estimate, "n", fit=fit).axes
        hollow = [line for line in ax.lines if line.get_label() == "extrapolated"]
        assert [x for line in hollow for x in line.get_xdata()] == sizes
        assert all(line.get_markerfacecolor() == ax.get_facecolor() for line in hollow)


def test_legend_counts_sizes_and_times_that_are_not_above_0() -> None:
    some = replace(BATCH, sizes={"n": np.array([0, 2, 4])}, seconds=np.array([1e-3, 0.0, 4e-3]), interval=None)
    with warnings.catch_warnings(action="error"):
        (ax,) = plot_sizes(some, "n", measured=[(0, 1e-3), (2, np.nan), (4, 5e-3)]).axes
    assert [list(line.get_xdata()) for line in ax.lines if len(line.get_xdata())] == [[4], [4]]
    assert "not shown: 4 points with size or time not above 0" in ax.get_legend_handles_labels()[1]
    nothing = replace(BATCH, sizes={"n": SIZES[:0]}, seconds=SIZES[:0], interval=None, breakdown=Breakdown(()))
    assert list(plot_sizes(nothing, "n", fit=FIT).axes[0].lines[0].get_xdata()) == []


def test_invalid_arguments_are_refused() -> None:
    twice = Estimate("k", {"n": np.array([1, 1]), "m": np.array([1, 2])}, "d", "m", "e", np.ones(2), Breakdown(()))
    for draw, message in (
        (lambda: plot_breakdown(BATCH), "got one of 3 sizes"),
        (lambda: plot_breakdown("knl"), "expected Estimate from loopyperf.estimate, got str"),  # type: ignore[arg-type]
        (lambda: plot_sizes(FIT, "n"), "expected Estimate from loopyperf.estimate, got Fit"),  # type: ignore[arg-type]
        (lambda: plot_breakdown(ESTIMATE, by="line"), "got 'line'"),  # type: ignore[arg-type]
        (lambda: plot_sizes(ESTIMATE, "n"), "estimate the kernel with an array for 'n'"),
        (lambda: plot_sizes(BATCH, "m"), "no size 'm'; sizes: n"),
        (lambda: plot_sizes(twice, "n"), "have the same 'n'"),
    ):
        with pytest.raises(ParameterError, match=message):
            draw()
