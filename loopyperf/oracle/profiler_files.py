"""Files that profilers write: Nsight Compute's ``--csv``, by metric or by launch, and the JSON of KTT, a tuner.

Nsight Compute's pages ``details`` and ``raw`` differ: the first has a line for each metric of a launch, the second one
for each launch, below a line of units. Lines of the program that was profiled may stand before either. KTT writes its
own form, or that of benchmark_hub (T4), which does not name the kernel.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from os import PathLike
from typing import Any, cast

from loopyperf.calibration.documents import strictly_decoded
from loopyperf.errors import MeasurementError
from loopyperf.files import read_bytes, said

MOST = 512 * 2**20
"""bytes of a file, at most: the tuner's with thousands of configurations has a hundred million"""
KERNEL, METRIC, UNIT, VALUE = "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"
"""columns of Nsight Compute"""
LAUNCH, CAPABILITY, GROUP, GRID = "ID", "CC", "Block Size", "Grid Size"
NAME_OF_DEVICE = "device__attribute_display_name"
CALLED: Mapping[str, str] = {
    "Registers Per Thread": "launch__registers_per_thread",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "Waves Per SM": "launch__waves_per_multiprocessor",
}
"""what the page ``details`` calls metrics that are predicted"""
PREFIXES: Mapping[str, float] = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
SCALED = re.compile(r"([KMGT])(?:sector|inst|request|warp|cycle|thread|wavefront)s?\b")
"""a unit that says that its number is so many thousands"""


@dataclass(frozen=True)
class Profiled:
    """What a profiler counted in one launch."""

    kernel: str
    """name of the device function; empty where the file does not tell"""
    values: Mapping[str, float]
    """by the name of the metric"""
    groups: int | None = None
    """of the launch; None if unknown"""
    work_items: int | None = None
    """of a group"""
    device: str = ""
    """its name; empty if unknown"""
    capability: str = ""
    """compute capability of the device, e.g. ``"7.5"``"""


def read_profile(path: str | PathLike[str]) -> tuple[Profiled, ...]:
    """Return what the file of a profiler at *path* tells, launch by launch.

    Raises :class:`MeasurementError` for a file that cannot be read, and one that is no profiler's.
    """
    try:
        content = read_bytes(path, MOST)
    except OSError as error:
        raise MeasurementError(f"cannot read the profile {path}: {said(error)}; give the path of another") from error
    try:
        text = content.decode("utf-8-sig")
        found = tuple(_of_tuner(text) if text.lstrip().startswith("{") else _of_nsight(text))
    except (ValueError, TypeError, KeyError, RecursionError, csv.Error) as error:
        raise _is_none(path) from error
    if not found:
        raise _is_none(path)
    return found


def _is_none(path: str | PathLike[str]) -> MeasurementError:
    return MeasurementError(
        f"{path} is no profile: neither Nsight Compute's (write one by ncu --csv, with --page raw or without) nor "
        "KTT's JSON with counters"
    )


def _number(text: str, unit: str = "") -> float | None:
    """Return the number that *text* is, with commas between thousands; None for ``"n/a"`` and other words."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    scale = SCALED.match(unit)
    return value * (PREFIXES[scale[1]] if scale else 1.0) if isfinite(value) else None


# {{{ Nsight Compute


def _of_nsight(text: str) -> Iterator[Profiled]:
    lines = text.splitlines()
    first = next(place for place, line in enumerate([*lines, f'"{KERNEL}"']) if f'"{KERNEL}"' in line)
    head, *rows = csv.reader(lines[first:]) if first < len(lines) else [[]]
    rows = [dict(zip(head, row, strict=True)) for row in rows if len(row) == len(head)]
    return _by_metric(rows) if METRIC in head else _by_launch(rows)


def _by_metric(rows: Iterable[Mapping[str, str]]) -> Iterator[Profiled]:
    launches: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for row in rows:
        launches.setdefault((row.get(LAUNCH, ""), row[KERNEL]), []).append(row)
    for each in launches.values():
        metrics = {row[METRIC]: (row[VALUE], row.get(UNIT, "")) for row in each if row[METRIC]}
        yield _profiled(each[0], metrics)


def _by_launch(rows: Sequence[Mapping[str, str]]) -> Iterator[Profiled]:
    units: Mapping[str, str] = rows[0] if rows and not rows[0][KERNEL] else {}
    for row in rows[1:] if units else rows:
        yield _profiled(row, {name: (value, units.get(name, "")) for name, value in row.items() if "__" in name})


def _profiled(row: Mapping[str, str], metrics: Mapping[str, tuple[str, str]]) -> Profiled:
    numbers = {CALLED.get(name, name): _number(*told) for name, told in metrics.items()}
    return Profiled(
        function_in(row[KERNEL]),
        {name: number for name, number in numbers.items() if number is not None},
        _product(row.get(GRID, "")),
        _product(row.get(GROUP, "")),
        metrics.get(NAME_OF_DEVICE, ("",))[0],
        row.get(CAPABILITY, ""),
    )


def function_in(name: str) -> str:
    """Return the name of the function in the *name* of a kernel, which may have its type and its parameters."""
    return re.sub(r"[<(].*", "", name.removeprefix("void ")).strip()


def _product(lengths: str) -> int | None:
    numbers = re.findall(r"\d+", lengths)
    return prod(map(int, numbers)) if numbers else None


# }}}


# {{{ KTT


def _of_tuner(text: str) -> Iterator[Profiled]:
    document = cast("dict[str, Any]", strictly_decoded(text.encode()))
    return _own_form(document) if "Results" in document else _form_of_hub(document)


def _own_form(document: Mapping[str, Any]) -> Iterator[Profiled]:
    about = document["Metadata"]
    for result in document["Results"]:
        for launch in result["ComputationResults"]:
            counters = launch.get("ProfilingData", {}).get("Counters") or ()
            values = {each["Name"]: float(each["Value"]) for each in counters}
            if "CompilationData" in launch:
                values["launch__registers_per_thread"] = float(launch["CompilationData"]["RegistersCount"])
            work_items = _volume(launch["LocalSize"])
            is_of_work_items = about.get("GlobalSizeType", "") == "OpenCL"
            groups = _volume(launch["GlobalSize"]) // (work_items if is_of_work_items else 1)
            if counters:
                yield Profiled(function_in(launch["KernelFunction"]), values, groups, work_items, about["Device"])


def _form_of_hub(document: Mapping[str, Any]) -> Iterator[Profiled]:
    device = document.get("metadata", {}).get("device", "")
    for result in document["results"]:
        told = result.get("compilation_data", {})
        values = {each["name"]: float(each["value"]) for each in result["measurements"] if "__" in each["name"]}
        if values and told:
            values["launch__registers_per_thread"] = float(told["registers"])
        groups, work_items = (_volume(told[size]) if told else None for size in ("global_size", "local_size"))
        if values:
            yield Profiled("", values, groups, work_items, device)


def _volume(sizes: Mapping[str, Any]) -> int:
    return prod(int(length) for length in sizes.values())


# }}}
