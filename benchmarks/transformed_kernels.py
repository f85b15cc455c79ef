"""Compare predicted and measured counters, registers and times of 477 kernels on an H200.

We measured the test kernels, the ranking sets, tiles of a convolution, and kernels of the TITAN V's archive, and
profiled them with Nsight Compute (fits/nvidia-h200/raw/transformed-kernels.jsonl.xz). For every third kernel, `gather`
predicts the same values and the stall reasons from the source and the device parameters alone. It compiles the kernels
as CUDA, and writes a line of JSON for each. Without `gather`, the script evaluates the predictions in
benchmarks/gathered/:

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/transformed_kernels.py \
        [counters | stalls | times | gather FILE [--every N]]
"""

import json
import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from parts.corpus import CONVOLUTION, OF_TITAN_V, Member
from parts.tables import gather_or_show, table
from rich.table import Table

import loopyperf as lpp
from loopyperf.calibration.accuracy import median_log_error
from loopyperf.compiler.cuda_code import for_cuda
from loopyperf.errors import LoopyperfError
from loopyperf.executors import TimeIsUp, limited
from loopyperf.explain.review import StallReason

DEVICE = "nvidia-h200"
MEASURED = Path(__file__).parents[1] / "fits" / DEVICE / "raw" / "transformed-kernels.jsonl.xz"
GATHERED = Path(__file__).parent / "gathered" / "transformed-kernels.jsonl.xz"
SECONDS, REGISTERS = "seconds", "launch__registers_per_thread"
NEAR = 0.1
"""relative tolerance of registers"""
EVERY = 3
TIME_LIMIT = 150.0
"""time limit of one prediction, in seconds"""
SETS: Mapping[str, tuple[str, ...]] = {
    "products": ("ranking of matrix multiplications",),
    "stencils": ("ranking of stencils",),
    "element products": ("ranking of element products",),
    "convolution": (CONVOLUTION,),
    "contractions": (OF_TITAN_V,),
}
"""name of a set -> the classes of its kernels; all other kernels are test kernels"""
OTHERS = "test kernels"
SMALL = 0.02
"""share of the sectors that L2 looks up; if fewer are written to DRAM, the count is assumed 0"""
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS: Mapping[str, tuple[tuple[StallReason, ...], tuple[str, ...]]] = {
    "memory": (("memory latency", "memory bandwidth"), ("long_scoreboard",)),
    "pipeline busy": (("pipeline busy",), ("lg_throttle", "mio_throttle", "math_pipe_throttle", "tex_throttle")),
    "dependency": (("dependency",), ("wait", "short_scoreboard")),
    "barrier": (("barrier",), ("barrier",)),
    "issue": (("issue limit",), ("not_selected", "dispatch_stall")),
}
"""stall reason -> reasons of the simulator, and of Nsight Compute"""


@dataclass(frozen=True)
class EvaluatedKernel:
    """A kernel with one launch, with measured and predicted values."""

    of_set: str
    measured: Mapping[str, float]
    predicted: Mapping[str, float]


def measured() -> Iterator[dict[str, Any]]:
    """Yield the records of the measured kernels."""
    with lzma.open(MEASURED, "rt") as file:
        yield from (found for line in file if (found := json.loads(line))["record"] == "kernel")


