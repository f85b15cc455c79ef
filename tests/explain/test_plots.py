"""Tests of plots: rooflines, times over a size, and predictions beside measurements; their axes and legends."""

import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from msgspec import structs

from loopyperf.calibration.accuracy import Prediction
from loopyperf.calibration.fits import Fit
from loopyperf.errors import CalibrationError, ParameterError
from loopyperf.explain.plots import plot_predictions, plot_roofline, plot_sizes, styles
from loopyperf.explain.roofline_chart import LaunchUnderRoofs, Roofline
from loopyperf.models.result import Alternative, Breakdown, BreakdownRow, Estimate


def in_legend(ax: Axes) -> list[str]:
    return ax.get_legend_handles_labels()[1]


# {{{ predictions


def test_predictions_are_points_with_intervals_and_a_diagonal() -> None:
    rows = [
        Prediction("copy", {"n": 1}, predicted=2e-3, measured=1e-3, interval=(1e-3, 4e-3)),
        Prediction("copy", {"n": 2}, predicted=5e-3, measured=4e-3),
        Prediction("sum", {"n": 1}, predicted=1e-2, measured=2e-2),
        Prediction("sum", {"n": 2}, predicted=-1e-2, measured=2e-2),
    ]
    (ax,) = plot_predictions(rows).axes
    copies, sums, diagonal, below, above, _ = ax.lines
    (interval,) = ax.collections
    assert (list(copies.get_xdata()), list(copies.get_ydata())) == ([1e-3, 4e-3], [2e-3, 5e-3])
    assert [each.tolist() for each in interval.get_segments()] == [[[1e-3, 1e-3], [1e-3, 4e-3]]]
    assert copies.get_color() != sums.get_color()
    assert list(diagonal.get_xdata()) == list(diagonal.get_ydata()) == [1e-3, 2e-2]
    assert list(below.get_ydata()) == pytest.approx([0.8e-3, 1.6e-2])
    assert list(above.get_ydata()) == pytest.approx([1.2e-3, 2.4e-2])
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert in_legend(ax) == ["copy", "sum", "20 % off", "not shown: 1 predicted below 0"]
    with pytest.raises(CalibrationError, match="none of 0 predictions is above 0 s; pass at least one"):
        plot_predictions([])


# }}}


# {{{ times over a size

SIZES = np.array([4, 1, 2])
ADDS = BreakdownRow("adds", "", SIZES * 10, 1e-4, SIZES * 1e-3)
INTERVAL = SIZES * 0.5e-3, SIZES * 2e-3
BATCH = Estimate("k", {"n": SIZES}, "d", "m", "executed", SIZES * 1e-3, Breakdown((ADDS,)), INTERVAL)
FIT = Fit(model="m", device="D", slug="d", counting="executed", weights={"adds": 1e-4}, ranges={"adds": (5, 20)})


def test_times_are_plotted_over_sorted_sizes_with_interval_band() -> None:
    other = Alternative(SIZES * 3e-3, ("acc",), "the private array acc is in registers", "it is long")
    (ax,) = plot_sizes(replace(BATCH, alternatives=(other,), left_out=("f32 pow",)), "n").axes
    line, dashed = ax.lines
    assert (list(dashed.get_ydata()), dashed.get_linestyle()) == (pytest.approx([3e-3, 6e-3, 12e-3]), "--")
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 2, 4], pytest.approx([1e-3, 2e-3, 4e-3]))
    (band,) = ax.collections
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}
    assert {(1.0, 0.5e-3), (4.0, 8e-3)} <= corners
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_xscale(), ax.get_yscale()) == ("n", "run time (s)", "log", "log")
    assert in_legend(ax) == ["k, m (without f32 pow)", "interval", f"if {other.assumption}"]


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
        (ax,) = plot_sizes(some, "n").axes
    assert [list(line.get_xdata()) for line in ax.lines if len(line.get_xdata())] == [[4]]
    assert "not shown: 2 points with size or time not above 0" in in_legend(ax)
    nothing = replace(BATCH, sizes={"n": SIZES[:0]}, seconds=SIZES[:0], interval=None, breakdown=Breakdown(()))
    assert list(plot_sizes(nothing, "n", fit=FIT).axes[0].lines[0].get_xdata()) == []


def test_estimates_of_one_size_or_of_equal_sizes_are_refused() -> None:
    once = replace(BATCH, sizes={"n": 1}, seconds=1e-3, interval=None)
    twice = Estimate("k", {"n": np.array([1, 1]), "m": np.array([1, 2])}, "d", "m", "e", np.ones(2), Breakdown(()))
    for estimate, size, message in (
        (once, "n", "estimate the kernel with an array for 'n'"),
        (BATCH, "m", "no size 'm'; sizes: n"),
        (twice, "n", "have the same 'n'"),
    ):
        with pytest.raises(ParameterError, match=message):
            plot_sizes(estimate, size)


# }}}


# {{{ rooflines

