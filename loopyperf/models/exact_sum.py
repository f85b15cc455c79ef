"""Costs that add up to the last bit, in every order and in every grouping.

Floating-point sums depend on their order, so a total would differ from the sum of its subtotals. Here the total and
all parts become multiples of one quantum q, the spacing of float64 numbers just above Σᵢ |costᵢ|. Each partial sum is
then a multiple of q below 2^53 q, and a float64 holds these exactly. A part moves by q/2 at most, which is 2⁻⁵² of the
sum of magnitudes; the largest part takes what the others leave.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Seconds = float | NDArray[np.floating[Any]]
"""one time, or an array of times over sizes"""


def adding_up(costs: Sequence[Seconds]) -> tuple[Seconds, list[Seconds]]:
    """Return the total of *costs*, in their unit, and the costs, adjusted so that they add up to it exactly.

    The total of numbers is correctly rounded to a multiple of the quantum. Arrays broadcast together; they are added
    in their order and returned as they are.
    """
    if any(isinstance(cost, np.ndarray) for cost in costs):
        return _added_in_order(costs), list(costs)
    total, parts = _on_one_grid(cast("Sequence[float]", costs))
    return total, cast("list[Seconds]", parts)


def total(costs: Sequence[float]) -> float:
    """Return the total that :func:`adding_up` returns of numbers, without the parts."""
    return _on_grid_of(costs, map(abs, costs))[0]


def _added_in_order(costs: Sequence[Seconds]) -> Seconds:
    total = costs[0]
    for cost in costs[1:]:
        total = total + cost
    return total


def _on_one_grid(costs: Sequence[float]) -> tuple[float, list[float]]:
    sizes = [abs(cost) for cost in costs]
    rounded, quantum = _on_grid_of(costs, sizes)
    parts = [round(cost / quantum) * quantum for cost in costs]
    if parts:
        parts[sizes.index(max(sizes))] += rounded - sum(parts)
    return rounded, parts


def _on_grid_of(costs: Sequence[float], sizes: Iterable[float]) -> tuple[float, float]:
    """Return the total, and the quantum that it is a multiple of."""
    magnitude = math.fsum(sizes)
    # Room for what all parts together move by.
    quantum = math.ulp(magnitude + (len(costs) + 1) * math.ulp(magnitude))
    return round(math.fsum(costs) / quantum) * quantum, quantum
