"""From examples to a learned model: judged on classes left out, taught all of them, and recorded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
import numpy as np

from loopyperf.calibration.accuracy import MOST_FOLDS, median_log_error, splits
from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.calibration.problem import Matrix, Observation, Vector, pose_problem
from loopyperf.calibration.residual_model import (
    BASE,
    RECIPES,
    Parameters,
    Record,
    Regressor,
    ResidualModel,
    Score,
    TrainingRecord,
    check_recipe,
    searched,
    taught,
)
from loopyperf.calibration.validation import FitRecipe, rounded
from loopyperf.errors import CalibrationError
from loopyperf.models.residual_regression import Features

# {{{ what a learned model is trained with
#
# A measured kernel, its features, and what the base says of it.
#
# The base is the model whose error is learned. Some know their answer beforehand: the sampled model, and models of the
# device. A fit is made from the examples themselves: what it says of an example is then that of a fit to other classes,
# since the residuals of the rows that it was fitted to are smaller than those of kernels to come.


@dataclass(frozen=True, slots=True)
class Example:
    """A measured kernel that a learned model is trained with."""

    observation: Observation
    features: Features
    base: float | None = None
    """seconds that the base says; None where the base is a fit of the observations"""


class Answers(Protocol):
    """A base that knows what it needs to."""

    def __call__(self, examples: Sequence[Example], /) -> Vector:
        """Return the seconds of each of *examples*."""
        ...


class Base(Protocol):
    """The model whose error is learned."""

    @property
    def name(self) -> str:
        """Return how it is called."""
        ...

    def fitted(self, examples: Sequence[Example]) -> Answers:
        """Return the base fitted to *examples*."""
        ...


@dataclass(frozen=True, slots=True)
class UnfittedBase:
    """A base that is fitted to nothing: examples come with what it says."""

    name: str

    def fitted(self, examples: Sequence[Example]) -> Answers:
        """Return what reads the answers off the examples."""
        return _given


def _given(examples: Sequence[Example], /) -> Vector:
    silent = [str(each.observation) for each in examples if each.base is None]
    if silent:
        raise CalibrationError(f"what the base says of {silent[0]} is not known; state its seconds")
    return np.array([each.base for each in examples], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class FittedBase:
    """A fit of the examples' observations."""

    candidate: FitRecipe

    @property
    def name(self) -> str:
        """Return the name of the candidate."""
        return self.candidate.name

    def fitted(self, examples: Sequence[Example]) -> Answers:
        """Return a fit of *examples*."""
        basis = self.candidate.basis
        solution = self.candidate.solve(pose_problem((each.observation for each in examples), basis))
        return lambda asked: solution.seconds([each.observation.amounts(basis) for each in asked])


def out_of_fold(base: Base, examples: Sequence[Example]) -> Vector:
    """Return the seconds that *base* says of each example, fitted to examples of other classes."""
    found = np.zeros(len(examples))
    for known, asked in splits([each.observation.kernel_class for each in examples]):
        answers = base.fitted([examples[place] for place in known])
        found[asked] = answers([examples[place] for place in asked])
    return found


# }}}


# {{{ learning a correction, and judging it on kernel classes that nothing of it has seen
#
# Everything is nested. To judge, classes are left out; the base is fitted to the others; the residuals that are learned
# are those of the others by bases fitted to others yet; and hyper-parameters are searched for among the others alone.


LARGEST = float(np.log(1000))
"""of a logarithm that is learned: what is further from the truth than that is no base"""
DECIMALS = 6
"""of a logarithm that is learned: later ones hang on the order of sums, and would choose between splits as good"""


@dataclass(frozen=True, slots=True)
class Names:
    """The columns of the features of a training set."""

    told: tuple[str, ...]
    amounts: tuple[str, ...]

    @classmethod
    def of(cls, examples: Sequence[Example]) -> "Names":
        """Return those that all examples are told, and all of which one has some."""
        told = [name for name in examples[0].features.told if all(name in each.features.told for each in examples)]
        amounts = {name for each in examples for name in each.features.amounts}
        return cls(tuple(sorted(told)), tuple(sorted(amounts)))

    def matrix(self, examples: Sequence[Example]) -> Matrix:
        """Return the features of *examples*, a row each."""
        return np.array([each.features.vector(self.told, self.amounts) for each in examples])


@dataclass(frozen=True, slots=True)
class Lesson:
    """What is learned from a training set: features, and the logarithms of time over base."""

    names: Names
    features: Matrix
    targets: Vector
    classes: tuple[str, ...]

    @classmethod
    def of(cls, base: Base, examples: Sequence[Example]) -> "Lesson":
        """Return what to learn from *examples*; the base of each is one that has not seen its class."""
        names = Names.of(examples)
        targets = np.round(logarithms(examples, out_of_fold(base, examples)), DECIMALS)
        return cls(names, names.matrix(examples), targets, tuple(each.observation.kernel_class for each in examples))

    def searched(self, recipe: str) -> dict[str, float]:
        """Return the hyper-parameters for *recipe* that are best for classes left out."""
        return searched(recipe, self.features, self.targets, self.classes)

    def taught(self, recipe: str, parameters: Parameters) -> Regressor:
        """Return what has learned it."""
        return taught(recipe, parameters, self.features, self.targets)


