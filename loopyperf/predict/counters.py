"""Prediction of profiler metrics (:func:`counters`), and their comparison with profiles (:func:`compare_counters`).

Profiles are the output of Nsight Compute with ``--csv``. Its pages ``details`` and ``raw`` differ: the first has a line
for each metric of a launch, the second has a line for each launch, below a line of units. Output of the profiled
program may precede either.
"""

import csv
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO, TextIOWrapper
from itertools import chain, groupby, islice
from math import isfinite, prod
from os import PathLike
from statistics import median
from typing import Any

from loopyperf.calibration.choice import FitChoice
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.device.description import Device
from loopyperf.device.device_files import device_slug
from loopyperf.device.device_library import DeviceChoice, given_device, names_without_brand, without_brand
from loopyperf.display import ReportText, Table, Tabular
from loopyperf.errors import MeasurementError, ParameterError
from loopyperf.files import LARGEST, os_reason, read_bytes
from loopyperf.kernel import Program
from loopyperf.models.profiler_counters import Counters, LaunchCounters, counters_of, unit_of_metric
from loopyperf.models.program_timing import timing
from loopyperf.models.timing import notes_of
from loopyperf.predict.estimate import shown_estimate
from loopyperf.predict.on_device import simulator_of
from loopyperf.stages.case import Case, one_size
from loopyperf.stages.compile import Compiler, compile_case
from loopyperf.stages.profile import kernel_profile
from loopyperf.units import amount, listed, number_of


def counters(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: FitChoice | ResidualModel | None = None,
    typical: Mapping[str, Any] | None = None,
    compiler: Compiler = "model",
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Counters:
    """Predict the Nsight Compute metrics of each launch of *program*.

    Rates per cycle use the predicted run time.

    Parameters
    ----------
    program : loopy.TranslationUnit or loopy.LoopKernel
        The kernel.
    device : str, os.PathLike or Device, optional
        An NVIDIA device, as in :func:`loopyperf.estimate`.
    model, fit, typical, compiler, parameters, **sizes
        As in :func:`loopyperf.estimate`; each size is one integer.

    Returns
    -------
    Counters
        Metric values by launch and by Nsight Compute's metric names, in Nsight Compute's units.

    Raises
    ------
    ParameterError
        The device is not from NVIDIA, or a size or option is invalid.
    UnknownDeviceError, DeviceFileError, MissingNumberError, OccupancyError
        As in :func:`loopyperf.estimate`.
    KernelError, UncountableError, CompilerError
        As in :func:`loopyperf.estimate`.

    Examples
    --------
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     assumptions="n >= 1",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> predicted = lpp.counters(knl, n=2**20, device="nvidia-titan-v")

    2²⁰ floats of 4 bytes are 2¹⁷ sectors of 32 bytes:

    >>> predicted["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 2**17
    True
    """
    case = Case(program, one_size(parameters, sizes), typical)
    by, estimate = shown_estimate(case, device=device, model=model, fit=fit, compiler=compiler)
    simulator = simulator_of(by)
    known = simulator.parameters
    if known.vendor != "NVIDIA":
        raise ParameterError(
            f"counters are Nsight Compute metrics, which exist for NVIDIA devices only; {known.slug!r} is from "
            f"{known.vendor}"
        )
    # Nsight Compute profiles CUDA only.
    profile = replace(kernel_profile(case, device=known), is_opencl=False)
    machine = compile_case(case, profile, known, simulator.compiler)
    timed = timing(machine, known)
    simulated = float(simulator.time(timed).seconds)
    factor = float(estimate) / simulated if simulated else 1.0
    return Counters(
        kernel=timed.kernel,
        sizes=dict(case.sizes),
        device=by.device,
        launches=counters_of(
            machine, timed, [factor * simulator.time(timed.alone(launch)).executing for launch in timed.launches]
        ),
        estimate=estimate,
        notes=(*notes_of(timed), *machine.notes),
        typical=dict(case.typical or {}),
    )


MAX_BYTES = 256 * 2**20
"""largest size of a profile, in bytes"""
MAX_VALUES = 8_000_000
"""maximum number of commas in a profile, which bounds its memory"""
MAX_LAUNCHES = 200_000
"""maximum number of launches in a profile, which bounds the time to read it"""
MAX_DIGITS = 10
"""maximum number of digits of a length of a grid"""
KERNEL, METRIC, UNIT, VALUE = "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"
"""columns of Nsight Compute's CSV"""
LAUNCH, CAPABILITY, GROUP, GRID = "ID", "CC", "Block Size", "Grid Size"
NAME_OF_DEVICE = "device__attribute_display_name"
CALLED: Mapping[str, str] = {
    "Registers Per Thread": "launch__registers_per_thread",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "Waves Per SM": "launch__waves_per_multiprocessor",
}
"""label on the page ``details`` -> metric, for the predicted metrics"""
PREFIXES: Mapping[str, float] = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
SCALED = re.compile(r"([KMGT])(?:sector|inst|request|warp|cycle|thread|wavefront)s?\b")
"""a unit with an SI prefix"""


@dataclass(frozen=True)
class Profiled:
    """The profiler's metrics of one launch."""

    kernel: str
    """name of the device function"""
    values: Mapping[str, float]
    """metric -> value"""
    groups: int | None = None
    """number of groups of the launch; None if unknown"""
    work_items: int | None = None
    """work-items per group; None if unknown"""
    device: str = ""
    """name of the device; empty if unknown"""
    capability: str = ""
    """compute capability of the device, e.g. ``"7.5"``"""


def read_profile(path: str | PathLike[str]) -> tuple[Profiled, ...]:
    """Read the profiler output at *path*; return the metrics of each launch.

    Raises :class:`MeasurementError` for a file that is unreadable or is not a profile.
    """
    try:
        content = read_bytes(path, MAX_BYTES)
    except OSError as error:
        raise MeasurementError(f"cannot read the profile {path}: {os_reason(error)}; check the path") from error
    try:
        if content.count(b",") > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES:,} values")
        found = tuple(islice(_launches(content.removeprefix(BOM_UTF8)), MAX_LAUNCHES + 1))
        if not 0 < len(found) <= MAX_LAUNCHES:
            raise ValueError(f"no launch, or more than {MAX_LAUNCHES:,}")
    except (ValueError, csv.Error) as error:
        raise MeasurementError(
            f"{path} is not a profile; give the output of `ncu --csv` (with or without `--page raw`)"
        ) from error
    return found


