"""The rows of a timeline: warps have half of its height at least, and names beside the rows have room."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import ceil

from loopyperf.plots.figures import PRINTS, Axes, figure_of
from loopyperf.units import in_percent

LEGEND = 0.42
"""inches above the axes, which are taken of their height"""
MOST = 0.5
"""of the height: what the rows of subsystems take of it"""
LABELS = 16
"""warps that are numbered beside their rows, at most"""
TIGHT = ((PRINTS[1][0], PRINTS[1][2]), (PRINTS[2][0], 0.1))
"""prints of names that take one line each, with the inches of that"""
NUMBER = re.compile(r" \d+$")
Band = tuple[str, ...]
"""subsystems that share a name beside their rows"""


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the middles of rows are, from the top, and how tall they are: those of warps 1 each, from -0.5 on."""

    warps: Mapping[int, int]
    subsystems: Mapping[str, tuple[float, float]]
    """name -> middle, height"""
    end: float
    """of the last row"""
    inches: float
    """of a warp's row, about"""
    names: Mapping[float, str]
    """middle -> what stands beside it"""
    print: str
    """size of the names"""


def rows_of(ax: Axes, warps: Sequence[int], fills: Mapping[str, Fraction]) -> Rows:
    """Return the rows of *warps*, and below them those of subsystems, which are filled by *fills* of the time.

    Where the subsystems have no room for a name each in their half, those that differ by their number have one
    together, and their rows are in the room of one.
    """
    height = max(ax.get_position().height * figure_of(ax).get_figheight() - LEGEND, LEGEND)
    bands, size, line = _bands(list(fills), height * (MOST if warps else 1.0))
    share = _share(len(warps), len(bands), line / height)
    tall = len(warps) * share / (1 - share) / len(bands) if warps and bands else 1.0
    middles = [len(warps) - 0.5 + (place + 0.5) * tall for place in range(len(bands))]
    placed = list(zip(middles, bands, strict=True))
    inches = height * (1 - share) / len(warps) if warps else line
    # Names that have room by a hair, in the arithmetic of floats, have room.
    every = ceil(line * len(bands) / (height * share) - 1e-9) if share else 1
    of_warps = {at: f"warp {warps[at]}" for at in _named_warps(len(warps), line / inches)}
    return Rows(
        warps={warp: row for row, warp in enumerate(warps)},
        subsystems={name: place for middle, band in placed for name, place in _within(band, middle, tall).items()},
        end=len(warps) - 0.5 + len(bands) * tall,
        inches=inches,
        names=of_warps | {at: f"{together(band)}, {_full(band, fills)}" for at, band in placed[::every]},
        print=size,
    )


def bands_of(names: Sequence[str]) -> list[Band]:
    """Return *names* in their order, those beside each other that differ by their number together."""
    return [tuple(each) for _, each in groupby(names, lambda name: NUMBER.sub("", name))]


def together(band: Band) -> str:
    """Return what *band* is called: the name of one, "4 × alu" of four."""
    return band[0] if len(band) == 1 else f"{len(band)} × {NUMBER.sub('', band[0])}"


def _bands(names: Sequence[str], height: float) -> tuple[list[Band], str, float]:
    """Return which subsystems have one name in so many inches of *height*, its print, and the inches of its line."""
    choices = [(bands, size, line) for bands in ([(name,) for name in names], bands_of(names)) for size, line in TIGHT]
    return next((choice for choice in choices if len(choice[0]) * choice[2] <= height + 1e-9), choices[-1])


def _share(warps: int, bands: int, line: float) -> float:
    """Return which part of the height the subsystems have: rows as tall as those of warps, or as a *line* of print."""
    if not (warps and bands):
        return float(bands > 0)
    return min(MOST, max(bands * line, bands / (bands + warps)))


def _within(band: Band, middle: float, tall: float) -> dict[str, tuple[float, float]]:
    height = tall / len(band)
    return {name: (middle - tall / 2 + (place + 0.5) * height, height) for place, name in enumerate(band)}


def _named_warps(warps: int, line: float) -> range:
    """Return the rows that a name stands beside, which is as tall as *line* of them; none reaches below the last."""
    every = max(-(-warps // LABELS), ceil(line))
    return range(0, max(min(1, warps), int(warps + 0.5 - line / 2)), every)


def _full(band: Band, fills: Mapping[str, Fraction]) -> str:
    found = sorted(float(fills[name]) for name in band)
    least, most = in_percent(found[0]), in_percent(found[-1])
    return f"{least} full" if least == most else f"{least} to {most} full"
