"""Train residual models: cross-validate on held-out classes, train on all examples, and record the result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from loopyperf.calibration.accuracy import MAX_FOLDS, median_log_error, splits
from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.calibration.fitting import FitRecipe, rounded
from loopyperf.calibration.problem import Matrix, Observation, Vector, pose_problem
from loopyperf.calibration.residual_model import (
    BASE,
    CORRECTED,
    Parameters,
    Record,
    Regressor,
    ResidualModel,
    Score,
    TrainingRecord,
    searched,
    trained_regressor,
)
from loopyperf.errors import CalibrationError
from loopyperf.models.residual_regression import Features

# {{{ training examples: measured kernels with their features and the prediction of the base model
#
# The residual model learns the error of the base model. Base models that need no fit, the sampled model and models of
# the device, predict each example once. A fit as the base is made from the examples themselves; its prediction of an
# example is then that of a fit to other classes, since the residuals of fitted rows are smaller than those of new
# kernels.


@dataclass(frozen=True, slots=True)
class Example:
    """A measured kernel for training."""

    observation: Observation
    features: Features
    base: float | None = None
    """the base model's prediction in seconds; None if the base is a fit of the observations"""


Answers = Callable[[Sequence[Example]], Vector]
"""a base model that is ready to predict: examples -> seconds of each"""


@dataclass(frozen=True, slots=True)
class Base:
    """A model whose error is learned."""

    name: str
    """name of the model"""
    fitted: Callable[[Sequence[Example]], Answers]
    """fits the model to examples"""


def unfitted_base(name: str) -> Base:
    """Return the base model *name* that is not fitted: the examples contain its predictions."""

    def given(examples: Sequence[Example]) -> Vector:
        silent = [str(example.observation) for example in examples if example.base is None]
        if silent:
            raise CalibrationError(f"the base model's prediction of {silent[0]} is missing; pass its seconds")
        return np.array([example.base for example in examples], dtype=np.float64)

    return Base(name, lambda examples: given)


def fitted_base(candidate: FitRecipe) -> Base:
    """Return the base model that *candidate* fits to the examples' observations."""
    basis = candidate.basis

    def fitted(examples: Sequence[Example]) -> Answers:
        solution = candidate.solve(pose_problem((example.observation for example in examples), basis))
        return lambda rows: solution.seconds([row.observation.amounts(basis) for row in rows])

    return Base(candidate.name, fitted)


def out_of_fold(base: Base, examples: Sequence[Example]) -> Vector:
    """Return the seconds that *base* predicts for each example when fitted to examples of other classes."""
    found = np.zeros(len(examples))
    for known, held_out in splits([example.observation.kernel_class for example in examples]):
        answers = base.fitted([examples[index] for index in known])
        found[held_out] = answers([examples[index] for index in held_out])
    return found


# }}}


# {{{ learning a correction, with nested cross-validation
#
# For each held-out set of classes, everything uses only the others: the base is fitted to them; the residuals to learn
# are those of bases fitted to yet other classes; and the search for hyper-parameters is restricted to them.


LARGEST = float(np.log(1000))
"""maximum magnitude of a logarithm to learn: a prediction with a larger error is useless as a base"""
DECIMALS = 6
"""decimals of a logarithm to learn: further ones depend on the order of summation and would decide between equal
splits"""


@dataclass(frozen=True, slots=True)
class Names:
    """Feature names of a training set."""

    told: tuple[str, ...]
    amounts: tuple[str, ...]

    @classmethod
    def of(cls, examples: Sequence[Example]) -> "Names":
        """Return the features that all examples have, and the amounts that any example has."""
        told = [name for name in examples[0].features.told if all(name in each.features.told for each in examples)]
        amounts = {name for example in examples for name in example.features.amounts}
        return cls(tuple(sorted(told)), tuple(sorted(amounts)))

    def matrix(self, examples: Sequence[Example]) -> Matrix:
        """Return the features of *examples*, one row each."""
        return np.array([example.features.vector(self.told, self.amounts) for example in examples])


