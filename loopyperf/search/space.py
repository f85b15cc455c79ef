"""Search spaces, whose points are one choice for each name; and Optuna as the optimizer that selects points.

For Optuna, each name of a space is a parameter whose values are the indices 0, 1, 2, ... of its choices: integers if
the choices are a monotonic sequence of numbers, so that powers of two are equally spaced; else categories. Optuna comes
with the extra ``search``.
"""

import inspect
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
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
"""builds the program of a point from its choices, passed as keyword arguments"""
EXAMPLE = "e.g. {'tile': (8, 16, 32)}"


@dataclass(frozen=True, slots=True)
class Space:
    """All combinations of choices. Points are numbered; the last name's choice varies fastest."""

    choices: dict[str, Sequence[Any]]

    @property
    def points(self) -> int:
        """Return the number of points."""
        return prod(map(len, self.choices.values()))

    def places(self, point: int) -> dict[str, int]:
        """Return name -> index of its choice."""
        found: dict[str, int] = {}
        for name, choices in reversed(self.choices.items()):
            point, found[name] = divmod(point, len(choices))
        return {name: found[name] for name in self.choices}

    def number(self, places: Mapping[str, int]) -> int:
        """Return the number of the point with these indices of choices."""
        point = 0
        for name, choices in self.choices.items():
            point = point * len(choices) + places[name]
        return point

    def number_of(self, choice: Mapping[str, Any]) -> int:
        """Return the number of the point with this choice."""
        return self.number({name: choices.index(choice[name]) for name, choices in self.choices.items()})

    def choice(self, point: int) -> dict[str, Any]:
        """Return name -> choice."""
        return {name: self.choices[name][place] for name, place in self.places(point).items()}

    def name(self, point: int) -> str:
        """Return the unique name of the point, e.g. ``"tile=8, unroll=2"``."""
        return ", ".join(f"{name}={_text(choice)}" for name, choice in self.choice(point).items())

    def variant(self, point: int, build: Builder) -> Variant:
        """Return the variant of the point."""
        choice = self.choice(point)
        return Variant(self.name(point), partial(build, **choice), choice=choice)

    def variants(self, build: Builder) -> Iterator[tuple[str, Build]]:
        """Yield the name and the builder of each point, in order."""
        for point in range(self.points):
            variant = self.variant(point, build)
            yield variant.name, variant.build

    def is_scale(self, name: str) -> bool:
        """Return whether the choices are a monotonic sequence of numbers, so that times are likely to vary smoothly."""
        choices = self.choices[name]
        if isinstance(choices, range):
            return True
        if not all(isinstance(choice, int | float) and not isinstance(choice, bool) for choice in choices):
            return False
        return all(a < b for a, b in pairwise(choices)) or all(a > b for a, b in pairwise(choices))


def spaced(choices: object) -> Space:
    """Return the space of these *choices*, a dict from names to lists, tuples or ranges.

    Raises :class:`ParameterError` if *choices* is not such a dict, for an empty space, a name without choices, and two
    choices with the same text, since the texts name the points.
    """
    if not isinstance(choices, Mapping):
        raise ParameterError(f"a space must be a dict from names to choices, {EXAMPLE}; got {choices!r:.80}")
    named = cast("Mapping[Any, Any]", choices)
    if not named:
        raise ParameterError(f"the space is empty; give names with their choices, {EXAMPLE}")
    for name, several in named.items():
        _check(name, several)
    return Space({name: several if isinstance(several, range) else tuple(several) for name, several in named.items()})


def _check(name: object, several: object) -> None:
    if not isinstance(name, str):
        raise ParameterError(f"names of a space must be strings, got {name!r:.80}")
    if not isinstance(several, list | tuple | range):
        raise ParameterError(f"the choices of {name!r} must be a list, a tuple or a range, got {several!r:.80}")
    if not several:
        raise ParameterError(f"{name!r} has no choices; give at least one, or drop the name")
    if isinstance(several, range):
        return
    seen: set[str] = set()
    for text in map(_text, cast("Sequence[Any]", several)):
        if text in seen:
            raise ParameterError(f"two choices of {name!r} have the same text, {text}; make the texts unique")
        seen.add(text)


def _text(choice: object) -> str:
    """Return *choice* as text; functions and types by their names."""
    named = getattr(choice, "__name__", None)
    return named if isinstance(named, str) else str(choice)


def check_builds(build: object, space: Space) -> None:
    """Raise :class:`ParameterError` unless *build* is a callable that takes the names of *space* as keywords."""
    if isinstance(build, Program) or not callable(build):
        raise ParameterError(f"a search needs a function that builds a program from choices, got {build!r:.80}")
    try:
        signature = inspect.signature(build)
    except (TypeError, ValueError):  # some C functions have no signature
        return
    try:
        signature.bind(**space.choice(0))
    except TypeError as error:
        name = getattr(build, "__name__", type(build).__name__)
        raise ParameterError(
            f"{name}{signature} cannot be called with the names of the space, {', '.join(space.choices)}: {error}"
        ) from error


SAMPLERS = {"tpe": "TPESampler", "random": "RandomSampler"}
"""names of Optuna's samplers: the tree-structured Parzen estimator (Bergstra et al., NIPS 2011), and random sampling"""


def sampler_of(optimizer: object, seed: int) -> "BaseSampler":
    """Return the sampler named *optimizer* in :data:`SAMPLERS`, with *seed*, or *optimizer* itself.

    Raises :class:`ParameterError` if it is neither, and :class:`LoopyperfError` if Optuna is not installed.
    """
    optuna = _optuna()
    if isinstance(optimizer, str):
        return getattr(optuna.samplers, SAMPLERS[optimizer])(seed=seed)
    if not isinstance(optimizer, optuna.samplers.BaseSampler):
        raise ParameterError(
            f"optimizer must be None, 'exhaustive', {', '.join(map(repr, SAMPLERS))} or an Optuna sampler, got "
            f"{optimizer!r:.80}"
        )
    if isinstance(optimizer, optuna.samplers.GridSampler | optuna.samplers.BruteForceSampler):
        raise ParameterError(f"{type(optimizer).__name__} enumerates all points; use optimizer='exhaustive'")
    return cast("BaseSampler", optimizer)


class Adviser:
    """An Optuna study of one space."""

    def __init__(self, space: Space, sampler: "BaseSampler") -> None:
        """Start an empty study."""
        optuna = _optuna()
        self._space = space
        self._pruned = optuna.trial.TrialState.PRUNED
        self._distributions = dict(_distributions(optuna.distributions, space))
        before = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
        self._study = optuna.create_study(sampler=sampler)
        optuna.logging.set_verbosity(before)

    def advice(self) -> "tuple[Trial, int]":
        """Return a trial that the sampler proposes, and its point."""
        trial = self._study.ask(self._distributions)
        return trial, self._space.number(trial.params)

    def take(self, point: int) -> "Trial":
        """Return a trial of *point*, which the sampler did not propose."""
        self._study.enqueue_trial(self._space.places(point))
        return self._study.ask(self._distributions)

    def tell(self, trial: "Trial", seconds: float | None) -> None:
        """Report the time of *trial*; None if unknown, which samplers treat as worse than any time."""
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


def _optuna() -> Any:
    try:
        return import_module("optuna")
    except ImportError as error:
        raise LoopyperfError(
            f"this search needs Optuna, which cannot be imported ({error}); run pip install 'loopyperf[search]', or "
            "use optimizer='exhaustive'"
        ) from error
