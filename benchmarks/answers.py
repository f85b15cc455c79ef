"""Write the answers of all models on many kernels to a file, and compare two such files.

A refactoring must leave every answer as it was. Write the answers before and after it, and compare:

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/answers.py write before.jsonl [SET ...]
    .venv/bin/python benchmarks/answers.py compare before.jsonl after.jsonl

The sets are ``titan-v`` (every tenth of the measured kernels), ``streams`` (six stream kernels on six GPUs), ``tests``
(the bundled test kernels on five GPUs) and ``papers`` (the figures that ``paper_figures.py`` simulates). An answer is
the time and its breakdown, or the class of the error with its message. A file that is there is continued.
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
"""for an answer at most"""

Numbers = dict[str, float]
Question = tuple[str, Callable[[], Numbers]]
"""what identifies a question, and a function that answers it with named numbers"""


class Answer(msgspec.Struct, frozen=True):
    """The numbers of an answer by name, or why there is none."""

    question: str
    numbers: Numbers = {}
    error: str = ""


# {{{ questions


def titan_v() -> Iterator[Question]:
    """Yield every tenth measured kernel of a TITAN V, with every model of a device and every fit."""
    for place, row in enumerate(measured_kernels()[::TITAN_V_EVERY]):
        kernel = pickle.loads(row["kernel"])
        yield from of_kernel(f"titan-v {place * TITAN_V_EVERY}", kernel, row["sizes"], ("nvidia-titan-v",))


def streams() -> Iterator[Question]:
    """Yield the stream kernels in groups of 64, 256 and 1024 work-items on six GPUs."""
    for device in gpu_stream.DEVICES.values():
        for kernel in gpu_stream.STATEMENTS:
            for work_items in (64, 256, 1024):
                for groups in (1, 2):
                    ask = partial(gpu_stream.predicted, device, kernel, work_items, groups, tuple(DEVICE_MODELS))
                    yield f"streams {kernel} {work_items} {groups} {device}", ask


def tests() -> Iterator[Question]:
    """Yield the largest size of each configuration of the bundled test kernels on five GPUs."""
    for folder in ("", "rodinia", "optimization_steps"):
        for file in load_kernel_files(TEST_KERNELS / folder):
            for form in file.configurations(LIMITS):
                kernel, sizes = form.build(), form.sizes[-1]
                yield from of_kernel(f"tests {file.name} {form.label}", kernel, sizes, TEST_DEVICES)


def of_kernel(name: str, kernel: Any, sizes: Any, devices: Sequence[str]) -> Iterator[Question]:
    """Yield a question for each device and model, and for each fit."""
    for device, model in (*((device, model) for device in devices for model in DEVICE_MODELS), *FITS):
        yield f"{name} {device} {model}", partial(estimated, kernel, sizes, device, model)


def estimated(kernel: Any, sizes: Any, device: str, model: str) -> Numbers:
    """Return the time and the breakdown of an estimate."""
    found = lpp.estimate(kernel, device=device, model=model, alternatives=False, **sizes)
    numbers = {"seconds": float(found.seconds)}
    for each in found.breakdown.rows:
        name = f"{each.property}, {each.source}"
        numbers[name] = numbers.get(name, 0.0) + float(each.seconds)
    return numbers


def papers() -> Iterator[Question]:
    """Yield the simulated figures of the papers."""
    for name, rows in paper_figures.FIGURES.items():
        yield f"papers {name}", partial(in_rows, rows)


def in_rows(rows: Callable[[], Iterable[Mapping[str, Any]]]) -> Numbers:
    """Return every number of *rows* by its row and column."""
    cells = ((f"{place} {name}", each) for place, row in enumerate(rows()) for name, each in row.items())
    return {name: float(each) for name, each in cells if isinstance(each, float | int)}


SETS = {"titan-v": titan_v, "streams": streams, "tests": tests, "papers": papers}

# }}}

# {{{ writing


def answer(question: str, ask: Callable[[], Numbers]) -> Answer:
    """Return the answer of *ask* to *question*, or its refusal."""
    signal.alarm(SECONDS)
    try:
        return Answer(question, ask())
    except (LoopyperfError, TimeoutError) as error:
        return Answer(question, error=f"{type(error).__name__}: {error}")
    finally:
        signal.alarm(0)


def write(file: Path, sets: Sequence[str]) -> None:
    """Append to *file* the answers to the questions of *sets* that are not in it."""
    signal.signal(signal.SIGALRM, too_late)
    known = read(file).keys() if file.exists() else set[str]()
    with file.open("ab") as out:
        for question, ask in (each for name in sets for each in SETS[name]() if each[0] not in known):
            out.write(msgspec.json.encode(answer(question, ask)) + b"\n")
            out.flush()


def too_late(*_: object) -> None:
    """Raise :class:`TimeoutError`."""
    raise TimeoutError("no answer in time")


# }}}

# {{{ comparing


def read(file: Path) -> dict[str, Answer]:
    """Return the answers in *file* by question."""
    answers = (msgspec.json.decode(line, type=Answer) for line in file.read_bytes().splitlines())
    return {each.question: each for each in answers}


def difference(before: Answer, after: Answer, tolerance: float) -> str:
    """Return in what the answers differ by more than *tolerance*, relative to the time; empty where they agree."""
    if before.error != after.error:
        return f"{before.error or 'answered'} -> {after.error or 'answered'}"
    if before.numbers.keys() != after.numbers.keys():
        return f"named {', '.join(sorted(before.numbers.keys() ^ after.numbers.keys()))} in one of them"
    smallest = tolerance * abs(before.numbers.get("seconds", 0.0))
    pairs = ((name, each, after.numbers[name]) for name, each in before.numbers.items())
    apart = (each for each in pairs if not isclose(*each[1:], rel_tol=tolerance, abs_tol=smallest))
    return next((f"{name} {x:.9g} -> {y:.9g}" for name, x, y in apart), "")


def compare(before: Path, after: Path, tolerance: float) -> bool:
    """Print how many answers are equal, and the others; return whether all are."""
    old, new = read(before), read(after)
    found = {key: difference(old[key], new[key], tolerance) for key in old.keys() & new.keys()}
    counted = table("set", "compared", "equal", "differ", "refused in both")
    for name in SETS:
        mine = [key for key in found if key.startswith(f"{name} ")]
        differ = sum(bool(found[key]) for key in mine)
        refused = sum(bool(old[key].error) and not found[key] for key in mine)
        counted.add_row(name, *map(str, (len(mine), len(mine) - differ, differ, refused)))
    show(*(f"{key}: {each}" for key, each in sorted(found.items()) if each), counted)
    if alone := old.keys() ^ new.keys():
        show(f"{len(alone)} questions are in one of the files only, {min(alone)!r} for one")
    return not any(found.values())


# }}}


def main() -> None:
    """Write answers, or compare those of two files."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="append what is not in FILE yet")
    writing.add_argument("file", type=Path)
    writing.add_argument("sets", nargs="*", default=[*SETS], metavar="SET", help=", ".join(SETS))
    comparing = commands.add_parser("compare", help="exit with status 1 where answers differ")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--tolerance", type=float, default=1e-9, help="relative to the time of an answer")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.command == "write":
        write(given.file, given.sets)
    else:
        raise SystemExit(not compare(given.before, given.after, given.tolerance))


if __name__ == "__main__":
    main()
