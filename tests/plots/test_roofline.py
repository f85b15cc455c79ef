"""The roofline chart: slopes, levels and points are those of its data."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from loopyperf.errors import ParameterError
from loopyperf.models.on_device.roofs import LaunchUnderRoofs, Roofline
from loopyperf.plots import plot_roofline
from loopyperf.plots.levels import spread

LAUNCH = LaunchUnderRoofs("k", flops=1e9, moved={"L2": 4e9, "DRAM": 2e9}, seconds=1e-2, bound="DRAM")
DATA = Roofline("k", {}, "d", {"L2": 1e12, "DRAM": 2e11}, {"f32 multiply-adds": 4e12}, (LAUNCH,), ())


def test_slopes_rise_to_the_highest_level_and_points_stand_at_their_intensities() -> None:
    (ax,) = plot_roofline(DATA).axes
    l2, dram, level, between, nearer, farthest, _ = ax.lines
    for slope, bandwidth in ((l2, 1e12), (dram, 2e11)):
        x, y = slope.get_xdata(), slope.get_ydata()
        assert [up / across for across, up in zip(x, y, strict=True)] == pytest.approx([bandwidth] * 2)
        assert y[1] == 4e12
    # The level begins where the steepest slope ends: 4e12 flop/s by 1e12 B/s. Its name stands where it ends.
    assert ax.texts[0].xy == (level.get_xdata()[1], 4e12)
    assert list(level.get_ydata()) == [4e12, 4e12]
    assert level.get_xdata()[0] == pytest.approx(4.0)
    # 1e9 flop in 10 ms, over 2e9 and 4e9 bytes.
    assert (list(farthest.get_xdata()), list(farthest.get_ydata())) == ([0.5], [1e11])
    assert (list(nearer.get_xdata()), list(nearer.get_ydata())) == ([0.25], [1e11])
    assert (farthest.get_fillstyle(), nearer.get_fillstyle()) == ("full", "none")
    assert list(between.get_xdata()) == [0.25, 0.5]
    assert [text.get_text() for text in ax.texts] == ["f32 multiply-adds, 4 Tflop/s", "L2", "DRAM"]
    assert [text.xy for text in ax.texts[1:]] == [(0.25, 1e11), (0.5, 1e11)]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "L2, 1 TB/s",
        "DRAM, 200 GB/s",
        "k, bound: DRAM",
        "by nearer memories",
    ]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("intensity (flop/B)", "performance (flop/s)")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_a_measured_time_is_a_cross_below_what_is_attainable() -> None:
    (ax,) = plot_roofline(DATA, measured={"k": 2e-2}).axes
    (cross,) = [line for line in ax.lines if line.get_marker() == "x"]
    assert (list(cross.get_xdata()), list(cross.get_ydata())) == ([0.5], [5e10])


def test_a_time_of_what_is_no_launch_is_refused() -> None:
    with pytest.raises(ParameterError, match="no launch called 'another' to draw the time of, only k"):
        plot_roofline(DATA, measured={"k": 2e-2, "another": 1.0})


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf")])
def test_a_launch_cannot_have_taken_no_time(seconds: float) -> None:
    with pytest.raises(ParameterError, match=r"'k' cannot have taken .* s: give seconds above 0"):
        plot_roofline(DATA, measured={"k": seconds})


def test_what_is_no_roofline_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"drawn is Roofline, from loopyperf.roofline; received str"):
        plot_roofline("knl")  # type: ignore[arg-type]


def test_a_launch_without_flop_has_no_place_and_roofs_have() -> None:
    copy = LaunchUnderRoofs("copy", flops=0, moved={"DRAM": 2e9}, seconds=1e-2, bound="DRAM")
    (ax,) = plot_roofline(Roofline("k", {}, "d", DATA.bandwidths, DATA.peaks, (copy,), ())).axes
    assert [line.get_label() for line in ax.lines if len(line.get_xdata()) == 0] == [
        "no launch does floating-point operations"
    ]
    assert len(ax.lines) == 4
    (ax,) = plot_roofline(Roofline("k", {}, "d", DATA.bandwidths, DATA.peaks, (copy, LAUNCH), ())).axes
    assert ax.get_legend_handles_labels()[1][-1] == "without 1 launch of no such operations"


def test_in_a_narrow_column_levels_have_no_numbers() -> None:
    ax = Figure(figsize=(3.4, 3)).subplots()
    plot_roofline(DATA, ax=ax)
    assert [text.get_text() for text in ax.texts if not text.get_rotation()] == ["f32 multiply-adds"]


def test_memories_that_share_a_point_have_a_name_that_stays_within_a_narrow_chart() -> None:
    bandwidths = {"local and L1": 1.4e13, "L2": 2.4e12, "DRAM": 8.7e11}
    launch = replace(LAUNCH, moved=dict.fromkeys(bandwidths, 1e9), flops=1.2e8, seconds=1e-2)
    figure = Figure(figsize=(3.4, 3.0), layout="constrained")
    ax = figure.subplots()
    plot_roofline(Roofline("k", {}, "d", bandwidths, {"f32 multiply-adds": 2.8e13}, (launch,), ()), ax=ax)
    FigureCanvasAgg(figure).draw()
    (name,) = [text for text in ax.texts if text.get_rotation()]
    assert name.get_text() == "all memories"
    assert name.get_window_extent().y1 <= ax.get_window_extent().y1


def test_peaks_that_are_the_same_have_one_name() -> None:
    peaks = {"f32 multiply-adds": 4e12, "special functions": 1e12, "issue limit": 4e12}
    (ax,) = plot_roofline(Roofline("k", {}, "d", DATA.bandwidths, peaks, (LAUNCH,), ())).axes
    names = [" ".join(text.get_text().split()) for text in ax.texts if not text.get_rotation()]
    assert names == ["special functions, 1 Tflop/s", "f32 multiply-adds and issue limit, 4 Tflop/s"]


def test_launches_at_the_same_place_are_around_each_other() -> None:
    launches = [replace(LAUNCH, name=name) for name in "abc"]
    (ax,) = plot_roofline(replace(DATA, launches=(*launches, replace(LAUNCH, name="d", seconds=1.0)))).axes
    sizes = {line.get_label()[0]: line.get_markersize() for line in ax.lines if "bound" in str(line.get_label())}
    assert sizes["a"] > sizes["b"] > sizes["c"] == sizes["d"]


@pytest.mark.parametrize("width", [3.4, 4, 9])
@pytest.mark.parametrize("apart", [1.02, 1.05, 1.3])
def test_no_name_of_a_level_covers_another_or_leaves_the_axes(width: float, apart: float) -> None:
    names = ["f32 multiply-adds", "f64 multiply-adds", "special functions", "issue limit"]
    peaks = {name: 1e12 * apart**place for place, name in enumerate(names)}
    figure = Figure(figsize=(width, 3), layout="constrained")
    ax = figure.subplots()
    plot_roofline(replace(DATA, peaks=peaks), ax=ax)
    figure.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in ax.texts if not text.get_rotation()]
    inside = ax.get_window_extent()
    assert len(boxes) == 4
    assert all(inside.x0 < box.x0 < box.x1 < inside.x1 and inside.y0 < box.y0 < box.y1 < inside.y1 for box in boxes)
    # In the order of their heights, each above the one before.
    assert all(below.y1 <= above.y0 + 1e-6 for below, above in pairwise(boxes))
    # No line but the leaders, which end at the names, is where they are.
    farthest = max(
        ax.transData.transform((line.get_xdata()[-1], 1e12))[0] for line in ax.lines if len(line.get_xdata())
    )
    assert all(box.x0 > farthest for box in boxes)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 10)), min_size=1, max_size=9))
def test_pieces_are_moved_apart_in_their_order_and_no_farther_than_they_must(pieces: list[tuple[float, float]]) -> None:
    wanted = sorted(at for at, _ in pieces)
    sizes = [size for _, size in pieces]
    found = spread(wanted, sizes, 0, 100)
    half = np.array(sizes) / 2
    assert found[0] - half[0] >= -1e-9
    assert found[-1] + half[-1] <= 100 + 1e-9
    assert all(np.diff(found) >= half[1:] + half[:-1] - 1e-9)
    free = np.array(wanted)
    if all(np.diff(free) >= half[1:] + half[:-1]) and free[0] >= half[0] and free[-1] <= 100 - half[-1]:
        assert found == pytest.approx(free)
