"""Sphinx-Gallery scraper for the figures of docs/gallery, which are not created with pyplot."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from saving import save
from sphinx_gallery.scrapers import figure_rst


def last_figure(block: object, variables: dict[str, Any], settings: Mapping[str, Any]) -> str:
    """Save the figure that is the last expression of a cell as SVG, and return reST for it; empty if there is none."""
    names = variables["example_globals"]
    # Sphinx-Gallery stores the value of a last expression here, and keeps it during later cells without one.
    figure, names["___"] = names.get("___"), None
    if not isinstance(figure, Figure):
        return ""
    path = Path(next(variables["image_path_iterator"])).with_suffix(".svg")
    save(figure, path)
    return figure_rst([path], settings["src_dir"], ". ".join(text_alternative(figure)))


def text_alternative(figure: Figure) -> Iterator[str]:
    """Yield the parts of a text alternative for *figure*: its axes and its legends."""
    for ax in figure.axes:
        rows = ", ".join(label.get_text() for label in ax.get_yticklabels())
        yield f"{ax.get_ylabel() or rows} over {ax.get_xlabel()}"
        if legend := ax.get_legend():
            yield ", ".join(text.get_text() for text in legend.get_texts())
