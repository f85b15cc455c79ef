"""What a backend keeps: the latest configurations compiled, each with the arrays of its latest size."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from loopyperf.measurement.backends.interface import BenchmarkCase
from loopyperf.measurement.configuration import Configuration, Sizes

# {{{ the few values that were asked for last
#
# What a backend keeps compiled, and which arrays it keeps.


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


# }}}


# {{{ latest programs


KEPT = 2
"""configurations that stay compiled: what is measured, and the yardstick"""

Program = TypeVar("Program")
Launches = TypeVar("Launches")


@dataclass(slots=True)
class _Kept(Generic[Program, Launches]):
    """A configuration's program, whether its results were found to be right, and its launches at the latest size."""

    program: Program
    is_verified: bool = False
    bound: tuple[Sizes, Launches] | None = None


class LatestPrograms(Generic[Program, Launches]):
    """Compiles a configuration once, has its results checked once, and binds it to arrays at one size after another.

    The older of two configurations goes, with its arrays, when another one comes.
    """

    def __init__(
        self, compiled: Callable[[Configuration], Program], bound: Callable[[BenchmarkCase, Program, bool], Launches]
    ) -> None:
        """Make programs by *compiled*; *bound* makes the launches of a case, and checks their results if it is told."""
        self._compiled, self._bound = compiled, bound
        self._kept: Recent[Configuration, _Kept[Program, Launches]] = Recent(KEPT, lambda one, other: one is other)

    def launches(self, case: BenchmarkCase) -> Launches:
        """Return what runs *case*; raises what compiling and binding raise."""
        kept = self._kept.get(case.configuration, self._new)
        if kept.bound is None or dict(kept.bound[0]) != dict(case.sizes):
            kept.bound = None  # frees the arrays before the next ones are made
            launches = self._bound(case, kept.program, not kept.is_verified)
            kept.is_verified, kept.bound = True, (case.sizes, launches)
        return kept.bound[1]

    def _new(self, configuration: Configuration) -> _Kept[Program, Launches]:
        return _Kept(self._compiled(configuration))


# }}}
