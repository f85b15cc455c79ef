"""Tests of charts of an estimate: its breakdown, and its time over a size."""

import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from msgspec import structs

from loopyperf.calibration.fits import Fit
from loopyperf.errors import ParameterError
from loopyperf.explain.plots import plot_breakdown, plot_sizes
from loopyperf.explain.plots.figures import in_lines
from loopyperf.models.result import Alternative, Breakdown, BreakdownRow, Estimate

ROWS = (
    BreakdownRow("adds", "s1", 10, 1e-4, 1e-3),
    BreakdownRow("adds", "s2", 20, 1e-4, 2e-3),
    BreakdownRow("loads", "s2", 1, -5e-4, -5e-4),
    BreakdownRow("barriers", "", 1, 4e-3, 4e-3),
)
OTHERWISE = Alternative(9e-3, ("acc",), "the private array acc is in registers", "it is long")
ESTIMATE = Estimate("k", {"n": 1}, "d", "m", "executed", 6.5e-3, Breakdown(ROWS), (5e-3, 8e-3), (), (), (OTHERWISE,))


def bars(figure) -> dict[str, float]:
    """Return label -> width of the bars."""
    (ax,) = figure.axes
    names = dict(zip(ax.get_yticks(), (text.get_text() for text in ax.get_yticklabels()), strict=True))
    return {names[bar.get_y() + bar.get_height() / 2]: bar.get_width() for bar in ax.patches}


def test_bars_of_properties_are_sorted_with_negative_costs_last() -> None:
    figure = plot_breakdown(ESTIMATE)
    found = bars(figure)
    assert found == pytest.approx({"total, 6.5 ms": 6.5, "barriers": 4.0, "adds": 3.0, "loads": -0.5})
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["total, 6.5 ms", "barriers", "adds", "loads"]
    assert ax.get_xlabel() == "time (ms)"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "if the private array acc is in registers",
        "negative cost (negative weight)",
        "interval",
    ]


def test_total_has_its_interval_and_alternative_times() -> None:
    (ax,) = plot_breakdown(ESTIMATE).axes
    (spread,) = ax.collections
    ((low, _), (high, _)) = spread.get_segments()[0]
    assert (low, high) == pytest.approx((5.0, 8.0))
    (other,) = [line for line in ax.lines if line.get_marker() == "D"]
    assert list(other.get_xdata()) == pytest.approx([9.0])


def test_interval_much_wider_than_the_bars_ends_in_an_arrow() -> None:
    (ax,) = plot_breakdown(replace(ESTIMATE, interval=(5e-3, 1.0))).axes
    ((_, _), (high, _)) = ax.collections[0].get_segments()[0]
    assert high == pytest.approx(2.5 * 6.5)
    assert [list(line.get_xdata()) for line in ax.lines if line.get_marker() == ">"] == [[high]]
    assert "interval, up to 1 s" in [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("width", [3.3, 6.4])
def test_times_next_to_bars_stay_within_the_axes(width: float) -> None:
    figure = Figure(figsize=(width, 2.8), layout="constrained")
    ax = figure.subplots()
    named = BreakdownRow("global load 32-bit, stride 1, by a long name", "s1", 10, 1e-4, 1e-3)
    savings = BreakdownRow("loads", "s2", 1, -5e-3, -5e-3)
    plot_breakdown(replace(ESTIMATE, breakdown=Breakdown((named, *ROWS, savings))), ax=ax)
    figure.draw_without_rendering()
    inside = ax.get_window_extent()
    boxes = [Text.get_window_extent(text) for text in ax.texts]
    assert len(boxes) == 4
    assert all(inside.x0 < box.x0 < box.x1 < inside.x1 for box in boxes)


def test_breakdown_by_source() -> None:
    found = bars(plot_breakdown(ESTIMATE, by="source"))
    assert found == pytest.approx({"total, 6.5 ms": 6.5, "(no source)": 4.0, "s2": 1.5, "s1": 1.0})


def test_small_bars_are_merged() -> None:
    found = bars(plot_breakdown(ESTIMATE, most=1))
    assert found == pytest.approx({"total, 6.5 ms": 6.5, "barriers": 4.0, "2 others": 2.5})


def test_long_names_are_split_between_words() -> None:
    assert in_lines("insn_k_outer_k_inner_update", 22) == ["insn_k_outer_k_inner_", "update"]
    assert in_lines("global load 32-bit stride 1/2", 20) == ["global load 32-bit", "stride 1/2"]
    assert in_lines("f32 multiply-adds, 14.1 Tflop/s", 24) == ["f32 multiply-adds,", "14.1 Tflop/s"]
    assert in_lines("", 20) == [""]


def test_empty_estimate_is_one_empty_bar() -> None:
    nothing = Estimate("k", {}, "d", "m", "executed", 0.0, Breakdown(()))
    assert bars(plot_breakdown(nothing)) == {"total, 0 s": 0.0}


def test_incomplete_time_is_labeled_as_a_lower_bound() -> None:
    part = replace(ESTIMATE, left_out=("f32 pow",), interval=None)
    assert "total, at least 6.5 ms" in bars(plot_breakdown(part))
    batch = replace(BATCH, left_out=("f32 pow",))
    labels = [line.get_label() for line in plot_sizes(batch, "n").axes[0].lines]
    assert any(str(label).endswith(" (without f32 pow)") for label in labels)


SIZES = np.array([4, 1, 2])
BATCH = Estimate(
    "k",
    {"n": SIZES},
    "d",
    "m",
    "executed",
    SIZES * 1e-3,
    Breakdown(
        (BreakdownRow("adds", "", SIZES * 10, 1e-4, SIZES * 1e-3), BreakdownRow("launches", "", 1, 0.0, SIZES * 0.0))
    ),
    (SIZES * 0.5e-3, SIZES * 2e-3),
)
FIT = Fit(model="m", device="D", slug="d", counting="executed", weights={"adds": 1e-4}, ranges={"adds": (5, 20)})


def test_times_are_plotted_over_sorted_sizes_with_interval_band() -> None:
    (ax,) = plot_sizes(BATCH, "n", measured=[(2, 3e-3), (1, 1e-3)]).axes
    line, measured = ax.lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 2, 4], pytest.approx([1e-3, 2e-3, 4e-3]))
    assert (list(measured.get_xdata()), list(measured.get_ydata())) == ([1, 2], [1e-3, 3e-3])
    (band,) = ax.collections
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}
    assert {(1.0, 0.5e-3), (4.0, 8e-3)} <= corners
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale(), ax.get_yscale()) == ("n", "run time (s)", "log", "log")
    assert not ax.patches


