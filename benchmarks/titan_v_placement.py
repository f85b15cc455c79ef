"""822 kernels of a TITAN V: where it is unsure whether private arrays are registers, how near is either time?

Reads what ``titan_v_gather.py`` has found. Each kernel is asked about by fits of pipelines to four fifths of the groups
that leave out its own: with its private arrays where they likely are and, where it is unsure, in the other places.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v_placement.py [FILE ...]
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from parts.tables import show, table
from parts.titan_v import DEVICE, FIGURES, Found, add_files, figures, gathered, measured_kernels, observed
from rich.table import Table

from loopyperf.calibration.fits import Fit, Provenance, widths
from loopyperf.calibration.fitting import FOLDS, fit_observations
from loopyperf.calibration.problem import Observation
from loopyperf.calibration.validation import CANDIDATES
from loopyperf.models.linear import sensitivity

APART = 1.5
"""times one of both times must be the other one for their difference to tell where the array was"""

Amounts = Mapping[str, float]


@dataclass(frozen=True)
class Answer:
    """What a fit to other groups says of a kernel: its times and how far ln T may be off, the likelier place first."""

    measured: float
    seconds: Sequence[float]
    widths: Sequence[float]
    reasons: Sequence[str]

    @property
    def errors(self) -> np.ndarray:
        """Return ln T less what it should be."""
        return np.log(np.divide(self.seconds, self.measured))

    @property
    def nearest(self) -> float:
        """Return the time that is nearest to the measured one."""
        return self.seconds[int(np.argmin(np.abs(self.errors)))]

    @property
    def is_told(self) -> bool:
        """Return whether the times are far enough apart to tell where the arrays were."""
        return max(self.seconds) > APART * min(self.seconds)

    def is_inside(self, number: int | None = None) -> bool:
        """Return whether the measured time is in the interval of the first *number* times, of all if None."""
        ends = [(error - width, error + width) for error, width in zip(self.errors, self.widths, strict=True)][:number]
        return min(low for low, _ in ends) <= 0 <= max(high for _, high in ends)


def answered(observations: Sequence[Observation], found: Sequence[Found]) -> list[Answer]:
    """Return an answer for each of *observations*, which are of what was *found*, in that order."""
    (candidate,) = (each for each in CANDIDATES if each.basis == "pipelines")
    provenance = Provenance(model="", device=DEVICE.name, slug=DEVICE.slug, counting="executed")
    groups = sorted({row.kernel_class for row in observations})
    order = np.random.default_rng(0).permutation(len(groups))
    fold = {groups[place]: number % FOLDS for number, place in enumerate(order)}
    answers: dict[str, Answer] = {}
    for number in range(FOLDS):
        (fit,) = fit_observations(
            provenance, [row for row in observations if fold[row.kernel_class] != number], [candidate]
        )
        for row, told in zip(observations, found, strict=True):
            if fold[row.kernel_class] == number:
                seconds, widths = zip(*ask(fit, [row.pipelines, *told.otherwise]), strict=True)
                answers[row.label] = Answer(row.seconds, seconds, widths, told.reasons)
    return [answers[row.label] for row in observations]


def ask(fit: Fit, kernels: Sequence[Amounts]) -> Iterator[tuple[float, float]]:
    """Yield the time of each of *kernels*, and by how much its logarithm may be off."""
    for amounts in kernels:
        stated = widths(fit, tuple(amounts), np.array([[*amounts.values()]]))
        yield float(sensitivity(fit, [amounts]).seconds[0]), float(stated.half[0])


def choices(observations: Sequence[Observation], answers: Sequence[Answer]) -> Table:
    """Return how near the fits come by which of both times is taken."""
    found = table("taken", *FIGURES)
    taken = {
        "the likelier place": [each.seconds[0] for each in answers],
        "the place that is nearest to the truth": [each.nearest for each in answers],
        "the geometric mean": [float(np.exp(np.mean(np.log(each.seconds)))) for each in answers],
        "the faster one": [min(each.seconds) for each in answers],
        "the slower one": [max(each.seconds) for each in answers],
    }
    for name, seconds in taken.items():
        found.add_row(name, *figures(np.array(seconds), observations))
    return found


def risk(answers: Sequence[Answer]) -> Table:
    """Return how near the time is for the likelier place, with and without the flag, and what the interval holds."""
    columns = (
        "kernels",
        "median abs(ln)",
        f"times {APART}x apart",
        "of these, truth nearer to the other",
        "interval of one time holds",
        "of both",
    )
    found = table("", *columns)
    unsure = [each for each in answers if len(each.seconds) > 1]
    parts = {"sure": [each for each in answers if len(each.seconds) == 1], "unsure": unsure}
    parts |= {f"of these: {name}": [each for each in unsure if word in each.reasons[0]] for name, word in WORDS.items()}
    for name, part in ((name, part) for name, part in parts.items() if part):
        told = [each for each in part if each.is_told]
        nearer = sum(each.nearest != each.seconds[0] for each in told)
        error = np.median([abs(each.errors[0]) for each in part])
        inside, of_both = np.mean([(each.is_inside(1), each.is_inside()) for each in part], axis=0)
        numbers = (str(len(told)), str(nearer), f"{inside:.1%}", f"{of_both:.1%}")
        found.add_row(name, str(len(part)), f"{error:.2f}", *numbers)
    return found


WORDS = {
    "several numbers of passes": " or ",
    "long loops": " instructions if ",
    "more than all registers": "registers",
    "triangles": "a constant if that ",
}
"""the causes, and words of their reasons"""


def main() -> None:
    """Print how near either time is."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add_files(parser)
    parser.add_argument("--rows", action="store_true", help="the kernels whose arrays were elsewhere, too")
    asked = parser.parse_args()
    found = [each for each in gathered(asked.file) if each.pipelines]
    observations = observed(measured_kernels(), found)
    answers = answered(observations, found)
    show(risk(answers), choices(observations, answers))
    for row, each in zip(observations, answers, strict=True) if asked.rows else ():
        if each.is_told and each.nearest != each.seconds[0]:
            errors = ", ".join(f"{error:+.2f}" for error in each.errors)
            show(f"row {row.label} was elsewhere, ln T/t {errors}: {'; '.join(each.reasons)}")
    late = sum("places" in each.failures for each in found)
    show(f"{len(found)} kernels; of {late} of them the other places took too long to find, and they count as sure.")


if __name__ == "__main__":
    main()
