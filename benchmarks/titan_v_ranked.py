"""Rank the TITAN V's groups with ``lpp.rank``, compare the accuracy with fits alone, and print variants per second.

The script reads the output of ``titan_v_gather.py``. For each fold, it fits the overlap of pipelines to the other
groups. Worker processes then rank each held-out group from its pickled kernels.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v_ranked.py [FILE ...] [--workers N] \
        [--every N]
"""

import argparse
import pickle
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import loopy as lp
import numpy as np
from parts.tables import show, table
from parts.titan_v import DEVICE, FIGURES, Row, add_files, figures, gathered, measured_kernels, observed

import loopyperf as lpp
from loopyperf.calibration.accuracy import folds
from loopyperf.calibration.fits import Provenance
from loopyperf.calibration.fitting import CANDIDATES, cross_validate, fit_observations
from loopyperf.calibration.problem import Observation

PIPELINES = [each for each in CANDIDATES if each.name == "overlap of pipelines"]
LIMIT = 300.0
"""time limit per kernel, in seconds"""


def unpickled(kernel: bytes) -> lp.TranslationUnit:
    """Unpickle a kernel. Workers call this, so that the kernel is loaded in the process that analyzes it."""
    return pickle.loads(kernel)


def ranked(
    rows: Sequence[Row], fit: lpp.Fit, group: Sequence[Observation], workers: ProcessPoolExecutor
) -> lpp.Ranking:
    """Return the ranking of *group*."""
    members = [int(row.label) for row in group]
    variants = {str(place): partial(unpickled, rows[place]["kernel"]) for place in members}
    return lpp.rank(variants, fit=fit, executor=workers, time_limit=LIMIT, parameters=rows[members[0]]["sizes"])


def main() -> None:
    """Rank the held-out groups of each fold."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add_files(parser)
    parser.add_argument("--workers", type=int, default=1, help="number of worker processes")
    parser.add_argument("--every", type=int, default=1, help="rank only every N-th group")
    options = parser.parse_args()
    rows = measured_kernels()
    observations = observed(rows, [each for each in gathered(options.file) if each.pipelines])
    groups: dict[str, list[Observation]] = defaultdict(list)
    for row in observations:
        groups[row.kernel_class].append(row)
    chosen = set(sorted(groups)[:: options.every])
    provenance = Provenance(model="", device=DEVICE.name, slug=DEVICE.slug, counting="executed")
    seconds: dict[str, float] = {}
    failures: Counter[str] = Counter()
    elapsed = 0.0
    with ProcessPoolExecutor(options.workers) as workers:
        for fold in folds([row.kernel_class for row in observations]):
            (fit,) = fit_observations(provenance, [r for r in observations if r.kernel_class not in fold], PIPELINES)
            for name in sorted(fold & chosen):
                begin = time.perf_counter()
                ranking = ranked(rows, fit, groups[name], workers)
                elapsed += time.perf_counter() - begin
                seconds |= ranking.seconds
                failures.update(ranking.failures.values())
    ranked_rows = [row for row in observations if row.label in seconds]
    found = table("", *FIGURES)
    found.add_row("rank", *figures(np.array([seconds[row.label] for row in ranked_rows]), ranked_rows))
    validated = cross_validate(observations, PIPELINES).left_out[PIPELINES[0].name].seconds
    direct = {row.label: time for row, time in zip(observations, validated, strict=True)}
    found.add_row("fits alone", *figures(np.array([direct[row.label] for row in ranked_rows]), ranked_rows))
    show(found)
    rate = len(ranked_rows) / elapsed
    print(f"{len(ranked_rows)} variants in {len(chosen)} groups, {rate:.2f} per second with {options.workers} workers")
    print(f"not ranked: {dict(failures) or 'none'}")


if __name__ == "__main__":
    main()
