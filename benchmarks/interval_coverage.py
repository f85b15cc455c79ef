"""How often the intervals of a device's fits hold, on kernel classes that neither fit nor intervals have seen.

Of an archive that ``loopyperf calibrate`` wrote (it may be compressed), fifths of the kernel classes are left out, in
several ways. Each way to fit is fitted to the others, intervals included, and asked about the classes left out.
Printed is how many of their times lie in the interval, of which 80 % is stated, and how far it reaches up in the
median; the last line lets each fit take the way that generalises best among what it is told, as ``calibrate`` does.

    .venv/bin/python benchmarks/interval_coverage.py ARCHIVE [--kernels FOLDER] [--seeds N]
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import parts  # noqa: F401 - turns the cache off
from rich.console import Console
from rich.table import Table

from loopyperf.calibration.archived import fitted_observations
from loopyperf.calibration.fitting import FOLDS, SEEDS, interval_coverage
from loopyperf.calibration.problem import Observation
from loopyperf.calibration.validation import FitRecipe, possible
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.kernel_files import measurement_kernels


def table(rows: Sequence[Observation], beyond: Sequence[Observation], seeds: int) -> Table:
    """Return the coverage of each way to fit *rows*, and of the choice among them."""
    candidates = possible(rows)
    ways: dict[str, tuple[FitRecipe, ...]] = {each.name: (each,) for each in candidates}
    ways["the better one"] = candidates
    found = Table("fit", "80 % interval holds", "reaches up to, in the median", "kernels without one", "chosen")
    for name, each in ways.items():
        held = interval_coverage(rows, each, beyond, seeds=seeds)
        chosen = "; ".join(held.chosen) if len(each) > 1 else ""
        found.add_row(name, f"{held.inside:.1%}", f"{held.factor:.2f} times the prediction", str(held.without), chosen)
    return found


def main() -> None:
    """Print the coverage of the intervals of fits to an archive."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("archive", type=Path, help="what loopyperf calibrate wrote")
    parser.add_argument("--kernels", type=Path, help="folder of kernel files; by default the bundled ones")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="ways to deal the classes to folds")
    asked = parser.parse_args()
    files = measurement_kernels(asked.kernels)
    rows, beyond = fitted_observations(read_archive(asked.archive), files)
    console = Console(width=120)
    classes = len({row.kernel_class for row in rows})
    console.print(f"{len(rows)} measurements of {classes} classes, {FOLDS} folds dealt in {asked.seeds} ways")
    console.print(table(rows, beyond, asked.seeds))


if __name__ == "__main__":
    main()
