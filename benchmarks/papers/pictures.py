"""Plots of the papers' figures from simulated rows, with one panel for each panel of the papers."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loopyperf.explain.plots import plot_groups, plot_over_occupancy
from loopyperf.pipeline import GroupTimes

Row = dict[str, Any]
PANEL = 4.2, 3.2
"""inches"""


def by(rows: Iterable[Row], *columns: str) -> dict[str, list[Row]]:
    """Return the rows grouped by the values in *columns*."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[", ".join(str(row[column]) for column in columns)].append(row)
    return found


def panels(parts: Mapping[str, Any], columns: int, draw: Callable[..., object]) -> Figure:
    """Return a figure with a panel for each part, *columns* per row, drawn by *draw*, with the title below."""
    lines = -(-len(parts) // columns)
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * lines), layout="constrained")
    for (title, part), ax in zip(parts.items(), figure.subplots(lines, columns, squeeze=False).flat, strict=False):
        draw(part, ax=ax)
        ax.set_xlabel(f"{title}: {ax.get_xlabel()}")
    return figure


def products(rows: Sequence[Row]) -> Figure:
    """Return Fig. 3 of Cornelis and Lemeire."""

    def draw(part: Sequence[Row], ax: Axes) -> None:
        lines = {
            f"{conflicts} conflicts": _points(each, "Gflop/s") for conflicts, each in by(part, "conflicts").items()
        }
        plot_over_occupancy({name.replace("yes ", ""): line for name, line in lines.items()}, ylabel="Gflop/s", ax=ax)

    return panels(by(rows, "gpu", "group"), 2, draw)


def example(rows: Sequence[Row]) -> Figure:
    """Return Fig. 2 and 14 of Lemeire et al."""

    def draw(part: Sequence[Row], ax: Axes) -> None:
        lines = {model: _points(each, "warps/cycle") for model, each in by(part, "model").items()}
        plot_over_occupancy(lines, bounds={"roofline": 0.25}, ylabel="warps per cycle", ax=ax)

    return panels({f"Fig. {name}": part for name, part in by(rows, "figure").items()}, 2, draw)


def rounds(rows: Sequence[Row]) -> Figure:
    """Return Fig. 16 of Lemeire et al., with a third GPU added."""

    def draw(part: Sequence[Row], ax: Axes) -> None:
        lines = {f"groups of {n} warps": _points(each, "computations/cycle") for n, each in by(part, SIZE).items()}
        plot_over_occupancy(lines, ylabel="computations per cycle", ax=ax)

    return panels(by(rows, "gpu"), 3, draw)


def stairs(rows: Sequence[Row]) -> Figure:
    """Return Fig. 5a, 6a, 6b and 8 of Dao et al., for both assumptions about which instructions block a warp."""

    def draw(part: Sequence[Row], ax: Axes) -> None:
        plot_groups({row["group"]: _times(row) for row in part}, ax=ax)

    return panels(by(rows, "figure", "blocks"), 5, draw)


SIZE = "warps of a group"
PICTURES: dict[str, Callable[[Sequence[Row]], Figure]] = {
    "cornelis-3": products,
    "lemeire-2-and-14": example,
    "lemeire-16": rounds,
    "dao-5-to-8": stairs,
}


def _points(rows: Sequence[Row], column: str) -> list[tuple[float, float]]:
    return [(row["warps"], row[column]) for row in rows]


def _times(row: Row) -> GroupTimes:
    moments = tuple(Fraction(moment) for name, moment in row.items() if name.endswith("%"))
    return GroupTimes(row["group"], Fraction(row["start"]), moments, Fraction(row["finish"]))