@dataclass(frozen=True, slots=True)
class Lesson:
    """Training data: features, and the logarithms of measured over base time."""

    names: Names
    features: Matrix
    targets: Vector
    classes: tuple[str, ...]

    @classmethod
    def of(cls, base: Base, examples: Sequence[Example]) -> "Lesson":
        """Return the training data of *examples*; the base of each was not fitted to its class."""
        names = Names.of(examples)
        targets = np.round(logarithms(examples, out_of_fold(base, examples)), DECIMALS)
        return cls(names, names.matrix(examples), targets, tuple(each.observation.kernel_class for each in examples))

    def searched(self) -> dict[str, float]:
        """Return the hyper-parameters that are best for held-out classes."""
        return searched(self.features, self.targets, self.classes)

    def trained(self, parameters: Parameters) -> Regressor:
        """Return the trained regressor."""
        return trained_regressor(parameters, self.features, self.targets)


@dataclass(frozen=True, slots=True, eq=False)
class CrossValidated:
    """Predictions of each example in seconds with its class held out."""

    base: Vector
    corrected: Vector


def cross_validated(base: Base, examples: Sequence[Example], most: int = MAX_FOLDS) -> CrossValidated:
    """Return the predictions of *base* alone and corrected, with classes held out.

    Raises :class:`CalibrationError` for fewer than three classes: one is held out, and another one of the rest.
    """
    alone, corrected = np.zeros(len(examples)), np.zeros(len(examples))
    for known, held_out in splits([example.observation.kernel_class for example in examples], most):
        taken, left = [examples[index] for index in known], [examples[index] for index in held_out]
        lesson = Lesson.of(base, taken)
        alone[held_out] = base.fitted(taken)(left)
        correction = lesson.trained(lesson.searched()).predict(lesson.names.matrix(left))
        corrected[held_out] = alone[held_out] * np.exp(correction)
    return CrossValidated(alone, corrected)


def logarithms(examples: Sequence[Example], seconds: Vector) -> Vector:
    """Return ln(measured/*seconds*) of each example, clipped to ±:data:`LARGEST`."""
    measured = np.array([example.observation.seconds for example in examples])
    ratios = measured / np.maximum(seconds, np.finfo(float).tiny)
    return np.clip(np.log(ratios), -LARGEST, LARGEST)


# }}}


# {{{ training


MIN_CLASSES = 3
"""one to predict, one to select hyper-parameters, and one to learn from"""


def learn(provenance: Provenance, base: Base, examples: Sequence[Example], fit: Fit | None = None) -> ResidualModel:
    """Train a regressor on the errors of *base* for *examples*, cross-validated on held-out classes.

    *fit* is the base's fit to all examples, if it is fitted. Raises :class:`CalibrationError` for fewer than three
    kernel classes.
    """
    rows = [Example(example.observation, example.features.rounded(), example.base) for example in examples]
    classes = sorted({each.observation.kernel_class for each in rows})
    if len(classes) < MIN_CLASSES:
        raise CalibrationError(
            f"a residual model needs {MIN_CLASSES} kernel classes or more for cross-validation, got {len(classes)}: "
            f"{', '.join(map(repr, classes)) or 'none'}; measure kernels of other classes"
        )
    judged = cross_validated(base, rows)
    lesson = Lesson.of(base, rows)
    errors = np.sort(np.abs(logarithms(rows, judged.corrected)))
    origin: dict[str, Any] = msgspec.structs.asdict(provenance) | {"model": "learned"}
    return ResidualModel(
        Record(
            **origin,
            base=base.name,
            fit=fit,
            parameters=lesson.searched(),
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
    """Return the scores of the base alone and corrected."""
    measured = np.array([example.observation.seconds for example in examples])
    left = logarithms(examples, judged.base)

    def score(seconds: Vector) -> Score:
        explained = 1 - float(np.sum(logarithms(examples, seconds) ** 2)) / (float(np.sum(left**2)) or 1.0)
        floored = np.maximum(seconds, np.finfo(float).tiny)
        return Score(rounded(median_log_error(floored, measured)), rounded(explained))

    return {BASE: score(judged.base), CORRECTED: score(judged.corrected)}


# }}}