@pytest.mark.parametrize(
    "sizes", [2 ** np.arange(8, 14), 16 * np.arange(10, 30), 2 ** np.arange(10, 30), [4096], [7, 8, 9]]
)
def test_tick_labels_of_sizes_do_not_overlap(sizes: np.ndarray) -> None:
    seconds = np.asarray(sizes) * 1e-6
    breakdown = Breakdown((BreakdownRow("adds", "", sizes, 1e-6, seconds),))
    batch = replace(BATCH, sizes={"n": sizes}, seconds=seconds, interval=None, breakdown=breakdown)
    figure = plot_sizes(batch, "n")
    (ax,) = figure.axes
    FigureCanvasAgg(figure).draw()
    low, high = ax.get_xlim()
    labels = [
        each for each in ax.get_xticklabels(which="both") if each.get_text() and low <= each.get_position()[0] <= high
    ]
    boxes = sorted((each.get_window_extent() for each in labels), key=lambda box: box.x0)
    assert labels
    assert all(one.x1 < other.x0 for one, other in pairwise(boxes))


def test_few_sizes_are_all_labeled() -> None:
    (ax,) = plot_sizes(BATCH, "n").axes
    assert [each.get_text() for each in ax.get_xticklabels()] == ["1", "2", "4"]


def test_alternative_times_are_a_dashed_line() -> None:
    (ax,) = plot_sizes(replace(BATCH, alternatives=(replace(OTHERWISE, seconds=SIZES * 3e-3),)), "n").axes
    _, other = ax.lines
    assert list(other.get_ydata()) == pytest.approx([3e-3, 6e-3, 12e-3])
    assert (other.get_linestyle(), other.get_label()) == ("--", f"if {OTHERWISE.assumption}")


def test_sizes_above_the_range_of_the_fit_are_hatched() -> None:
    (ax,) = plot_sizes(BATCH, "n", fit=FIT).axes
    # 10, 20 and 40 additions, at most 20 in the fit: hatched is the last size, from the geometric mean of 2 and 4.
    (area,) = ax.patches
    assert (area.get_x(), area.get_x() + area.get_width()) == pytest.approx((8**0.5, 4))
    assert area.get_hatch()


def test_range_of_a_pipeline_applies_under_its_displayed_name() -> None:
    fit = structs.replace(FIT, weights={"local: global": 1e-4}, ranges={"local: global": (1, 20)}, basis="pipelines")
    row = BreakdownRow("load/store: global", "", 10 * SIZES, 1e-4, SIZES * 1e-3)
    (ax,) = plot_sizes(replace(BATCH, breakdown=Breakdown((row,))), "n", fit=fit).axes
    (area,) = ax.patches
    assert (area.get_x(), area.get_x() + area.get_width()) == pytest.approx((8**0.5, 4))


def test_sizes_below_the_range_of_the_fit_are_hatched() -> None:
    (ax,) = plot_sizes(BATCH, "n", fit=structs.replace(FIT, ranges={"adds": (15, 100)})).axes
    (area,) = ax.patches  # 10, 20 and 40 additions
    assert (area.get_x(), area.get_x() + area.get_width()) == pytest.approx((1, 2**0.5))


def test_legend_counts_sizes_and_times_that_are_not_above_0() -> None:
    some = replace(BATCH, sizes={"n": np.array([0, 2, 4])}, seconds=np.array([1e-3, 0.0, 4e-3]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (ax,) = plot_sizes(replace(some, interval=None), "n", measured=[(0, 1e-3), (2, np.nan), (4, 5e-3)]).axes
    assert [list(line.get_xdata()) for line in ax.lines if len(line.get_xdata())] == [[4], [4]]
    assert "not shown: 4 points" in " ".join(text.get_text() for text in ax.get_legend().get_texts())


def test_estimate_of_no_sizes_has_no_points() -> None:
    none = np.array([])
    row = BreakdownRow("adds", "", none, 1e-4, none)
    empty = Estimate("k", {"n": none}, "d", "m", "executed", none, Breakdown((row,)))
    (ax,) = plot_sizes(empty, "n", fit=FIT).axes
    assert list(ax.lines[0].get_xdata()) == []


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
