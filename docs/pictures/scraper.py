"""How Sphinx-Gallery gets the pictures of docs/gallery; its own scrapers take pyplot's figures, which ours are not."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from saving import save
from sphinx_gallery.scrapers import figure_rst


def last_figure(block: object, variables: dict[str, Any], settings: Mapping[str, Any]) -> str:
    """Save the figure that a cell ends with as SVG, and return the reST that shows it; empty if there is none."""
    names = variables["example_globals"]
    # Where Sphinx-Gallery keeps the value of a last expression, also while it executes later cells without one.
    figure, names["___"] = names.get("___"), None
    if not isinstance(figure, Figure):
        return ""
    path = Path(next(variables["image_path_iterator"])).with_suffix(".svg")
    save(figure, path)
    return figure_rst([path], settings["src_dir"], ". ".join(described(figure)))


def described(figure: Figure) -> Iterator[str]:
    """Yield sentences for readers who do not see *figure*: what is on its axes, and in its legends."""
    for ax in figure.axes:
        rows = ", ".join(label.get_text() for label in ax.get_yticklabels())
        yield f"{ax.get_ylabel() or rows} over {ax.get_xlabel()}"
        if legend := ax.get_legend():
            yield ", ".join(text.get_text() for text in legend.get_texts())
