"""The sampled model: what the first groups of a launch took tells what all of them will (Dao, section 5.1).

    tlinear(N) = t₁ + (t₂ − t₁)/(P₂ − P₁) · (N − P₁)

N are the groups of the launch, t₁ and t₂ the seconds that its first P₁ = 2·Psat and P₂ = 3·Psat took, and Psat, the
saturation point, the groups that the device runs at once. Through more than two samples goes the line of least squares
of relative errors.

Ours, where groups do not all do the same: with W(P) the work of the first P groups, in instructions,

    t = t₁ + (t₂ − t₁)/(W(P₂) − W(P₁)) · (W(N) − W(P₁))      of two samples,
    t = c + a·N + b·W(N) with a, b ≥ 0, by least squares     of more: a group costs something beside its work

T. T. Dao, J. Kim, S. Seo, B. Egger, J. Lee: A Performance Model for GPUs with Caches, IEEE Transactions on Parallel and
Distributed Systems 26(7), 2015.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations
from math import isclose, isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import ModelInputError
from loopyperf.models.result import DEVIATIONS, LEVEL, Breakdown, BreakdownRow, ModelTime, adding_up
from loopyperf.units import in_percent

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

ALIKE = 1e-3
"""relative difference of the mean work of groups from which they are said to differ"""


@dataclass(frozen=True, slots=True)
class Samples:
    """What the first groups of one launch took, for several numbers of them.

    Raises :class:`ModelInputError` unless there is a time for each number, numbers increase from 1 or more and are at
    most those of the launch, and times are positive.
    """

    groups: tuple[int, ...]
    """groups launched, increasing"""
    seconds: tuple[float, ...]
    """what they took, for each number of them"""
    saturation: int
    """Psat: the groups that the device runs at once"""
    total_groups: int
    """N: the groups of the whole launch"""

    def __post_init__(self) -> None:
        """Refuse invalid samples."""
        if self.saturation < 1 or self.total_groups < 1:
            raise ModelInputError(
                "saturation and total_groups must be 1 group or more; received "
                f"saturation={self.saturation} and total_groups={self.total_groups}"
            )
        if not self.groups or len(self.groups) != len(self.seconds):
            raise ModelInputError(
                f"each sample is a number of groups and their seconds; received {len(self.groups)} numbers and "
                f"{len(self.seconds)} times"
            )
        increases = list(self.groups) == sorted(set(self.groups))
        if not increases or not 1 <= self.groups[0] <= self.groups[-1] <= self.total_groups:
            raise ModelInputError(
                f"numbers of groups must increase, from 1 to at most the {self.total_groups} of the launch; received "
                f"{', '.join(map(str, self.groups))}"
            )
        if not all(isfinite(each) and each > 0 for each in self.seconds):
            raise ModelInputError(f"seconds of groups must be positive; received {', '.join(map(str, self.seconds))}")

    @property
    def is_whole(self) -> bool:
        """Return whether the last sample is the whole launch: nothing is left to predict."""
        return self.groups[-1] == self.total_groups


@dataclass(frozen=True, slots=True)
class Work:
    """What groups do, in any unit; raises :class:`ModelInputError` unless more groups do no less."""

    sampled: tuple[float, ...]
    """by the first groups, for each sample"""
    total: float
    """by all groups"""

    def __post_init__(self) -> None:
        """Refuse work that shrinks."""
        amounts = (*self.sampled, self.total)
        if not all(isfinite(each) and each >= 0 for each in amounts) or list(amounts) != sorted(amounts):
            raise ModelInputError(
                f"more groups must do as much work or more; received {', '.join(map(str, self.sampled))} and, by all "
                f"groups, {self.total}"
            )


@dataclass(frozen=True, slots=True)
class SampledProgram:
    """A device program of a kernel that was sampled; raises :class:`ModelInputError` for work of other samples."""

    name: str
    """of the device program"""
    samples: Samples
    """what its first groups took"""
    work: Work | None = None
    """None where it is not known: groups are then taken to do the same"""
    scatter: float = 0.0
    """by how much a sample would differ if it were taken again, relative to it"""

    def __post_init__(self) -> None:
        """Refuse work of other samples."""
        if self.work is not None and len(self.work.sampled) != len(self.samples.groups):
            raise ModelInputError(
                f"give the work of each sample; received {len(self.work.sampled)} amounts for "
                f"{len(self.samples.groups)} samples"
            )

    @property
    def groups_differ(self) -> bool:
        """Return whether the mean work of the groups sampled is another than that of all groups."""
        if self.work is None or not self.work.total:
            return False
        shares = zip(self.samples.groups, self.work.sampled, strict=True)
        return any(
            not isclose(work / self.work.total, groups / self.samples.total_groups, rel_tol=ALIKE)
            for groups, work in shares
        )


@dataclass(frozen=True, slots=True)
class Extrapolation:
    """What all groups of a launch take, by samples of it."""

    seconds: float
    half_width: float
    """seconds that it may be off to either side, with the probability :data:`LEVEL`, by the scatter of the samples"""


def extrapolated(program: SampledProgram) -> Extrapolation:
    """Return what all groups of *program* take.

    It is at least what the last sample took. Raises :class:`ModelInputError` for a single sample that is not the
    whole launch.
    """
    samples = program.samples
    if samples.is_whole:
        return Extrapolation(samples.seconds[-1], samples.seconds[-1] * program.scatter * DEVIATIONS)
    if len(samples.groups) == 1:
        raise ModelInputError(
            f"a line goes through two samples or more; received one, of {samples.groups[0]} of the "
            f"{samples.total_groups} groups"
        )
    amounts = _amounts(program)
    at_all = amounts[-1]
    weighted = (amounts[:-1].T / np.array(samples.seconds)).T
    costs = _least_squares(weighted)
    half_width = _half_width(weighted, costs, at_all, program.scatter)
    return Extrapolation(max(float(at_all @ costs), samples.seconds[-1]), half_width)


def _least_squares(weighted: Matrix) -> Vector:
    """Return the costs c for which ``weighted @ c`` is nearest to ones, all of them but the first not negative."""
    further = range(1, weighted.shape[1])
    subsets = [kept for number in range(len(further) + 1) for kept in combinations(further, number)]
    candidates = [_with_columns(weighted, (0, *kept)) for kept in subsets]
    possible = [each for each in candidates if (each[1:] >= 0).all()]
    return min(possible, key=lambda costs: float(np.sum((weighted @ costs - 1) ** 2)))


def _with_columns(weighted: Matrix, kept: Sequence[int]) -> Vector:
    part = weighted[:, kept]
    scale = np.abs(part).max(axis=0)
    costs: Vector = np.zeros(len(weighted[0]))
    costs[list(kept)] = np.linalg.lstsq(part / scale, np.ones(len(part)), rcond=None)[0] / scale
    return costs


def _amounts(program: SampledProgram) -> NDArray[np.float64]:
    """Return what the time is a sum of (samples, and last all groups, × columns): a launch, groups, work."""
    samples = program.samples
    groups = np.array([*samples.groups, samples.total_groups], dtype=np.float64)
    columns = [np.ones_like(groups)]
    if not program.groups_differ or program.work is None:
        return np.stack([*columns, groups], axis=1)
    work = np.array([*program.work.sampled, program.work.total], dtype=np.float64)
    if len(samples.groups) > 2:
        columns.append(groups)
    return np.stack([*columns, work if work[0] < work[-2] else groups], axis=1)


def _half_width(weighted: Matrix, costs: Vector, at_all: Vector, scatter: float) -> float:
    """Return the half width of the interval of ``at_all @ costs``: by residuals, or *scatter* where that is more."""
    free = len(weighted) - len(at_all)
    residuals = weighted @ costs - 1
    width = scatter * DEVIATIONS
    if free > 0:
        stats: Any = import_module("scipy.stats")  # only here: its import takes half a second
        width = max(width, float(np.sqrt(residuals @ residuals / free) * stats.t.ppf((1 + LEVEL) / 2, free)))
    leverage = float(at_all @ np.linalg.pinv(weighted.T @ weighted) @ at_all)
    return width * sqrt(max(leverage, 0.0))


# {{{ a kernel


def sampled_time(programs: Sequence[SampledProgram], launching: float = 0.0) -> ModelTime:
    """Return how long a kernel of *programs* takes, in seconds, with *launching* for what the host takes beside them.

    Raises what :func:`extrapolated` raises.
    """
    answers = [extrapolated(each) for each in programs]
    rows = [row for program, answer in zip(programs, answers, strict=True) for row in _rows(program, answer)]
    if launching:
        rows.append(BreakdownRow("launching", "the host", 1, launching, launching))
    seconds, costs = adding_up([row.seconds for row in rows])
    exact = (
        BreakdownRow(row.property, row.source, row.count, row.weight, cost)
        for row, cost in zip(rows, costs, strict=True)
    )
    total, width = float(np.sum(seconds)), float(np.sqrt(sum(each.half_width**2 for each in answers)))
    least = launching + sum(each.samples.seconds[-1] for each in programs)
    spread = (min(total, max(total - width, least)), total + width)
    notes = tuple(note for program in programs for note in _notes(program))
    return ModelTime(total, Breakdown(tuple(exact)), notes=notes, interval=spread, columns="samples")


def _rows(program: SampledProgram, answer: Extrapolation) -> Iterator[BreakdownRow]:
    samples, source = program.samples, f"launch of {program.name}"
    last, others = samples.seconds[-1], samples.total_groups - samples.groups[-1]
    yield BreakdownRow("groups sampled", source, samples.groups[-1], last / samples.groups[-1], last)
    if others:
        rest = answer.seconds - last
        yield BreakdownRow("other groups", source, others, rest / others, rest)


def _notes(program: SampledProgram) -> Iterator[str]:
    samples = program.samples
    if samples.is_whole:
        yield f"all {samples.total_groups} groups of {program.name} were run: fewer would not tell what the others take"
    elif program.groups_differ and program.work is not None:
        of_work = in_percent(program.work.sampled[-1] / program.work.total, 2)
        of_groups = in_percent(samples.groups[-1] / samples.total_groups, 2)
        yield (
            f"the groups of {program.name} differ: the first {samples.groups[-1]} are {of_groups} of them and do "
            f"{of_work} of the work, by which the time is extrapolated"
        )


# }}}
