"""The points among which is searched: one choice for each name."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import prod
from typing import Any, cast

from loopyperf.errors import ParameterError
from loopyperf.kernel import Program
from loopyperf.oracle.ranking.variants import Build, Variant

Builder = Callable[..., Program]
"""makes the program of a point, whose choices are its keywords"""
EXAMPLE = "such as {'tile': (8, 16, 32)}"


@dataclass(frozen=True, slots=True)
class Space:
    """All combinations of choices. A point is known by its number: the last name's choice is what changes first."""

    choices: dict[str, Sequence[Any]]

    @property
    def points(self) -> int:
        """Return how many there are."""
        return prod(map(len, self.choices.values()))

    def places(self, point: int) -> dict[str, int]:
        """Return name -> place of its choice among all that it has."""
        found: dict[str, int] = {}
        for name, choices in reversed(self.choices.items()):
            point, found[name] = divmod(point, len(choices))
        return {name: found[name] for name in self.choices}

    def number(self, places: Mapping[str, int]) -> int:
        """Return the point whose choices stand in these *places*."""
        point = 0
        for name, choices in self.choices.items():
            point = point * len(choices) + places[name]
        return point

    def choice(self, point: int) -> dict[str, Any]:
        """Return name -> choice."""
        return {name: self.choices[name][place] for name, place in self.places(point).items()}

    def name(self, point: int) -> str:
        """Return what the point is called, which no other one is."""
        return ", ".join(f"{name}={_text(choice)}" for name, choice in self.choice(point).items())

    def variant(self, point: int, build: Builder) -> Variant:
        """Return what is asked about."""
        return Variant(self.name(point), partial(build, **self.choice(point)))

    def variants(self, build: Builder) -> Iterator[tuple[str, Build]]:
        """Yield what is asked about all points, in order, as pairs of a name and what builds it."""
        for point in range(self.points):
            variant = self.variant(point, build)
            yield variant.name, variant.build

    def is_scale(self, name: str) -> bool:
        """Return whether the choices are numbers that go one way: those between two are likely between them in time."""
        choices = self.choices[name]
        if isinstance(choices, range):
            return True
        if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in choices):
            return False
        return all(a < b for a, b in pairwise(choices)) or all(a > b for a, b in pairwise(choices))


def spaced(choices: object) -> Space:
    """Return the space of these *choices*, a dict from names to lists, tuples or ranges.

    Raises :class:`ParameterError` if *choices* is not such a dict, for no names, a name without choices, and for two
    choices that are written alike, since points are called by them.
    """
    if not isinstance(choices, Mapping):
        raise ParameterError(f"a space is a dict from names to lists of choices, {EXAMPLE}; received {choices!r:.80}")
    named = cast("Mapping[Any, Any]", choices)
    if not named:
        raise ParameterError(f"there is nothing to choose in an empty space: give names with their choices, {EXAMPLE}")
    for name, several in named.items():
        _check(name, several)
    return Space({name: several if isinstance(several, range) else tuple(several) for name, several in named.items()})


def _check(name: object, several: object) -> None:
    if not isinstance(name, str):
        raise ParameterError(f"names of a space are strings, keywords of the builder; received {name!r:.80}")
    if not isinstance(several, list | tuple | range):
        raise ParameterError(f"the choices of {name!r} are a list, a tuple or a range; received {several!r:.80}")
    if not several:
        raise ParameterError(f"there are no choices for {name!r}: give one at least, or leave the name out")
    if isinstance(several, range):
        return
    seen: set[str] = set()
    for text in map(_text, cast("Sequence[Any]", several)):
        if text in seen:
            raise ParameterError(f"two choices of {name!r} are written alike, {text}: each needs a text of its own")
        seen.add(text)


def _text(choice: object) -> str:
    """Return how *choice* is written; functions and types, by their names."""
    named = getattr(choice, "__name__", None)
    return named if isinstance(named, str) else str(choice)


def check_builds(build: object, space: Space) -> None:
    """Raise :class:`ParameterError` unless *build* is a callable that takes the names of *space* as keywords."""
    if isinstance(build, Program) or not callable(build):
        raise ParameterError(f"a search needs a function that builds a program of choices; received {build!r:.80}")
    try:
        signature = inspect.signature(build)
    except (TypeError, ValueError):  # some of those written in C have none
        return
    try:
        signature.bind(**space.choice(0))
    except TypeError as error:
        takes = getattr(build, "__name__", type(build).__name__)
        raise ParameterError(
            f"{takes}{signature} cannot be called with {', '.join(space.choices)}, the names of the space: {error}"
        ) from error
