"""Optuna, as one who says which point of a space to look at next, and is told how long it takes.

To Optuna, each name of a space is a parameter whose values are the places of its choices, 0, 1, 2, ...: whole numbers
where the choices are a scale, so that powers of two are as far apart as their exponents; else categories. It comes with
the extra ``search``.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from loopyperf.errors import LoopyperfError, ParameterError
from loopyperf.oracle.search.space import Space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import Trial


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
        import optuna
    except ImportError as error:
        raise LoopyperfError(
            f"a search that leaves points out needs Optuna, which cannot be imported ({error}); install it: pip "
            "install 'loopyperf[search]', or say optimizer='exhaustive'"
        ) from error
    return optuna
