"""The fitted linear model.

    T(n) = Σᵢ αᵢ pᵢ(n)

with the properties pᵢ of a kernel (counts, see :mod:`loopyperf.properties.unified`) and weights αᵢ in seconds per unit,
fitted to measurements of the device. Nothing overlaps: every operation is charged in full.

J. D. Stevens and A. Klöckner, A Unified, Hardware-Fitted, Cross-GPU Performance Model, section 2.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loopyperf.models.result import Breakdown, Row, Seconds, adding_up_to, total

Shares = Mapping[str, Mapping[str, Any]]
"""property -> source -> count: an integer, or an array over sizes"""


@dataclass(frozen=True, slots=True)
class LinearTime:
    """The model's time with its rows."""

    seconds: Seconds
    breakdown: Breakdown
    unfitted: tuple[str, ...]
    """properties that the kernel has and the fit has no weight for; they are taken as free"""


def linear_time(weights: Mapping[str, float], shares: Shares) -> LinearTime:
    """Return Σ weight · count in seconds, where *shares* says how each property's count is made up of sources.

    The sum over properties is correctly rounded; rows add up to it exactly.
    """
    costs = {name: weights[name] * _count(parts) for name, parts in shares.items() if name in weights}
    seconds = total(list(costs.values()))
    rows = [
        Row(name, source, count, weights[name], weights[name] * count)
        for name in costs
        for source, count in shares[name].items()
    ]
    exact = adding_up_to(seconds, [row.seconds for row in rows])
    adjusted = [Row(row.property, row.source, row.count, row.weight, s) for row, s in zip(rows, exact, strict=True)]
    unfitted = tuple(name for name, parts in shares.items() if name not in weights and _occurs(parts))
    return LinearTime(seconds, Breakdown(tuple(adjusted)), unfitted)


def _count(parts: Mapping[str, Any]) -> Any:
    return sum(parts.values())


def _occurs(parts: Mapping[str, Any]) -> bool:
    return any(bool((count != 0).any()) if hasattr(count, "any") else count != 0 for count in parts.values())
