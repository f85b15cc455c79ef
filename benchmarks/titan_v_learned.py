"""Evaluate how much learned residuals improve the overlap model on 822 measured kernels of a TITAN V.

The script reads the output of ``titan_v_gather.py``, and assigns the groups of einsums to five folds. For each fold, it
fits the overlap of pipelines to the other groups, and computes the residuals of these groups with fits to nine tenths
of them. A model that learns these residuals, with hyperparameters selected on the same groups, corrects the fit.
``--einsums`` holds out all sizes of an einsum together. ``--shuffled`` assigns the features to kernels at random; any
remaining improvement would show a leak of held-out data.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v_learned.py [FILE ...] [--einsums] \
        [--shuffled]
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from parts.held_out_intervals import FOLDS
from parts.tables import show, table
from parts.titan_v import FIGURES, add_files, figures, gathered, measured_kernels, observed
from rich.table import Table

from loopyperf.calibration.fitting import CANDIDATES
from loopyperf.calibration.problem import Observation, Vector
from loopyperf.calibration.training import CrossValidated, Example, Names, cross_validated, fitted_base, scores
from loopyperf.models.residual_regression import Features

BASE = fitted_base(next(each for each in CANDIDATES if each.name == "overlap of pipelines"))
NAMES = {"base": "overlap of pipelines", "svr": "with ε-SVR"}


def by_einsum(examples: Sequence[Example]) -> list[Example]:
    """Return the examples with the einsum as their class, so that a class contains all its sizes."""
    return [
        replace(each, observation=replace(each.observation, kernel_class=each.observation.kernel_class.split("|")[0]))
        for each in examples
    ]


def shuffled(examples: Sequence[Example]) -> list[Example]:
    """Return the examples with their features permuted at random."""
    order = np.random.default_rng(0).permutation(len(examples))
    return [replace(each, features=examples[place].features) for each, place in zip(examples, order, strict=True)]


def comparison(observations: Sequence[Observation], rows: Sequence[Example], validated: CrossValidated) -> Table:
    """Return the accuracy of the base model alone and with corrections; ranks and regret are computed within groups."""
    found = table("", *FIGURES, "explained")
    scored = scores(rows, validated)
    every: dict[str, Vector] = {"base": validated.base, "svr": validated.corrected}
    for name, seconds in every.items():
        predicted = np.maximum(seconds, np.finfo(float).tiny)
        found.add_row(NAMES[name], *figures(predicted, observations), f"{scored[name].explained:.0%}")
    return found


def main() -> None:
    """Print the accuracy of learned models."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add_files(parser)
    parser.add_argument("--einsums", action="store_true", help="hold out all sizes of an einsum together")
    parser.add_argument("--shuffled", action="store_true", help="permute the features at random")
    options = parser.parse_args()
    found = [each for each in gathered(options.file) if each.pipelines and each.told]
    observations = observed(measured_kernels(), found)
    selected = [
        Example(row, Features(each.told, each.amounts), None) for row, each in zip(observations, found, strict=True)
    ]
    selected = by_einsum(selected) if options.einsums else selected
    selected = shuffled(selected) if options.shuffled else selected
    classes = len({each.observation.kernel_class for each in selected})
    names = Names.of(selected)
    number = len(names.told) + len(names.amounts)
    show(comparison(observations, selected, cross_validated(BASE, selected, most=FOLDS)))
    show(f"{len(observations)} kernels, {classes} classes, {number} features.")


if __name__ == "__main__":
    main()
