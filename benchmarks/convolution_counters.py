"""Compare predicted and measured counters, registers and times of a tuned convolution on an RTX 2080 Ti.

Others measured 5,280 configurations of it (../shared/data, ``ktt-convolution-rtx-2080-ti.csv.xz``). `gather` predicts
the counters of Nsight Compute for every N-th configuration, and writes a line of JSON for each. A configuration takes
some seconds. Without `gather`, the script evaluates the predictions in benchmarks/gathered/:

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
"""metric -> its name in the measurements, if that is different"""
FEW = 8
"""number of configurations with the shortest predicted times that a user would measure"""
Row = Mapping[str, str]


@dataclass(frozen=True)
class EvaluatedConfiguration:
    """A measured configuration with its prediction."""

    row: Row
    predicted: Mapping[str, float]

    def counted(self, metric: str) -> float:
        """Return the measured value of *metric*."""
        return float(self.row[COLUMNS.get(metric, metric)])


def measured() -> list[Row]:
    """Return all measured configurations."""
    with lzma.open(MEASURED, "rt") as file:
        return list(csv.DictReader(file))


def shape_of(row: Row) -> Shape:
    """Return the shape of the kernel in *row*."""
    x, y, tile_x, tile_y = (int(row[f"{name}_SIZE_{axis}"]) for name in ("BLOCK", "TILE") for axis in "XY")
    return Shape((x, y), (tile_x, tile_y))


def predicted(shape: Shape) -> dict[str, float]:
    """Return the predicted counters and run time of the kernel of *shape*."""
    kernel = convolution(shape)
    (launch,) = lpp.counters(kernel, device=DEVICE).launches
    return {**launch.values, SECONDS: seconds_of(launch)}


def seconds_of(launch: LaunchCounters) -> float:
    """Return the time that follows from the counters of *launch* at the published clock."""
    return cycles_of(launch.values) / lpp.load_device(DEVICE).needed("clock")


def cycles_of(counters: Mapping[str, float | str]) -> float:
    """Return the cycles that follow from *counters*: instructions divided by the share of cycles that issue one."""
    device = lpp.load_device(DEVICE)
    share = float(counters["smsp__issue_active.avg.pct_of_peak_sustained_active"]) / 100
    active = float(counters["smsp__cycles_active.avg.pct_of_peak_sustained_elapsed"]) / 100
    parts = device.needed("cores") * device.limits.needed("partitions")
    return float(counters["smsp__inst_executed.sum"]) / (parts * share * active)


def gather(path: Path, every: int) -> None:
    """Write predictions for every N-th configuration to *path*; N is *every*."""
    known: dict[Shape, dict[str, float]] = {}
    with path.open("w") as file:
        for place, row in list(enumerate(measured()))[::every]:
            shape = shape_of(row)
            if shape not in known:
                known[shape] = predicted(shape)
            file.write(json.dumps({"place": place, "predicted": known[shape]}) + "\n")
            file.flush()


def gathered() -> Iterator[EvaluatedConfiguration]:
    """Yield the configurations with gathered predictions."""
    rows = measured()
    with lzma.open(GATHERED, "rt") as file:
        for line in file:
            found: dict[str, Any] = json.loads(line)
            place: int = found["place"]
            yield EvaluatedConfiguration(rows[place], found["predicted"])


# {{{ tables


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


def _errors(ratio: NDArray[np.float64]) -> list[str]:
    error = np.abs(ratio - 1)
    return [_share(float(np.median(error))), _share(float(np.quantile(error, 0.9))), f"{np.median(ratio):.3f}"]


def of_counters(evaluated: Sequence[EvaluatedConfiguration]) -> Table:
    """Return the errors of each predicted metric, over the rows whose measured value is not zero."""
    shown = table("metric", "rows", "median error", "90th percentile", "median ratio", "zeros predicted as zero")
    metrics = [name for name in evaluated[0].predicted if COLUMNS.get(name, name) in evaluated[0].row]
    for name in metrics:
        pairs = np.array([(each.predicted[name], each.counted(name)) for each in evaluated])
        nonzero, zero = pairs[pairs[:, 1] != 0], pairs[pairs[:, 1] == 0]
        cells = _errors(nonzero[:, 0] / nonzero[:, 1]) if len(nonzero) else [""] * 3
        zeros = f"{int((zero[:, 0] == 0).sum())} of {len(zero)}" if len(zero) else ""
        shown.add_row(f"`{name}`", str(len(nonzero)), *cells, zeros)
    return shown


def of_times(evaluated: Sequence[EvaluatedConfiguration]) -> Table:
    """Return the errors of the times that are predicted at the published clock and at the measured clock."""
    shown = table("clock", "median ln", "median abs(ln)", "Spearman", "regret", f"best of {FEW}")
    predicted_times = np.array([each.predicted[SECONDS] for each in evaluated])
    measured_times = 1e-6 * np.array([float(each.row["microseconds"]) for each in evaluated])
    clocks = np.array([clock_of(each.row) for each in evaluated])
    published = lpp.load_device(DEVICE).needed("clock")
    shown.add_row(f"{published / 1e6:.0f} MHz (published)", *_of_times(predicted_times, measured_times))
    clock = float(np.median(clocks))
    shown.add_row(f"{clock / 1e6:.0f} MHz (measured)", *_of_times(predicted_times * published / clock, measured_times))
    return shown


def clock_of(row: Row) -> float:
    """Return the clock of a configuration's run in Hz, computed from its counters and its time."""
    return cycles_of(row) / (1e-6 * float(row["microseconds"]))


def _of_times(predicted_times: NDArray[np.float64], measured_times: NDArray[np.float64]) -> list[str]:
    logs, order = np.log(predicted_times / measured_times), np.argsort(predicted_times, kind="stable")
    figures = (
        float(np.median(logs)),
        float(np.median(np.abs(logs))),
        spearman(predicted_times, measured_times),
        float(measured_times[order[0]] / measured_times.min()),
        float(measured_times[order[:FEW]].min() / measured_times.min()),
    )
    return [f"{each:.3f}" for each in figures]


# }}}


def main() -> None:
    """Gather predictions, or evaluate gathered predictions."""
    tables = {"counters": of_counters, "times": of_times}
    gather_or_show(main.__doc__, EVERY, gather, lambda: [*gathered()], tables)


if __name__ == "__main__":
    main()