def key_of(found: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the key that identifies a kernel."""
    return found["kernel_class"], found["label"], json.dumps(found["sizes"], sort_keys=True)


def gather(path: Path, every: int) -> None:
    """Append predictions for every N-th kernel to *path*; N is *every*."""
    lines = path.read_text().splitlines() if path.exists() else []
    known = {key_of(json.loads(line)) for line in lines}
    for found in [*measured()][::every]:
        if key_of(found) in known or found["of"] != 1:
            continue
        record = {each: found[each] for each in ("kernel_class", "label", "sizes")}
        try:
            record["predicted"] = limited(TIME_LIMIT, partial(predicted, Member(**record)))
        except (LoopyperfError, TimeIsUp) as error:
            record["failure"] = type(error).__name__
        with path.open("a") as file:
            file.write(json.dumps(record) + "\n")


def predicted(member: Member) -> dict[str, float]:
    """Return the predicted counters, run time and stall reasons of *member*, compiled as CUDA."""
    kernel = for_cuda(member.build())
    (launch,) = lpp.counters(kernel, device=DEVICE, parameters=member.sizes).launches
    seconds = lpp.estimate(kernel, device=DEVICE, model="pipeline", parameters=member.sizes).seconds
    explained = lpp.explain(kernel, device=DEVICE, models=["pipeline"], parameters=member.sizes, findings=False)
    diagnosis = explained.devices[0].diagnosis
    waiting = None if diagnosis is None else diagnosis.longest.waiting
    assert waiting is not None, "the pipeline model simulates each launch"
    stalls = {name: sum(waiting.total.get(each, 0.0) for each in reasons) for name, (reasons, _) in STALLS.items()}
    return {**launch.values, SECONDS: float(seconds), **stalls}


def gathered() -> list[EvaluatedKernel]:
    """Return the kernels with gathered predictions."""
    by_key = {key_of(found): found for found in measured()}
    evaluated: list[EvaluatedKernel] = []
    with lzma.open(GATHERED, "rt") as file:
        for record in map(json.loads, file):
            if "predicted" not in record:
                continue
            found = by_key[key_of(record)]
            names = (name for name, classes in SETS.items() if found["kernel_class"] in classes)
            counted = {**found["launches"][0]["counters"], SECONDS: float(np.median(found["seconds"]))}
            evaluated.append(EvaluatedKernel(next(names, OTHERS), counted, record["predicted"]))
    return evaluated


# {{{ tables


def of_counters(evaluated: Sequence[EvaluatedKernel]) -> Table:
    """Return the median and 90th percentile of the errors of each metric in each set, where it is not zero."""
    sets = [*SETS, OTHERS]
    shown = table("metric", *(f"{name}: {sum(each.of_set == name for each in evaluated)}" for name in sets))
    for metric in evaluated[0].predicted:
        if metric in evaluated[0].measured and metric != SECONDS:
            shown.add_row(
                f"`{metric}`", *(_error([each for each in evaluated if each.of_set == name], metric) for name in sets)
            )
    return shown


def _error(evaluated: Sequence[EvaluatedKernel], metric: str) -> str:
    nonzero = [each for each in evaluated if each.measured[metric] > _threshold(metric, each.measured)]
    if not nonzero:
        zero = sum(each.predicted[metric] <= _threshold(metric, each.measured) for each in evaluated)
        return f"none: {zero} of {len(evaluated)}"
    errors = [abs(each.predicted[metric] / each.measured[metric] - 1) for each in nonzero]
    return f"{100 * np.median(errors):.0f}, {100 * np.quantile(errors, 0.9):.0f} %"


def _threshold(metric: str, measured: Mapping[str, float]) -> float:
    if metric != "dram__sectors_write.sum":
        return 0.0
    return SMALL * (measured["lts__t_sectors_op_read.sum"] + measured["lts__t_sectors_op_write.sum"])


def of_times(evaluated: Sequence[EvaluatedKernel]) -> Table:
    """Return the errors of the times in each set."""
    shown = table("set", "kernels", "median ln", "median abs(ln)", "90th percentile", "registers within 10 %")
    for name in (*SETS, OTHERS):
        in_set = [each for each in evaluated if each.of_set == name]
        predicted_times = np.array([each.predicted[SECONDS] for each in in_set])
        measured_times = np.array([each.measured[SECONDS] for each in in_set])
        near = [abs(each.predicted[REGISTERS] / each.measured[REGISTERS] - 1) <= NEAR for each in in_set]
        logs = np.log(predicted_times / measured_times)
        error = median_log_error(predicted_times, measured_times)
        figures = (np.median(logs), error, np.quantile(np.abs(logs), 0.9))
        shown.add_row(name, str(len(in_set)), *(f"{each:.2f}" for each in figures), f"{100 * np.mean(near):.0f} %")
    return shown


def of_stalls(evaluated: Sequence[EvaluatedKernel]) -> Table:
    """Return the simulated and measured mean share of each stall reason, and how often the largest reason agrees."""
    shown = table("set", "kernels", "largest agrees", *STALLS)
    for name in (*SETS, OTHERS, "all"):
        in_set = [each for each in evaluated if name in ("all", each.of_set)]
        simulated = np.array([[each.predicted[reason] for reason in STALLS] for each in in_set])
        counted = np.array([_counted_stalls(each.measured) for each in in_set])
        agrees = np.equal(simulated.argmax(axis=1), counted.argmax(axis=1)).mean()
        means = zip(simulated.mean(axis=0), counted.mean(axis=0), strict=True)
        shares = (f"{100 * simulation:.0f}, {100 * profiler:.0f} %" for simulation, profiler in means)
        shown.add_row(name, str(len(in_set)), f"{100 * agrees:.0f} %", *shares)
    return shown


def _counted_stalls(measured: Mapping[str, float]) -> list[float]:
    warps = [sum(measured.get(STALLED.format(each), 0.0) for each in reasons) for _, reasons in STALLS.values()]
    return [each / sum(warps) for each in warps]


# }}}


def main() -> None:
    """Gather predictions, or evaluate gathered predictions."""
    gather_or_show(
        main.__doc__, EVERY, gather, gathered, {"counters": of_counters, "stalls": of_stalls, "times": of_times}
    )


if __name__ == "__main__":
    main()
