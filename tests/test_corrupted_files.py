"""Corrupted files are either read and give finite results, or raise a LoopyperfError, quickly and in little memory.

Values, keys and bytes of fits, learned models, device files, archives, profiles and cached results are changed at
random, from a fixed seed. Archives are also compressed after the change, so that no checksum hides it from the parser.
``MUTATIONS=5000`` in the environment tests more changes of each kind of file.
"""

import copy
import csv
import io
import json
import lzma
import math
import os
import random
import re
import resource
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.calibration.archived import fit_recording
from loopyperf.calibration.fits import fit_document, load_fit
from loopyperf.calibration.residual_model import load_residual_model, residual_document
from loopyperf.device.device_files import load_description
from loopyperf.device.device_library import BUNDLED
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.kernel_files import measurement_kernels
from loopyperf.models import result as answers
from loopyperf.models.profiler_counters import Counters
from loopyperf.models.result import ModelTime
from loopyperf.predict.train import train_recordings
from tests.kernels import doubled
from tests.predict.test_profiles import FORMS as PROFILES

MUTATIONS = int(os.environ.get("MUTATIONS", "100"))
"""number of changed files of each kind"""
ALL = max(MUTATIONS, 1000)
"""number of changed files of each kind in the slow test"""
LONGEST = 300
"""maximum length of a message, without the path of the file"""
SLOWEST = 5.0
"""maximum seconds of processor time to read a file and predict with it"""
MOST = 2**20
"""maximum growth of the process, in KiB"""
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
RECORDED = Path(__file__).parents[1] / "docs" / "tutorial" / "recorded.jsonl"
Document = dict[str, Any]
ODD: tuple[Any, ...] = (
    *(None, True, "", "x", "\u0000", "\x1b]0;x\x07\n", "x" * 3000, [], {}, [[]]),
    *(0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 10**400),
    *(0.5, -0.5, 1e-320, -1e-300, 1e30, 1e100, 1e308, -1e308, math.nan, math.inf, -math.inf),
)
"""unexpected values"""


# {{{ changes


