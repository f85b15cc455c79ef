"""What a learned model is trained with: a measured kernel, its features, and what the base says of it.

The base is the model whose error is learned. Some know their answer beforehand: the sampled model, and models of the
device. A fit is made from the examples themselves: what it says of an example is then that of a fit to other classes,
since the residuals of the rows that it was fitted to are smaller than those of kernels to come.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from loopyperf.calibration.candidates import Candidate
from loopyperf.calibration.folds import splits
from loopyperf.calibration.problem import Observation, Vector, pose_problem
from loopyperf.errors import CalibrationError
from loopyperf.models.features import Features


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
class Stated:
    """A base that is fitted to nothing: examples come with what it says."""

    name: str

    def fitted(self, examples: Sequence[Example]) -> Answers:
        """Return what reads the answers off the examples."""
        return _stated


def _stated(examples: Sequence[Example], /) -> Vector:
    silent = [str(each.observation) for each in examples if each.base is None]
    if silent:
        raise CalibrationError(f"what the base says of {silent[0]} is not known; state its seconds")
    return np.array([each.base for each in examples], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class FittedBase:
    """A fit of the examples' observations."""

    candidate: Candidate

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
