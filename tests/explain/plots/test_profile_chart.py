"""Tests of the timeline of a core: its areas are the stalls and the busy times of the profile."""

from itertools import pairwise

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import ParameterError
from loopyperf.explain.plots import plot_profile
from loopyperf.explain.plots.plot_profile import WINDOW
from loopyperf.idg import Idg
from loopyperf.pipeline import Execution, execution_profile, simulate
from loopyperf.pipeline.profiling import Profile


def profile(groups: int = 1) -> Profile:
    """Return the profile of two warps with an addition and a dependent load: λ = 1 and 2, Λ = 4 and 6."""
    graph = Idg.from_edges(["alu", "mem"], [(0, 1)])
    return execution_profile(simulate(graph, {"alu": Lambdas(1, 4), "mem": Lambdas(2, 6)}, Execution(2, 1, groups)))


def areas(ax: Axes) -> dict[str, list[tuple[float, float, float]]]:
    """Return label -> row, start and end of its areas; areas of the same color and row are one collection."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    labels: dict[tuple[float, ...], str] = {}
    for each in ax.collections:
        color = tuple(each.get_facecolor()[0])
        if not each.get_label().startswith("_"):
            labels[color] = each.get_label()
        for path in each.get_paths():
            (left, low), (right, high) = path.vertices.min(axis=0), path.vertices.max(axis=0)
            found.setdefault(labels[color], []).append((round((low + high) / 2), left, right))
    return {label: sorted(pieces) for label, pieces in found.items()}


def row_names(ax: Axes) -> list[str]:
    return [text.get_text() for text in ax.get_yticklabels()]


def test_rows_show_stalls_of_warps_and_busy_times_of_subsystems() -> None:
    (ax,) = plot_profile(profile()).axes
    # Additions issue at 0 and 1, loads at 4 and 6: warp 1 waits for its operand until 5, then for mem until 6.
    assert areas(ax) == {
        "dependency": [(0, 0, 4), (1, 1, 5)],
        "pipeline busy": [(1, 0, 1), (1, 5, 6)],
        "subsystem in use": [(2, 0, 1), (3, 4, 6)],
        "by the next instruction": [(2, 1, 2), (3, 6, 8)],
    }
    (issues,) = (line for line in ax.lines if line.get_label() == "issue")
    assert sorted(zip(issues.get_xdata(), issues.get_ydata(), strict=True)) == [(0, 0), (1, 1), (4, 0), (6, 1)]
    # Complete after 6 + 6 cycles, for 2 of which alu is busy, and mem for 4.
    assert row_names(ax) == ["warp 0", "warp 1", "alu, 17 % busy", "mem, 33 % busy"]
    assert (ax.get_xlabel(), ax.get_xlim()) == ("time (cycles)", (0, 12))


def test_window_shows_only_the_warps_and_subsystems_in_it() -> None:
    (ax,) = plot_profile(profile(groups=3), begin=13, end=20).axes
    assert ax.get_xlim() == (13, 20)
    assert "warp 0" not in row_names(ax)
    # The first load is issued at 4.
    assert [name.split(",")[0] for name in row_names(plot_profile(profile(), end=4).axes[0])] == [
        "warp 0",
        "warp 1",
        "alu",
    ]
    with pytest.raises(ParameterError, match="from 20 to 13 cycles"):
        plot_profile(profile(), begin=20, end=13)
    with pytest.raises(ParameterError, match=r"expected Profile from loopyperf.pipeline.profile_of"):
        plot_profile("profile")  # type: ignore[arg-type]


def test_middle_of_a_long_run_is_shown_unless_a_window_is_given() -> None:
    long = profile(groups=200)
    assert float(long.cycles) > 2 * WINDOW
    begin, end = plot_profile(long).axes[0].get_xlim()
    assert end - begin == WINDOW
    assert begin + end == pytest.approx(float(long.cycles), abs=2)
    assert plot_profile(long, begin=0).axes[0].get_xlim() == (0, WINDOW)
    assert plot_profile(long, end=100).axes[0].get_xlim() == (0, 100)


@pytest.mark.parametrize("size", [(6.4, 4.0), (3.4, 3.0)])
@pytest.mark.parametrize("warps", [10, 64])
def test_seventeen_subsystems_have_rows_of_their_own_but_share_labels(warps: int, size: tuple[float, float]) -> None:
    kinds = [f"{name} {number}" for name in ("alu", "control", "integer", "fp64") for number in range(4)] + ["mem"]
    chain = Idg.from_edges(kinds, list(pairwise(range(len(kinds)))))
    figure = Figure(figsize=size, layout="constrained")
    ax = figure.subplots()
    run = simulate(chain, dict.fromkeys(kinds, Lambdas(1, 4)), Execution(warps, 1, 1))
    plot_profile(execution_profile(run), ax=ax)
    extents = [(path.vertices[:, 1].min(), path.vertices[:, 1].max()) for c in ax.collections for path in c.get_paths()]
    rows = sorted({(float(low), float(high)) for low, high in extents if low > warps - 0.5})
    assert len(rows) == 17
    assert all(above[1] < below[0] for above, below in pairwise(rows))
    names = [name.split(",")[0] for name in row_names(ax) if not name.startswith("warp")]
    assert names == ["4 × alu", "4 × control", "4 × integer", "4 × fp64", "mem"]
    figure.draw_without_rendering()
    boxes = sorted((text.get_window_extent() for text in ax.get_yticklabels()), key=lambda box: box.y0)
    # Letters do not fill the height of their line.
    assert all(above.y0 - below.y1 > -0.1 * below.height for below, above in pairwise(boxes))
