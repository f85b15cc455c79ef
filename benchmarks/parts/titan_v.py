"""822 measured kernels of a TITAN V, and what ``titan_v_gather.py`` has found of some of them.

The measurements are those of kaushikcfd/feinsum, ``titan-v.pkl.xz`` in the shared data: einsums in double precision
under many transformations, in groups that compute the same.
"""

import argparse
import lzma
import pickle
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import loopyperf as lpp
from loopyperf.calibration.accuracy import median_log_error, regret, spearman
from loopyperf.calibration.problem import Observation
from parts.shared_data import SHARED_DATA

DEVICE = lpp.load_device("nvidia-titan-v")
ARCHIVE = SHARED_DATA / "titan-v.pkl.xz"
GATHERED = Path(__file__).parents[1] / "gathered" / "titan-v.jsonl.xz"
"""what was found of them, by the models of this tree"""
XZ = b"\xfd7zXZ"
"""what compressed files begin with"""
FEWEST = 3
"""kernels of a group that are ranked"""
SPREAD = 5
"""slowest over fastest kernel of a group, from which on its rank correlation is worth reading"""

Row = Mapping[str, Any]
"""a measured kernel: ``id``, ``name``, ``kernel`` (pickled), ``sizes``, ``seconds``, ``group``"""


class Found(msgspec.Struct):
    """What is found of a row without running it; what was not found in time is empty."""

    row: int
    counts: dict[str, float] = {}
    """property -> units"""
    pipelines: dict[str, float] = {}
    """seconds that each pipeline is described to be busy"""
    told: dict[str, float] = {}
    amounts: dict[str, float] = {}
    """features of the graphs: numbers that do not grow with the work, and those that do"""
    seconds: dict[str, float] = {}
    """by each model of the device"""
    otherwise: list[dict[str, float]] = []
    """pipelines as they are with private arrays in the other places, where it is unsure of them"""
    reasons: list[str] = []
    """why it is unsure"""
    failures: dict[str, str] = {}
    """what was asked for and not found -> the class of the error"""


def measured_kernels() -> list[dict[str, Any]]:
    """Return the rows."""
    with lzma.open(ARCHIVE) as file:
        return pickle.load(file)


def add_files(parser: argparse.ArgumentParser) -> None:
    """Let *parser* take the files that were gathered, those of the repository unless others are named."""
    told = "what titan_v_gather.py found: of several, all are read; what is in the repository unless one is named"
    parser.add_argument("file", type=Path, nargs="*", default=[GATHERED], help=told)


def gathered(files: Sequence[Path]) -> list[Found]:
    """Return what is in *files*, in the order of the rows."""
    contents = (file.read_bytes() for file in files)
    plain = (lzma.decompress(each) if each.startswith(XZ) else each for each in contents)
    lines = (line for each in plain for line in each.splitlines())
    return sorted((msgspec.json.decode(line, type=Found) for line in lines), key=lambda each: each.row)


def observed(rows: Sequence[Row], found: Sequence[Found]) -> list[Observation]:
    """Return what fits are told of the rows that were found, labelled by their numbers."""
    return [
        Observation(
            str(rows[each.row]["group"]), str(each.row), {}, each.counts, rows[each.row]["seconds"], each.pipelines
        )
        for each in found
    ]


def pairs(predicted: np.ndarray, measured: np.ndarray, groups: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the predicted and measured times of each of *groups* that has enough kernels to be ranked."""
    members: dict[str, list[int]] = defaultdict(list)
    for place, group in enumerate(groups):
        members[group].append(place)
    return [(predicted[places], measured[places]) for places in members.values() if len(places) >= FEWEST]


def figures(predicted: np.ndarray, rows: Sequence[Observation]) -> list[str]:
    """Return the cells of a way to predict: median error, ranks of all groups and of wide ones, regret."""
    measured = np.array([row.seconds for row in rows])
    of_groups = pairs(predicted, measured, [row.kernel_class for row in rows])
    wide = [pair for pair in of_groups if pair[1].max() > SPREAD * pair[1].min()]
    ranks, regrets = [spearman(*pair) for pair in of_groups], [regret(*pair) for pair in of_groups]
    far = [spearman(*pair) for pair in wide]
    numbers = (median_log_error(predicted, measured), np.mean(ranks), np.median(ranks), np.mean(far), np.median(far))
    return [f"{each:.2f}" for each in (*numbers, np.median(regrets), np.mean(regrets))]


FIGURES = ("median abs(ln)", "Spearman mean", "median", "wide: mean", "median", "regret median", "mean")
"""headings of :func:`figures`"""
