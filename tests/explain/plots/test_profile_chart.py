"""Tests of the timeline of a core: its areas are the stalls and the busy times of the profile."""

from functools import cache
from itertools import pairwise

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import ParameterError
from loopyperf.explain.plots import plot_profile
from loopyperf.explain.plots.plot_profile import WINDOW
from loopyperf.idg import Idg
from loopyperf.pipeline import Execution, execution_profile, simulate
from loopyperf.pipeline.profiling import Profile


def profile(groups: int = 1, **options) -> Profile:
    """Return the profile of two warps with an addition and a dependent load: λ = 1 and 2, Λ = 4 and 6."""
    graph = Idg.from_edges(["alu", "mem"], [(0, 1)])
    timing = {"alu": Lambdas(1, 4), "mem": Lambdas(2, 6)}
    return execution_profile(simulate(graph, timing, Execution(2, 1, groups), **options))


def areas(ax) -> dict[str, list[tuple[float, float, float]]]:
    """Return label -> row, start and end of its areas; areas of the same style and row are one collection."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    look: dict[tuple, str] = {}
    for each in ax.collections:
        key = (tuple(each.get_facecolor()[0]), each.get_hatch())
        if not each.get_label().startswith("_"):
            look[key] = each.get_label()
        for path in each.get_paths():
            (left, low), (right, high) = path.vertices.min(axis=0), path.vertices.max(axis=0)
            found.setdefault(look[key], []).append((round((low + high) / 2), left, right))
    return {label: sorted(pieces) for label, pieces in found.items()}


def test_rows_show_stalls_of_warps_and_busy_times_of_subsystems() -> None:
    (ax,) = plot_profile(profile()).axes
    # Additions issue at 0 and 1, loads at 4 and 6: warp 1 waits for its operand until 5, then for mem until 6.
    assert areas(ax) == {
        "dependency": [(0, 0, 4), (1, 1, 5)],
        "subsystem busy": [(1, 0, 1), (1, 5, 6)],
        "subsystem in use": [(2, 0, 1), (3, 4, 6)],
        "by the next instruction": [(2, 1, 2), (3, 6, 8)],
    }
    issues, named = (line for line in ax.lines if line.get_marker() == "|")
    assert named.get_label() == "issue"
    assert sorted(zip(issues.get_xdata(), issues.get_ydata(), strict=True)) == [(0, 0), (1, 1), (4, 0), (6, 1)]
    names = [text.get_text() for text in ax.get_yticklabels()]
    # Complete after 6 + 6 cycles, for 2 of which alu is busy, and mem for 4.
    assert names == ["warp 0", "warp 1", "alu, 17 % busy", "mem, 33 % busy"]
    assert ax.get_xlabel() == "time (cycles)"
    assert ax.get_xlim() == (0, 12)


def test_window_shows_only_the_warps_in_it() -> None:
    whole = profile(groups=3)
    (ax,) = plot_profile(whole, begin=13, end=20).axes
    assert ax.get_xlim() == (13, 20)
    assert "warp 0" not in [text.get_text() for text in ax.get_yticklabels()]
    with pytest.raises(ParameterError, match="from 20 to 13 cycles"):
        plot_profile(whole, begin=20, end=13)


@cache
def long_profile() -> Profile:
    return profile(groups=100_000)


@pytest.mark.parametrize("width", [2.0, 3.4, 6.4])
def test_tick_labels_of_the_time_do_not_overlap_and_are_not_cut(width: float) -> None:
    figure = Figure(figsize=(width, 3))
    ax = figure.subplots()
    # The cycle numbers in the middle of a long run have many digits.
    long = long_profile()
    plot_profile(long, begin=float(long.cycles) // 2, ax=ax)
    FigureCanvasAgg(figure).draw()
    boxes = [text.get_window_extent() for text in ax.get_xticklabels() if text.get_text() and text.get_visible()]
    boxes = sorted((box for box in boxes if box.width), key=lambda box: box.x0)
    assert boxes
    assert all(one.x1 < other.x0 for one, other in pairwise(boxes))
    assert boxes[-1].x1 <= figure.bbox.width


@pytest.mark.parametrize(("begin", "end"), [(100, 104), (300, 341), (0, 250), (3_000, 3_003)])
def test_tick_labels_of_the_time_are_round_and_without_offset(begin: int, end: int) -> None:
    (ax,) = plot_profile(profile(groups=1_000), begin=begin, end=end).axes
    ax.figure.draw_without_rendering()
    numbers = [text.get_text() for text in ax.get_xticklabels() if begin <= text.get_position()[0] <= end]
    assert ax.xaxis.get_offset_text().get_text() == ""
    steps = {later - now for now, later in pairwise(map(int, numbers))}
    assert len(steps) == 1
    assert str(steps.pop()).rstrip("0") in {"1", "2", "5"}


def test_middle_of_a_long_run_is_shown_unless_a_window_is_given() -> None:
    long = profile(groups=200)
    cycles = float(long.cycles)
    assert cycles > 2 * WINDOW
    (ax,) = plot_profile(long).axes
    begin, end = ax.get_xlim()
    assert end - begin == WINDOW
    assert begin + end == pytest.approx(cycles, abs=2)
    assert plot_profile(long, begin=0).axes[0].get_xlim() == (0, WINDOW)
    assert plot_profile(long, end=100).axes[0].get_xlim() == (0, 100)


SUBSYSTEMS = [f"{name} {number}" for name in ("alu", "control", "integer", "fp64") for number in range(4)] + ["mem"]


def profile_of_chain(warps: int, subsystems: list[str]) -> Profile:
    """Return the profile of *warps* warps that use all *subsystems*, one after another."""
    graph = Idg.from_edges(subsystems, [(place, place + 1) for place in range(len(subsystems) - 1)])
    return execution_profile(simulate(graph, dict.fromkeys(subsystems, Lambdas(1, 4)), Execution(warps, 1, 1)))


@pytest.mark.parametrize("size", [(6.4, 4.0), (3.3, 2.8)])
@pytest.mark.parametrize("warps", [2, 64])
def test_warps_have_half_of_the_height_with_seventeen_subsystems(warps: int, size: tuple[float, float]) -> None:
    ax = Figure(figsize=size, layout="constrained").subplots()
    plot_profile(profile_of_chain(warps, SUBSYSTEMS), ax=ax)
    bottom, top = ax.get_ylim()
    assert warps / (bottom - top) >= 0.5
    rows = {(low, high) for each in ax.collections for low, high in extents(each) if low > warps - 0.5}
    # All seventeen subsystems have a row, and rows do not overlap.
    ordered = sorted(rows)
    assert len(ordered) == 17
    assert all(above[1] < below[0] for above, below in pairwise(ordered))


def extents(collection) -> set[tuple[float, float]]:
    """Return the vertical extents of the areas."""
    return {(path.vertices[:, 1].min(), path.vertices[:, 1].max()) for path in collection.get_paths()}


def test_subsystems_share_a_label_if_there_is_no_room() -> None:
    ax = Figure(figsize=(3.3, 2.8), layout="constrained").subplots()
    plot_profile(profile_of_chain(64, SUBSYSTEMS), ax=ax)
    names = [text.get_text().split(",")[0] for text in ax.get_yticklabels()]
    assert [name for name in names if not name.startswith("warp")] == [
        "4 × alu",
        "4 × control",
        "4 × integer",
        "4 × fp64",
        "mem",
    ]


def test_unused_subsystems_are_listed_and_have_no_row() -> None:
    (ax,) = plot_profile(profile_of_chain(2, SUBSYSTEMS), end=4).axes
    # The second instruction of the first warp is issued at 4.
    names = [text.get_text().split(",")[0] for text in ax.get_yticklabels()]
    assert names == ["warp 0", "warp 1", "alu 0"]
    unused = "not used: 3 × alu, 4 × control, 4 × integer, 4 × fp64, mem"
    assert " ".join(ax.get_legend().get_title().get_text().split()) == unused
    (ax,) = plot_profile(profile_of_chain(2, [f"subsystem called {letter}" for letter in "abcdef"]), end=4).axes
    assert ax.get_legend().get_title().get_text() == "not used: 5 subsystems"
    (ax,) = plot_profile(profile()).axes
    assert not ax.get_legend().get_title().get_text()


def test_labels_of_rows_do_not_overlap(subtests: pytest.Subtests) -> None:
    for size in [(3.3, 2.8), (4, 3), (9, 5.6)]:
        for warps in [10, 64]:
            for subsystems in [["alu", "mem"], SUBSYSTEMS]:
                with subtests.test(size=size, warps=warps, subsystems=len(subsystems)):
                    figure = Figure(figsize=size, layout="constrained")
                    ax = figure.subplots()
                    plot_profile(profile_of_chain(warps, subsystems), ax=ax)
                    figure.draw_without_rendering()
                    boxes = sorted((text.get_window_extent() for text in ax.get_yticklabels()), key=lambda box: box.y0)
                    assert len(boxes) > 5
                    # Letters do not fill the height of their line.
                    assert all(above.y0 - below.y1 > -0.1 * below.height for below, above in pairwise(boxes))
