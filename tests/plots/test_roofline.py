"""The roofline chart: slopes, levels and points are those of its data."""

import pytest
from matplotlib.figure import Figure

from loopyperf.models.on_device.roofs import LaunchUnderRoofs, Roofline
from loopyperf.plots import plot_roofline

LAUNCH = LaunchUnderRoofs("k", flops=1e9, moved={"L2": 4e9, "DRAM": 2e9}, seconds=1e-2, bound="DRAM")
DATA = Roofline("k", {}, "d", {"L2": 1e12, "DRAM": 2e11}, {"f32 multiply-adds": 4e12}, (LAUNCH,), ())


def test_slopes_rise_to_the_highest_level_and_points_stand_at_their_intensities() -> None:
    (ax,) = plot_roofline(DATA).axes
    l2, dram, level, between, nearer, farthest, _ = ax.lines
    for slope, bandwidth in ((l2, 1e12), (dram, 2e11)):
        x, y = slope.get_xdata(), slope.get_ydata()
        assert [up / across for across, up in zip(x, y, strict=True)] == pytest.approx([bandwidth] * 2)
        assert y[1] == 4e12
    # The level begins where the steepest slope ends: 4e12 flop/s by 1e12 B/s.
    assert list(level.get_ydata()) == [4e12, 4e12]
    assert level.get_xdata()[0] == pytest.approx(4.0)
    # 1e9 flop in 10 ms, over 2e9 and 4e9 bytes.
    assert (list(farthest.get_xdata()), list(farthest.get_ydata())) == ([0.5], [1e11])
    assert (list(nearer.get_xdata()), list(nearer.get_ydata())) == ([0.25], [1e11])
    assert (farthest.get_fillstyle(), nearer.get_fillstyle()) == ("full", "none")
    assert list(between.get_xdata()) == [0.25, 0.5]
    assert [text.get_text() for text in ax.texts] == ["f32 multiply-adds, 4 Tflop/s"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "L2, 1 TB/s",
        "DRAM, 200 GB/s",
        "k, bound: DRAM",
        "by nearer memories",
    ]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("intensity (flop/B)", "performance (flop/s)")
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")


def test_a_measured_time_is_a_cross_below_what_is_attainable() -> None:
    (ax,) = plot_roofline(DATA, measured={"k": 2e-2, "another": 1.0}).axes
    (cross,) = [line for line in ax.lines if line.get_marker() == "x"]
    assert (list(cross.get_xdata()), list(cross.get_ydata())) == ([0.5], [5e10])


def test_a_launch_without_flop_has_no_place_and_roofs_have() -> None:
    copy = LaunchUnderRoofs("copy", flops=0, moved={"DRAM": 2e9}, seconds=1e-2, bound="DRAM")
    (ax,) = plot_roofline(Roofline("k", {}, "d", DATA.bandwidths, DATA.peaks, (copy,), ())).axes
    assert len(ax.lines) == 3


def test_in_a_narrow_column_levels_have_no_numbers() -> None:
    ax = Figure(figsize=(3.4, 3)).subplots()
    plot_roofline(DATA, ax=ax)
    assert [text.get_text() for text in ax.texts] == ["f32 multiply-adds"]
