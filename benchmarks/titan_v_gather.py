"""What is known of 822 measured kernels of a TITAN V without running them, for the other scripts of that name.

Of each kernel: its counts, how long its pipelines are busy, the same with its private arrays elsewhere where it is
unsure of them, the features of its graphs, and what each model of a device answers from the catalog alone. A line of
JSON each goes to FILE; what is there is not made again. Two processes may share the work, each with a FILE of its own:

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
from parts.titan_v import DEVICE, Found, Row, gathered, measured_kernels

from loopyperf.errors import LoopyperfError
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.pipeline_shares import busy_seconds
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.predict.corrected import SeenKernel
from loopyperf.stages.stages import staged

Step = tuple[str, Callable[[], None]]
"""what is asked for, and what adds it to what is found"""


def find(place: int, row: Row, seconds: int) -> Found:
    """Return what is found of the row at *place* within so many *seconds*."""
    found = Found(place)
    kernel = SeenKernel(pickle.loads(row["kernel"]), row["sizes"], DEVICE)
    in_time = True
    signal.alarm(seconds)
    for name, step in steps(kernel, found):
        try:
            if in_time:
                step()
            else:
                found.failures[name] = TimeoutError.__name__
        except (LoopyperfError, TimeoutError) as error:
            in_time = not isinstance(error, TimeoutError)
            found.failures[name] = type(error).__name__
    signal.alarm(0)
    return found


def steps(kernel: SeenKernel, found: Found) -> Iterator[Step]:
    """Yield what is to be found of *kernel*, that which most is made of first."""

    def timed() -> TimedProgram:
        assert kernel.timed is not None
        return kernel.timed

    def observe() -> None:
        busy = busy_seconds(timed())
        found.counts, found.pipelines = dict(kernel.counts), dict(busy)

    def see() -> None:
        found.told, found.amounts = dict(kernel.features.told), dict(kernel.features.amounts)

    def ask(name: str) -> None:
        found.seconds[name] = float(DEVICE_MODELS[name].time(timed()).seconds)

    def place() -> None:
        assert kernel.stages is not None
        found.reasons = sorted({array.reason for array in kernel.stages.machine.unsure.values()})
        others = (staged(kernel.profile, timed().device, place) for place in kernel.stages.machine.alternatives)
        found.otherwise = [dict(busy_seconds(other.timed)) for other in others]

    yield "pipelines", observe
    yield "features", see
    yield from ((name, lambda name=name: ask(name)) for name in DEVICE_MODELS)
    yield "places", place


def too_long(*_: Any) -> None:
    """Raise :class:`TimeoutError`."""
    raise TimeoutError


def main() -> None:
    """Append what is found of each kernel."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("file", type=Path, help="where it is kept")
    parser.add_argument("--every", type=int, default=1, help="only each of the rows that comes every so many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--seconds", type=int, default=180, help="for each kernel at most")
    asked = parser.parse_args()
    signal.signal(signal.SIGALRM, too_long)
    rows = measured_kernels()
    known = {each.row for each in gathered([asked.file])} if asked.file.exists() else set[int]()
    for place in (place for place in range(asked.first, len(rows), asked.every) if place not in known):
        line = msgspec.json.encode(find(place, rows[place], asked.seconds))
        with asked.file.open("ab") as file:
            file.write(line + b"\n")


if __name__ == "__main__":
    main()
