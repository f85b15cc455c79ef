"""Write the predictions of all models for many kernels to a file, and compare two such files.

A refactoring must not change any prediction. Write the predictions before and after it, and compare the files:

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/answers.py write before.jsonl [SET ...]
    .venv/bin/python benchmarks/answers.py compare before.jsonl after.jsonl

The sets are ``titan-v`` (every tenth of the measured kernels), ``streams`` (six stream kernels on six GPUs), ``tests``
(the bundled test kernels on five GPUs) and ``papers`` (the figures that ``paper_figures.py`` simulates). A prediction
consists of the run time and its breakdown, or of the class and message of an error. If the file exists, new predictions
are appended to it.
"""

import argparse
import os
import pickle
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import isclose
from pathlib import Path
from typing import Any

os.environ.setdefault("LOOPY_NO_CACHE", "1")

import gpu_stream
import msgspec
import paper_figures
from parts.tables import show, table
from parts.titan_v import measured_kernels

import loopyperf as lpp
from loopyperf.errors import LoopyperfError
from loopyperf.measurement.backends.backend import DeviceLimits
from loopyperf.measurement.kernel_files import load_kernel_files
from loopyperf.models.catalog import DEVICE_MODELS

TITAN_V_EVERY = 10
TEST_KERNELS = Path(__file__).parents[1] / "test_kernels"
TEST_DEVICES = ("nvidia-titan-v", "nvidia-a100", "nvidia-h100-pcie", "amd-mi210", "amd-r9-fury")
FITS = (("amd-r9-fury", "linear"), ("nvidia-h200", "linear"), ("nvidia-h200", "overlap"))
LIMITS = DeviceLimits(group_size=256, local_memory=2**15, global_memory=2**32, cores=80, warp_size=32)
SECONDS = 60
"""time limit of a prediction"""

Numbers = dict[str, float]
Task = tuple[str, Callable[[], Numbers]]
"""the identifier of a prediction, and a function that returns its named numbers"""


class Prediction(msgspec.Struct, frozen=True):
    """The numbers of a prediction by name, or the error message."""

    question: str
    numbers: Numbers = {}
    error: str = ""


# {{{ tasks


def titan_v() -> Iterator[Task]:
    """Yield every tenth measured kernel of a TITAN V, with every device model and every fit."""
    for place, row in enumerate(measured_kernels()[::TITAN_V_EVERY]):
        kernel = pickle.loads(row["kernel"])
        yield from tasks_of_kernel(f"titan-v {place * TITAN_V_EVERY}", kernel, row["sizes"], ("nvidia-titan-v",))


def streams() -> Iterator[Task]:
    """Yield the stream kernels in groups of 64, 256 and 1024 work-items on six GPUs."""
    for device in gpu_stream.DEVICES.values():
        for kernel in gpu_stream.STATEMENTS:
            for work_items in (64, 256, 1024):
                for groups in (1, 2):
                    compute = partial(gpu_stream.predicted, device, kernel, work_items, groups, tuple(DEVICE_MODELS))
                    yield f"streams {kernel} {work_items} {groups} {device}", compute


def tests() -> Iterator[Task]:
    """Yield the largest size of each configuration of the bundled test kernels on five GPUs."""
    for folder in ("", "rodinia", "optimization_steps"):
        for file in load_kernel_files(TEST_KERNELS / folder):
            for form in file.configurations(LIMITS):
                kernel, sizes = form.build(), form.sizes[-1]
                yield from tasks_of_kernel(f"tests {file.name} {form.label}", kernel, sizes, TEST_DEVICES)


def tasks_of_kernel(name: str, kernel: Any, sizes: Any, devices: Sequence[str]) -> Iterator[Task]:
    """Yield a task for each device and model, and for each fit."""
    for device, model in (*((device, model) for device in devices for model in DEVICE_MODELS), *FITS):
        yield f"{name} {device} {model}", partial(estimated, kernel, sizes, device, model)


def estimated(kernel: Any, sizes: Any, device: str, model: str) -> Numbers:
    """Return the time and the breakdown of an estimate."""
    result = lpp.estimate(kernel, device=device, model=model, alternatives=False, **sizes)
    numbers = {"seconds": float(result.seconds)}
    for each in result.breakdown.rows:
        name = f"{each.property}, {each.source}"
        numbers[name] = numbers.get(name, 0.0) + float(each.seconds)
    return numbers


