"""The pipeline model on 822 measured kernels of a TITAN V, from the catalog alone: errors, ranks, regret.

The data are those of kaushikcfd/feinsum, ``titan-v.pkl.xz``: einsums in double precision under many transformations,
in groups that compute the same. Spearman's correlation and the regret of taking the one that is predicted to be fastest
are within groups, of three kernels or more.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v.py [--every N] [--seconds S]
"""

import argparse
import lzma
import pickle
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from measured import SHARED_DATA
from rich.console import Console
from scipy.stats import spearmanr

import loopyperf as lpp
from loopyperf.errors import LoopyperfError

DEVICE = "nvidia-titan-v"
FEWEST = 3
"""kernels of a group that are ranked"""


@dataclass(frozen=True, slots=True)
class Row:
    """A kernel's time in seconds."""

    group: str
    predicted: float
    measured: float


def predictions(rows: Sequence[dict[str, Any]], seconds: int, failures: Counter[str]) -> Iterator[Row]:
    """Yield what is predicted of each row within so many *seconds*; *failures* are counted by their kind."""
    for row in rows:
        signal.alarm(seconds)
        try:
            kernel = pickle.loads(row["kernel"])
            time = float(lpp.estimate(kernel, model="pipeline", device=DEVICE, parameters=row["sizes"]))
            yield Row(str(row["group"]), time, row["seconds"])
        except (LoopyperfError, TimeoutError) as error:
            failures[type(error).__name__] += 1
        finally:
            signal.alarm(0)


def in_groups(found: Sequence[Row]) -> tuple[list[float], list[float]]:
    """Return Spearman's correlation and the regret in each group."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in found:
        groups[row.group].append(row)
    ranks, regrets = list[float](), list[float]()
    for rows in (rows for rows in groups.values() if len(rows) >= FEWEST):
        rank = float(spearmanr([row.predicted for row in rows], [row.measured for row in rows]).statistic)
        ranks.append(0.0 if np.isnan(rank) else rank)
        chosen = min(rows, key=lambda row: row.predicted)
        regrets.append(chosen.measured / min(row.measured for row in rows))
    return ranks, regrets


def too_long(*_: Any) -> None:
    """Raise :class:`TimeoutError`."""
    raise TimeoutError


def main() -> None:
    """Print how near the predictions are."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--every", type=int, default=1, help="only each of them that comes every so many")
    parser.add_argument("--seconds", type=int, default=60, help="for each kernel at most")
    asked = parser.parse_args()
    signal.signal(signal.SIGALRM, too_long)
    with lzma.open(SHARED_DATA / "titan-v.pkl.xz") as file:
        rows = pickle.load(file)[:: asked.every]
    failures: Counter[str] = Counter()
    found = list(predictions(rows, asked.seconds, failures))
    apart = np.log([row.predicted / row.measured for row in found])
    ranks, regrets = in_groups(found)
    console = Console()
    console.print(f"{len(found)} of {len(rows)} kernels; the others: {dict(failures) or 'none'}")
    console.print(
        f"median |ln(predicted / measured)| {np.median(np.abs(apart)):.2f}, of the ratio {np.median(apart):+.2f}"
    )
    console.print(f"in {len(ranks)} groups: Spearman mean {np.mean(ranks):.2f}, median {np.median(ranks):.2f}")
    console.print(f"regret: median {np.median(regrets):.2f}x, mean {np.mean(regrets):.2f}x")


if __name__ == "__main__":
    main()
