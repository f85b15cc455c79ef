"""Counters, registers and times of 477 kernels on an H200, predicted and measured.

We have measured the test kernels, the ranking sets, tiles of a convolution, and kernels of the TITAN V's archive, and
counted what they do by Nsight Compute (fits/nvidia-h200/raw/transformed-kernels.jsonl.xz). Of every third, `gather`
predicts the same from the source and the description alone, as CUDA, and what warps wait for, a line of JSON each.
Without it, what is in benchmarks/gathered/ is judged:

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
from loopyperf.errors import LoopyperfError
from loopyperf.executors import TimeIsUp, limited
from loopyperf.explain.waiting import Wait
from loopyperf.measurement.backends.cuda_program import for_cuda

DEVICE = "nvidia-h200"
MEASURED = Path(__file__).parents[1] / "fits" / DEVICE / "raw" / "transformed-kernels.jsonl.xz"
GATHERED = Path(__file__).parent / "gathered" / "transformed-kernels.jsonl.xz"
SECONDS, REGISTERS = "seconds", "launch__registers_per_thread"
NEAR = 0.1
"""relative error of registers that counts as near"""
EVERY = 3
PATIENCE = 150.0
"""seconds that are taken for the prediction of one kernel"""
SETS: Mapping[str, tuple[str, ...]] = {
    "products": ("ranking of matrix multiplications",),
    "stencils": ("ranking of stencils",),
    "element products": ("ranking of element products",),
    "convolution": (CONVOLUTION,),
    "contractions": (OF_TITAN_V,),
}
"""what a set is called -> the classes of its kernels; the test kernels are all others"""
OTHERS = "test kernels"
SMALL = 0.02
"""of all sectors that L2 looks up: where fewer are written to DRAM, they are taken as none"""
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS: Mapping[str, tuple[tuple[Wait, ...], tuple[str, ...]]] = {
    "memory": (("memory latency", "memory bandwidth"), ("long_scoreboard",)),
    "pipeline busy": (("pipeline busy",), ("lg_throttle", "mio_throttle", "math_pipe_throttle", "tex_throttle")),
    "dependency": (("dependency",), ("wait", "short_scoreboard")),
    "barrier": (("barrier",), ("barrier",)),
    "issue": (("issue",), ("not_selected", "dispatch_stall")),
}
"""stall reason -> reasons of the simulator, and of Nsight Compute"""


@dataclass(frozen=True)
class Judged:
    """A kernel of one launch, with what was measured and what is predicted of it."""

    of_set: str
    measured: Mapping[str, float]
    predicted: Mapping[str, float]


def measured() -> Iterator[dict[str, Any]]:
    """Yield the kernels that were measured."""
    with lzma.open(MEASURED, "rt") as file:
        yield from (found for line in file if (found := json.loads(line))["record"] == "kernel")


def key_of(found: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return by what a kernel is found again."""
    return found["kernel_class"], found["label"], json.dumps(found["sizes"], sort_keys=True)


def gather(path: Path, every: int) -> None:
    """Append what is predicted of each so many kernels to *path*."""
    lines = path.read_text().splitlines() if path.exists() else []
    known = {key_of(json.loads(line)) for line in lines}
    for found in [*measured()][::every]:
        if key_of(found) in known or found["of"] != 1:
            continue
        told = {each: found[each] for each in ("kernel_class", "label", "sizes")}
        try:
            told["predicted"] = limited(PATIENCE, partial(predicted, Member(**told)))
        except (LoopyperfError, TimeIsUp) as error:
            told["failure"] = type(error).__name__
        with path.open("a") as file:
            file.write(json.dumps(told) + "\n")


def predicted(member: Member) -> dict[str, float]:
    """Return what is predicted of *member* as CUDA, with its time."""
    kernel = for_cuda(member.build())
    (launch,) = lpp.counters(kernel, device=DEVICE, parameters=member.sizes).launches
    seconds = lpp.estimate(kernel, device=DEVICE, model="pipeline", parameters=member.sizes).seconds
    explained = lpp.explain(kernel, device=DEVICE, models=["pipeline"], parameters=member.sizes, findings=False)
    diagnosis = explained.devices[0].diagnosis
    waiting = None if diagnosis is None else diagnosis.longest.waiting
    assert waiting is not None, "the pipeline model simulates each launch"
    stalls = {name: sum(waiting.total.get(each, 0.0) for each in ours) for name, (ours, _) in STALLS.items()}
    return {**launch.values, SECONDS: float(seconds), **stalls}


