"""Reproducible saving of figures: the same figure is always the same file."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "loopyperf"}
"""keep text as text, and make the output deterministic"""


def save(figure: Figure, path: str | Path) -> None:
    """Write *figure* to the SVG or PNG at *path*, without a date."""
    undated = {"Date": None} if Path(path).suffix == ".svg" else {"Software": None}
    with mpl.rc_context(SETTINGS):
        figure.savefig(path, metadata=undated)
