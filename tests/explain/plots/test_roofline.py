"""Tests of the roofline chart: its slopes, peaks and markers equal the data."""

from dataclasses import replace

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loopyperf.errors import ParameterError
from loopyperf.explain.plots import plot_roofline
from loopyperf.explain.plots.plot_roofline import Rooflines, draw_roofline
from loopyperf.explain.roofline_chart import LaunchUnderRoofs, Roofline

MOVED = {"L2": 4e9, "DRAM": 2e9}
LAUNCH = LaunchUnderRoofs("k", 1e9, MOVED, seconds=1e-2, bound="DRAM", predicted=4e-2, roof="DRAM", memory="DRAM")
DATA = Roofline("k", {}, "d", {"L2": 1e12, "DRAM": 2e11}, {"f32 multiply-adds": 4e12}, (LAUNCH,), ())
OTHER = replace(DATA, device="e", bandwidths={"L2": 3e12, "DRAM": 5e11}, peaks={"f32 multiply-adds": 9e12})


def marks(given: Rooflines) -> dict[str, list[tuple[list[float], list[float]]]]:
    """Return the coordinates of each mark by its roof or launch, i.e. its words up to a colon."""
    found: dict[str, list[tuple[list[float], list[float]]]] = {}
    for mark, words in draw_roofline(Figure().subplots(), given).items():
        found.setdefault(words.partition(":")[0], []).append((list(mark.get_xdata()), list(mark.get_ydata())))
    return found


def points(ax: Axes, fill: str) -> list[tuple[float, float]]:
    """Return the positions of launches' markers with the fill style *fill*."""
    lines = [line for line in ax.lines if line.get_marker() in "osD^" and line.get_fillstyle() == fill]
    return [at for line in lines if line.get_linestyle() == "None" for at in map(tuple, line.get_xydata().tolist())]


def in_legend(ax: Axes) -> list[str]:
    return ax.get_legend_handles_labels()[1]


def test_slopes_end_at_the_highest_peak_and_peaks_begin_at_the_steepest_slope() -> None:
    found = marks(DATA)
    for name, bandwidth in (("L2, 1 TB/s", 1e12), ("DRAM, 200 GB/s", 2e11)):
        (((left, end), (low, high)),) = found[name]
        assert (low / left, high / end, high) == pytest.approx((bandwidth, bandwidth, 4e12))
    (((start, right), heights),) = found["f32 multiply-adds, 4 Tflop/s"]
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
    assert ([0.5, 0.5], [2.5e10, 1e11]) in marks(DATA)["k"]
    launch = replace(LAUNCH, seconds=2e-2, bound="load/store", roof="", memory="")
    # No memory is the bound: the line is at the memory farthest from the core.
    assert ([0.5, 0.5], [2.5e10, 5e10]) in marks(replace(DATA, launches=(launch,)))["k"]


def test_launch_without_a_predicted_time_is_hollow_on_its_roof() -> None:
    (ax,) = plot_roofline(replace(DATA, launches=(replace(LAUNCH, predicted=None),))).axes
    assert points(ax, "full") == []
    assert (0.5, 1e11) in points(ax, "none")
    assert "k: bound by DRAM" in in_legend(ax)
    assert "to attainable" not in in_legend(ax)