def papers() -> Iterator[Task]:
    """Yield the simulated figures of the papers."""
    for name, rows in paper_figures.FIGURES.items():
        yield f"papers {name}", partial(in_rows, rows)


def in_rows(rows: Callable[[], Iterable[Mapping[str, Any]]]) -> Numbers:
    """Return all numbers in *rows*, keyed by row and column."""
    cells = ((f"{place} {name}", each) for place, row in enumerate(rows()) for name, each in row.items())
    return {name: float(each) for name, each in cells if isinstance(each, float | int)}


SETS = {"titan-v": titan_v, "streams": streams, "tests": tests, "papers": papers}

# }}}

# {{{ writing


def predict(identifier: str, compute: Callable[[], Numbers]) -> Prediction:
    """Return the result of calling *compute*, or its error. *identifier* names the task."""
    signal.alarm(SECONDS)
    try:
        return Prediction(identifier, compute())
    except (LoopyperfError, TimeoutError) as error:
        return Prediction(identifier, error=f"{type(error).__name__}: {error}")
    finally:
        signal.alarm(0)


def write(file: Path, sets: Sequence[str]) -> None:
    """Append the predictions of *sets* that are not yet in *file* to it."""
    signal.signal(signal.SIGALRM, raise_timeout)
    done = read(file).keys() if file.exists() else set[str]()
    with file.open("ab") as out:
        for identifier, compute in (each for name in sets for each in SETS[name]() if each[0] not in done):
            out.write(msgspec.json.encode(predict(identifier, compute)) + b"\n")
            out.flush()


def raise_timeout(*_: object) -> None:
    """Raise :class:`TimeoutError`."""
    raise TimeoutError("time limit exceeded")


# }}}

# {{{ comparing


def read(file: Path) -> dict[str, Prediction]:
    """Return the predictions in *file* by identifier."""
    predictions = (msgspec.json.decode(line, type=Prediction) for line in file.read_bytes().splitlines())
    return {each.question: each for each in predictions}


def difference(before: Prediction, after: Prediction, tolerance: float) -> str:
    """Return the first difference that exceeds *tolerance*, relative to the time; empty if the predictions agree."""
    if before.error != after.error:
        return f"{before.error or 'no error'} -> {after.error or 'no error'}"
    if before.numbers.keys() != after.numbers.keys():
        return f"{', '.join(sorted(before.numbers.keys() ^ after.numbers.keys()))} only in one file"
    smallest = tolerance * abs(before.numbers.get("seconds", 0.0))
    pairs = ((name, each, after.numbers[name]) for name, each in before.numbers.items())
    apart = (each for each in pairs if not isclose(*each[1:], rel_tol=tolerance, abs_tol=smallest))
    return next((f"{name} {x:.9g} -> {y:.9g}" for name, x, y in apart), "")


def compare(before: Path, after: Path, tolerance: float) -> bool:
    """Print the number of equal predictions and all differences; return whether there are none."""
    old, new = read(before), read(after)
    result = {key: difference(old[key], new[key], tolerance) for key in old.keys() & new.keys()}
    counted = table("set", "compared", "equal", "differ", "same error")
    for name in SETS:
        in_set = [key for key in result if key.startswith(f"{name} ")]
        changed = sum(bool(result[key]) for key in in_set)
        failed = sum(bool(old[key].error) and not result[key] for key in in_set)
        counted.add_row(name, *map(str, (len(in_set), len(in_set) - changed, changed, failed)))
    show(*(f"{key}: {each}" for key, each in sorted(result.items()) if each), counted)
    if alone := old.keys() ^ new.keys():
        show(f"{len(alone)} predictions are only in one file, for example {min(alone)!r}")
    return not any(result.values())


# }}}


def main() -> None:
    """Write predictions, or compare the predictions in two files."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="append the predictions that are not yet in FILE")
    writing.add_argument("file", type=Path)
    writing.add_argument("sets", nargs="*", default=[*SETS], metavar="SET", help=", ".join(SETS))
    comparing = commands.add_parser("compare", help="compare two files; exit with status 1 if predictions differ")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--tolerance", type=float, default=1e-9, help="relative to the predicted time")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.command == "write":
        write(options.file, options.sets)
    else:
        raise SystemExit(not compare(options.before, options.after, options.tolerance))


if __name__ == "__main__":
    main()
