"""Tests of charts that compare kernels or devices."""

from fractions import Fraction

import numpy as np
import pytest
from matplotlib.figure import Figure

from loopyperf.calibration.accuracy import Uncertainty
from loopyperf.calibration.fits import Fit
from loopyperf.errors import IncompatibleRunsError, ParameterError
from loopyperf.explain.plots import plot_mix, plot_over_occupancy, plot_weights
from loopyperf.idg.parallelism import InstructionMix
from loopyperf.predict.compare import OccupancyComparison


def shares(figure: Figure) -> dict[str, list[tuple[float, float]]]:
    """Return class -> start and width of its part of each kernel's bar, in percent."""
    (ax,) = figure.axes
    return {
        bars.get_label(): [(bar.get_x(), bar.get_width()) for bar in bars] for bars in ax.containers
    }  # fmt: skip


def test_classes_are_stacked_shares_of_all_instructions() -> None:
    figure = plot_mix({"a": {("fma", "f32"): 3, ("load", "b32"): 1}, "b": {("load", "b32"): Fraction(1, 2)}})
    assert shares(figure) == {"load b32": [(0, 25), (0, 100)], "fma f32": [(25, 75), (100, 0)]}
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a (4)", "b (0.5)"]
    assert (ax.get_xlabel(), ax.get_xlim()) == ("instructions (%)", (0, 100))


def test_instruction_mix_of_the_papers_has_three_classes() -> None:
    found = shares(plot_mix({"a": InstructionMix(computation=6, memory=3, synchronization=1)}))
    assert found == {"computation": [(0, 60)], "memory": [(60, 30)], "synchronization": [(90, 10)]}


def test_rare_classes_are_merged() -> None:
    found = shares(plot_mix({"a": {"alu": 5, "sfu": 3, "fp64": 1, "local": 1}}, most=2))
    assert found == {"alu": [(0, 50)], "sfu": [(50, 30)], "others": [(80, 20)]}


def test_twenty_classes_are_distinct_without_color() -> None:
    (ax,) = plot_mix({"a": {f"class {number}": 1 for number in range(20)}}, most=20).axes
    assert len({bar.get_hatch() for bar in ax.patches}) == 20


def test_kernel_without_instructions_has_no_bar() -> None:
    (ax,) = plot_mix({"a": {}}).axes
    assert not ax.patches
    assert plot_mix({}).axes[0].get_xlabel() == "instructions (%)"


@pytest.mark.parametrize("mixes", [{("fma", "f32"): 3}, InstructionMix(computation=6, memory=3, synchronization=1)])
def test_mix_without_a_kernel_name_is_refused(mixes: object) -> None:
    with pytest.raises(ParameterError, match=r"results of loopyperf.idg.Idg.mix, got (int|InstructionMix)"):
        plot_mix(mixes)  # type: ignore[arg-type]


UNCERTAIN = Uncertainty(tuple(np.arange(1, 100) / 100), ("adds", "loads"), ((4.0, 0, 0), (0, 1.0, 0), (0, 0, 9.0)))
"""the 80th of the 99 scores is 0.8"""


def fit(**weights: float) -> Fit:
    uncertainty = UNCERTAIN if set(weights) == {"adds", "loads"} else None
    return Fit(model="linear", device="", slug="", counting="executed", weights=weights, uncertainty=uncertainty)


def test_weights_by_device_have_error_bars_from_the_covariance() -> None:
    (ax,) = plot_weights({"A": fit(adds=5.0, loads=0.5), "B": fit(adds=-2.0)}, ["adds", "loads"]).axes
    points = [
        (line.get_xdata()[0], line.get_fillstyle()) for line in ax.lines if len(line.get_xdata()) == 1
    ]  # fmt: skip
    assert points == [(5.0, "full"), (0.5, "full"), (2.0, "none")]
    bars = [tuple(line.get_xdata()) for line in ax.lines if len(line.get_xdata()) == 2]
    # 5 ± 0.8·√4, and 0.5 ± 0.8·√1, which includes 0 and therefore reaches the end of the axis.
    assert bars == [pytest.approx((3.4, 6.6)), pytest.approx((ax.get_xlim()[0], 1.3))]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "A",
        "B",
        "negative (magnitude shown)",
        "80 % interval",
    ]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["adds", "loads"]
    assert (ax.get_xlabel(), ax.get_xscale()) == ("weight (s per unit)", "log")


def test_weight_of_0_is_the_marker_of_its_device_on_the_frame() -> None:
    (ax,) = plot_weights({"A": fit(adds=1.0), "B": fit(adds=0.0)}, ["adds"]).axes
    _, _, nothing, named = ax.lines[:4]
    assert nothing.get_xdata()[0] == ax.get_xlim()[0]
    assert nothing.get_marker() == named.get_marker()
    assert named.get_label() == "B"
    assert "on the frame: weight 0" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_incomparable_weights_are_refused() -> None:
    pipelines = Fit(model="overlap", basis="pipelines", device="", slug="", counting="executed", weights={"adds": 1.0})
    with pytest.raises(IncompatibleRunsError, match="B: overlap, pipelines, executed"):
        plot_weights({"A": fit(adds=1.0), "B": pipelines}, ["adds"])
    with pytest.raises(ParameterError, match="no fit has a weight for 'barriers'; choose from adds"):
        plot_weights({"A": fit(adds=1.0)}, ["barriers"])


def test_plot_over_occupancy_takes_an_occupancy_comparison() -> None:
    seconds = {"volkov": np.array([2e-3, 1e-3]), "roofline": np.array([1e-3, 1e-3])}
    compared = OccupancyComparison("k", {"n": 1}, "d", (1, 2), (8, 16), seconds, {})
    (ax,) = plot_over_occupancy(compared, measured={"volkov": [(8, 400.0)]}).axes
    volkov, measured, roofline, _ = ax.lines
    assert (list(volkov.get_xdata()), list(volkov.get_ydata())) == ([8, 16], [500, 1000])
    assert list(roofline.get_ydata()) == [1000, 1000]
    assert list(measured.get_ydata()) == [400]
    assert ax.get_ylabel() == "performance (runs/s)"


def test_legend_is_above_the_axes() -> None:
    figure = Figure(figsize=(3.4, 3), layout="constrained")
    ax = figure.subplots()
    lines = {f"model number {number}": [(1, 1.0), (2, 2.0)] for number in range(12)}
    plot_over_occupancy(lines, ylabel="Gflop/s", ax=ax)
    figure.draw_without_rendering()
    legend, inside = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert legend.y0 >= inside.y1 - 1
    assert 0 <= legend.x0 < legend.x1 <= figure.bbox.x1
    assert legend.y1 <= figure.bbox.y1


def test_long_legend_leaves_room_for_a_narrow_chart() -> None:
    figure = Figure(figsize=(4, 3), layout="constrained")
    ax = figure.subplots()
    lines = {f"stride-{number} filled global access": [(1, 1.0 * number)] for number in range(20)}
    plot_over_occupancy(lines, ylabel="GB/s", ax=ax)
    figure.draw_without_rendering()
    assert ax.get_window_extent().height > 0.28 * figure.bbox.height
