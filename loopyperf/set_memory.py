"""What was found out about sets of points, remembered by the set."""

from collections.abc import Callable
from typing import Generic, TypeVar

import islpy as isl

Value = TypeVar("Value")


class SetMemory(Generic[Value]):
    """Remembers a value for each set; sets that differ in the names of their dimensions alone are one.

    A dictionary would ask isl whether sets are equal, which takes longer than to see that they are written alike.
    """

    def __init__(self, most: int | None = None) -> None:
        """Remember nothing yet; with *most*, forget all once there are so many."""
        self._most = most
        self._values: dict[int, list[tuple[isl.Set, Value]]] = {}

    def value(self, points: isl.Set, find: Callable[[isl.Set], Value]) -> Value:
        """Return what *find* finds out about *points*, or has found out before."""
        if self._most is not None and len(self._values) >= self._most:
            self._values.clear()
        alike = self._values.setdefault(hash(points), [])
        for other, value in alike:
            if other.plain_is_equal(points):
                return value
        alike.append((points, find(points)))
        return alike[-1][1]
