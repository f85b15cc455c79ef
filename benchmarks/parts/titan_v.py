"""822 measured kernels of a TITAN V, and their analyses by ``titan_v_gather.py``.

The measurements are those of kaushikcfd/feinsum, ``titan-v.pkl.xz`` in the shared data: einsums in double precision
under many transformations. The kernels of a group compute the same result.
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
"""the analyses of these kernels by the models of this version"""
XZ = b"\xfd7zXZ"
"""the first bytes of a file compressed with xz"""
FEWEST = 3
"""minimum number of kernels of a group to compute its rank correlation"""
SPREAD = 5
"""ratio of the slowest to the fastest kernel of a group, above which the group counts as wide"""

Row = Mapping[str, Any]
"""a measured kernel: ``id``, ``name``, ``kernel`` (pickled), ``sizes``, ``seconds``, ``group``"""


class Analysis(msgspec.Struct):
    """The analysis of a row without running the kernel. Fields are empty if the analysis took too long."""

    row: int
    counts: dict[str, float] = {}
    """property -> count"""
    pipelines: dict[str, float] = {}
    """busy time of each pipeline in seconds, computed from the device parameters"""
    told: dict[str, float] = {}
    amounts: dict[str, float] = {}
    """features of the graphs: intensive ones, which do not grow with the work (``told``), and extensive ones"""
    seconds: dict[str, float] = {}
    """run time predicted by each device model"""
    otherwise: list[dict[str, float]] = []
    """busy times of the pipelines for each other placement of private arrays, if their placement is uncertain"""
    reasons: list[str] = []
    """why the placement is uncertain"""
    failures: dict[str, str] = {}
    """failed step -> class of the error"""


def measured_kernels() -> list[dict[str, Any]]:
    """Return the rows of the archive."""
    with lzma.open(ARCHIVE) as file:
        return pickle.load(file)


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add an argument for the files of gathered analyses to *parser*; the default is the file in the repository."""
    text = "output of titan_v_gather.py, may be repeated; by default the file in the repository"
    parser.add_argument("file", type=Path, nargs="*", default=[GATHERED], help=text)


def gathered(files: Sequence[Path]) -> list[Analysis]:
    """Return the analyses in *files*, in the order of the rows."""
    contents = (file.read_bytes() for file in files)
    plain = (lzma.decompress(each) if each.startswith(XZ) else each for each in contents)
    lines = (line for each in plain for line in each.splitlines())
    return sorted((msgspec.json.decode(line, type=Analysis) for line in lines), key=lambda each: each.row)


def observed(rows: Sequence[Row], found: Sequence[Analysis]) -> list[Observation]:
    """Return the observations of the analyzed rows for fits. The label of an observation is its row number."""
    return [
        Observation(
            str(rows[each.row]["group"]), str(each.row), {}, each.counts, rows[each.row]["seconds"], each.pipelines
        )
        for each in found
    ]


def pairs(predicted: np.ndarray, measured: np.ndarray, groups: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the predicted and measured times of each group that has at least :data:`FEWEST` kernels."""
    members: dict[str, list[int]] = defaultdict(list)
    for place, group in enumerate(groups):
        members[group].append(place)
    return [(predicted[places], measured[places]) for places in members.values() if len(places) >= FEWEST]


def figures(predicted: np.ndarray, rows: Sequence[Observation]) -> list[str]:
    """Return the table cells of a predictor: median error, rank correlation of all and of wide groups, regret."""
    measured = np.array([row.seconds for row in rows])
    of_groups = pairs(predicted, measured, [row.kernel_class for row in rows])
    wide = [pair for pair in of_groups if pair[1].max() > SPREAD * pair[1].min()]
    ranks, regrets = [spearman(*pair) for pair in of_groups], [regret(*pair) for pair in of_groups]
    far = [spearman(*pair) for pair in wide]
    numbers = (median_log_error(predicted, measured), np.mean(ranks), np.median(ranks), np.mean(far), np.median(far))
    return [f"{each:.2f}" for each in (*numbers, np.median(regrets), np.mean(regrets))]


FIGURES = ("median abs(ln)", "Spearman mean", "median", "wide: mean", "median", "regret median", "mean")
"""column headers of :func:`figures`"""
