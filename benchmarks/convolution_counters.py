"""Counters, registers and times of a tuned convolution on an RTX 2080 Ti, predicted and measured.

Others have measured 5,280 configurations of it (../shared/data, ``ktt-convolution-rtx-2080-ti.csv.xz``); of each so
many, `gather` predicts what Nsight Compute counts, a line of JSON each, which takes some seconds. Without it, what is
in benchmarks/gathered/ is judged:

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/convolution_counters.py [gather FILE [--every N]]
"""

import csv
import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from parts.convolution import Shape, convolution
from parts.shared_data import SHARED_DATA
from parts.tables import gather_or_show, table
from rich.table import Table

import loopyperf as lpp
from loopyperf.calibration.accuracy import spearman
from loopyperf.models.profiler_counters import LaunchCounters

DEVICE = "nvidia-rtx-2080-ti"
MEASURED = SHARED_DATA / "ktt-convolution-rtx-2080-ti.csv.xz"
GATHERED = Path(__file__).parent / "gathered" / "convolution.jsonl.xz"
EVERY = 17
SECONDS, REGISTERS = "seconds", "launch__registers_per_thread"
COLUMNS: Mapping[str, str] = {REGISTERS: "registers"}
"""metric -> what the measurements call it, where that is another name"""
FEW = 8
"""configurations of the shortest predicted times, of which a user would measure all"""
Row = Mapping[str, str]


@dataclass(frozen=True)
class Judged:
    """A configuration, with what is predicted of it."""

    row: Row
    predicted: Mapping[str, float]

    def counted(self, metric: str) -> float:
        """Return what was measured of *metric*."""
        return float(self.row[COLUMNS.get(metric, metric)])


def measured() -> list[Row]:
    """Return all configurations that were measured."""
    with lzma.open(MEASURED, "rt") as file:
        return list(csv.DictReader(file))


def shape_of(row: Row) -> Shape:
    """Return the shape of the kernel in *row*."""
    x, y, tile_x, tile_y = (int(row[f"{what}_SIZE_{axis}"]) for what in ("BLOCK", "TILE") for axis in "XY")
    return Shape((x, y), (tile_x, tile_y))


def predicted(shape: Shape) -> dict[str, float]:
    """Return what is predicted of the kernel of *shape*, with its time."""
    kernel = convolution(shape)
    (launch,) = lpp.counters(kernel, device=DEVICE).launches
    return {**launch.values, SECONDS: seconds_of(launch)}


def seconds_of(launch: LaunchCounters) -> float:
    """Return the time that the counters of *launch* imply at the described clock."""
    return cycles_of(launch.values) / lpp.load_device(DEVICE).needed("clock")


def cycles_of(counters: Mapping[str, float | str]) -> float:
    """Return the cycles that *counters* imply: instructions over the share of cycles that issue one."""
    device = lpp.load_device(DEVICE)
    share = float(counters["smsp__issue_active.avg.pct_of_peak_sustained_active"]) / 100
    active = float(counters["smsp__cycles_active.avg.pct_of_peak_sustained_elapsed"]) / 100
    parts = device.needed("cores") * device.limits.needed("partitions")
    return float(counters["smsp__inst_executed.sum"]) / (parts * share * active)


def gather(path: Path, every: int) -> None:
    """Write what is predicted of each so many configurations to *path*."""
    known: dict[Shape, dict[str, float]] = {}
    with path.open("w") as file:
        for place, row in list(enumerate(measured()))[::every]:
            shape = shape_of(row)
            if shape not in known:
                known[shape] = predicted(shape)
            file.write(json.dumps({"place": place, "predicted": known[shape]}) + "\n")
            file.flush()


def gathered() -> Iterator[Judged]:
    """Yield the configurations of which predictions were gathered."""
    rows = measured()
    with lzma.open(GATHERED, "rt") as file:
        for line in file:
            found: dict[str, Any] = json.loads(line)
            place: int = found["place"]
            yield Judged(rows[place], found["predicted"])


# {{{ tables


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _errors(ratio: NDArray[np.float64]) -> list[str]:
    error = np.abs(ratio - 1)
    return [_share(float(np.median(error))), _share(float(np.quantile(error, 0.9))), f"{np.median(ratio):.3f}"]


def of_counters(judged: Sequence[Judged]) -> Table:
    """Return by how much the prediction of each metric is off, where it is not counted as zero."""
    shown = table("metric", "rows", "median error", "90th percentile", "median ratio", "zeros predicted as zero")
    metrics = [name for name in judged[0].predicted if COLUMNS.get(name, name) in judged[0].row]
    for name in metrics:
        pairs = np.array([(each.predicted[name], each.counted(name)) for each in judged])
        there, zero = pairs[pairs[:, 1] != 0], pairs[pairs[:, 1] == 0]
        told = _errors(there[:, 0] / there[:, 1]) if len(there) else [""] * 3
        zeros = f"{int((zero[:, 0] == 0).sum())} of {len(zero)}" if len(zero) else ""
        shown.add_row(f"`{name}`", str(len(there)), *told, zeros)
    return shown


def of_times(judged: Sequence[Judged]) -> Table:
    """Return how near times are, as predicted at the clock of the description and at that of the measurements."""
    shown = table("clock", "median ln", "median abs(ln)", "Spearman", "regret", f"best of {FEW}")
    told = np.array([each.predicted[SECONDS] for each in judged])
    took = 1e-6 * np.array([float(each.row["microseconds"]) for each in judged])
    clocks = np.array([clock_of(each.row) for each in judged])
    stated = lpp.load_device(DEVICE).needed("clock")
    shown.add_row(f"{stated / 1e6:.0f} MHz (published)", *_of_times(told, took))
    clock = float(np.median(clocks))
    shown.add_row(f"{clock / 1e6:.0f} MHz (measured)", *_of_times(told * stated / clock, took))
    return shown


def clock_of(row: Row) -> float:
    """Return the clock at which a configuration ran, in Hz, by its counters and its time."""
    return cycles_of(row) / (1e-6 * float(row["microseconds"]))


def _of_times(told: NDArray[np.float64], took: NDArray[np.float64]) -> list[str]:
    logs, order = np.log(told / took), np.argsort(told, kind="stable")
    figures = (
        float(np.median(logs)),
        float(np.median(np.abs(logs))),
        spearman(told, took),
        float(took[order[0]] / took.min()),
        float(took[order[:FEW]].min() / took.min()),
    )
    return [f"{each:.3f}" for each in figures]


# }}}


def main() -> None:
    """Gather predictions, or judge those that were gathered."""
    tables = {"counters": of_counters, "times": of_times}
    gather_or_show(main.__doc__, EVERY, gather, lambda: [*gathered()], tables)


if __name__ == "__main__":
    main()