def gathered() -> list[Judged]:
    """Return the kernels of which predictions were gathered."""
    by_key = {key_of(found): found for found in measured()}
    judged: list[Judged] = []
    with lzma.open(GATHERED, "rt") as file:
        for told in map(json.loads, file):
            if "predicted" not in told:
                continue
            found = by_key[key_of(told)]
            names = (name for name, classes in SETS.items() if found["kernel_class"] in classes)
            counted = {**found["launches"][0]["counters"], SECONDS: float(np.median(found["seconds"]))}
            judged.append(Judged(next(names, OTHERS), counted, told["predicted"]))
    return judged


# {{{ tables


def of_counters(judged: Sequence[Judged]) -> Table:
    """Return the median and the 90th percentile of the error of each metric in each set, where it is not zero."""
    sets = [*SETS, OTHERS]
    shown = table("metric", *(f"{name}: {sum(each.of_set == name for each in judged)}" for name in sets))
    for metric in judged[0].predicted:
        if metric in judged[0].measured and metric != SECONDS:
            shown.add_row(
                f"`{metric}`", *(_error([each for each in judged if each.of_set == name], metric) for name in sets)
            )
    return shown


def _error(judged: Sequence[Judged], metric: str) -> str:
    there = [each for each in judged if each.measured[metric] > _least(metric, each.measured)]
    if not there:
        zero = sum(each.predicted[metric] <= _least(metric, each.measured) for each in judged)
        return f"none: {zero} of {len(judged)}"
    errors = [abs(each.predicted[metric] / each.measured[metric] - 1) for each in there]
    return f"{100 * np.median(errors):.0f}, {100 * np.quantile(errors, 0.9):.0f} %"


def _least(metric: str, measured: Mapping[str, float]) -> float:
    if metric != "dram__sectors_write.sum":
        return 0.0
    return SMALL * (measured["lts__t_sectors_op_read.sum"] + measured["lts__t_sectors_op_write.sum"])


def of_times(judged: Sequence[Judged]) -> Table:
    """Return how near times are in each set."""
    shown = table("set", "kernels", "median ln", "median abs(ln)", "90th percentile", "registers within 10 %")
    for name in (*SETS, OTHERS):
        here = [each for each in judged if each.of_set == name]
        told = np.array([each.predicted[SECONDS] for each in here])
        took = np.array([each.measured[SECONDS] for each in here])
        near = [abs(each.predicted[REGISTERS] / each.measured[REGISTERS] - 1) <= NEAR for each in here]
        logs = np.log(told / took)
        figures = (np.median(logs), median_log_error(told, took), np.quantile(np.abs(logs), 0.9))
        shown.add_row(name, str(len(here)), *(f"{each:.2f}" for each in figures), f"{100 * np.mean(near):.0f} %")
    return shown


def of_stalls(judged: Sequence[Judged]) -> Table:
    """Return the mean share of each stall reason, simulated and counted, and how often the largest one agrees."""
    shown = table("set", "kernels", "largest agrees", *STALLS)
    for name in (*SETS, OTHERS, "all"):
        here = [each for each in judged if name in ("all", each.of_set)]
        simulated = np.array([[each.predicted[reason] for reason in STALLS] for each in here])
        counted = np.array([_counted_stalls(each.measured) for each in here])
        agrees = np.equal(simulated.argmax(axis=1), counted.argmax(axis=1)).mean()
        means = zip(simulated.mean(axis=0), counted.mean(axis=0), strict=True)
        shares = (f"{100 * ours:.0f}, {100 * theirs:.0f} %" for ours, theirs in means)
        shown.add_row(name, str(len(here)), f"{100 * agrees:.0f} %", *shares)
    return shown


def _counted_stalls(measured: Mapping[str, float]) -> list[float]:
    warps = [sum(measured.get(STALLED.format(each), 0.0) for each in theirs) for _, theirs in STALLS.values()]
    return [each / sum(warps) for each in warps]


# }}}


def main() -> None:
    """Gather predictions, or judge those that were gathered."""
    gather_or_show(
        main.__doc__, EVERY, gather, gathered, {"counters": of_counters, "stalls": of_stalls, "times": of_times}
    )


if __name__ == "__main__":
    main()
