"""Tests of charts over the occupancy and of groups, and of the axes and legends of all charts."""

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from matplotlib.figure import Figure

from loopyperf.calibration.accuracy import Prediction
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.problem import Observation
from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import ParameterError
from loopyperf.explain import plots
from loopyperf.explain.plots.figures import styles
from loopyperf.explain.roofline_chart import Roofline
from loopyperf.idg import Idg
from loopyperf.models.result import Breakdown, Estimate
from loopyperf.pipeline import Execution, execution_profile, group_times, simulate
from loopyperf.predict.compare import OccupancyComparison

POINTS = [(8, 2.0), (4, 1.0), (16, 2.5)]


def test_lines_are_sorted_by_warps_and_measured_points_share_the_style() -> None:
    figure = plots.plot_over_occupancy(
        {"a": POINTS, "b": [(4, 3.0)]},
        measured={"a": [(4, 1.1)], "c": POINTS},
        bounds={"alu": 4.0},
        ylabel="Gflop/s",
    )
    (ax,) = figure.axes
    line, points, other, alone, _, bound = ax.lines
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([4, 8, 16], [1.0, 2.0, 2.5])
    assert list(alone.get_xdata()) == [4, 8, 16]
    assert (line.get_color(), line.get_marker()) == (points.get_color(), points.get_marker())
    assert line.get_color() != other.get_color()
    # Coinciding lines are visible below later ones.
    assert line.get_linewidth() > other.get_linewidth()
    assert (points.get_linestyle(), points.get_fillstyle()) == ("None", "none")
    assert list(bound.get_ydata()) == [4.0, 4.0]
    assert ax.get_legend_handles_labels()[1] == ["a", "b", "c, measured", "measured", "alu"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("resident warps per core", "Gflop/s")


def test_performance_of_an_occupancy_comparison_is_in_runs_per_second() -> None:
    seconds = {"volkov": np.array([2e-3, 1e-3]), "roofline": np.array([1e-3, 1e-3])}
    compared = OccupancyComparison("k", {"n": 1}, "d", (1, 2), (8, 16), seconds, {})
    (ax,) = plots.plot_over_occupancy(compared, measured={"volkov": [(8, 400.0)]}).axes
    volkov, measured, roofline, _ = ax.lines
    assert (list(volkov.get_xdata()), list(volkov.get_ydata())) == ([8, 16], [500, 1000])
    assert list(roofline.get_ydata()) == [1000, 1000]
    assert list(measured.get_ydata()) == [400]
    assert ax.get_ylabel() == "performance (runs/s)"


def test_given_units_have_no_prefix_and_must_be_given() -> None:
    (ax,) = plots.plot_over_occupancy({"a": [(4, 1000.0), (8, 2000.0)]}, ylabel="bandwidth (GB/s)").axes
    ax.figure.draw_without_rendering()
    assert {label.get_text() for label in ax.get_yticklabels()} >= {"1,000", "2,000"}
    with pytest.raises(ParameterError, match="ylabel='Gflop/s'"):
        plots.plot_over_occupancy({"a": POINTS})


def test_groups_are_bars_from_start_to_finish() -> None:
    graph = Idg.from_edges(["alu", "alu"], [(0, 1)])
    times = group_times(simulate(graph, {"alu": Lambdas(1, 18)}, Execution(1, 1, 2)), [Fraction(1, 2)])
    for given in (times, {each.group: each for each in times}):
        (ax,) = plots.plot_groups(given).axes
        assert [(bar.get_x(), bar.get_width()) for bar in ax.patches] == [(0, 36), (36, 36)]
        assert [bar.get_y() + bar.get_height() / 2 for bar in ax.patches] == [0, 1]
        assert list(ax.lines[0].get_xdata()) == [0, 36]
        assert ax.yaxis_inverted()


FIT = Fit(model="linear", device="D", slug="d", counting="executed", weights={"adds": 1.0})
SIMULATED = simulate(
    Idg.from_edges(["alu", "mem"], [(0, 1)]), {"alu": Lambdas(1, 4), "mem": Lambdas(2, 6)}, Execution(1, 1, 1)
)
NOTHING = Estimate("k", {}, "d", "m", "executed", 0.0, Breakdown(()))
ONES = Estimate("k", {"n": np.ones(1)}, "d", "m", "executed", np.ones(1), Breakdown(()))
DRAWN = {
    "plot_breakdown": lambda **of: plots.plot_breakdown(NOTHING, **of),
    "plot_groups": lambda **of: plots.plot_groups({}, **of),
    "plot_over_occupancy": lambda **of: plots.plot_over_occupancy({}, ylabel="Gflop/s", **of),
    "plot_predictions": lambda **of: plots.plot_predictions([Prediction("k", {}, 1.0, 1.0)], **of),
    "plot_profile": lambda **of: plots.plot_profile(execution_profile(SIMULATED), **of),
    "plot_residuals": lambda **of: plots.plot_residuals(
        [Observation("a", "x", {}, {"adds": 1}, 1.0)], FIT, "adds", **of
    ),
    "plot_roofline": lambda **of: plots.plot_roofline(Roofline("k", {}, "d", {}, {}, (), ()), **of),
    "plot_sizes": lambda **of: plots.plot_sizes(ONES, "n", **of),
}


@pytest.mark.parametrize("name", plots.__all__)
def test_plots_use_the_given_axes_or_a_new_figure(name: str) -> None:
    figure = Figure()
    left, right = figure.subfigures(1, 2)
    assert DRAWN[name](ax=right.subplots()) is figure
    assert right.axes[0].get_xlabel()
    assert not left.axes
    (ax,) = DRAWN[name]().axes
    assert ax.get_xlabel() == right.axes[0].get_xlabel()


@pytest.mark.parametrize("width", [3.4, 6.4])
def test_legend_is_above_the_axes_and_within_the_figure(width: float) -> None:
    figure = Figure(figsize=(width, 4), layout="constrained")
    ax = figure.subplots()
    lines = {f"stride-{each} filled global access with a $long name": POINTS for each in range(12)}
    plots.plot_over_occupancy(lines, ylabel="Gflop/s", ax=ax).draw_without_rendering()
    legend = ax.get_legend().get_window_extent()
    assert ax.bbox.y1 - 1 <= legend.y0 < legend.y1 <= figure.bbox.y1
    assert 0 <= legend.x0 < legend.x1 <= figure.bbox.x1


def test_new_figure_grows_by_its_legend() -> None:
    few, many = (
        plots.plot_over_occupancy({f"line {each}": POINTS for each in range(n)}, ylabel="GB/s") for n in (2, 90)
    )
    for figure in (few, many):
        figure.draw_without_rendering()
    assert many.get_figheight() > few.get_figheight() + 1
    assert many.axes[0].bbox.height == pytest.approx(few.axes[0].bbox.height, rel=0.05)


def test_ninety_series_differ_in_color_or_marker() -> None:
    looks = {(int(style["color"].removeprefix("C")) % 10, style["marker"]) for style in styles(90)}
    assert len(looks) == 90


def test_error_without_matplotlib_names_the_extra() -> None:
    lines = "import sys; sys.modules['matplotlib'] = None; import loopyperf.explain.plots"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("pip install 'loopyperf[plots]'")
