"""The models that measurements are fitted with, of which cross-validation chooses one."""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from loopyperf.calibration.accuracy import PLAIN
from loopyperf.calibration.overlap_fit import solve_overlap
from loopyperf.calibration.problem import Observation, Problem
from loopyperf.calibration.solution import Solution
from loopyperf.calibration.solver import solve
from loopyperf.errors import LoopyperfWarning
from loopyperf.models.interface import Basis
from loopyperf.units import listed


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

NAMED = 3
"""measurements that a warning names at most"""
LACK: Mapping[Basis, str] = {
    "counts": "count them",
    "pipelines": "complete the device's description, which lacks a number that they need",
}
"""what to do about measurements without the columns of a basis"""


def possible(observations: Iterable[Observation], model: str | None = None) -> tuple[Candidate, ...]:
    """Return the candidates, of *model* if one is named, that *observations* have the columns for.

    Warns where only some have them: a few rows that lack pipelines take a whole way to fit from all.
    """
    rows = tuple(observations)
    named = [each for each in CANDIDATES if model in (None, each.model)]
    bases: set[Basis] = {each.basis for each in named}
    for basis in sorted(bases):
        _warn_of_some(basis, rows)
    return tuple(each for each in named if all(row.amounts(each.basis) for row in rows))


def _warn_of_some(basis: Basis, rows: Sequence[Observation]) -> None:
    lacking = [row for row in rows if not row.amounts(basis)]
    if lacking and len(lacking) < len(rows):
        which = dict.fromkeys(f"{row.kernel_class!r} ({row.label})" for row in lacking)
        warnings.warn(
            f"nothing is fitted to {basis}, because {len(lacking)} of {len(rows)} measurements have none: "
            f"{listed(which, NAMED, '; ')}; {LACK[basis]}, or leave them out",
            LoopyperfWarning,
            stacklevel=3,
        )