def _number(text: str, unit: str = "") -> float | None:
    """Parse *text*, which may have commas between thousands; return None for ``"n/a"``, ``"nan"`` and other words.

    Raises :class:`ValueError` for a number beyond :data:`LARGEST`, or as close to 0 but not 0.
    """
    scale = SCALED.match(unit)
    try:
        value = float(text.replace(",", "")) * (PREFIXES[scale[1]] if scale else 1.0)
    except ValueError:
        return None
    if (abs(value) > LARGEST or 0 < abs(value) < 1 / LARGEST) and re.search(r"\d", text):
        raise ValueError(f"the number {text:.40} is too large or too small")
    return value if isfinite(value) else None


def _launches(content: bytes) -> Iterator[Profiled]:
    lines = TextIOWrapper(BytesIO(content), "utf-8", newline="")
    heading = next((line for line in lines if f'"{KERNEL}"' in line), f'"{KERNEL}"')
    cells = csv.reader(chain([heading], lines))
    head = next(cells)
    if KERNEL not in head:
        raise ValueError(f"no column {KERNEL}")
    rows = (dict(zip(head, row, strict=True)) for row in cells if len(row) == len(head))
    return _by_metric(rows) if {METRIC, VALUE} <= set(head) else _by_launch(rows)


def _by_metric(rows: Iterable[Mapping[str, str]]) -> Iterator[Profiled]:
    for _, launch in groupby(rows, lambda row: (row.get(LAUNCH, ""), row[KERNEL])):
        first = next(launch)
        metrics = {row[METRIC]: (row[VALUE], row.get(UNIT, "")) for row in chain([first], launch) if row[METRIC]}
        yield _profiled(first, metrics)


