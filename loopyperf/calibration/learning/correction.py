"""Learning a correction, and judging it on kernel classes that nothing of it has seen.

Everything is nested. To judge, classes are left out; the base is fitted to the others; the residuals that are learned
are those of the others by bases fitted to others yet; and hyper-parameters are searched for among the others alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from loopyperf.calibration.folds import MOST_FOLDS, splits
from loopyperf.calibration.learning.example import Base, Example, out_of_fold
from loopyperf.calibration.learning.regressors import RECIPES, Parameters, Regressor, searched, taught
from loopyperf.calibration.problem import Matrix, Vector

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
class Judged:
    """What is said of each example by those that have not seen its class, in seconds."""

    base: Vector
    learned: Mapping[str, Vector]
    """by recipe"""


def judge(
    base: Base, examples: Sequence[Example], recipes: Sequence[str] = tuple(RECIPES), most: int = MOST_FOLDS
) -> Judged:
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
    return Judged(alone, learned)


def logarithms(examples: Sequence[Example], seconds: Vector) -> Vector:
    """Return ln(measured/*seconds*) of each example, within ±:data:`LARGEST`."""
    measured = np.array([each.observation.seconds for each in examples])
    ratios = measured / np.maximum(seconds, np.finfo(float).tiny)
    return np.clip(np.log(ratios), -LARGEST, LARGEST)
