"""Which kernels exercise each property, in which numbers, and what is wrong with that: a fit's table of coverage.

How well a fit can tell each property from the others, its variance inflation, is found by
:mod:`loopyperf.calibration.coverage`.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from loopyperf.calibration.documents import Amount, Whole
from loopyperf.calibration.indistinguishable import TOLERANCE

FEWEST = 3
"""Configurations that should exercise a property: with two, nobody sees which one is the odd one out."""


class Counted(Protocol):
    """What a configuration is asked for at one size: an observation, or counts alone."""

    @property
    def kernel_class(self) -> str:
        """Return the file of kernels it comes from."""
        ...

    @property
    def label(self) -> str:
        """Return the configuration within its class."""
        ...

    @property
    def properties(self) -> Mapping[str, int]:
        """Return how many units of each property one run has."""
        ...


class Coverage(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the kernels of a calibration exercise one property."""

    name: str
    """of the property"""
    classes: tuple[str, ...] = ()
    """the classes of kernels that have any of it, sorted"""
    configurations: Whole = 0
    """how many configurations of these classes have any of it"""
    least: Whole = 0
    """smallest count among the runs that have any"""
    most: Whole = 0
    """largest count among all runs"""
    inflation: Amount | None = None
    """variance inflation factor, at least 1; None if it is infinite, or unknown because nothing was timed"""
    resembles: tuple[str, ...] = ()
    """where it is hard to tell apart: the properties that it varies with, most of it first"""

    @property
    def gap(self) -> str:
        """Return what is wrong with the coverage, as words; empty if nothing is."""
        if not self.configurations:
            return "no kernel has it"
        if self.resembles and (self.inflation is None or self.inflation >= 1 / TOLERANCE**2):
            return f"not told apart from {', '.join(self.resembles)}"
        if self.configurations < FEWEST:
            return f"only {self.configurations} of the kernels {'has' if self.configurations == 1 else 'have'} it"
        return f"varies with {', '.join(self.resembles)}" if self.resembles else ""


def tabulate(counted: Iterable[Counted], expected: Iterable[str] = ()) -> tuple[Coverage, ...]:
    """Return a row for each property that is counted or *expected*, sorted by name, from counts alone.

    Which properties vary with each other is not known without run times: no row has an inflation.
    """
    kernels: dict[str, set[tuple[str, str]]] = {name: set() for name in expected}
    counts: dict[str, list[int]] = {}
    for row in counted:
        for name, count in row.properties.items():
            if count:
                kernels.setdefault(name, set()).add((row.kernel_class, row.label))
                counts.setdefault(name, []).append(int(count))
    return tuple(
        Coverage(
            name=name,
            classes=tuple(sorted({kernel_class for kernel_class, _ in kernels[name]})),
            configurations=len(kernels[name]),
            least=min(counts.get(name, [0])),
            most=max(counts.get(name, [0])),
        )
        for name in sorted(kernels)
    )