def _by_launch(rows: Iterator[Mapping[str, str]]) -> Iterator[Profiled]:
    first: Mapping[str, str] = next(rows, {KERNEL: ""})
    units: Mapping[str, str] = {} if first[KERNEL] else first
    for row in rows if units else chain([first], rows):
        yield _profiled(row, {name: (value, units.get(name, "")) for name, value in row.items() if "__" in name})


def _profiled(row: Mapping[str, str], metrics: Mapping[str, tuple[str, str]]) -> Profiled:
    numbers = {CALLED.get(name, name): _number(*value_and_unit) for name, value_and_unit in metrics.items()}
    return Profiled(
        # without return type, template and parameters
        re.sub(r"[<(].*", "", row[KERNEL].removeprefix("void "), flags=re.DOTALL).strip(),
        {name: number for name, number in numbers.items() if number is not None},
        _product(row.get(GRID, "")),
        _product(row.get(GROUP, "")),
        metrics.get(NAME_OF_DEVICE, ("",))[0],
        row.get(CAPABILITY, ""),
    )


def _product(lengths: str) -> int | None:
    """Return the volume of a grid or group such as ``"(256, 1, 1)"``; None if *lengths* has no number."""
    numbers = re.findall(r"\d+", lengths)
    if len(numbers) > 3 or any(len(each) > MAX_DIGITS for each in numbers):
        raise ValueError(f"{lengths:.40} is not a size in up to three dimensions")
    return prod(map(int, numbers)) if numbers else None


MAX_NAMED = 3
"""largest number of names in a sentence"""


@dataclass(frozen=True, slots=True)
class ComparedCounter:
    """A predicted and a measured metric of a launch."""

    _DERIVED = ("error",)

    launch: str
    """name of the device function"""
    metric: str
    """Nsight Compute's name of the metric"""
    predicted: float
    """predicted value in one execution of the launch"""
    counted: float
    """measured value; the median if the profile has several launches of that name"""

    @property
    def error(self) -> float | None:
        """Return the relative error predicted / measured − 1; None if only the measured value is zero."""
        if self.counted:
            return self.predicted / self.counted - 1
        return None if self.predicted else 0.0


