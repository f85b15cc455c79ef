"""The few values that were asked for last: what a backend keeps compiled, and which arrays it keeps."""

from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Keeps the *most* values that were asked for last, by keys that need not be hashable.

    The value that was not asked for the longest goes before another one is made, so that there is room for that.
    """

    def __init__(self, most: int, same: Callable[[Key, Key], bool]) -> None:
        """Keep up to *most* values; *same* says whether two keys stand for one."""
        self._most = most
        self._same = same
        self._kept: list[tuple[Key, Value]] = []
        """the latest last"""

    def get(self, key: Key, make: Callable[[Key], Value]) -> Value:
        """Return the value of *key*, made by *make* if it is not there; what that raises leaves no value."""
        found = next((pair for pair in self._kept if self._same(pair[0], key)), None)
        if found is None:
            del self._kept[: max(0, len(self._kept) - self._most + 1)]
            found = (key, make(key))
        self._kept = [*(pair for pair in self._kept if pair is not found), found]
        return found[1]
