"""What learning adds to the overlap model on 822 measured kernels of a TITAN V, groups of einsums held out.

Reads what ``titan_v_gather.py`` has found. Groups are dealt to five folds. For each, the overlap model of pipelines is
fitted to the other groups, its residuals on these are those of fits to nine tenths of them, and what is learned of
these residuals, with hyper-parameters searched for among the same groups, corrects it. ``--einsums`` holds out all
sizes of an einsum together, ``--shuffled`` learns residuals that were dealt out at random: what it gains is leaked.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v_learned.py [FILE ...] [--einsums] \
        [--shuffled]
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from parts.tables import show, table
from parts.titan_v import FIGURES, add_files, figures, gathered, measured_kernels, observed
from rich.table import Table

from loopyperf.calibration.fitting import FOLDS
from loopyperf.calibration.problem import Observation, Vector
from loopyperf.calibration.training import CrossValidated, Example, FittedBase, Names, cross_validated, scores
from loopyperf.calibration.validation import CANDIDATES
from loopyperf.models.residual_regression import Features

BASE = FittedBase(next(each for each in CANDIDATES if each.name == "overlap of pipelines"))
NAMES = {"base": "overlap of pipelines", "svr": "with ε-SVR", "trees": "with trees"}


def by_einsum(examples: Sequence[Example]) -> list[Example]:
    """Return the examples with the einsum, at all its sizes, as their class."""
    return [
        replace(each, observation=replace(each.observation, kernel_class=each.observation.kernel_class.split("|")[0]))
        for each in examples
    ]


def shuffled(examples: Sequence[Example]) -> list[Example]:
    """Return the examples with their features dealt out at random."""
    order = np.random.default_rng(0).permutation(len(examples))
    return [replace(each, features=examples[place].features) for each, place in zip(examples, order, strict=True)]


def comparison(observations: Sequence[Observation], rows: Sequence[Example], judged: CrossValidated) -> Table:
    """Return how near the base alone and corrected comes; ranks and regret are within groups."""
    found = table("", *FIGURES, "explained")
    scored = scores(rows, judged)
    every: dict[str, Vector] = {"base": judged.base, **judged.learned}
    for name, seconds in every.items():
        predicted = np.maximum(seconds, np.finfo(float).tiny)
        found.add_row(NAMES.get(name, name), *figures(predicted, observations), f"{scored[name].explained:.0%}")
    return found


def main() -> None:
    """Print what learning adds."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add_files(parser)
    parser.add_argument("--einsums", action="store_true", help="hold out einsums at all sizes")
    parser.add_argument("--shuffled", action="store_true", help="deal the features out at random")
    asked = parser.parse_args()
    found = [each for each in gathered(asked.file) if each.pipelines and each.told]
    observations = observed(measured_kernels(), found)
    taken = [
        Example(row, Features(each.told, each.amounts), None) for row, each in zip(observations, found, strict=True)
    ]
    taken = by_einsum(taken) if asked.einsums else taken
    taken = shuffled(taken) if asked.shuffled else taken
    classes = len({each.observation.kernel_class for each in taken})
    names = Names.of(taken)
    number = len(names.told) + len(names.amounts)
    show(comparison(observations, taken, cross_validated(BASE, taken, most=FOLDS)))
    show(f"{len(observations)} kernels, {classes} classes, {number} features.")


if __name__ == "__main__":
    main()
