"""How many sectors and lines a part of an array touches: in closed form, whatever its size.

The part is a box of elements: along each axis so many of them, equally far apart. Elements that lie together make runs
of memory, and the runs lie apart from each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

from loopyperf.memory.sectors import LINE, SECTOR


@dataclass(frozen=True, slots=True)
class Touched:
    """What is touched of an array."""

    sectors: Fraction = Fraction(0)
    """of 32 bytes"""
    lines: Fraction = Fraction(0)
    """of 128 bytes"""

    def times(self, number: int | Fraction) -> "Touched":
        """Return so many times as much."""
        return Touched(self.sectors * number, self.lines * number)

    def __add__(self, other: "Touched") -> "Touched":
        return Touched(self.sectors + other.sectors, self.lines + other.lines)

    def __sub__(self, other: "Touched") -> "Touched":
        return Touched(self.sectors - other.sectors, self.lines - other.lines)

    def at_least(self, other: "Touched") -> "Touched":
        """Return the larger of the two, in sectors and in lines."""
        return Touched(max(self.sectors, other.sectors), max(self.lines, other.lines))

    def at_most(self, other: "Touched") -> "Touched":
        """Return the smaller of the two, in sectors and in lines."""
        return Touched(min(self.sectors, other.sectors), min(self.lines, other.lines))


def touched(first: int, axes: Sequence[tuple[int, int]], width: int) -> Touched:
    """Return the sectors and lines that a box of elements touches, of which the lowest begins at byte *first*.

    *axes* has for each axis the distance of neighbours, in bytes, and how many there are; an element has *width* bytes.
    It is exact where runs begin at all places of a line equally often, or all at the same one, and do not overlap.
    """
    return Touched(_blocks(first, axes, width, SECTOR), _blocks(first, axes, width, LINE))


def _blocks(first: int, axes: Sequence[tuple[int, int]], width: int, block: int) -> Fraction:
    """Return how many aligned blocks of *block* bytes are touched."""
    run, runs, apart, end = width, 1, block, width
    for distance, number in sorted((abs(distance), number) for distance, number in axes if number > 1):
        if runs == 1 and distance < run + block:  # no block between two of them is left out
            run += (number - 1) * distance
        elif distance:
            runs *= number
            apart = gcd(apart, distance)
        end += (number - 1) * distance
    within = Fraction(first % block + end + block - 1, block)  # the runs may overlap
    return min(runs * _mean(first, run, apart, block), Fraction(int(within)))


def _mean(first: int, run: int, apart: int, block: int) -> Fraction:
    """Return how many blocks a *run* of bytes touches on average that begins at *first* plus multiples of *apart*."""
    starts = range(first % apart, block, apart)
    return Fraction(sum(-(-(start + run) // block) for start in starts), len(starts))