@dataclass(frozen=True, repr=False)
class CountersComparison(Tabular):
    """The predicted metrics of a kernel beside those of a profile; :func:`loopyperf.compare_counters` returns it.

    Examples
    --------
    >>> import loopyperf as lpp
    >>> comparison = lpp.compare_counters(predicted, "profile.csv")     # doctest: +SKIP
    >>> {row.metric: row.error for row in comparison.rows}              # doctest: +SKIP
    """

    _ROWS = "rows"

    counters: Counters
    """all predicted metrics"""
    rows: tuple[ComparedCounter, ...]
    """metrics that are both predicted and measured"""
    notes: tuple[str, ...]
    """notes on launches that were profiled several times, and on metrics without a prediction"""

    def report_text(self) -> ReportText:
        """Return a table of predicted and measured values, with relative errors."""
        several = len({row.launch for row in self.rows}) > 1
        rows = [
            (
                row.metric,
                amount(row.predicted),
                amount(row.counted),
                "" if row.error is None else f"{row.error:+.1%}",
                unit_of_metric(row.metric),
                *([row.launch] if several else []),
            )
            for row in self.rows
        ]
        headings = ("metric", "predicted", "measured", "error", "unit", *(["launch"] if several else []))
        about = self.counters
        return ReportText(
            question=about.estimate.inputs,
            answer=f"{about.estimate.time_and_interval}; {number_of(len(rows), 'metric')}, predicted and measured",
            tables=[Table(headings, rows, last=len(headings) - 4)],
            notes=(*self.notes, *about.notes),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values that JSON can hold."""
        return {**self.counters.to_dict(), "compared": self.records(), "notes": [*self.notes, *self.counters.notes]}


def compare_counters(
    counters: Counters, profile: str | PathLike[str], /, *, device: DeviceChoice | None = None
) -> CountersComparison:
    """Compare predicted *counters* with the metrics in the file *profile*.

    Launches are matched by the names of their device functions, or by numbers of groups and work-items if the file has
    no names. If the profile has several launches of a name, their medians are compared.

    Parameters
    ----------
    counters : Counters
        The predicted metrics, from :func:`loopyperf.counters`.
    profile : str or os.PathLike
        Path of the output of ``ncu --csv``.
    device : str, os.PathLike or Device, optional
        The device of *counters*, needed if its device file is not in the library.

    Returns
    -------
    CountersComparison
        Predicted and measured values, with relative errors.

    Raises
    ------
    MeasurementError
        The file is not a profile, or is from another kernel, another device or other sizes.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     assumptions="n >= 1",
    ...     name="doubled",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> predicted = lpp.counters(knl, n=2**20, device="nvidia-titan-v")
    >>> profile = '''
    ... "ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
    ... "0","doubled","dram__sectors_read.sum","sector","131,072"
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "profile.csv"
    ...     _ = path.write_text(profile)
    ...     comparison = lpp.compare_counters(predicted, path)
    >>> [(row.metric, row.counted, row.error) for row in comparison.rows]
    [('dram__sectors_read.sum', 131072.0, 0.0)]
    """
    found = read_profile(profile)
    _check_device(found, given_device(counters.device if device is None else device), profile)
    rows: list[ComparedCounter] = []
    notes: list[str] = []
    for launch in counters.launches:
        own = _of_launch(found, launch, profile)
        if len(own) > 1:
            notes.append(f"{launch.name} was profiled {len(own):,} times; medians are shown")
        metrics = dict.fromkeys(metric for each in own for metric in each.values)
        both = [metric for metric in launch.values if metric in metrics]
        for metric in both:
            measured = median(each.values[metric] for each in own if metric in each.values)
            rows.append(ComparedCounter(launch.name, metric, launch.values[metric], measured))
        notes += _left(metrics, launch)
    return CountersComparison(counters, tuple(rows), tuple(dict.fromkeys(notes)))


def _left(metrics: Mapping[str, None], launch: LaunchCounters) -> Iterator[str]:
    left = [metric for metric in metrics if metric not in launch.values]
    if left:
        yield f"not predicted: {listed((f'{each:.80}' for each in left), MAX_NAMED)}"


def _check_device(found: Sequence[Profiled], device: Device, profile: str | PathLike[str]) -> None:
    """Raise :class:`MeasurementError` for a profile of another device, as far as the profile identifies it."""
    for each in found:
        if each.device and without_brand(device_slug(each.device)) not in names_without_brand(device):
            raise MeasurementError(
                f"{profile} is from {each.device:.60}, but the prediction is for {device.slug}; predict for that device"
            )
        if each.capability and device.target and each.capability != device.target:
            raise MeasurementError(
                f"{profile} is from compute capability {each.capability:.20}, but {device.slug} has {device.target}; "
                "predict for the profiled device"
            )


def _of_launch(found: Sequence[Profiled], launch: LaunchCounters, profile: str | PathLike[str]) -> Sequence[Profiled]:
    """Return the profiled launches that match *launch*; raises :class:`MeasurementError` if there are none."""
    named = [each for each in found if each.kernel == launch.name]
    if not named:
        others = listed(dict.fromkeys(f"{each.kernel:.40}" for each in found), MAX_NAMED)
        raise MeasurementError(f"{profile} has no launch of {launch.name}, only of {others}; profile that kernel")
    own = [
        each for each in named if each.groups in (None, launch.groups) and each.work_items in (None, launch.work_items)
    ]
    if not own:
        sizes = dict.fromkeys((each.groups, each.work_items) for each in named)
        shown = listed((f"{groups:,} groups of {items:,}" for groups, items in sizes if groups and items), MAX_NAMED)
        raise MeasurementError(
            f"{profile} has {shown} work-items, but {launch.name} has {launch.groups:,} groups of "
            f"{launch.work_items:,}; predict for the profiled sizes"
        )
    return own
