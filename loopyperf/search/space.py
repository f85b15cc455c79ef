"""The points among which is searched: one choice for each name.

Optuna, as one who says which point of a space to look at next, and is told how long it takes.

To Optuna, each name of a space is a parameter whose values are the places of its choices, 0, 1, 2, ...: whole numbers
where the choices are a scale, so that powers of two are as far apart as their exponents; else categories. It comes with
the extra ``search``.
"""

import inspect
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, cast

from loopyperf.errors import LoopyperfError, ParameterError
from loopyperf.kernel import Program
from loopyperf.search.variants import Build, Variant

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import Trial

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


def _tpe(optuna: Any, seed: int) -> "BaseSampler":
    return optuna.samplers.TPESampler(seed=seed)


def _random(optuna: Any, seed: int) -> "BaseSampler":
    return optuna.samplers.RandomSampler(seed=seed)


SAMPLERS: dict[str, Callable[[Any, int], "BaseSampler"]] = {"tpe": _tpe, "random": _random}
"""who advises: the tree-structured Parzen estimator (Bergstra and others, NIPS 2011), and chance"""


def sampler_of(optimizer: object, seed: int) -> "BaseSampler":
    """Return the sampler that is meant: by its name in :data:`SAMPLERS`, with *seed*, or as it is given.

    Raises :class:`ParameterError` for what is neither, :class:`LoopyperfError` where Optuna is not installed.
    """
    optuna = _optuna()
    if isinstance(optimizer, str):
        return SAMPLERS[optimizer](optuna, seed)
    if not isinstance(optimizer, optuna.samplers.BaseSampler):
        raise ParameterError(
            f"an optimizer is None, 'exhaustive', {', '.join(map(repr, SAMPLERS))} or a sampler of Optuna; received "
            f"{optimizer!r:.80}"
        )
    if isinstance(optimizer, optuna.samplers.GridSampler | optuna.samplers.BruteForceSampler):
        raise ParameterError(f"{type(optimizer).__name__} goes through every point: say optimizer='exhaustive'")
    return cast("BaseSampler", optimizer)


class Adviser:
    """A study of Optuna's of one space."""

    def __init__(self, space: Space, sampler: "BaseSampler") -> None:
        """Begin a study that nothing is known in."""
        optuna = _optuna()
        self._space = space
        self._pruned = optuna.trial.TrialState.PRUNED
        self._distributions = dict(_distributions(optuna.distributions, space))
        with _quiet(optuna.logging):
            self._study = optuna.create_study(sampler=sampler)

    def advice(self) -> "tuple[Trial, int]":
        """Return a trial, and its point."""
        trial = self._study.ask(self._distributions)
        return trial, self._space.number(trial.params)

    def take(self, point: int) -> "Trial":
        """Return a trial of *point*, which nobody advised."""
        self._study.enqueue_trial(self._space.places(point))
        return self._study.ask(self._distributions)

    def tell(self, trial: "Trial", seconds: float | None) -> None:
        """Say how long the point of *trial* takes; None where nobody knows, which samplers take for worse than all."""
        if seconds is None:
            self._study.tell(trial, state=self._pruned)
        else:
            self._study.tell(trial, seconds)


def _distributions(kinds: Any, space: Space) -> "Generator[tuple[str, BaseDistribution]]":
    for name, choices in space.choices.items():
        if space.is_scale(name):
            yield name, kinds.IntDistribution(0, len(choices) - 1)
        else:
            yield name, kinds.CategoricalDistribution(tuple(range(len(choices))))


@contextmanager
def _quiet(logging: Any) -> Generator[None]:
    """Have Optuna keep to itself that a study begins, and leave what it says otherwise to the user."""
    before = logging.get_verbosity()
    logging.set_verbosity(max(before, logging.WARNING))
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _optuna() -> Any:
    try:
        return import_module("optuna")
    except ImportError as error:
        raise LoopyperfError(
            f"a search that leaves points out needs Optuna, which cannot be imported ({error}); install it: pip "
            "install 'loopyperf[search]', or say optimizer='exhaustive'"
        ) from error
