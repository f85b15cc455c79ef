"""The models that measurements are fitted with, of which cross-validation chooses one."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from loopyperf.calibration.accuracy import PLAIN
from loopyperf.calibration.overlap_fit import solve_overlap
from loopyperf.calibration.problem import Observation, Problem
from loopyperf.calibration.solution import Solution
from loopyperf.calibration.solver import solve
from loopyperf.models.interface import Basis


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to fit a model."""

    name: str
    model: str
    """name of the model"""
    basis: Basis
    solve: Callable[[Problem], Solution]


CANDIDATES = (
    Candidate("linear, non-negative", "linear", "counts", solve),
    Candidate(PLAIN, "linear", "counts", partial(solve, non_negative=False)),
    Candidate("overlap of counts", "overlap", "counts", solve_overlap),
    Candidate("overlap of pipelines", "overlap", "pipelines", solve_overlap),
)


def possible(observations: Iterable[Observation], model: str | None = None) -> tuple[Candidate, ...]:
    """Return the candidates, of *model* if one is named, that *observations* have the columns for."""
    rows = tuple(observations)
    return tuple(
        each for each in CANDIDATES if model in (None, each.model) and all(row.amounts(each.basis) for row in rows)
    )
