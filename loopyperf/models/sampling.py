"""The sampled model: extrapolates the measured time of a launch's first groups to all groups (Dao, section 5.1).

    tlinear(N) = t₁ + (t₂ − t₁)/(P₂ − P₁) · (N − P₁)

N is the number of groups of the launch, t₁ and t₂ are the seconds of its first P₁ = 2·Psat and P₂ = 3·Psat groups, and
Psat, the saturation point, is the number of groups that the device executes at once. With more than two samples, the
line minimizes the squares of the relative errors.

Our extension to groups that differ in work: with W(P) the work of the first P groups, in instructions,

    t = t₁ + (t₂ − t₁)/(W(P₂) − W(P₁)) · (W(N) − W(P₁))      of two samples,
    t = c + a·N + b·W(N) with a, b ≥ 0, by least squares     of more: a group has a cost besides its work

T. T. Dao, J. Kim, S. Seo, B. Egger, J. Lee: A Performance Model for GPUs with Caches, IEEE Transactions on Parallel and
Distributed Systems 26(7), 2015.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import combinations
from math import isclose, isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import ModelInputError
from loopyperf.models.result import DEVIATIONS, LEVEL, BreakdownRow, ModelTime
from loopyperf.units import in_percent

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

SAME_MEAN_WORK = 1e-3
"""Relative difference in mean work from which groups count as different."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Measured times of the first groups of one launch, for several numbers of groups.

    :raises ModelInputError: unless there is a positive time for each number of groups, and the numbers increase within
        1 and the groups of the launch.
    """

    groups: tuple[int, ...]
    """Numbers of groups launched, increasing."""
    seconds: tuple[float, ...]
    """Time of each sample, in seconds."""
    saturation: int
    """Psat: number of groups that the device executes at once."""
    total_groups: int
    """N: number of groups of the whole launch."""

    def __post_init__(self) -> None:
        """Check the samples."""
        if self.saturation < 1 or self.total_groups < 1:
            raise ModelInputError(
                "saturation and total_groups must be >= 1, "
                f"got saturation={self.saturation} and total_groups={self.total_groups}"
            )
        if not self.groups or len(self.groups) != len(self.seconds):
            raise ModelInputError(
                f"groups and seconds must have the same length >= 1, got {len(self.groups)} and {len(self.seconds)}"
            )
        increases = list(self.groups) == sorted(set(self.groups))
        if not increases or not 1 <= self.groups[0] <= self.groups[-1] <= self.total_groups:
            raise ModelInputError(
                f"numbers of groups must increase from >= 1 to <= {self.total_groups}, the groups of the launch; got "
                f"{', '.join(map(str, self.groups))}"
            )
        if not all(isfinite(each) and each > 0 for each in self.seconds):
            raise ModelInputError(f"seconds must be positive, got {', '.join(map(str, self.seconds))}")

    @property
    def is_whole(self) -> bool:
        """Return whether the last sample is the whole launch, so that nothing is left to predict."""
        return self.groups[-1] == self.total_groups


@dataclass(frozen=True, slots=True)
class Work:
    """Work of groups, in any unit; raises :class:`ModelInputError` unless it grows with the number of groups."""

    sampled: tuple[float, ...]
    """Work of the first groups, for each sample."""
    total: float
    """Work of all groups."""

    def __post_init__(self) -> None:
        """Check that the work does not shrink."""
        amounts = (*self.sampled, self.total)
        if not all(isfinite(amount) and amount >= 0 for amount in amounts) or list(amounts) != sorted(amounts):
            raise ModelInputError(
                f"work must not decrease with the number of groups, got {', '.join(map(str, self.sampled))} and "
                f"{self.total} for all groups"
            )


@dataclass(frozen=True, slots=True)
class SampledProgram:
    """A sampled device program; raises :class:`ModelInputError` if work and samples differ in length."""

    name: str
    """Name of the device program."""
    samples: Samples
    """Measured times of its first groups."""
    work: Work | None = None
    """Work of the groups; None if unknown: groups are then assumed to do equal work."""
    scatter: float = 0.0
    """Relative standard deviation of a repeated sample."""

    def __post_init__(self) -> None:
        """Check that the work is that of the samples."""
        if self.work is not None and len(self.work.sampled) != len(self.samples.groups):
            raise ModelInputError(
                f"work must have one amount per sample, got {len(self.work.sampled)} amounts for "
                f"{len(self.samples.groups)} samples"
            )

    @property
    def groups_differ(self) -> bool:
        """Return whether the mean work of the sampled groups differs from that of all groups."""
        if self.work is None or not self.work.total:
            return False
        shares = zip(self.samples.groups, self.work.sampled, strict=True)
        return any(
            not isclose(work / self.work.total, groups / self.samples.total_groups, rel_tol=SAME_MEAN_WORK)
            for groups, work in shares
        )


@dataclass(frozen=True, slots=True)
class Extrapolation:
    """Extrapolated time of all groups of a launch."""

    seconds: float
    half_width: float
    """Half-width in seconds of the interval with the probability :data:`LEVEL`, by the scatter of the samples."""


def extrapolated(program: SampledProgram) -> Extrapolation:
    """Return the time of all groups of *program*, at least that of the last sample.

    :raises ModelInputError: if there is a single sample that is not the whole launch.
    """
    samples = program.samples
    if samples.is_whole:
        return Extrapolation(samples.seconds[-1], samples.seconds[-1] * program.scatter * DEVIATIONS)
    if len(samples.groups) == 1:
        raise ModelInputError(
            f"extrapolation needs 2 samples or more, got one, of {samples.groups[0]} of the "
            f"{samples.total_groups} groups"
        )
    amounts = _amounts(program)
    at_all = amounts[-1]
    weighted = (amounts[:-1].T / np.array(samples.seconds)).T
    costs = _least_squares(weighted)
    half_width = _half_width(weighted, costs, at_all, program.scatter)
    return Extrapolation(max(float(at_all @ costs), samples.seconds[-1]), half_width)


def _least_squares(weighted: Matrix) -> Vector:
    """Return the costs c that minimize ‖``weighted @ c`` − 1‖, all but the first not negative."""
    further = range(1, weighted.shape[1])
    subsets = [kept for number in range(len(further) + 1) for kept in combinations(further, number)]
    candidates = [_with_columns(weighted, (0, *kept)) for kept in subsets]
    possible = [candidate for candidate in candidates if (candidate[1:] >= 0).all()]
    return min(possible, key=lambda costs: float(np.sum((weighted @ costs - 1) ** 2)))


def _with_columns(weighted: Matrix, kept: Sequence[int]) -> Vector:
    part = weighted[:, kept]
    scale = np.abs(part).max(axis=0)
    costs: Vector = np.zeros(len(weighted[0]))
    costs[list(kept)] = np.linalg.lstsq(part / scale, np.ones(len(part)), rcond=None)[0] / scale
    return costs


def _amounts(program: SampledProgram) -> NDArray[np.float64]:
    """Return the amounts that the time is a sum of: (samples, then all groups) × (launch, groups, work)."""
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
    """Return the half-width of the interval of ``at_all @ costs``: by residuals, or by *scatter* if that is larger."""
    free = len(weighted) - len(at_all)
    residuals = weighted @ costs - 1
    width = scatter * DEVIATIONS
    if free > 0:
        stats: Any = import_module("scipy.stats")  # imported on use, because the import takes half a second
        width = max(width, float(np.sqrt(residuals @ residuals / free) * stats.t.ppf((1 + LEVEL) / 2, free)))
    leverage = float(at_all @ np.linalg.pinv(weighted.T @ weighted) @ at_all)
    return width * sqrt(max(leverage, 0.0))


# {{{ a kernel


def sampled_time(programs: Sequence[SampledProgram], launching: float = 0.0) -> ModelTime:
    """Return the run time of a kernel that executes *programs*, plus *launching* seconds on the host.

    :raises ModelInputError: as :func:`extrapolated`.
    """
    answers = [extrapolated(each) for each in programs]
    rows = [row for program, answer in zip(programs, answers, strict=True) for row in _rows(program, answer)]
    if launching:
        rows.append(BreakdownRow("launching", "the host", 1, launching, launching))
    notes = tuple(note for program in programs for note in _notes(program))
    found = ModelTime.of(rows, notes=notes, columns="samples")
    seconds, width = float(found.seconds), sqrt(sum(each.half_width**2 for each in answers))
    least = launching + sum(each.samples.seconds[-1] for each in programs)
    return replace(found, interval=(min(seconds, max(seconds - width, least)), seconds + width))


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
        yield f"all {samples.total_groups} groups of {program.name} were timed: too few to extrapolate from a part"
    elif program.groups_differ and program.work is not None:
        of_work = in_percent(program.work.sampled[-1] / program.work.total, 2)
        of_groups = in_percent(samples.groups[-1] / samples.total_groups, 2)
        yield (
            f"groups of {program.name} differ: the first {samples.groups[-1]} are {of_groups} of the groups and do "
            f"{of_work} of the work; the time is extrapolated by work"
        )


# }}}
