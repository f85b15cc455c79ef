"""Tests of the roofline chart: its slopes, peaks and markers equal the data."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Text

from loopyperf.errors import ParameterError
from loopyperf.explain.plots import plot_roofline
from loopyperf.explain.plots.plot_roofline import drawn_launches, spread
from loopyperf.explain.roofline_chart import LaunchUnderRoofs, Roofline

LAUNCH = LaunchUnderRoofs(
    "k", flops=1e9, moved={"L2": 4e9, "DRAM": 2e9}, seconds=1e-2, bound="DRAM", predicted=4e-2, roof="DRAM",
    memory="DRAM",
)  # fmt: skip
DATA = Roofline("k", {}, "d", {"L2": 1e12, "DRAM": 2e11}, {"f32 multiply-adds": 4e12}, (LAUNCH,), ())


OTHER = replace(DATA, device="e", bandwidths={"L2": 3e12, "DRAM": 5e11}, peaks={"f32 multiply-adds": 9e12})


def markers(ax: Axes, fill: str) -> list[tuple[list[float], list[float]]]:
    """Return the positions of launches' markers with the fill style *fill*."""
    launches = [line for line in ax.lines if str(line.get_gid()).startswith("launch") and line.get_marker() in "osD^"]
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in launches if line.get_fillstyle() == fill]


def slopes(ax: Axes) -> list[float]:
    """Return the bandwidths of the drawn slopes."""
    lines = [line for line in ax.lines if str(line.get_gid()).startswith("memory")]
    return [float(line.get_ydata()[1] / line.get_xdata()[1]) for line in lines]


def levels(ax: Axes) -> list[float]:
    """Return the heights of the drawn peaks."""
    return [float(line.get_ydata()[0]) for line in ax.lines if str(line.get_gid()).startswith("peak")]