def test_variants_on_one_device_share_its_roofs() -> None:
    faster = replace(DATA, launches=(replace(LAUNCH, predicted=2e-2),))
    (ax,) = plot_roofline({"slow": DATA, "fast": faster}, measured={"fast": {"k": 1.0}}).axes
    # The first marker is larger, so that it would be visible below the second.
    assert [line.get_markersize() for line in ax.lines if "of DRAM" in str(line.get_label())] == [7.0, 5.0]
    assert points(ax, "full") == [(0.5, 2.5e10), (0.5, 5e10)]
    assert [words for words in in_legend(ax) if "L2" in words] == ["L2, 1 TB/s"]
    assert in_legend(ax)[3:] == [
        *("slow: 25 % of DRAM", "fast: 50 % of DRAM", "at other memories", "to attainable", "measured")
    ]
    (cross,) = [line for line in ax.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert (list(cross.get_xdata()), list(cross.get_ydata())) == ([0.5], [1e9])


def test_roofs_of_several_devices_have_the_colors_of_their_launches() -> None:
    figure = Figure()
    words = draw_roofline(figure.subplots(), [DATA, OTHER])
    colors = {label.partition(":")[0]: mark.get_color() for mark, label in words.items()}
    assert colors["DRAM, 200 GB/s, d"] == colors["f32 multiply-adds, 4 Tflop/s, d"] == colors["d"]
    assert colors["DRAM, 500 GB/s, e"] == colors["f32 multiply-adds, 9 Tflop/s, e"] == colors["e"] != colors["d"]
    assert in_legend(figure.axes[0]) == [
        *("L2", "DRAM", "f32 multiply-adds", "d: 25 % of DRAM", "e: 25 % of DRAM"),
        *("at other memories", "to attainable"),
    ]


def test_several_launches_of_several_devices_share_legend_entries() -> None:
    launches = tuple(replace(LAUNCH, name=name, predicted=each) for name, each in (("a", 2e-2), ("b", 4e-2)))
    (ax,) = plot_roofline([replace(DATA, launches=launches), replace(OTHER, launches=launches)]).axes
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
    assert {name for name in marks([roofs, replace(OTHER, launches=(bound,))]) if "flop/s" in name} == {
        *("f32 multiply-adds, 4 Tflop/s, d", "special functions, 1 Tflop/s, d", "f32 multiply-adds, 9 Tflop/s, e")
    }
    equal = replace(DATA, peaks={"f32 multiply-adds": 4e12, "special functions": 1e12, "issue limit": 4e12})
    assert {name for name in marks(equal) if "flop/s" in name} == {
        *("f32 multiply-adds and issue limit, 4 Tflop/s", "special functions, 1 Tflop/s")
    }


def test_launch_without_flop_is_not_shown_but_roofs_are() -> None:
    copy = LaunchUnderRoofs("copy", flops=0, moved={"DRAM": 2e9}, seconds=1e-2, bound="DRAM")
    for launches in ((copy,), (copy, LAUNCH)):
        (ax,) = plot_roofline(replace(DATA, launches=launches)).axes
        assert len(points(ax, "full")) == len(launches) - 1
        assert in_legend(ax)[-1] == "not shown: 1 launch without floating-point operations"
        assert "DRAM, 200 GB/s" in in_legend(ax)


def test_rooflines_in_a_sequence_are_named_by_their_differences() -> None:
    for others, names in (
        ([{"sizes": {"n": 1}}, {"sizes": {"n": 2}}], ["k(n=1)", "k(n=2)"]),
        ([{"device": "d"}, {"device": "e"}], ["d", "e"]),
        ([{"kernel": "k"}, {"kernel": "l"}], ["k", "l"]),
        ([{}, {}], ["k, 1", "k, 2"]),
        ([{"kernel": "k"}, {"kernel": "l"}, {"kernel": "k", "device": "e"}], ["k on d", "l on d", "k on e"]),
    ):
        (ax,) = plot_roofline([replace(DATA, **each) for each in others]).axes
        assert [words for words in in_legend(ax) if "%" in words] == [f"{name}: 25 % of DRAM" for name in names]


def test_invalid_arguments_are_refused() -> None:
    for wrong in ("knl", ["knl"], {"a": "knl"}):
        with pytest.raises(ParameterError, match=r"expected Roofline from loopyperf.roofline, got str"):
            plot_roofline(wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="no roofline to plot"):
        plot_roofline([])
    with pytest.raises(ParameterError, match="must map each of slow, fast to seconds by launch, got 'k'"):
        plot_roofline({"slow": DATA, "fast": DATA}, measured={"k": 1.0})
    with pytest.raises(ParameterError, match="unknown launch 'another' in measured; launches: k"):
        plot_roofline(DATA, measured={"k": 2e-2, "another": 1.0})
    for seconds in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ParameterError, match=r"time of launch 'k' must be above 0 s, got "):
            plot_roofline(DATA, measured={"k": seconds})


@pytest.mark.parametrize("width", [3.4, 6.4])
@pytest.mark.parametrize("devices", [1, 3])
def test_five_launches_leave_room_for_the_axes(width: float, devices: int) -> None:
    launches = tuple(replace(LAUNCH, name=f"matmul_step_{number}") for number in range(5))
    peaks = {f"f{bits} multiply-adds": 1e12 * bits for bits in (16, 32, 64, 128)}
    every = {f"device-{n}": replace(DATA, device=f"{n}", launches=launches, peaks=peaks) for n in range(devices)}
    ax = Figure(figsize=(width, 4), layout="constrained").subplots()
    measured = {name: {"matmul_step_1": 1.0} for name in every}
    figure = plot_roofline(every, measured=measured, ax=ax) if devices > 1 else plot_roofline(every["device-0"], ax=ax)
    figure.draw_without_rendering()
    legend = ax.get_legend().get_window_extent()
    assert ax.bbox.height > 0.4 * figure.bbox.height
    assert ax.bbox.y1 - 1 <= legend.y0 < legend.y1 <= figure.bbox.y1
    assert 0 <= legend.x0 < legend.x1 <= figure.bbox.x1
