"""Print errors, ranks, regret and intervals of fits on 822 measured kernels of a TITAN V, with held-out groups.

The script reads the output of ``titan_v_gather.py``. A group is an einsum at one size, under many transformations. For
each type of fit (linear and overlap, of counts and of the catalog's pipelines), fits to the other groups predict the
times, which are compared as in ``titan_v.py``. A naive roofline of all requested flops and bytes is the baseline. The
intervals are those of fits to four fifths of the groups, for the kernels of the other groups.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v_fit.py [FILE ...] [--ablation]

``--ablation`` fits the overlap of pipelines with one pipeline removed at a time, to show what each contributes.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from parts.held_out_intervals import interval_coverage
from parts.tables import show, table
from parts.titan_v import DEVICE, FIGURES, add_files, figures, gathered, measured_kernels, observed
from rich.table import Table

from loopyperf.calibration.fitting import FitRecipe, cross_validate, possible
from loopyperf.calibration.problem import Observation

INTERVAL = ("in 80 % interval", "upper end / prediction", "no interval")
"""headers: share of measured times in the interval, median of its upper end over the prediction, kernels without one"""


def naive_roofline(row: Observation) -> float:
    """Return the time in seconds at the published peaks for all flops and all requested bytes, ignoring caches."""
    requested = [
        (name, amount) for name, amount in row.properties.items() if name.startswith(("global load", "global st"))
    ]
    flops = sum(amount for name, amount in row.properties.items() if name.startswith("f64"))
    requested_bytes = sum(amount * int(name.partition("-bit")[0].split()[-1]) / 8 for name, amount in requested)
    return max(flops / DEVICE.peak_flops("f64"), requested_bytes / DEVICE.level("DRAM").bandwidth)


def without(observations: Sequence[Observation], column: str) -> list[Observation]:
    """Return *observations* without the pipeline *column*."""
    return [
        replace(row, pipelines={name: busy for name, busy in row.pipelines.items() if name != column})
        for row in observations
    ]


def cells(observations: Sequence[Observation], candidates: Sequence[FitRecipe]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the name of each of *candidates* and its table cells, computed for held-out groups."""
    validated = cross_validate(observations, candidates)
    for name, left_out in validated.left_out.items():
        predicted = np.maximum(left_out.seconds, np.finfo(float).tiny)
        coverage = interval_coverage(observations, [validated.candidates[name]])
        interval = f"{coverage.inside:.1%}", f"{coverage.factor:.2f}", str(coverage.without)
        yield name, (*figures(predicted, observations), *interval)


def comparison(observations: Sequence[Observation]) -> Table:
    """Return a table of the accuracy of each type of fit."""
    found = table("fit", *FIGURES, *INTERVAL)
    roofline = np.array([naive_roofline(row) for row in observations])
    found.add_row("naive roofline, no fit", *figures(roofline, observations))
    for name, figures_of_fit in cells(observations, list(possible(observations))):
        found.add_row(name, *figures_of_fit)
    return found


def ablation(observations: Sequence[Observation]) -> Table:
    """Return the accuracy of the overlap of pipelines without each pipeline, sorted by decreasing error."""
    overlap = [each for each in possible(observations) if each.basis == "pipelines"]
    columns = sorted({name for row in observations for name in row.pipelines})
    every = {"none": observations} | {f"`{each}`": without(observations, each) for each in columns}
    rows = {
        name: figures_of_fit for name, remaining in every.items() for _, figures_of_fit in cells(remaining, overlap)
    }
    found = table("removed", *FIGURES, *INTERVAL)
    for name in sorted(rows, key=lambda name: (name != "none", -float(rows[name][0]), name)):
        found.add_row(name, *rows[name])
    return found


def main() -> None:
    """Print the accuracy of fits to other groups."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add_files(parser)
    parser.add_argument("--ablation", action="store_true", help="remove one pipeline at a time")
    options = parser.parse_args()
    rows = observed(measured_kernels(), [each for each in gathered(options.file) if each.pipelines])
    show(ablation(rows) if options.ablation else comparison(rows))
    show(f"{len(rows)} kernels, {len({row.kernel_class for row in rows})} groups.")


if __name__ == "__main__":
    main()