def arrows(ax: Axes) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Return start and end of each arrow, in the units of the axes."""
    return [tuple(each._posA_posB) for each in ax.patches if isinstance(each, FancyArrowPatch)]


def in_legend(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_slopes_end_at_the_highest_peak() -> None:
    (ax,) = plot_roofline(DATA).axes
    l2, dram, level = ax.lines[:3]
    for slope, bandwidth in ((l2, 1e12), (dram, 2e11)):
        x, y = slope.get_xdata(), slope.get_ydata()
        assert [up / across for across, up in zip(x, y, strict=True)] == pytest.approx([bandwidth] * 2)
        assert y[1] == 4e12
    # The peak starts where the steepest slope ends, at 4e12 flop/s / 1e12 B/s; its label is at its end.
    assert ax.texts[0].xy == (level.get_xdata()[1], 4e12)
    assert list(level.get_ydata()) == [4e12, 4e12]
    assert level.get_xdata()[0] == pytest.approx(4.0)
    assert [text.get_text() for text in ax.texts] == ["f32 multiply-adds, 4 Tflop/s", "L2", "DRAM"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("intensity (flop/B)", "performance (flop/s)")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_markers_show_predicted_performance_and_are_filled_at_the_bound() -> None:
    (ax,) = plot_roofline(DATA).axes
    # 1e9 flop in 40 ms, with 2e9 bytes of DRAM, which is the bound, and 4e9 bytes of L2.
    assert markers(ax, "full") == [([0.5], [2.5e10])]
    assert markers(ax, "none") == [([0.25], [2.5e10])]
    assert [text.xy for text in ax.texts[1:]] == [(0.25, 2.5e10), (0.5, 2.5e10)]
    assert in_legend(ax) == [
        "L2, 1 TB/s",
        "DRAM, 200 GB/s",
        "k, bound: DRAM, 25 % of attainable",
        "at other memories",
        "to attainable performance",
    ]
    (ax,) = plot_roofline(replace(DATA, launches=(replace(LAUNCH, bound="L2", roof="L2", memory="L2"),))).axes
    assert markers(ax, "full") == [([0.25], [2.5e10])]


def test_arrow_points_from_the_filled_marker_to_the_roof() -> None:
    (ax,) = plot_roofline(DATA).axes
    # 0.5 flop/B · 200 GB/s, i.e. 1e9 flop in 10 ms.
    assert arrows(ax) == [((0.5, 2.5e10), (0.5, 1e11))]
    assert [line for line in ax.lines if line.get_marker() == "_"] == []


def test_short_distance_has_no_arrow() -> None:
    (ax,) = plot_roofline(replace(DATA, launches=(replace(LAUNCH, predicted=1.05e-2),))).axes
    assert arrows(ax) == []
    assert "to attainable performance" not in in_legend(ax)


def test_arrow_ends_in_a_bar_if_the_bound_is_not_a_roof() -> None:
    launch = replace(LAUNCH, seconds=2e-2, bound="load/store", roof="", memory="")
    (ax,) = plot_roofline(replace(DATA, launches=(launch,))).axes
    (bar,) = [line for line in ax.lines if line.get_marker() == "_"]
    # No memory is the bound: the arrow is at the memory farthest from the core.
    assert (list(bar.get_xdata()), list(bar.get_ydata())) == ([0.5], [5e10])
    assert arrows(ax) == [((0.5, 2.5e10), (0.5, 5e10))]
    assert "k, bound: load/store (no roof), 50 % of attainable" in in_legend(ax)


def test_launch_without_a_predicted_time_is_hollow_on_its_roof() -> None:
    (ax,) = plot_roofline(replace(DATA, launches=(replace(LAUNCH, predicted=None),))).axes
    assert markers(ax, "full") == []
    assert ([0.5], [1e11]) in markers(ax, "none")
    assert arrows(ax) == []
    assert "k, bound: DRAM" in in_legend(ax)


def test_each_launch_has_one_filled_marker() -> None:
    launches = [replace(LAUNCH, name=name, predicted=each) for name, each in (("a", 2e-2), ("b", 4e-2), ("c", 8e-2))]
    (ax,) = plot_roofline(replace(DATA, launches=tuple(launches))).axes
    assert markers(ax, "full") == [([0.5], [5e10]), ([0.5], [2.5e10]), ([0.5], [1.25e10])]
    assert len(arrows(ax)) == 3


def test_measured_time_is_a_cross() -> None:
    (ax,) = plot_roofline(DATA, measured={"k": 2e-2}).axes
    (cross,) = [line for line in ax.lines if line.get_marker() == "x"]
    assert (list(cross.get_xdata()), list(cross.get_ydata())) == ([0.5], [5e10])


def test_variants_on_one_device_share_its_roofs() -> None:
    faster = replace(DATA, launches=(replace(LAUNCH, predicted=2e-2),))
    (ax,) = plot_roofline({"slow": DATA, "fast": faster}).axes
    assert slopes(ax) == pytest.approx([1e12, 2e11])
    assert levels(ax) == [4e12]
    assert markers(ax, "full") == [([0.5], [2.5e10]), ([0.5], [5e10])]
    named = ["slow, bound: DRAM, 25 % of attainable", "fast, bound: DRAM, 50 % of attainable"]
    assert in_legend(ax)[2:4] == named
    measured = {"fast": {"k": 1.0}}
    (ax,) = plot_roofline({"slow": DATA, "fast": faster}, measured=measured).axes
    (cross,) = [line for line in ax.lines if line.get_marker() == "x"]
    assert list(cross.get_ydata()) == [1e9]
    with pytest.raises(ParameterError, match="must map each of slow, fast to seconds by launch, got 'k'"):
        plot_roofline({"slow": DATA, "fast": faster}, measured={"k": 1.0})


def test_roofs_of_two_devices_differ_without_color() -> None:
    (ax,) = plot_roofline([DATA, OTHER]).axes
    assert slopes(ax) == pytest.approx([1e12, 2e11, 3e12, 5e11])
    assert levels(ax) == [4e12, 9e12]
    gids = [line.get_gid() for line in ax.lines if line.get_gid()]
    assert {f"memory-{number}" for number in range(4)} | {"peak-0", "peak-1", "launch-0", "launch-1"} == set(gids)
    widths = {str(line.get_label()): line.get_linewidth() for line in ax.lines if "roofs of" in str(line.get_label())}
    assert list(widths) == ["roofs of d", "roofs of e"]
    assert len(set(widths.values())) == 2
    assert in_legend(ax)[2:6] == [
        "memory: L2",
        "memory: DRAM",
        *(f"{each}, bound: DRAM, 25 % of attainable" for each in "de"),
    ]
    assert [text.get_text() for text in ax.texts] == ["f32 multiply-adds, d", "f32 multiply-adds, e"]


def test_several_devices_show_only_f32_peaks_and_bounds() -> None:
    peaks = {"f32 multiply-adds": 4e12, "f64 multiply-adds": 2e12, "special functions": 1e12}
    bound = replace(LAUNCH, bound="sfu", roof="special functions", memory="")
    (ax,) = plot_roofline([replace(DATA, peaks=peaks), replace(OTHER, launches=(bound,))]).axes
    assert levels(ax) == [4e12, 1e12, 9e12]


@pytest.mark.parametrize(
    ("others", "names"),
    [
        ([{"sizes": {"n": 1}}, {"sizes": {"n": 2}}], ["k(n=1)", "k(n=2)"]),
        ([{"device": "d"}, {"device": "e"}], ["d", "e"]),
        ([{"kernel": "k"}, {"kernel": "l"}], ["k", "l"]),
        ([{}, {}], ["k, 1", "k, 2"]),
        ([{"kernel": "k"}, {"kernel": "l"}, {"kernel": "k", "device": "e"}], ["k on d", "l on d", "k on e"]),
    ],
)
def test_rooflines_in_a_sequence_are_named_by_their_differences(others: list[dict], names: list[str]) -> None:
    found = drawn_launches([replace(DATA, **each) for each in others])
    assert [each.name for each in found] == names


def test_time_of_an_unknown_launch_is_refused() -> None:
    with pytest.raises(ParameterError, match="unknown launch 'another' in measured; launches: k"):
        plot_roofline(DATA, measured={"k": 2e-2, "another": 1.0})


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf")])
def test_measured_time_must_be_finite_and_above_0(seconds: float) -> None:
    with pytest.raises(ParameterError, match=r"time of launch 'k' must be above 0 s, got "):
        plot_roofline(DATA, measured={"k": seconds})


def test_values_other_than_rooflines_are_refused() -> None:
    for wrong in ("knl", ["knl"], {"a": "knl"}):
        with pytest.raises(ParameterError, match=r"expected Roofline from loopyperf.roofline, got str"):
            plot_roofline(wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="no roofline to plot"):
        plot_roofline([])


def test_launch_without_flop_is_not_shown_but_roofs_are() -> None:
    copy = LaunchUnderRoofs("copy", flops=0, moved={"DRAM": 2e9}, seconds=1e-2, bound="DRAM")
    (ax,) = plot_roofline(Roofline("k", {}, "d", DATA.bandwidths, DATA.peaks, (copy,), ())).axes
    assert [line.get_label() for line in ax.lines if len(line.get_xdata()) == 0] == [
        "no launch with floating-point operations"
    ]
    assert len(ax.lines) == 4
    (ax,) = plot_roofline(Roofline("k", {}, "d", DATA.bandwidths, DATA.peaks, (copy, LAUNCH), ())).axes
    assert ax.get_legend_handles_labels()[1][-1] == "not shown: 1 launch without floating-point operations"


def test_peaks_have_no_numbers_in_a_narrow_chart() -> None:
    ax = Figure(figsize=(3.4, 3)).subplots()
    plot_roofline(DATA, ax=ax)
    assert [text.get_text() for text in ax.texts if not text.get_rotation()] == ["f32 multiply-adds"]


def test_memories_at_one_point_share_a_label_within_a_narrow_chart() -> None:
    bandwidths = {"local and L1": 1.4e13, "L2": 2.4e12, "DRAM": 8.7e11}
    launch = replace(LAUNCH, moved=dict.fromkeys(bandwidths, 1e9), flops=1.2e8, seconds=1e-2)
    figure = Figure(figsize=(3.4, 3.0), layout="constrained")
    ax = figure.subplots()
    plot_roofline(Roofline("k", {}, "d", bandwidths, {"f32 multiply-adds": 2.8e13}, (launch,), ()), ax=ax)
    FigureCanvasAgg(figure).draw()
    (name,) = [text for text in ax.texts if text.get_rotation()]
    assert name.get_text() == "all memories"
    assert name.get_window_extent().y0 >= ax.get_window_extent().y0


def test_equal_peaks_share_a_label() -> None:
    peaks = {"f32 multiply-adds": 4e12, "special functions": 1e12, "issue limit": 4e12}
    (ax,) = plot_roofline(Roofline("k", {}, "d", DATA.bandwidths, peaks, (LAUNCH,), ())).axes
    names = [" ".join(text.get_text().split()) for text in ax.texts if not text.get_rotation()]
    assert names == ["special functions, 1 Tflop/s", "f32 multiply-adds and issue limit, 4 Tflop/s"]


def test_launches_at_one_point_have_markers_of_different_sizes() -> None:
    launches = [replace(LAUNCH, name=name) for name in "abc"]
    (ax,) = plot_roofline(replace(DATA, launches=(*launches, replace(LAUNCH, name="d", predicted=1.0)))).axes
    sizes = {line.get_label()[0]: line.get_markersize() for line in ax.lines if "bound" in str(line.get_label())}
    assert sizes["a"] > sizes["b"] > sizes["c"] == sizes["d"]


@pytest.mark.parametrize("width", [3.4, 4, 9])
@pytest.mark.parametrize("apart", [1.02, 1.05, 1.3])
def test_labels_of_peaks_do_not_overlap_or_leave_the_axes(width: float, apart: float) -> None:
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
    # The labels are in the order of the peaks, each above the previous one.
    assert all(below.y1 <= above.y0 + 1e-6 for below, above in pairwise(boxes))
    # Only the leader lines reach the labels, where they end.
    farthest = max(
        ax.transData.transform((line.get_xdata()[-1], 1e12))[0] for line in ax.lines if len(line.get_xdata())
    )
    assert all(box.x0 > farthest for box in boxes)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0.1, 10)), min_size=1, max_size=9))
def test_spread_keeps_the_order_and_moves_only_overlapping_pieces(pieces: list[tuple[float, float]]) -> None:
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