MOVED = {"L2": 4e9, "DRAM": 2e9}
LAUNCH = LaunchUnderRoofs("k", 1e9, MOVED, seconds=1e-2, bound="DRAM", predicted=4e-2, roof="DRAM", memory="DRAM")
DATA = Roofline("k", {}, "d", {"L2": 1e12, "DRAM": 2e11}, {"f32 multiply-adds": 4e12}, (LAUNCH,), ())
OTHER = replace(DATA, device="e", bandwidths={"L2": 3e12, "DRAM": 5e11}, peaks={"f32 multiply-adds": 9e12})


def marks(ax: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """Return the coordinates of each labeled line by its label."""
    return {str(line.get_label()): (list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines}


def points(ax: Axes, fill: str) -> list[tuple[float, float]]:
    """Return the positions of launches' markers with the fill style *fill*."""
    lines = [line for line in ax.lines if line.get_marker() in "osD^" and line.get_fillstyle() == fill]
    return [at for line in lines if line.get_linestyle() == "None" for at in map(tuple, line.get_xydata().tolist())]


def segments(ax: Axes) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines if line.get_marker() == "_"]


def test_slopes_end_at_the_highest_peak_and_peaks_begin_at_the_steepest_slope() -> None:
    (ax,) = plot_roofline(DATA).axes
    found = marks(ax)
    for name, bandwidth in (("L2, 1 TB/s", 1e12), ("DRAM, 200 GB/s", 2e11)):
        (left, end), (low, high) = found[name]
        assert (low / left, high / end, high) == pytest.approx((bandwidth, bandwidth, 4e12))
    (start, right), heights = found["f32 multiply-adds, 4 Tflop/s"]
    assert start == pytest.approx(4e12 / 1e12)
    assert right > 4e12 / 2e11
    assert heights == [4e12, 4e12]


def test_markers_show_predicted_performance_and_are_filled_at_the_bound() -> None:
    (ax,) = plot_roofline(DATA).axes
    # 1e9 flop in 40 ms, with 2e9 bytes of DRAM, which is the bound, and 4e9 bytes of L2.
    assert points(ax, "full") == [(0.5, 2.5e10)]
    assert points(ax, "none") == [(0.25, 2.5e10)]
    assert in_legend(ax) == [
        *("L2, 1 TB/s", "DRAM, 200 GB/s", "f32 multiply-adds, 4 Tflop/s"),
        *("at L2", "k: 25 % of DRAM", "to attainable"),
    ]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("intensity (flop/B)", "performance (flop/s)")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_line_leads_to_the_attainable_performance_even_without_a_roof() -> None:
    assert segments(plot_roofline(DATA).axes[0]) == [([0.5, 0.5], [2.5e10, 1e11])]
    launch = replace(LAUNCH, seconds=2e-2, bound="load/store", roof="", memory="")
    # No memory is the bound: the line is at the memory farthest from the core.
    (ax,) = plot_roofline(replace(DATA, launches=(launch,))).axes
    assert segments(ax) == [([0.5, 0.5], [2.5e10, 5e10])]


def test_launch_without_a_predicted_time_is_hollow_on_its_roof() -> None:
    (ax,) = plot_roofline(replace(DATA, launches=(replace(LAUNCH, predicted=None),))).axes
    assert points(ax, "full") == []
    assert (0.5, 1e11) in points(ax, "none")
    assert "k: bound by DRAM" in in_legend(ax)
    assert "to attainable" not in in_legend(ax)


def test_variants_on_one_device_share_its_roofs() -> None:
    faster = replace(DATA, launches=(replace(LAUNCH, predicted=2e-2),))
    (ax,) = plot_roofline({"slow": DATA, "fast": faster}).axes
    # The first marker is larger, so that it would be visible below the second.
    assert [line.get_markersize() for line in ax.lines if "of DRAM" in str(line.get_label())] == [7.0, 5.0]
    assert points(ax, "full") == [(0.5, 2.5e10), (0.5, 5e10)]
    assert [words for words in in_legend(ax) if "L2" in words] == ["L2, 1 TB/s"]
    assert in_legend(ax)[3:] == ["slow: 25 % of DRAM", "fast: 50 % of DRAM", "at other memories", "to attainable"]


def test_roofs_of_several_devices_have_the_colors_of_their_launches() -> None:
    (ax,) = plot_roofline({"d": DATA, "e": OTHER}).axes
    roofs = [line for line in ax.lines if line.get_marker() == "None" and max(line.get_ydata(), default=0) > 1e12]
    launches = {str(line.get_label())[0]: line.get_color() for line in ax.lines if "of DRAM" in str(line.get_label())}
    assert {(line.get_color(), max(line.get_ydata())) for line in roofs} == {
        (launches["d"], 4e12),
        (launches["e"], 9e12),
    }
    assert launches["d"] != launches["e"]
    assert in_legend(ax) == [
        *("L2", "DRAM", "f32 multiply-adds", "d: 25 % of DRAM", "e: 25 % of DRAM"),
        *("at other memories", "to attainable"),
    ]


def test_several_launches_of_several_devices_share_legend_entries() -> None:
    launches = tuple(replace(LAUNCH, name=name, predicted=each) for name, each in (("a", 2e-2), ("b", 4e-2)))
    (ax,) = plot_roofline({"d": replace(DATA, launches=launches), "e": replace(OTHER, launches=launches)}).axes
    assert in_legend(ax)[3:] == ["d", "e", "a", "b", "at other memories", "to attainable"]
    filled = [line for line in ax.lines if line.get_fillstyle() == "full" and list(line.get_xdata()) == [0.5]]
    device = dict(zip("de", dict.fromkeys(line.get_color() for line in filled), strict=True))
    markers = {label: each.get_marker() for each, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    assert [(line.get_color(), line.get_marker(), line.get_ydata()[0]) for line in filled] == [
        (device[of], markers[name], height) for of in "de" for name, height in (("a", 5e10), ("b", 2.5e10))
    ]


def test_several_devices_show_only_f32_peaks_and_bounds_and_one_device_merges_equal_peaks() -> None:
    roofs = replace(DATA, peaks={"f32 multiply-adds": 4e12, "f64 multiply-adds": 2e12, "special functions": 1e12})
    bound = replace(LAUNCH, bound="sfu", roof="special functions", memory="")
    (ax,) = plot_roofline({"d": roofs, "e": replace(OTHER, launches=(bound,))}).axes
    heights = {line.get_ydata()[0] for line in ax.lines if line.get_marker() == "None" and len(line.get_ydata())}
    assert {4e12, 1e12, 9e12} <= heights
    assert 2e12 not in heights
    equal = replace(DATA, peaks={"f32 multiply-adds": 4e12, "special functions": 1e12, "issue limit": 4e12})
    assert [name for name in in_legend(plot_roofline(equal).axes[0]) if "flop/s" in name] == [
        "f32 multiply-adds and issue limit, 4 Tflop/s",
        "special functions, 1 Tflop/s",
    ]


def test_launch_without_flop_is_not_shown_but_roofs_are() -> None:
    copy = LaunchUnderRoofs("copy", flops=0, moved={"DRAM": 2e9}, seconds=1e-2, bound="DRAM")
    for launches in ((copy,), (copy, LAUNCH)):
        (ax,) = plot_roofline(replace(DATA, launches=launches)).axes
        assert len(points(ax, "full")) == len(launches) - 1
        assert in_legend(ax)[-1] == "not shown: 1 launch without floating-point operations"
        assert "DRAM, 200 GB/s" in in_legend(ax)
    with pytest.raises(ParameterError, match="no roofline to plot"):
        plot_roofline({})


# }}}


# {{{ axes and legends of all plots


def test_plots_use_the_given_axes_or_a_new_figure() -> None:
    for draw in (
        lambda **of: plot_roofline(DATA, **of),
        lambda **of: plot_sizes(BATCH, "n", **of),
        lambda **of: plot_predictions([Prediction("k", {}, 1.0, 1.0)], **of),
    ):
        figure = Figure()
        left, right = figure.subfigures(1, 2)
        assert draw(ax=right.subplots()) is figure
        assert not left.axes
        assert draw().axes[0].get_xlabel() == right.axes[0].get_xlabel() != ""


@pytest.mark.parametrize("width", [3.4, 6.4])
def test_legend_leaves_room_for_the_axes_and_a_new_figure_grows_by_it(width: float) -> None:
    launches = tuple(replace(LAUNCH, name=f"matmul$step_{number}") for number in range(5))
    peaks = {f"f{bits} multiply-adds": 1e12 * bits for bits in (16, 32, 64, 128)}
    every = {f"device-{n}": replace(DATA, device=f"{n}", launches=launches, peaks=peaks) for n in range(3)}
    for drawn in (every, every["device-0"]):
        figure = plot_roofline(drawn, ax=Figure(figsize=(width, 4), layout="constrained").subplots())
        figure.draw_without_rendering()
        (ax,) = figure.axes
        legend = ax.get_legend().get_window_extent()
        assert ax.bbox.height > 0.4 * figure.bbox.height
        assert ax.bbox.y1 - 1 <= legend.y0 < legend.y1 <= figure.bbox.y1
        assert 0 <= legend.x0 < legend.x1 <= figure.bbox.x1
    few, many = plot_roofline(DATA), plot_roofline({f"variant {n} of the kernel": DATA for n in range(30)})
    for figure in (few, many):
        figure.draw_without_rendering()
    assert many.get_figheight() > few.get_figheight() + 0.5
    assert many.axes[0].bbox.height == pytest.approx(few.axes[0].bbox.height, rel=0.05)


def test_ninety_series_differ_in_color_or_marker() -> None:
    looks = {(int(style["color"].removeprefix("C")) % 10, style["marker"]) for style in styles(90)}
    assert len(looks) == 90


def test_error_without_matplotlib_names_the_extra() -> None:
    lines = "import sys; sys.modules['matplotlib'] = None; import loopyperf.explain.plots"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("pip install 'loopyperf[plots]'")


# }}}
