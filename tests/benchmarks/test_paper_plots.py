"""Plots of the papers' figures, drawn from shortened simulations."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import paper_figures
import pytest
from papers import barriers, matrix_multiplication, staircase

PANELS = {
    "cornelis-3": ["Fermi, 8x8", "Fermi, 16x16", "Pascal, 8x8", "Pascal, 16x16"],
    "lemeire-2-and-14": ["Fig. 2", "Fig. 14"],
    "lemeire-16": ["Fermi", "Kepler", "Pascal"],
    "dao-5-to-8": [
        f"{figure}, {blocks}"
        for blocks in ("double precision", "every operand")
        for figure in ("5a", "6a", "6b, 7, 8a", "8b", "8c")
    ],
}
"""figure -> titles of its panels"""


@pytest.fixture
def pictures() -> dict[str, Any]:
    """Return the function that draws each figure."""
    pytest.importorskip("matplotlib")
    return pytest.importorskip("papers.pictures").PICTURES


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use small matrices and few loop iterations; other tests check the values of the curves."""
    monkeypatch.setattr(matrix_multiplication, "SIDE", 32)
    monkeypatch.setattr(barriers, "points", partial(barriers.points, rounds=20))
    monkeypatch.setattr(staircase, "PASSES", 5)
    staircase.graph.cache_clear()
    yield
    staircase.graph.cache_clear()


def test_every_simulated_figure_has_a_plot(pictures: dict[str, Any]):
    assert list(pictures) == list(paper_figures.FIGURES) == list(PANELS)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", PANELS)
def test_plot_has_a_nonempty_panel_for_each_panel_of_the_paper(name: str, pictures: dict[str, Any]):
    figure = pictures[name](list(paper_figures.FIGURES[name]()))
    figure.draw_without_rendering()
    labels = [ax.get_xlabel() for ax in figure.axes]
    assert [label.rpartition(": ")[0] for label in labels] == PANELS[name]
    assert all(ax.lines or ax.patches or ax.collections for ax in figure.axes)
