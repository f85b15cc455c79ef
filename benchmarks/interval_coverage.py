"""Evaluate how often prediction intervals contain the times of held-out kernel classes.

The script reads an archive of ``loopyperf calibrate``, which may be compressed. It assigns the kernel classes to five
folds at random, several times. Fits of each type, and their intervals, are computed without the classes of one fold,
and predict the kernels of these classes. The table shows the share of measured times in the 80 % interval, and the
median of its upper end over the prediction. In the last row, each fit is of the type that generalizes best on its
training data, as in ``calibrate``.

    .venv/bin/python benchmarks/interval_coverage.py ARCHIVE [--kernels FOLDER] [--seeds N]
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import parts  # noqa: F401 - turns the cache off
from parts.held_out_intervals import FOLDS, SEEDS, interval_coverage
from rich.console import Console
from rich.table import Table

from loopyperf.calibration.archived import fitted_observations
from loopyperf.calibration.fitting import FitRecipe, possible
from loopyperf.calibration.problem import Observation
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.kernel_files import measurement_kernels


def table(rows: Sequence[Observation], beyond: Sequence[Observation], seeds: int) -> Table:
    """Return the coverage of each type of fit to *rows*, and of the best type for each training set."""
    candidates = possible(rows)
    recipes: dict[str, tuple[FitRecipe, ...]] = {each.name: (each,) for each in candidates}
    recipes["best type"] = candidates
    found = Table("fit", "in 80 % interval", "upper end / prediction", "no interval", "selected")
    for name, each in recipes.items():
        coverage = interval_coverage(rows, each, beyond, seeds=seeds)
        selected = "; ".join(coverage.chosen) if len(each) > 1 else ""
        found.add_row(name, f"{coverage.inside:.1%}", f"{coverage.factor:.2f}", str(coverage.without), selected)
    return found


def main() -> None:
    """Print the coverage of the prediction intervals of fits to an archive."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("archive", type=Path, help="archive of loopyperf calibrate")
    parser.add_argument("--kernels", type=Path, help="folder of kernel files; by default the bundled ones")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="number of random assignments of the classes to folds")
    options = parser.parse_args()
    files = measurement_kernels(options.kernels)
    rows, beyond = fitted_observations(read_archive(options.archive), files)
    console = Console(width=120)
    classes = len({row.kernel_class for row in rows})
    console.print(f"{len(rows)} measurements of {classes} classes, {FOLDS} folds, {options.seeds} random assignments")
    console.print(table(rows, beyond, options.seeds))


if __name__ == "__main__":
    main()
