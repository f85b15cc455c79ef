"""What learning adds to the overlap model on 822 measured kernels of a TITAN V, groups of einsums held out.

The data, and the files of observations, are those of ``titan_v_fit.py``. Groups are dealt to five folds. For each, the
overlap model of pipelines is fitted to the other groups, its residuals on these are those of fits to nine tenths of
them, and what is learned of these residuals, with hyper-parameters searched for among the same groups, corrects it.
Features are the shares of the pipelines and the counts of a work-group; with ``--gather``, observations are made with
all features of the kernels' graphs, and files that have them are learned from with them. ``--einsums`` holds out all
sizes of an einsum together, ``--shuffled`` learns residuals that were dealt out at random: what it gains is leaked.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v_learned.py FILE [FILE ...] [--einsums] \
        [--shuffled] [--gather] [--every N] [--from K] [--seconds S]
"""

import argparse
import json
import lzma
import pickle
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from parts.shared_data import SHARED_DATA
from rich.console import Console
from rich.table import Table
from titan_v import DEVICE, too_long
from titan_v_fit import SPREAD, figures, gather, kept

from loopyperf.calibration.candidates import CANDIDATES
from loopyperf.calibration.example import Example, FittedBase
from loopyperf.calibration.held_out import FOLDS
from loopyperf.calibration.learning import Judged, Names, judge
from loopyperf.calibration.problem import Observation, Vector
from loopyperf.calibration.training import scores
from loopyperf.errors import LoopyperfError
from loopyperf.models.features import Features
from loopyperf.models.on_device.graph_features import counted_features
from loopyperf.models.on_device.pipeline_shares import busy_seconds
from loopyperf.models.on_device.static_features import busy_features
from loopyperf.oracle.seen_kernel import SeenKernel

BASE = FittedBase(next(each for each in CANDIDATES if each.name == "overlap of pipelines"))
GROUPS = "work-groups"


def seen(row: Mapping[str, Any], seconds: int) -> dict[str, Any]:
    """Return counts, pipelines and features of a row, or why there are none within so many *seconds*."""
    signal.alarm(seconds)
    try:
        kernel = SeenKernel(pickle.loads(row["kernel"]), row["sizes"], DEVICE)
        assert kernel.timed is not None
        busy = busy_seconds(kernel.timed)
        found = kernel.features
        return {"counts": kernel.counts, "pipelines": busy, "told": found.told, "amounts": found.amounts}
    except (LoopyperfError, TimeoutError) as error:
        return {"failed": type(error).__name__}
    finally:
        signal.alarm(0)


def examples(observations: Sequence[Observation], files: Sequence[Path]) -> list[Example]:
    """Return the observations with their features: those of graphs, if all of them have these."""
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    graphs = {str(each["row"]): Features(each["told"], each["amounts"]) for each in lines if "told" in each}
    is_whole = all(row.label in graphs for row in observations)
    return [Example(row, graphs[row.label] if is_whole else of_observation(row), None) for row in observations]


def of_observation(row: Observation) -> Features:
    """Return the features that an observation has: its pipelines, and its counts in a group."""
    return busy_features(row.pipelines) | counted_features(row.properties, row.properties.get(GROUPS, 1))


def by_einsum(examples: Sequence[Example]) -> list[Example]:
    """Return the examples with the einsum, at all its sizes, as their class."""
    return [
        replace(each, observation=replace(each.observation, kernel_class=each.observation.kernel_class.split("|")[0]))
        for each in examples
    ]


def shuffled(examples: Sequence[Example]) -> list[Example]:
    """Return the examples with their features dealt out at random."""
    order = np.random.default_rng(0).permutation(len(examples))
    return [replace(each, features=examples[place].features) for each, place in zip(examples, order, strict=True)]


def table(observations: Sequence[Observation], rows: Sequence[Example], judged: Judged) -> Table:
    """Return how near the base alone and corrected comes; ranks and regret are within groups."""
    columns = ("median |ln|", "Spearman mean", "median", f"spread > {SPREAD}: mean", "median")
    found = Table("", *columns, "regret median", "mean", "explained")
    scored = scores(rows, judged)
    every: dict[str, Vector] = {"base": judged.base, **judged.learned}
    for name, seconds in every.items():
        predicted = np.maximum(seconds, np.finfo(float).tiny)
        found.add_row(name, *figures(predicted, observations), f"{scored[name].explained:.2f}")
    return found


def main() -> None:
    """Print what learning adds."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("file", type=Path, nargs="+", help="where observations are kept; of several, all are read")
    parser.add_argument("--einsums", action="store_true", help="hold out einsums at all sizes")
    parser.add_argument("--shuffled", action="store_true", help="deal the features out at random")
    parser.add_argument("--every", type=int, default=1, help="only each of the rows that comes every so many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--seconds", type=int, default=300, help="for each kernel at most")
    parser.add_argument("--gather", action="store_true", help="make observations, and learn nothing")
    asked = parser.parse_args()
    signal.signal(signal.SIGALRM, too_long)
    with lzma.open(SHARED_DATA / "titan-v.pkl.xz") as file:
        rows = pickle.load(file)
    if asked.gather:
        gather(rows, range(asked.first, len(rows), asked.every), asked.file[0], partial(seen, seconds=asked.seconds))
        return
    observations, failed = kept(rows, asked.file)
    taken = examples(observations, asked.file)
    taken = by_einsum(taken) if asked.einsums else taken
    taken = shuffled(taken) if asked.shuffled else taken
    console = Console(width=150)
    classes = len({each.observation.kernel_class for each in taken})
    names = Names.of(taken)
    number = len(names.told) + len(names.amounts)
    console.print(f"{len(observations)} kernels, {classes} classes, {number} features")
    console.print(table(observations, taken, judge(BASE, taken, most=FOLDS)))
    console.print(f"without an observation: {dict(failed) or 'none'}")


if __name__ == "__main__":
    main()
