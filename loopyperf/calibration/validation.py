"""How well fitted weights predict kernel classes that they were not fitted to."""

from loopyperf.calibration.accuracy import ClassErrors, CrossValidation
from loopyperf.calibration.indistinguishable import TOLERANCE
from loopyperf.calibration.problem import Observation, Problem, pose_problem
from loopyperf.calibration.solver import Solution, solve
from loopyperf.errors import CalibrationError
from loopyperf.models.metrics import geometric_mean


def cross_validate(problem: Problem, *, ridge: float | None = None, tolerance: float = TOLERANCE) -> CrossValidation:
    """Return the errors on each kernel class of weights fitted to the others, for the plain and the non-negative fit.

    Never by row: sizes of one kernel are so alike that a row left out is predicted by its neighbours. *ridge* is the
    non-negative fit's; for it and *tolerance* see :func:`loopyperf.calibration.solver.solve`.

    :raises CalibrationError: there are fewer than two classes.
    """
    names = tuple(dict.fromkeys(row.kernel_class for row in problem.observations))
    if len(names) < 2:
        raise CalibrationError(
            f"cross-validation leaves out one kernel class at a time and needs at least two, but got {list(names)}; "
            "measure kernels of another class"
        )
    classes = tuple(_leave_out(name, problem.observations, ridge, tolerance) for name in names)
    compared = tuple(errors for errors in classes if errors.predictable) or classes
    return CrossValidation(
        classes=classes,
        compared=tuple(errors.kernel_class for errors in compared),
        plain=geometric_mean(errors.plain for errors in compared),
        non_negative=geometric_mean(errors.non_negative for errors in compared),
    )


def _leave_out(name: str, observations: tuple[Observation, ...], ridge: float | None, tolerance: float) -> ClassErrors:
    left_out = [row for row in observations if row.kernel_class == name]
    fitted = pose_problem(row for row in observations if row.kernel_class != name)
    plain = solve(fitted, non_negative=False, tolerance=tolerance)
    non_negative = solve(fitted, ridge=ridge, tolerance=tolerance)
    unknown = [plain.unknown(row.properties) for row in left_out]
    predictable = [row for row, missing in zip(left_out, unknown, strict=True) if not missing]
    return ClassErrors(
        kernel_class=name,
        observations=len(left_out),
        predictable=len(predictable),
        plain=_mean_error(plain, predictable or left_out),
        non_negative=_mean_error(non_negative, predictable or left_out),
        unknown=tuple(sorted({name for missing in unknown for name in missing})),
    )


def _mean_error(solution: Solution, observations: list[Observation]) -> float:
    return geometric_mean(abs(solution.predict(row.properties) - row.seconds) / row.seconds for row in observations)
