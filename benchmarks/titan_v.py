"""Every model on 822 measured kernels of a TITAN V, from the catalog alone: errors, ranks, regret.

The data are those of kaushikcfd/feinsum, ``titan-v.pkl.xz``: einsums in double precision under many transformations,
in groups that compute the same. Spearman's correlation and the regret of taking the one that is predicted to be fastest
are within groups, of three kernels or more. With ``--keep FILE`` the predictions are kept, a line of JSON each, and
what is there already is not asked again.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v.py [--every N] [--from K] [--seconds S] \
        [--keep FILE]
"""

import argparse
import json
import lzma
import pickle
import signal
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from parts.shared_data import SHARED_DATA
from rich.console import Console
from rich.table import Table

import loopyperf as lpp
from loopyperf.errors import LoopyperfError
from loopyperf.models import DEVICE_MODELS as OF_DEVICE
from loopyperf.models.metrics import median_log_error, regret, spearman
from loopyperf.models.on_device.timed_launch import TimedKernel

DEVICE = lpp.load_device("nvidia-titan-v")
FEWEST = 3
"""kernels of a group that are ranked"""

Answers = dict[str, float]
"""model -> seconds; without those that have no answer"""


def answers(row: dict[str, Any], seconds: int) -> tuple[Answers, dict[str, str]]:
    """Return what each model says of a row within so many *seconds*, and why others say nothing."""
    found, failures = Answers(), dict[str, str]()
    signal.alarm(seconds)
    try:
        kernel = TimedKernel(lpp.instruction_graph(pickle.loads(row["kernel"]), parameters=row["sizes"]), DEVICE)
        for name, model in OF_DEVICE.items():
            try:
                found[name] = float(model.time(kernel).seconds)
            except LoopyperfError as error:
                failures[name] = type(error).__name__
    except (LoopyperfError, TimeoutError) as error:
        failures.update((name, type(error).__name__) for name in OF_DEVICE if name not in found)
    finally:
        signal.alarm(0)
    return found, failures


def table(rows: Sequence[dict[str, Any]], known: dict[int, Answers]) -> Table:
    """Return how near the predictions of each model are."""
    columns = ("model", "kernels", "median |ln|", "median ln", "groups", "Spearman mean", "median")
    found = Table(*columns, "regret median", "mean")
    for name in OF_DEVICE:
        seen = [place for place in known if name in known[place]]
        if seen:
            found.add_row(name, *_figures(name, [rows[place] for place in seen], [known[place] for place in seen]))
    return found


def _figures(name: str, rows: Sequence[dict[str, Any]], known: Sequence[Answers]) -> list[str]:
    predicted, measured = [each[name] for each in known], [row["seconds"] for row in rows]
    groups: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        groups[str(row["group"])].append(place)
    pairs = [
        ([predicted[place] for place in places], [measured[place] for place in places])
        for places in groups.values()
        if len(places) >= FEWEST
    ]
    ranks, regrets = [spearman(*pair) for pair in pairs], [regret(*pair) for pair in pairs]
    bias = float(np.median(np.log(np.divide(predicted, measured))))
    figures = (median_log_error(predicted, measured), bias, len(pairs), np.mean(ranks), np.median(ranks))
    return [str(len(rows)), *(f"{each:.2f}" for each in (*figures, np.median(regrets), np.mean(regrets)))]


def too_long(*_: Any) -> None:
    """Raise :class:`TimeoutError`."""
    raise TimeoutError


def main() -> None:
    """Print how near the predictions are."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--every", type=int, default=1, help="only each of them that comes every so many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--seconds", type=int, default=120, help="for each kernel at most")
    parser.add_argument("--keep", type=Path, help="file of predictions")
    asked = parser.parse_args()
    signal.signal(signal.SIGALRM, too_long)
    with lzma.open(SHARED_DATA / "titan-v.pkl.xz") as file:
        rows = pickle.load(file)
    known: dict[int, Answers] = {}
    if asked.keep and asked.keep.exists():
        kept = map(json.loads, asked.keep.read_text().splitlines())
        known = {each["row"]: each["seconds"] for each in kept}
    failures: Counter[str] = Counter()
    for place in range(asked.first, len(rows), asked.every):
        if place in known:
            continue
        known[place], failed = answers(rows[place], asked.seconds)
        failures.update(f"{name}: {why}" for name, why in failed.items())
        if asked.keep:
            with asked.keep.open("a") as file:
                file.write(json.dumps({"row": place, "seconds": known[place]}) + "\n")
    console = Console(width=120)
    console.print(table(rows, known))
    console.print(f"no answer: {dict(failures) or 'none'}")


if __name__ == "__main__":
    main()
