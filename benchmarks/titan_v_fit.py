"""Fitted models on 822 measured kernels of a TITAN V, groups of einsums held out: errors, ranks, regret, intervals.

Reads what ``titan_v_gather.py`` has found; a group is an einsum at one size, under many transformations. For each way
to fit (linear and overlap, of counts and of the catalog's pipelines), times are predicted by fits to other groups, and
compared as in ``titan_v.py``, beside a roofline of all that is asked for. The intervals are those of fits to four
fifths of the groups, asked about the others.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v_fit.py [FILE ...] [--ablation]

``--ablation`` tells the overlap of pipelines nothing of one pipeline after the other: what each is worth.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from parts.tables import show, table
from parts.titan_v import DEVICE, FIGURES, add_files, figures, gathered, measured_kernels, observed
from rich.table import Table

from loopyperf.calibration.fitting import interval_coverage
from loopyperf.calibration.problem import Observation
from loopyperf.calibration.validation import FitRecipe, cross_validate, possible

INTERVAL = ("80 % interval holds", "times", "without one")
"""headings of what is said of intervals: how many hold, their upper ends over the predictions, kernels without one"""


def naive_roofline(row: Observation) -> float:
    """Return the seconds of the published peaks for the flops and the bytes that are asked for, whatever caches do."""
    asked = [(name, amount) for name, amount in row.properties.items() if name.startswith(("global load", "global st"))]
    flops = sum(amount for name, amount in row.properties.items() if name.startswith("f64"))
    carried = sum(amount * int(name.partition("-bit")[0].split()[-1]) / 8 for name, amount in asked)
    return max(flops / DEVICE.peak_flops("f64"), carried / DEVICE.level("DRAM").bandwidth)


def without(observations: Sequence[Observation], column: str) -> list[Observation]:
    """Return *observations* that know nothing of a *column* of pipelines."""
    return [
        replace(row, pipelines={name: busy for name, busy in row.pipelines.items() if name != column})
        for row in observations
    ]


def cells(observations: Sequence[Observation], candidates: Sequence[FitRecipe]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the name of each of *candidates* and how near it comes on groups that it was not fitted to."""
    validated = cross_validate(observations, candidates)
    for name, left_out in validated.left_out.items():
        predicted = np.maximum(left_out.seconds, np.finfo(float).tiny)
        held = interval_coverage(observations, [validated.candidates[name]])
        interval = f"{held.inside:.1%}", f"{held.factor:.2f}", str(held.without)
        yield name, (*figures(predicted, observations), *interval)


def comparison(observations: Sequence[Observation]) -> Table:
    """Return how near each way to fit comes."""
    found = table("fit", *FIGURES, *INTERVAL)
    roofline = np.array([naive_roofline(row) for row in observations])
    found.add_row("naive roofline, no fit", *figures(roofline, observations))
    for name, figures_of_fit in cells(observations, list(possible(observations))):
        found.add_row(name, *figures_of_fit)
    return found


def ablation(observations: Sequence[Observation]) -> Table:
    """Return how near the overlap of pipelines comes without one pipeline after the other, the dearest first."""
    overlap = [each for each in possible(observations) if each.basis == "pipelines"]
    columns = sorted({name for row in observations for name in row.pipelines})
    every = {"nothing": observations} | {f"`{each}`": without(observations, each) for each in columns}
    rows = {name: figures_of_fit for name, told in every.items() for _, figures_of_fit in cells(told, overlap)}
    found = table("without", *FIGURES, *INTERVAL)
    for name in sorted(rows, key=lambda name: (name != "nothing", -float(rows[name][0]), name)):
        found.add_row(name, *rows[name])
    return found


def main() -> None:
    """Print how near the fits come."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add_files(parser)
    parser.add_argument("--ablation", action="store_true", help="leave out one pipeline after the other")
    asked = parser.parse_args()
    rows = observed(measured_kernels(), [each for each in gathered(asked.file) if each.pipelines])
    show(ablation(rows) if asked.ablation else comparison(rows))
    show(f"{len(rows)} kernels, {len({row.kernel_class for row in rows})} groups.")


if __name__ == "__main__":
    main()
