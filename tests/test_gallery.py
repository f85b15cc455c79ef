"""The gallery examples use each function of plots without warnings, and Sphinx-Gallery finds their figures."""

import importlib.util
import re
import runpy
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from matplotlib.figure import Figure

from loopyperf.explain import plots
from tests.documents import SITE

TEXTS = re.compile(r"<text [^>]*>([^<]*)</text>")
LINES = 50
"""maximum length of an example"""


class Drawn(dict[str, list[Figure]]):
    """Function of :mod:`loopyperf.explain.plots` -> figures that it returned while it was recorded."""

    def recorder(self, name: str) -> Callable[..., Figure]:
        draw = getattr(plots, name)

        def recorded(*args: Any, **options: Any) -> Figure:
            figure = draw(*args, **options)
            self.setdefault(name, []).append(figure)
            return figure

        return recorded


@pytest.fixture
def scraper(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module with which Sphinx-Gallery collects figures."""
    pytest.importorskip("sphinx_gallery", reason="the documentation is built by the extra docs")
    monkeypatch.syspath_prepend(SITE / "pictures")
    return pytest.importorskip("scraper")


def shown(scraper: Any, figure: Figure, folder: Path) -> tuple[str, str]:
    """Return the reST and the SVG of a cell that ends with *figure*."""
    variables = {"example_globals": {"___": figure}, "image_path_iterator": iter([folder / "sphx_glr_cell_001.png"])}
    rest = scraper.last_figure(None, variables, {"src_dir": str(folder), "image_srcset": []})
    return rest, (folder / "sphx_glr_cell_001.svg").read_text(encoding="utf-8")


def gallery_kernels() -> ModuleType:
    """Return the kernels of the examples, even if another module of this name has been imported."""
    spec = importlib.util.spec_from_file_location("kernels", SITE / "gallery" / "kernels.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_examples_use_every_function_and_return_figures(
    scraper: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setitem(sys.modules, "kernels", gallery_kernels())
    drawn = Drawn()
    for name in plots.__all__:
        monkeypatch.setattr(plots, name, drawn.recorder(name))
    for example in sorted((SITE / "gallery").glob("plot_*.py")):
        with subtests.test(example=example.stem), warnings.catch_warnings(action="error"):
            assert len(example.read_text(encoding="utf-8").splitlines()) <= LINES
            before = sum(map(len, drawn.values()))
            runpy.run_path(str(example))
            assert sum(map(len, drawn.values())) > before
    for name, figures in drawn.items():
        for figure in figures:
            with subtests.test(function=name), warnings.catch_warnings(action="error"):
                rest, picture = shown(scraper, figure, tmp_path)
                assert len(TEXTS.findall(picture)) >= 5
                assert re.search(r":alt: \S.* over \S", rest)
    assert set(drawn) == set(plots.__all__)


def test_cell_without_figure_shows_none(scraper: Any) -> None:
    for value in ({}, {"___": 3}):
        assert scraper.last_figure(None, {"example_globals": value}, {}) == ""
