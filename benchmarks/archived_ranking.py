"""Evaluate how well fits and device models rank the variants in an archive of measurements.

    .venv/bin/python benchmarks/archived_ranking.py fits/nvidia-h200/raw/ranking.jsonl.xz nvidia-h200

Prints three figures for each set of variants (one computation at one size) and each model: the rank correlation, the
regret (the measured time of the variant that is predicted to be fastest, divided by that of the fastest), and the
median factor between predicted and measured times. Predicted times contain no launch overhead if the model has none.
"""

import sys
from collections import defaultdict
from statistics import median

from parts import RANKING_SETS
from rich.console import Console
from rich.table import Table

import loopyperf as lpp
from loopyperf.calibration.accuracy import median_log_error, regret, spearman
from loopyperf.calibration.archived import measured_kernels
from loopyperf.errors import LoopyperfError
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.kernel_files import load_kernel_files
from loopyperf.predict.validate import with_empty_kernel

MODELS = ("overlap", "linear", "pipeline", "roofline", "volkov")
FEWEST = 5
"""minimum number of variants of a set; this excludes the empty kernels"""


def main(archive: str, device: str) -> None:
    """Print a table of the sets in *archive*."""
    sets: dict[tuple[str, str], list[lpp.Measured]] = defaultdict(list)
    files = with_empty_kernel(load_kernel_files(RANKING_SETS))
    for each in measured_kernels(read_archive(archive), files):
        sets[each.kernel_class, str(dict(each.sizes))].append(each)
    table = Table("set", "variants", "model", "rank correlation", "regret", "median factor")
    overall: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for (name, sizes), rows in sets.items():
        if len(rows) < FEWEST:
            continue
        for model in MODELS:
            try:
                predicted = [
                    float(lpp.estimate(row.kernel, device=device, model=model, parameters=row.sizes)) for row in rows
                ]
            except LoopyperfError as error:
                table.add_row(f"{name} {sizes}", str(len(rows)), model, str(error)[:40])
                continue
            measured = [row.seconds for row in rows]
            order, cost = spearman(predicted, measured), regret(predicted, measured)
            overall[model].append((order, cost))
            factor = 2.718281828 ** median_log_error(predicted, measured)
            table.add_row(f"{name} {sizes}", str(len(rows)), model, f"{order:.2f}", f"{cost:.2f}", f"{factor:.2f}")
    Console(width=140).print(table)
    for model, found in overall.items():
        order, cost = (median(each) for each in zip(*found, strict=True))
        print(f"{model}: median rank correlation {order:.2f}, median regret {cost:.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
