"""What would a profiler count while a kernel runs on a device? The public function :func:`counters`.

Files that profilers write: Nsight Compute's ``--csv``, by metric or by launch, and the JSON of KTT, a tuner.

Nsight Compute's pages ``details`` and ``raw`` differ: the first has a line for each metric of a launch, the second one
for each launch, below a line of units. Lines of the program that was profiled may stand before either. KTT writes its
own form, or that of benchmark_hub (T4), which does not name the kernel.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, prod
from os import PathLike
from statistics import median
from typing import Any, cast

from loopyperf.calibration.choice import chosen_device
from loopyperf.device.description import Device
from loopyperf.device.device_files import device_slug
from loopyperf.device.device_library import DeviceChoice, given_device, names_without_brand, without_brand
from loopyperf.display import ReportText, Table, Tabular, called
from loopyperf.errors import MeasurementError, ParameterError
from loopyperf.files import os_reason, read_bytes, strictly_decoded
from loopyperf.kernel import Program
from loopyperf.models.profiler_counters import Counters, LaunchCounters, counters_of, unit_of_metric
from loopyperf.models.timing import notes_of
from loopyperf.stages.case import Case, merged_sizes
from loopyperf.stages.compiled import Compiler, compiled_machine
from loopyperf.stages.stages import cached_profile, timed_of
from loopyperf.units import amount, listed, number_of


def counters(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    typical: Mapping[str, Any] | None = None,
    compiler: Compiler = "model",
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Counters:
    """Return what Nsight Compute is expected to count in each launch of *program*, by the names of its metrics.

    Sizes are single integers; *device*, *typical*, *compiler* and *parameters* are those of :func:`loopyperf.estimate`
    with a model of a device, which raises the same errors. Rates per cycle use the time of the model ``"pipeline"``.
    Raises :class:`ParameterError` for a device that is not NVIDIA's: others have no such metrics.
    """
    return counters_at(Case(program, merged_sizes(parameters, sizes), typical), chosen_device(device), compiler)


def counters_at(case: Case, device: Device, compiler: Compiler = "model") -> Counters:
    """Return what a profiler counts of *case* on *device*; see :func:`counters`."""
    if device.vendor != "NVIDIA":
        raise ParameterError(f"counters are those of NVIDIA's Nsight Compute; {device.slug!r} is {device.vendor}'s")
    profile = replace(cached_profile(case, device), is_opencl=False)  # Nsight Compute profiles CUDA alone
    machine, _, notes = compiled_machine(case, profile, device, compiler)
    timed = timed_of(machine, device)
    return Counters(
        kernel=profile.kernel,
        sizes=dict(case.sizes),
        device=device.slug,
        launches=counters_of(machine, timed),
        notes=(*notes_of(timed), *notes),
        typical=dict(case.typical or {}),
    )


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
        raise MeasurementError(
            f"cannot read the profile {path}: {os_reason(error)}; give the path of another"
        ) from error
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


NAMED = 3
"""kernels that a sentence names, at most"""


@dataclass(frozen=True, slots=True)
class ComparedCounter:
    """A metric of a launch, predicted and counted."""

    launch: str
    """name of the device program"""
    metric: str
    """as Nsight Compute calls it"""
    predicted: float
    """in one execution of the launch"""
    counted: float
    """the median, where a file tells of several launches of that name"""

    @property
    def error(self) -> float | None:
        """Return by which part of what is counted the prediction is more; None where that is zero and this is not."""
        if self.counted:
            return self.predicted / self.counted - 1
        return None if self.predicted else 0.0


@dataclass(frozen=True, repr=False)
class CountersComparison(Tabular):
    """What was predicted of a kernel, beside what a profiler has counted."""

    counters: Counters
    """all that is predicted"""
    rows: tuple[ComparedCounter, ...]
    """metrics that are both predicted and counted"""
    notes: tuple[str, ...]
    """what was counted several times, and what is not predicted, in sentences"""

    def report_text(self) -> ReportText:
        """Return both numbers of each metric, and by how much the predicted one is off."""
        several = len({each.launch for each in self.rows}) > 1
        rows = [
            (
                each.metric,
                amount(each.predicted),
                amount(each.counted),
                "" if each.error is None else f"{each.error:+.1%}",
                unit_of_metric(each.metric),
                *([each.launch] if several else []),
            )
            for each in self.rows
        ]
        headings = ("metric", "predicted", "counted", "error", "unit", *(["launch"] if several else []))
        about = self.counters
        return ReportText(
            question=f"{called(about.kernel, about.sizes, about.typical)} on {about.device}",
            answer=f"{number_of(len(rows), 'metric')}, predicted and counted",
            tables=[Table(headings, rows, last=len(headings) - 4)],
            notes=(*self.notes, *about.notes),
        )

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each metric that is predicted and counted, in its unit; errors are relative."""
        return [
            {
                "launch": each.launch,
                "metric": each.metric,
                "predicted": each.predicted,
                "counted": each.counted,
                "error": each.error,
            }
            for each in self.rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values that JSON can hold."""
        return {**self.counters.to_dict(), "compared": self.records(), "notes": [*self.notes, *self.counters.notes]}


def compare_counters(
    counters: Counters, profile: str | PathLike[str], /, *, device: DeviceChoice | None = None
) -> CountersComparison:
    """Return *counters* beside those in the file *profile*: Nsight Compute's ``--csv``, or KTT's JSON.

    Launches are matched by the names of their device functions, or by groups and work-items if a file lacks names. Of
    several launches of that name, medians are taken. *device* is the one that *counters* are of, where its description
    has no name. Raises :class:`MeasurementError` for a file that is no profile, and for one of another kernel, another
    device, or other sizes.
    """
    found = read_profile(profile)
    _check_device(found, given_device(counters.device if device is None else device), profile)
    rows: list[ComparedCounter] = []
    notes: list[str] = []
    for launch in counters.launches:
        own = _of_launch(found, launch, profile)
        if len(own) > 1:
            notes.append(f"{launch.name} was counted {len(own):,} times: medians")
        metrics = dict.fromkeys(metric for each in own for metric in each.values)
        both = [metric for metric in launch.values if metric in metrics]
        rows += [ComparedCounter(launch.name, each, launch.values[each], _median(own, each)) for each in both]
        notes += _left(metrics, launch)
    return CountersComparison(counters, tuple(rows), tuple(dict.fromkeys(notes)))


def _median(launches: Sequence[Profiled], metric: str) -> float:
    return median(each.values[metric] for each in launches if metric in each.values)


def _left(metrics: Mapping[str, None], launch: LaunchCounters) -> Iterator[str]:
    left = [each for each in metrics if each not in launch.values]
    if left:
        yield f"not predicted: {listed(left, NAMED)}"


def _check_device(found: Sequence[Profiled], device: Device, profile: str | PathLike[str]) -> None:
    """Raise :class:`MeasurementError` for a profile of another device, as far as it tells."""
    for each in found:
        if each.device and without_brand(device_slug(each.device)) not in names_without_brand(device):
            raise MeasurementError(f"{profile} is of {each.device}, the prediction of {device.slug}: name that device")
        if each.capability and device.target and each.capability != device.target:
            raise MeasurementError(
                f"{profile} is of a device of compute capability {each.capability}, {device.slug} has {device.target}: "
                "name the device that was profiled"
            )


def _of_launch(found: Sequence[Profiled], launch: LaunchCounters, profile: str | PathLike[str]) -> Sequence[Profiled]:
    """Return what was counted of *launch*; raises :class:`MeasurementError` where nothing was."""
    named = [each for each in found if each.kernel in ("", launch.name)]
    if not named:
        others = listed(dict.fromkeys(each.kernel for each in found), NAMED)
        raise MeasurementError(f"{profile} is of {others}, and has nothing of {launch.name}: give a profile of it")
    own = [each for each in named if _is_of_size(each, launch)]
    if not own:
        sizes = dict.fromkeys((each.groups, each.work_items) for each in named)
        shown = listed((f"{groups:,} groups of {items:,}" for groups, items in sizes if groups and items), NAMED)
        raise MeasurementError(
            f"{profile} is of {shown} work-items, {launch.name} has {launch.groups:,} groups of {launch.work_items:,}: "
            "state the sizes that were profiled"
        )
    return own


def _is_of_size(profiled: Profiled, launch: LaunchCounters) -> bool:
    return profiled.groups in (None, launch.groups) and profiled.work_items in (None, launch.work_items)
