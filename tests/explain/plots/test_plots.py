"""Tests of charts over the occupancy, of groups and of benefits, and of the axes that all charts accept."""

import subprocess
import sys
from fractions import Fraction
from inspect import signature

import numpy as np
import pytest
from matplotlib.figure import Figure

from loopyperf.calibration.accuracy import Prediction
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.problem import Observation
from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import ParameterError
from loopyperf.explain import plots
from loopyperf.explain.plots import (
    plot_benefits,
    plot_breakdown,
    plot_groups,
    plot_mix,
    plot_over_occupancy,
    plot_predictions,
    plot_profile,
    plot_residuals,
    plot_roofline,
    plot_sizes,
    plot_weights,
)
from loopyperf.explain.roofline_chart import Roofline
from loopyperf.idg import Idg
from loopyperf.models.literature.gpuperf import Inputs, Parameters, analyse
from loopyperf.models.literature.gpuperf_advice import Advice
from loopyperf.models.result import Breakdown, Estimate
from loopyperf.pipeline import Execution, GroupTimes, execution_profile, group_times, simulate

POINTS = [(8, 2.0), (4, 1.0), (16, 2.5)]


def test_lines_are_sorted_by_warps_and_measured_points_share_the_color() -> None:
    figure = plot_over_occupancy(
        {"a": POINTS, "b": [(4, 3.0)]}, measured={"a": [(4, 1.1)]}, bounds={"alu": 4.0}, ylabel="Gflop/s"
    )
    (ax,) = figure.axes
    line, points, other, _, bound = ax.lines
    assert list(line.get_xdata()) == [4, 8, 16]
    assert list(line.get_ydata()) == [1.0, 2.0, 2.5]
    assert line.get_color() == points.get_color() != other.get_color()
    assert (points.get_linestyle(), points.get_fillstyle()) == ("None", "none")
    assert list(bound.get_ydata()) == [4.0, 4.0]
    # The line of the bound ends at the last tick, which leaves room for its label.
    assert list(ax.get_xticks())[-1] <= bound.get_xdata()[1] < ax.get_xlim()[1]
    assert [text.get_text() for text in ax.texts] == ["alu"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b", "measured"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("resident warps per core", "Gflop/s")


def test_measured_points_of_one_marker_differ_without_color() -> None:
    lines = {f"line {number}": POINTS for number in range(23)}
    (ax,) = plot_over_occupancy(lines, measured=lines, ylabel="Gflop/s").axes
    measured = [line for line in ax.lines if line.get_fillstyle() == "none" and len(line.get_xdata())]
    looks = {(line.get_marker(), line.get_linestyle()) for line in measured}
    assert len(looks) == 23
    assert [measured[number].get_linestyle() for number in (0, 11, 22)] == ["None", "--", "-."]


def test_coinciding_lines_are_merged_with_all_names() -> None:
    lines = {"a": POINTS, "b": POINTS[::-1], "c": [(4, 1.0), (8, 2.1), (16, 2.5)], "d": POINTS}
    (ax,) = plot_over_occupancy(lines, ylabel="runs/s").axes
    assert [line.get_label() for line in ax.lines] == ["a, b, d", "c"]
    assert all(float(tick).is_integer() for tick in ax.get_xticks())
    (ax,) = plot_over_occupancy(lines, measured={"d": POINTS}, ylabel="runs/s").axes
    assert [line.get_label() for line in ax.lines if line.get_linestyle() != "None"] == ["a, b", "c", "d"]


def test_given_units_have_no_prefix_on_the_axis() -> None:
    thousands = [(warps, 1000 * found) for warps, found in POINTS]
    (ax,) = plot_over_occupancy({"a": thousands}, ylabel="bandwidth (GB/s)").axes
    ax.figure.canvas.draw()
    assert {label.get_text() for label in ax.get_yticklabels()} >= {"1,000", "2,000"}


@pytest.mark.parametrize("names", [8, 12])
def test_legend_of_many_short_names_is_no_wider_than_the_figure(names: int) -> None:
    figure = plot_over_occupancy({f"load b{number}": [(4, number), (8, 2)] for number in range(names)}, ylabel="runs/s")
    figure.draw_without_rendering()
    legend = figure.axes[0].get_legend().get_window_extent()
    assert 0 <= legend.x0 < legend.x1 <= figure.bbox.width


def test_measurements_without_predictions_are_drawn() -> None:
    (ax,) = plot_over_occupancy({}, measured={"a": POINTS}, ylabel="runs/s").axes
    assert [list(line.get_xdata()) for line in ax.lines] == [[4, 8, 16]]


def bars(figure: Figure) -> list[tuple[float, ...]]:
    """Return x, y, width and height of the bars of *figure*."""
    return [each.get_bbox().bounds for each in figure.axes[0].patches]


def test_groups_are_bars_from_start_to_finish() -> None:
    graph = Idg.from_edges(["alu", "alu"], [(0, 1)])
    found = simulate(graph, {"alu": Lambdas(1, 18)}, Execution(1, 1, 2))
    times = group_times(found, [Fraction(1, 2)])
    assert bars(plot_groups({each.group: each for each in times})) == bars(plot_groups(times))
    (ax,) = plot_groups(times).axes
    assert [(bar.get_x(), bar.get_width()) for bar in ax.patches] == [(0, 36), (36, 36)]
    assert [bar.get_y() + bar.get_height() / 2 for bar in ax.patches] == [0, 1]
    (reached,) = ax.lines
    assert list(reached.get_xdata()) == [0, 36]


@pytest.mark.parametrize(("number", "height"), [(20, 0.9), (100, 1.0)])
def test_bars_of_groups_have_gaps_if_there_is_room(number: int, height: float) -> None:
    figure = plot_groups([GroupTimes(group, Fraction(0), (), Fraction(9)) for group in range(number)])
    assert {round(bounds[3], 9) for bounds in bars(figure)} == {height}
    narrow, *_ = Figure(figsize=(4, 4)).subplots(5, 1)
    plot_groups([GroupTimes(group, Fraction(0), (), Fraction(9)) for group in range(20)], ax=narrow)
    assert {bar.get_height() for bar in narrow.patches} == {1}


def test_kernel_is_a_solid_point_and_its_ideal_a_hollow_one() -> None:
    # Memory time is hidden: T'mem = 0. At 1 GHz, a million cycles are a millisecond.
    numbers = {"sync_insts": 0, "sfu_insts": 0, "fp_insts": 50, "total_warps": 14 * 10_000, "active_sms": 14, "n": 48}
    found = analyse(Inputs(insts=100, mem_insts=0, **numbers), Parameters(freq=1e9))
    advice = Advice("k", 1e9, found, ())
    (ax,) = plot_benefits({"k": advice}).axes
    (alone,) = plot_benefits(advice).axes
    assert [line.get_xydata().tolist() for line in alone.lines] == [line.get_xydata().tolist() for line in ax.lines]
    with pytest.raises(ParameterError, match=r"expected Advice from loopyperf.advise, got str"):
        plot_benefits({"k": "advice"})  # type: ignore[dict-item]
    between, hidden, whole, solid, hollow, diagonal, *_ = ax.lines
    assert (list(whole.get_xdata()), list(whole.get_ydata())) == ([0.0], [1.0])
    assert list(hidden.get_ydata()) == [1.0, 1.0]
    assert (list(solid.get_xdata()), list(solid.get_ydata())) == ([0.0], [1.0])
    assert (list(hollow.get_xdata()), list(hollow.get_ydata())) == ([0.0], [0.5])
    assert list(between.get_ydata()) == [1.0, 0.5]
    assert list(diagonal.get_ydata()) == [0, 1.0]
    assert (solid.get_fillstyle(), hollow.get_fillstyle()) == ("full", "none")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["k", "without overlap", "ideal"]
    # The texts above and below the diagonal do not cover points.
    figure = ax.figure
    figure.draw_without_rendering()
    above, below = (text.get_window_extent() for text in ax.texts)
    highest = max(ax.transData.transform((0, y))[1] for line in ax.lines for y in line.get_ydata())
    assert below.y1 < ax.transData.transform((0, 0))[1] < highest < above.y0


FIT = Fit(model="linear", device="D", slug="d", counting="executed", weights={"adds": 1.0})
LOADED = Idg.from_edges(["alu", "mem"], [(0, 1)])
TIMING = {"alu": Lambdas(1, 4), "mem": Lambdas(2, 6)}
NOTHING = Estimate("k", {}, "d", "m", "executed", 0.0, Breakdown(()))
ONES = Estimate("k", {"n": np.ones(1)}, "d", "m", "executed", np.ones(1), Breakdown(()))
DRAWN = {
    "plot_benefits": lambda **of: plot_benefits({}, **of),
    "plot_breakdown": lambda **of: plot_breakdown(NOTHING, **of),
    "plot_groups": lambda **of: plot_groups({}, **of),
    "plot_mix": lambda **of: plot_mix({}, **of),
    "plot_over_occupancy": lambda **of: plot_over_occupancy({}, ylabel="Gflop/s", **of),
    "plot_predictions": lambda **of: plot_predictions([Prediction("k", {}, 1.0, 1.0)], **of),
    "plot_profile": lambda **of: plot_profile(execution_profile(simulate(LOADED, TIMING, Execution(1, 1, 1))), **of),
    "plot_residuals": lambda **of: plot_residuals([Observation("a", "x", {}, {"adds": 1}, 1.0)], FIT, "adds", **of),
    "plot_roofline": lambda **of: plot_roofline(Roofline("k", {}, "d", {}, {}, (), ()), **of),
    "plot_sizes": lambda **of: plot_sizes(ONES, "n", **of),
    "plot_weights": lambda **of: plot_weights({"D": FIT}, ["adds"], **of),
}
"""all plots except the residual panels, which create a figure with an axes for each column"""


def test_every_plot_except_the_panels_accepts_axes() -> None:
    taking = {name for name in plots.__all__ if "ax" in signature(getattr(plots, name)).parameters}
    assert taking == set(DRAWN) == set(plots.__all__) - {"plot_residual_panels"}


@pytest.mark.parametrize("name", DRAWN)
def test_plots_use_the_given_axes(name: str) -> None:
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert DRAWN[name](ax=right) is figure
    assert right.get_xlabel()
    assert not left.get_xlabel()


def test_points_without_a_unit_are_refused() -> None:
    with pytest.raises(ParameterError, match="ylabel='Gflop/s'"):
        plot_over_occupancy({"a": POINTS})


def test_plot_in_a_subfigure_returns_the_whole_figure() -> None:
    figure = Figure()
    (part,) = figure.subfigures(1, 1, squeeze=False).flat
    assert plot_groups({}, ax=part.subplots()) is figure


def test_error_without_matplotlib_names_the_extra() -> None:
    lines = "import sys; sys.modules['matplotlib'] = None; import loopyperf.explain.plots"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("pip install 'loopyperf[plots]'")
