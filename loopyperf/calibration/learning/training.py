"""From examples to a learned model: judged on classes left out, taught all of them, and recorded."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.calibration.intervals.scores import rounded
from loopyperf.calibration.learning.correction import Judged, Lesson, judge, logarithms
from loopyperf.calibration.learning.example import Base, Example
from loopyperf.calibration.learning.learned import BASE, Learned, Record, Score, Taught
from loopyperf.calibration.learning.regressors import check_recipe
from loopyperf.calibration.problem import Vector
from loopyperf.errors import CalibrationError
from loopyperf.models.metrics import median_log_error

FEWEST_CLASSES = 3
"""one that is asked about, one that hyper-parameters are judged on, and one to learn from"""


def learn(
    provenance: Provenance, base: Base, examples: Sequence[Example], recipe: str = "svr", fit: Fit | None = None
) -> Learned:
    """Return what *recipe* learns of the error of *base* on *examples*, judged on classes left out.

    *fit* is that of the base to all examples, where it is fitted; all recipes are judged beside *recipe*. Raises
    :class:`CalibrationError` for a recipe that is none, and for fewer than three kernel classes.
    """
    check_recipe(recipe)
    rows = [Example(each.observation, each.features.rounded(), each.base) for each in examples]
    _check_classes(rows)
    judged = judge(base, rows)
    lesson = Lesson.of(base, rows)
    errors = np.sort(np.abs(logarithms(rows, judged.learned[recipe])))
    origin: dict[str, Any] = msgspec.structs.asdict(provenance) | {"model": "learned"}
    return Learned(
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
                Taught(
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


def scores(examples: Sequence[Example], judged: Judged) -> dict[str, Score]:
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
