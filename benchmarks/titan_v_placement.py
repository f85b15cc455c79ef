"""Evaluate predictions for both placements of private arrays, registers and stack memory, on 822 TITAN V kernels.

The script reads the output of ``titan_v_gather.py``. Fits of pipelines to four fifths of the groups predict the kernels
of the other groups: with private arrays in their likely place and, if the compiler model is unsure, in the other
places.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v_placement.py [FILE ...]
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from parts.held_out_intervals import FOLDS
from parts.tables import show, table
from parts.titan_v import DEVICE, FIGURES, Analysis, add_files, figures, gathered, measured_kernels, observed
from rich.table import Table

from loopyperf.calibration.fits import Fit, Provenance, widths
from loopyperf.calibration.fitting import CANDIDATES, fit_observations
from loopyperf.calibration.problem import Observation
from loopyperf.models.linear import sensitivity

APART = 1.5
"""minimum ratio of the two predicted times at which the measured time shows where the array was"""

Amounts = Mapping[str, float]


@dataclass(frozen=True)
class Prediction:
    """A prediction by a fit to other groups: times and interval half-widths of ln T, likelier place first."""

    measured: float
    seconds: Sequence[float]
    widths: Sequence[float]
    reasons: Sequence[str]

    @property
    def errors(self) -> np.ndarray:
        """Return ln(predicted / measured) for each place."""
        return np.log(np.divide(self.seconds, self.measured))

    @property
    def nearest(self) -> float:
        """Return the predicted time that is nearest to the measured time."""
        return self.seconds[int(np.argmin(np.abs(self.errors)))]

    @property
    def is_distinct(self) -> bool:
        """Return whether the predicted times differ enough to infer the placement of the arrays."""
        return max(self.seconds) > APART * min(self.seconds)

    def is_inside(self, number: int | None = None) -> bool:
        """Return whether the interval of the first *number* places, or of all if None, contains the measured time."""
        ends = [(error - width, error + width) for error, width in zip(self.errors, self.widths, strict=True)][:number]
        return min(low for low, _ in ends) <= 0 <= max(high for _, high in ends)


def predict_all(observations: Sequence[Observation], found: Sequence[Analysis]) -> list[Prediction]:
    """Return a prediction for each of *observations*, which belong to the analyses *found* in the same order."""
    (candidate,) = (each for each in CANDIDATES if each.basis == "pipelines")
    provenance = Provenance(model="", device=DEVICE.name, slug=DEVICE.slug, counting="executed")
    groups = sorted({row.kernel_class for row in observations})
    order = np.random.default_rng(0).permutation(len(groups))
    fold = {groups[place]: number % FOLDS for number, place in enumerate(order)}
    predictions: dict[str, Prediction] = {}
    for number in range(FOLDS):
        (fit,) = fit_observations(
            provenance, [row for row in observations if fold[row.kernel_class] != number], [candidate]
        )
        for row, analysis in zip(observations, found, strict=True):
            if fold[row.kernel_class] == number:
                seconds, widths = zip(*predict(fit, [row.pipelines, *analysis.otherwise]), strict=True)
                predictions[row.label] = Prediction(row.seconds, seconds, widths, analysis.reasons)
    return [predictions[row.label] for row in observations]


def predict(fit: Fit, kernels: Sequence[Amounts]) -> Iterator[tuple[float, float]]:
    """Yield the predicted time of each of *kernels*, and the half-width of the interval of its logarithm."""
    for amounts in kernels:
        interval = widths(fit, tuple(amounts), np.array([[*amounts.values()]]))
        yield float(sensitivity(fit, [amounts]).seconds[0]), float(interval.half[0])


def selections(observations: Sequence[Observation], predictions: Sequence[Prediction]) -> Table:
    """Return a table of the accuracy for each way to select one of the times."""
    found = table("selected time", *FIGURES)
    selected = {
        "likelier place": [each.seconds[0] for each in predictions],
        "more accurate place": [each.nearest for each in predictions],
        "geometric mean": [float(np.exp(np.mean(np.log(each.seconds)))) for each in predictions],
        "shorter time": [min(each.seconds) for each in predictions],
        "longer time": [max(each.seconds) for each in predictions],
    }
    for name, seconds in selected.items():
        found.add_row(name, *figures(np.array(seconds), observations))
    return found


def coverage(predictions: Sequence[Prediction]) -> Table:
    """Return a table of errors and interval coverage for kernels whose placement is certain and uncertain."""
    columns = (
        "kernels",
        "median abs(ln)",
        f"times differ by {APART}x",
        "other place more accurate",
        "in interval",
        "in interval of both",
    )
    found = table("", *columns)
    unsure = [each for each in predictions if len(each.seconds) > 1]
    parts = {"sure": [each for each in predictions if len(each.seconds) == 1], "unsure": unsure}
    parts |= {
        f"of these: {name}": [each for each in unsure if phrase in each.reasons[0]] for name, phrase in CAUSES.items()
    }
    for name, part in ((name, part) for name, part in parts.items() if part):
        distinct = [each for each in part if each.is_distinct]
        nearer = sum(each.nearest != each.seconds[0] for each in distinct)
        error = np.median([abs(each.errors[0]) for each in part])
        inside, of_both = np.mean([(each.is_inside(1), each.is_inside()) for each in part], axis=0)
        numbers = (str(len(distinct)), str(nearer), f"{inside:.1%}", f"{of_both:.1%}")
        found.add_row(name, str(len(part)), f"{error:.2f}", *numbers)
    return found


CAUSES = {
    "several trip counts": " or ",
    "long loops": " instructions if ",
    "larger than the registers": "registers",
    "triangular loops": "a constant if that ",
}
"""cause -> a phrase that identifies it in the reasons of the compiler model"""


def main() -> None:
    """Print the accuracy of predictions for both placements."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add_files(parser)
    parser.add_argument(
        "--rows", action="store_true", help="also list the kernels whose arrays were probably in the other place"
    )
    options = parser.parse_args()
    found = [each for each in gathered(options.file) if each.pipelines]
    observations = observed(measured_kernels(), found)
    predictions = predict_all(observations, found)
    show(coverage(predictions), selections(observations, predictions))
    for row, each in zip(observations, predictions, strict=True) if options.rows else ():
        if each.is_distinct and each.nearest != each.seconds[0]:
            errors = ", ".join(f"{error:+.2f}" for error in each.errors)
            show(f"row {row.label}: other place more accurate, ln T/t {errors}: {'; '.join(each.reasons)}")
    late = sum("places" in each.failures for each in found)
    show(
        f"{len(found)} kernels; for {late} of them, the analysis of other places took too long, and they count as sure."
    )


if __name__ == "__main__":
    main()
