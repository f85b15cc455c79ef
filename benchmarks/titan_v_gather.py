"""Analyze 822 measured kernels of a TITAN V without running them, for the other ``titan_v`` scripts.

The analysis of a kernel contains its counts, the busy times of its pipelines, the busy times for other placements of
its private arrays if their placement is uncertain, the features of its graphs, and the time that each device model
predicts from the catalog alone. The script appends a line of JSON for each kernel that is not yet in FILE. Two
processes can share the work, each with its own FILE:

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v_gather.py FILE [--every N] [--from K] \
        [--seconds S]
"""

import argparse
import pickle
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from parts.titan_v import DEVICE, Analysis, Row, gathered, measured_kernels

from loopyperf.compiler.machine_program import compile_profile
from loopyperf.errors import LoopyperfError
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.pipeline_shares import busy_seconds
from loopyperf.models.program_timing import timing
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.predict.corrected import SeenKernel

Step = tuple[str, Callable[[], None]]
"""the name of a step, and a function that adds its results to the analysis"""


def find(place: int, row: Row, seconds: int) -> Analysis:
    """Return the analysis of the row number *place*, with a time limit of *seconds*."""
    analysis = Analysis(place)
    kernel = SeenKernel(pickle.loads(row["kernel"]), row["sizes"], DEVICE)
    in_time = True
    signal.alarm(seconds)
    for name, step in steps(kernel, analysis):
        try:
            if in_time:
                step()
            else:
                analysis.failures[name] = TimeoutError.__name__
        except (LoopyperfError, TimeoutError) as error:
            in_time = not isinstance(error, TimeoutError)
            analysis.failures[name] = type(error).__name__
    signal.alarm(0)
    return analysis


def steps(kernel: SeenKernel, analysis: Analysis) -> Iterator[Step]:
    """Yield the steps of the analysis of *kernel*, the most important first."""

    def timed() -> TimedProgram:
        assert kernel.timed is not None
        return kernel.timed

    def add_counts() -> None:
        busy = busy_seconds(timed())
        analysis.counts, analysis.pipelines = dict(kernel.counts), dict(busy)

    def add_features() -> None:
        analysis.told, analysis.amounts = dict(kernel.features.told), dict(kernel.features.amounts)

    def add_prediction(name: str) -> None:
        analysis.seconds[name] = float(DEVICE_MODELS[name].time(timed()).seconds)

    def place() -> None:
        machine = compile_profile(kernel.profile, DEVICE)
        analysis.reasons = sorted({array.reason for array in machine.unsure.values()})
        others = (compile_profile(kernel.profile, DEVICE, place) for place in machine.alternatives)
        analysis.otherwise = [dict(busy_seconds(timing(other, DEVICE))) for other in others]

    yield "pipelines", add_counts
    yield "features", add_features
    yield from ((name, lambda name=name: add_prediction(name)) for name in DEVICE_MODELS)
    yield "places", place


def raise_timeout(*_: Any) -> None:
    """Raise :class:`TimeoutError`."""
    raise TimeoutError


def main() -> None:
    """Append the analyses of the kernels to a file."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("file", type=Path, help="output file")
    parser.add_argument("--every", type=int, default=1, help="analyze only every N-th row")
    parser.add_argument("--from", type=int, default=0, dest="first", help="first row")
    parser.add_argument("--seconds", type=int, default=180, help="time limit per kernel")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, raise_timeout)
    rows = measured_kernels()
    done = {each.row for each in gathered([options.file])} if options.file.exists() else set[int]()
    for place in (place for place in range(options.first, len(rows), options.every) if place not in done):
        line = msgspec.json.encode(find(place, rows[place], options.seconds))
        with options.file.open("ab") as file:
            file.write(line + b"\n")


if __name__ == "__main__":
    main()
