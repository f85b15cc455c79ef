"""What a fit says of properties that the measured kernels could not tell apart.

Such a property has no weight of its own. As long as a kernel obeys the relation that tied it to others, nothing is
lost: their weights carry its cost. Once a kernel breaks it, nobody knows the cost, and :func:`doubts` says so.
"""

from collections.abc import Iterable, Mapping

import msgspec

from loopyperf.calibration.documents import Amount, Number
from loopyperf.units import amount

TOLERANCE = 1e-2
"""Least own part εⱼ (dimensionless) of a column that is fitted. Run times repeat to about 1 % at best, and the property
that takes all of one kernel's time has a scaled weight of about 1: below this, noise alone could move it by as much."""


class Indistinguishable(msgspec.Struct, frozen=True):
    """A group of properties tied together in all measured kernels, so that not all of them have their own weight."""

    left_out: Mapping[str, Mapping[str, Number]]
    """for each property without a weight, what its count was equal to: so many units of each fitted property"""
    mismatch: Amount
    """largest distance of a left-out column from that combination, columns of unit length; about 1e-16 if exact"""

    @property
    def properties(self) -> tuple[str, ...]:
        """Return the names of all properties in the group, fitted and left out, sorted."""
        return tuple(sorted({*self.left_out, *(name for equal in self.left_out.values() for name in equal)}))


def broken(groups: Iterable[Indistinguishable], properties: Mapping[str, float]) -> tuple[str, ...]:
    """Return the left-out properties whose count is not what it was in the measured kernels: their cost is unknown.

    *properties* are the counts of one kernel; differences of at most :data:`TOLERANCE` are let pass.
    """
    return tuple(
        name
        for group in groups
        for name, equal in group.left_out.items()
        if not _holds(properties.get(name, 0), _terms(equal, properties))
    )


def doubts(groups: Iterable[Indistinguishable], properties: Mapping[str, float]) -> tuple[str, ...]:
    """Return one sentence for each property whose weight these counts need but the fit cannot give."""
    groups = tuple(groups)
    equals = {name: equal for group in groups for name, equal in group.left_out.items()}
    return tuple(
        f"the weight of {name!r} is undetermined: in all kernels of the calibration it was {_spelled(equals[name])}, "
        f"which would be {amount(sum(_terms(equals[name], properties)))} here, but is {amount(properties.get(name, 0))}"
        for name in broken(groups, properties)
    )


def _holds(count: float, terms: list[float]) -> bool:
    # Relative to the terms and not to their sum, which may be nothing but the rounding of factors where terms cancel.
    return abs(count - sum(terms)) <= TOLERANCE * max(count, sum(map(abs, terms)))


def _terms(equal: Mapping[str, float], properties: Mapping[str, float]) -> list[float]:
    return [factor * properties.get(name, 0) for name, factor in equal.items()]


def _spelled(equal: Mapping[str, float]) -> str:
    return " + ".join(f"{factor:.6g} × {name!r}" for name, factor in equal.items())