def paths(value: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all entries inside *value*."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in cast("Any", entries):
        yield (*before, key)
        yield from paths(entry, (*before, key))


def changed(document: Document, rng: random.Random) -> Document:
    """Return *document* with one to three entries removed, repeated, renamed, scaled, or replaced by an odd value."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        *path, last = rng.choice(list(paths(document)) or [("",)])
        holder: Any = document
        for key in path:
            holder = holder[key]
        operation = rng.randrange(6)
        if operation == 0:
            del holder[last]
        elif operation == 1 and isinstance(holder, list):
            holder.insert(last, copy.deepcopy(holder[last]))
        elif operation == 1:
            holder[f"{last}x"] = holder.pop(last)
        elif operation == 2:
            number = holder[last]
            is_number = isinstance(number, int | float) and not isinstance(number, bool)
            holder[last] = -number if is_number else [number]
        elif operation == 3:
            number = holder[last]
            is_number = isinstance(number, int | float) and not isinstance(number, bool)
            holder[last] = number * 10 ** rng.randrange(-40, 40) if is_number else str(number) * 2
        else:
            holder[last] = rng.choice(ODD)
        if not document:
            break
    return document


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Return *content* with a few bytes changed, removed, or repeated."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        start, length = rng.randrange(len(data)), rng.randrange(1, 40)
        operation = rng.randrange(5)
        if operation == 0:
            data[start] = rng.randrange(256)
        elif operation == 1:
            del data[start : start + length]
        elif operation == 2:
            data[start:start] = data[start : start + length]
        elif operation == 3:
            data[start:start] = rng.choice((b"[" * 5000, b"9" * 5000, b"\xff", b"\0", b'"', b"{", b"1e999"))
        else:
            del data[start:]
        if not data:
            break
    return bytes(data)


def mutations(
    content: bytes, write: Callable[[Document], bytes], read: Callable[[bytes], Any], number: int
) -> Iterator[bytes]:
    """Yield *number* changed versions of *content*: two of three with changed entries, one with changed bytes."""
    rng, document = random.Random(0), read(content)
    for place in range(number):
        yield write(changed(document, rng)) if place % 3 else damaged(content, rng)


def outcomes(name: str, contents: Iterator[bytes], path: Path, read_and_use: Callable[[Path], Any]) -> dict[str, float]:
    """Return how many of *contents* gave results, how many raised a LoopyperfError, and the largest times and lengths.

    Fail for anything else.
    """
    found: dict[str, float] = {"answered": 0, "refused": 0, "seconds": 0.0, "characters": 0}
    wrong = list[str]()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, content in enumerate(contents):
        path.write_bytes(content)
        start = time.process_time()
        try:
            with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
                answer = read_and_use(path)
        except lpp.LoopyperfError as error:
            found["refused"] += 1
            message = str(error).replace(str(path), path.name)
            found["characters"] = max(found["characters"], len(message))
            if "\n" in message or len(message) > LONGEST or CONTROL.search(message):
                wrong.append(f"{name} {number}: {len(message)} characters: {message!r:.700}")
        except Exception as error:  # the user would see a traceback
            wrong.append(f"{name} {number}: {type(error).__name__}: {error!s:.200}")
        else:
            found["answered"] += 1
            if not np.isfinite(np.asarray(answer, dtype=np.float64)).all():
                wrong.append(f"{name} {number}: {answer}")
        seconds = time.process_time() - start
        found["seconds"] = max(found["seconds"], seconds)
        if seconds > SLOWEST:
            wrong.append(f"{name} {number}: {seconds:.1f} seconds")
    found["MiB"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    found["wrong"] = len(wrong)
    if counts := os.environ.get("MUTATION_COUNTS"):
        with Path(counts).open("a") as log:
            log.write(f"{name}: {found}\n" + "".join(f"    {each}\n" for each in wrong))
    assert not wrong
    assert found["MiB"] < MOST / 1024
    return found


# }}}


# {{{ kinds of files


def as_json(document: Document) -> bytes:
    return json.dumps(document).encode()


def numbers(estimate: Any) -> list[float]:
    """Return the seconds of an *estimate*, its interval and its breakdown; also check that it can be printed."""
    assert CONTROL.search(str(estimate)) is None
    interval = () if estimate.interval is None else estimate.interval
    return [estimate.seconds, *interval, *(row.seconds for row in estimate.breakdown.rows)]


def by_fit(path: Path) -> list[float]:
    fit = load_fit(path)
    assert CONTROL.search(str(fit)) is None
    return numbers(lpp.estimate(doubled(), n=4096, fit=fit))


def by_learned(path: Path) -> list[float]:
    learned = load_residual_model(path)
    assert CONTROL.search(str(learned)) is None
    return numbers(lpp.estimate(doubled(), n=4096, fit=learned))


def by_device_file(path: Path) -> list[float]:
    device = load_description(path)
    assert CONTROL.search(str(device)) is None
    found: list[float] = []
    for model in ("roofline", "volkov", "gpuperf"):
        found += numbers(lpp.estimate(doubled(), n=4096, device=device, model=model))
    return found


def by_archive(path: Path) -> list[float]:
    recording = read_archive(path)
    floor, pace = recording.noise_floor, recording.pace()
    protocols = {run.id: run.protocol for run in recording.runs}
    summaries = [each.summary(protocols[each.run]) for each in recording.standing]
    return [floor or 0.0, pace or 0.0, *(number for each in summaries for number in each)]


def by_profile(path: Path) -> list[float]:
    compared = lpp.compare_counters(predicted_counters(), path)
    assert CONTROL.search(str(compared)) is None
    return [number for row in compared.rows for number in (row.counted, row.error or 0.0)]


@cache
def predicted_counters() -> Counters:
    return lpp.counters(doubled(group=256), n=2**20, device="nvidia-rtx-2080-ti")


def by_answer(path: Path) -> list[float]:
    try:
        _, time = answers.read_answer(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise lpp.LoopyperfError(f"{error!s:.300}") from error
    return [float(time.seconds), *(float(row.seconds) for row in time.breakdown.rows)]


def as_toml(document: Document) -> bytes:
    return "".join(f"{json.dumps(str(key))} = {inline(value)}\n" for key, value in document.items()).encode()


def inline(value: Any) -> str:
    if isinstance(value, dict):
        entries = cast("Document", value).items()
        return f"{{ {', '.join(f'{json.dumps(str(key))} = {inline(each)}' for key, each in entries)} }}"
    if isinstance(value, list):
        return f"[{', '.join(inline(each) for each in cast('list[Any]', value))}]"
    if isinstance(value, float):
        return repr(value)
    return '"none"' if value is None else json.dumps(value, ensure_ascii=False)


def cells_of(content: bytes) -> Document:
    return {"rows": list(csv.reader(content.decode().splitlines()))}


def as_cells(document: Document) -> bytes:
    rows: Any = document.get("rows")
    text = io.StringIO()
    rows = [row if isinstance(row, list) else [row] for row in (rows if isinstance(rows, list) else [rows])]
    with suppress(csv.Error, ValueError):  # integers with thousands of digits
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue().encode(errors="replace")


def as_xz_lines(document: Document) -> bytes:
    return lzma.compress(as_lines(document), preset=0)


def lines_of(content: bytes) -> Document:
    return {"lines": [json.loads(line) for line in content.splitlines()]}


def as_lines(document: Document) -> bytes:
    lines: Any = document.get("lines")
    return b"".join(as_json(line) + b"\n" for line in lines) if isinstance(lines, list) else as_json(document)


def original(name: str) -> bytes:
    """Return a file of kind *name* as loopyperf writes it."""
    if name == "archive":
        return RECORDED.read_bytes()
    if name == "archive.xz":
        return lzma.compress(RECORDED.read_bytes(), preset=0)
    if name in PROFILES:
        return PROFILES[name].encode()
    if name == "description":
        return (BUNDLED / "nvidia-titan-v.toml").read_bytes()
    if name == "answer":
        found = lpp.estimate(doubled(), n=4096, device="nvidia-v100", model="roofline")
        return answers.answer_as_json(("k", ModelTime(float(found.seconds), found.breakdown, notes=found.notes)))
    recording, files = read_archive(RECORDED), measurement_kernels(RECORDED.parent / "kernels")
    if name == "learned":
        return as_json(residual_document(train_recordings([recording], files, base="overlap")))
    return as_json(fit_document(fit_recording(recording, files, model=name)[0]))


KINDS: dict[str, tuple[Callable[[Path], Any], Callable[[Document], bytes], Callable[[bytes], Any]]] = {
    "linear": (by_fit, as_json, json.loads),
    "overlap": (by_fit, as_json, json.loads),
    "learned": (by_learned, as_json, json.loads),
    "description": (by_device_file, as_toml, lambda content: tomllib.loads(content.decode())),
    "archive": (by_archive, as_lines, lines_of),
    "archive.xz": (by_archive, as_xz_lines, lambda content: lines_of(lzma.decompress(content))),
    "page details": (by_profile, as_cells, cells_of),
    "page raw": (by_profile, as_cells, cells_of),
    "answer": (by_answer, as_json, lambda content: {"answer": json.loads(content)}),
}
SUFFIXES = {"description": ".toml", "archive": ".jsonl", "archive.xz": ".jsonl.xz"}


def check(name: str, folder: Path, number: int) -> None:
    read_and_use, write, read = KINDS[name]
    content, path = original(name), folder / f"x{SUFFIXES.get(name, '.json')}"
    path.write_bytes(content)
    assert np.isfinite(read_and_use(path)).all()
    found = outcomes(name, mutations(content, write, read, number), path, read_and_use)
    assert found["refused"] > number / 4


@pytest.mark.parametrize("name", KINDS)
def test_changed_file_gives_finite_results_or_raises(name: str, tmp_path: Path) -> None:
    check(name, tmp_path, MUTATIONS)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_every_changed_file_gives_finite_results_or_raises(name: str, tmp_path: Path) -> None:
    check(name, tmp_path, ALL)


# }}}
