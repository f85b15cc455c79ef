"""From a solved problem to the fit that records it."""

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from loopyperf.calibration.accuracy import CrossValidation
from loopyperf.calibration.coverage import coverage
from loopyperf.calibration.fits import Fit, Provenance, Residual, ResidualSummary
from loopyperf.calibration.problem import Problem
from loopyperf.calibration.solver import Solution
from loopyperf.models.metrics import geometric_mean


def make_fit(
    provenance: Provenance,
    problem: Problem,
    solution: Solution,
    cross_validation: CrossValidation | None = None,
    expected: Iterable[str] = (),
) -> Fit:
    """Return the fit that records this solution of this problem; its coverage tells of *expected* properties too."""
    return Fit(
        **msgspec.structs.asdict(provenance),
        weights=solution.weights,
        undetermined=solution.undetermined,
        ranges=_ranges(problem),
        rank=solution.rank,
        condition=solution.condition,
        at_bound=solution.at_bound,
        options={
            "non_negative": solution.non_negative,
            "ridge": solution.ridge,
            "tolerance": solution.tolerance,
        },
        residual_summary=_summary(solution.residuals),
        cross_validation=cross_validation,
        coverage=coverage(problem, expected),
        residuals=tuple(
            Residual(row.kernel_class, row.label, _plain(row.sizes), float(row.seconds), residual)
            for row, residual in zip(problem.observations, solution.residuals, strict=True)
        ),
    )


def _ranges(problem: Problem) -> dict[str, tuple[int, int]]:
    counts = {name: [row.properties.get(name, 0) for row in problem.observations] for name in problem.properties}
    return {name: (int(min(filter(None, values))), int(max(values))) for name, values in counts.items()}


def _plain(sizes: Mapping[str, int]) -> dict[str, int]:
    # Sizes and counts may be NumPy integers, which no file can hold.
    return {name: int(value) for name, value in sizes.items()}


def _summary(residuals: Sequence[float]) -> ResidualSummary:
    magnitudes = [abs(residual) for residual in residuals]
    return ResidualSummary(
        geometric_mean=geometric_mean(magnitudes),
        root_mean_square=math.sqrt(math.fsum(size * size for size in magnitudes) / len(magnitudes)),
        worst=max(magnitudes),
    )