@dataclass(frozen=True, slots=True, eq=False)
class CrossValidated:
    """What is said of each example by those that have not seen its class, in seconds."""

    base: Vector
    learned: Mapping[str, Vector]
    """by recipe"""


def cross_validated(
    base: Base, examples: Sequence[Example], recipes: Sequence[str] = tuple(RECIPES), most: int = MOST_FOLDS
) -> CrossValidated:
    """Return what *base* alone, and corrected by each of *recipes*, says of classes that were left out.

    Raises :class:`CalibrationError` for fewer than three classes: one is left out, and of the others one more.
    """
    alone = np.zeros(len(examples))
    learned = {recipe: np.zeros(len(examples)) for recipe in recipes}
    for known, asked in splits([each.observation.kernel_class for each in examples], most):
        taken, left = [examples[place] for place in known], [examples[place] for place in asked]
        lesson = Lesson.of(base, taken)
        alone[asked] = base.fitted(taken)(left)
        features = lesson.names.matrix(left)
        for recipe in recipes:
            regressor = lesson.taught(recipe, lesson.searched(recipe))
            learned[recipe][asked] = alone[asked] * np.exp(regressor.predict(features))
    return CrossValidated(alone, learned)


def logarithms(examples: Sequence[Example], seconds: Vector) -> Vector:
    """Return ln(measured/*seconds*) of each example, within ±:data:`LARGEST`."""
    measured = np.array([each.observation.seconds for each in examples])
    ratios = measured / np.maximum(seconds, np.finfo(float).tiny)
    return np.clip(np.log(ratios), -LARGEST, LARGEST)


# }}}


# {{{ training


FEWEST_CLASSES = 3
"""one that is asked about, one that hyper-parameters are judged on, and one to learn from"""


def learn(
    provenance: Provenance, base: Base, examples: Sequence[Example], recipe: str = "svr", fit: Fit | None = None
) -> ResidualModel:
    """Return what *recipe* learns of the error of *base* on *examples*, judged on classes left out.

    *fit* is that of the base to all examples, where it is fitted; all recipes are judged beside *recipe*. Raises
    :class:`CalibrationError` for a recipe that is none, and for fewer than three kernel classes.
    """
    check_recipe(recipe)
    rows = [Example(each.observation, each.features.rounded(), each.base) for each in examples]
    _check_classes(rows)
    judged = cross_validated(base, rows)
    lesson = Lesson.of(base, rows)
    errors = np.sort(np.abs(logarithms(rows, judged.learned[recipe])))
    origin: dict[str, Any] = msgspec.structs.asdict(provenance) | {"model": "learned"}
    return ResidualModel(
        Record(
            **origin,
            base=base.name,
            fit=fit,
            recipe=recipe,
            parameters=lesson.searched(recipe),
            told=lesson.names.told,
            amounts=lesson.names.amounts,
            scores=scores(rows, judged),
            errors=tuple(map(rounded, errors.tolist())),
            rows=tuple(
                TrainingRecord(
                    row.observation.kernel_class,
                    row.observation.label,
                    float(row.observation.seconds),
                    float(target),
                    tuple(vector.tolist()),
                )
                for row, target, vector in zip(rows, lesson.targets, lesson.features, strict=True)
            ),
        )
    )


def scores(examples: Sequence[Example], judged: CrossValidated) -> dict[str, Score]:
    """Return the scores of the base alone and of each recipe."""
    measured = np.array([each.observation.seconds for each in examples])
    left = logarithms(examples, judged.base)

    def score(seconds: Vector) -> Score:
        explained = 1 - float(np.sum(logarithms(examples, seconds) ** 2)) / (float(np.sum(left**2)) or 1.0)
        floored = np.maximum(seconds, np.finfo(float).tiny)
        return Score(rounded(median_log_error(floored, measured)), rounded(explained))

    return {BASE: score(judged.base)} | {name: score(seconds) for name, seconds in judged.learned.items()}


def _check_classes(examples: Sequence[Example]) -> None:
    classes = sorted({each.observation.kernel_class for each in examples})
    if len(classes) < FEWEST_CLASSES:
        raise CalibrationError(
            f"a learned model is judged on kernels that it has not seen, and needs {FEWEST_CLASSES} classes of kernels "
            f"or more, but got {len(classes)}: {', '.join(map(repr, classes)) or 'none'}; measure other kernels too"
        )


# }}}
