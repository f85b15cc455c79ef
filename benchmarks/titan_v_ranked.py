"""The TITAN V's groups through ``rank``: the same figures as fits to other groups give, and variants a second.

Reads what ``titan_v_gather.py`` has found: the overlap model of pipelines is fitted to the groups that a fold keeps,
and each group that it leaves out is ranked, from its pickled kernels, by workers.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v_ranked.py [FILE ...] [--workers N] \
        [--every N]
"""

import argparse
import pickle
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import loopy as lp
import numpy as np
from parts.tables import show, table
from parts.titan_v import DEVICE, FEWEST, FIGURES, Row, add_files, figures, gathered, measured_kernels, observed

import loopyperf as lpp
from loopyperf.calibration.accuracy import folds
from loopyperf.calibration.fits import Provenance
from loopyperf.calibration.fitting import fit_observations
from loopyperf.calibration.problem import Observation
from loopyperf.calibration.validation import CANDIDATES, cross_validate

PIPELINES = [each for each in CANDIDATES if each.name == "overlap of pipelines"]
REGRET, PROBABILITIES = 0.05, (0.5, 0.8, 0.9)
"""of shortlists"""
LIMIT = 300.0
"""seconds for each kernel at most"""


def unpickled(kernel: bytes) -> lp.TranslationUnit:
    """Return the kernel of a row: where it is analysed."""
    return pickle.loads(kernel)


def ranked(
    rows: Sequence[Row], fit: lpp.Fit, group: Sequence[Observation], workers: ProcessPoolExecutor
) -> lpp.Ranking:
    """Return the ranking of a group."""
    members = [int(row.label) for row in group]
    variants = {str(place): partial(unpickled, rows[place]["kernel"]) for place in members}
    return lpp.rank(variants, fit=fit, executor=workers, time_limit=LIMIT, parameters=rows[members[0]]["sizes"])


def hold(ranking: lpp.Ranking, measured: Mapping[str, float], held: Mapping[float, list[tuple[bool, int]]]) -> None:
    """Add to *held*, by probability, whether the shortlist holds one that is fast enough, and how many are on it."""
    fastest = min(measured[name] for name in ranking.order)
    for probability in PROBABILITIES:
        names = ranking.shortlist(REGRET, probability).names
        is_held = min(measured[name] for name in names) <= (1 + REGRET) * fastest
        held[probability].append((is_held, len(names)))


def print_shortlists(held: Mapping[float, list[tuple[bool, int]]]) -> None:
    """Print how often shortlists hold one that is fast enough, and how long they are; *held* as :func:`hold` has it."""
    for probability, found in held.items():
        holds, lengths = zip(*found, strict=True)
        print(
            f"shortlists for {REGRET:.0%}, probability {probability:.0%}: {np.mean(holds):.0%} of {len(holds)} "
            f"hold one that is fast enough, {np.mean(lengths):.1f} kernels each"
        )


def main() -> None:
    """Rank the groups that each fold leaves out."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add_files(parser)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, help="only each of the groups that comes every so many")
    asked = parser.parse_args()
    rows = measured_kernels()
    observations = observed(rows, [each for each in gathered(asked.file) if each.pipelines])
    groups: dict[str, list[Observation]] = defaultdict(list)
    for row in observations:
        groups[row.kernel_class].append(row)
    chosen = set(sorted(groups)[:: asked.every])
    provenance = Provenance(model="", device=DEVICE.name, slug=DEVICE.slug, counting="executed")
    seconds: dict[str, float] = {}
    failures: Counter[str] = Counter()
    held: dict[float, list[tuple[bool, int]]] = defaultdict(list)
    took = 0.0
    with ProcessPoolExecutor(asked.workers) as workers:
        for fold in folds([row.kernel_class for row in observations]):
            (fit,) = fit_observations(provenance, [r for r in observations if r.kernel_class not in fold], PIPELINES)
            for name in sorted(fold & chosen):
                begin = time.perf_counter()
                ranking = ranked(rows, fit, groups[name], workers)
                took += time.perf_counter() - begin
                seconds |= ranking.seconds
                failures.update(ranking.failures.values())
                if len(ranking.order) >= FEWEST:
                    hold(ranking, {row.label: row.seconds for row in groups[name]}, held)
    told = [row for row in observations if row.label in seconds]
    found = table("", *FIGURES)
    found.add_row("rank", *figures(np.array([seconds[row.label] for row in told]), told))
    validated = cross_validate(observations, PIPELINES).left_out[PIPELINES[0].name].seconds
    direct = {row.label: time for row, time in zip(observations, validated, strict=True)}
    found.add_row("the fits alone", *figures(np.array([direct[row.label] for row in told]), told))
    show(found)
    print(f"{len(told)} variants in {len(chosen)} groups, {len(told) / took:.2f} a second on {asked.workers} workers")
    print_shortlists(held)
    print(f"not ranked: {dict(failures) or 'none'}")


if __name__ == "__main__":
    main()
