"""Roofline of a kernel on a device: the data of the roofline chart.

    P ≤ min(P_peak, I_m · B_m),        I_m = F / D_m        for each memory m

Here P is the performance (flop/s), F the flop of a launch, D_m the bytes that it moves through memory level m, and B_m
the bandwidth of that level. Each memory level has its own arithmetic intensity I_m: that of device memory is the one of
Williams et al., the others are those of the hierarchical roofline (Yang et al.). All rates are at the clock under load,
the clock of the latencies. A launch is drawn at F/T, where T is the time that a model predicts, below the attainable
performance F/T_min, where T_min is the time by the ``roofline`` model.

S. Williams, A. Waterman and D. Patterson, Roofline, 2009; C. Yang, T. Kurth and S. Williams, Hierarchical Roofline
Analysis for GPUs, 2020; Lemeire, section 2.1.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice
from loopyperf.device.lambdas import DRAM, level_issue
from loopyperf.device.substitutes import completed
from loopyperf.device.vocabulary import ISSUE
from loopyperf.display import Note, NoteKind, ReportText, Table, Tabular, called, kind_of, without
from loopyperf.errors import LoopyperfError, MissingNumberError, ParameterError
from loopyperf.explain.review import bytes_moved
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.kernel import Program
from loopyperf.models.analytic import analytic_cycles
from loopyperf.models.demand import LaunchDemand, cached_for_launch
from loopyperf.models.roofline import cycles as roofline_cycles
from loopyperf.models.timing import WAVEFRONT, InstructionTimes, notes_of
from loopyperf.models.workload import busy_sides
from loopyperf.pipeline.timed_program import TimedLaunch, TimedProgram
from loopyperf.predict.estimate import given_or_named
from loopyperf.predict.on_device import SIMULATED, DevicePredictor
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.cache import ResultKind, json_result_kind
from loopyperf.stages.case import Case, found_once, merged_sizes
from loopyperf.stages.device_choice import chosen_device
from loopyperf.units import duration, in_percent, number_of, prefixed

FLOPS: Mapping[str, int] = {
    Opcode.ADD: 1,
    Opcode.MUL: 1,
    Opcode.FMA: 2,
    Opcode.MUFU: 1,
    Opcode.SPECIAL: 1,
    Opcode.DIV: 1,
    Opcode.POW: 1,
}
"""flop per lane of each floating-point opcode"""
MULTIPLY_ADD = 2
"""flop per multiply-add"""
MULTIPLY_ADDS, SPECIAL, ISSUE_LIMIT = "{} multiply-adds", "special functions", "issue limit"
"""names of peaks; the first is a format for the data type"""
OF_MULTIPLY_ADDS = frozenset({Opcode.ADD, Opcode.MUL, Opcode.FMA})
"""opcodes limited by the peak of multiply-adds"""
TOUCHING = 0.1
"""relative tolerance for a memory's busy time to count as the bound, because uneven groups per core make it differ"""
PredictedLaunch = tuple[float, tuple[str, ...]]
"""seconds of all executions of a launch, without launch overhead, and notes"""
LaunchPredictor = Callable[[TimedLaunch], PredictedLaunch]
"""predicts a launch, or raises :class:`LoopyperfError`"""


@dataclass(frozen=True, slots=True)
class LaunchUnderRoofs:
    """The work of a launch in all its executions, its predicted time, and its lower bound."""

    _DERIVED = ("attainable", "performance", "share", "intensities")

    name: str
    """name of the device program"""
    flops: float
    """flop of its machine instructions, including lanes that are masked off by conditions"""
    moved: Mapping[str, float]
    """bytes moved through each memory"""
    seconds: float
    """lower bound by the ``roofline`` model: busy time of the core with most groups, without launch overhead"""
    bound: str
    """pipeline or memory level with the longest busy time"""
    predicted: float | None = None
    """seconds predicted by :attr:`Roofline.model`, without launch overhead; None without a prediction"""
    roof: str = ""
    """memory or peak whose roof bounds the launch; empty if :attr:`bound` has no roof"""
    memory: str = ""
    """the memory that bounds the launch; empty if no memory does"""

    @property
    def attainable(self) -> float:
        """Return the attainable performance in flop/s; 0 for a launch without work."""
        return self.flops / self.seconds if self.seconds else 0.0

    @property
    def performance(self) -> float:
        """Return the predicted performance in flop/s; without a prediction, the attainable one."""
        return self.flops / self.predicted if self.predicted else self.attainable

    @property
    def share(self) -> float | None:
        """Return predicted over attainable performance; None without a prediction.

        It is above 1 if the model omits a cost that the roofline includes.
        """
        return self.seconds / self.predicted if self.predicted else None

    @property
    def share_in_words(self) -> str:
        """Return the share in percent with the bound; empty without a prediction."""
        if self.share is None:
            return ""
        limit = f"its roof ({self.roof})" if self.roof else f"the limit by {self.bound}, which has no roof"
        return f"{in_percent(self.share)} of {limit}"

    @property
    def intensities(self) -> dict[str, float]:
        """Return the arithmetic intensity of each memory, in flop/B."""
        return {memory: self.flops / moved for memory, moved in self.moved.items() if moved}


@dataclass(frozen=True, slots=True, repr=False)
class Roofline(Tabular):
    """The roofs of a device, and the launches of a kernel below them."""

    _ROWS = "launches"

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """parameter values by name"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    bandwidths: Mapping[str, float]
    """bandwidths of the whole device in B/s by memory, nearest first; memories that share a pipeline are combined"""
    peaks: Mapping[str, float]
    """peaks of the whole device in flop/s: multiply-adds by data type, special functions, issue limit"""
    launches: tuple[LaunchUnderRoofs, ...]
    """launches in program order"""
    notes: tuple[Note, ...]
    """missing roofs and assumptions"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """the given typical iteration counts and condition shares, by name"""
    model: str = "pipeline"
    """model that predicts the launches"""

    @property
    def below_all_roofs(self) -> str:
        """Return a remark on launches whose bound has no roof; empty if there are none."""
        below = [launch for launch in self.launches if launch.flops and not launch.roof]
        if not below:
            return ""
        bounds = list(dict.fromkeys(launch.bound for launch in below))
        have, names = "has" if len(bounds) == 1 else "have", ", ".join(launch.name for launch in below)
        return f"{' and '.join(bounds)} {have} no roof; the attainable performance of {names} is below all roofs"

    def report_text(self) -> ReportText:
        """Return the launches with their bounds, and the roofs."""
        roofs = [(name, prefixed(bandwidth, "B/s")) for name, bandwidth in self.bandwidths.items()]
        roofs += [(name, prefixed(peak, "flop/s")) for name, peak in self.peaks.items()]
        return ReportText(
            question=f"roofline of {called(self.kernel, self.sizes, self.typical)} on {self.device}",
            answer=f"{number_of(len(self.launches), 'launch')}, {self._seconds} without launch overhead",
            tables=[self._launches(), self._of_memories(), Table(("roof", "peak"), roofs)],
            remarks=list(filter(None, [self.below_all_roofs])),
            notes=self.notes,
        )

    @property
    def _seconds(self) -> str:
        """Return the predicted time of all launches, if all are predicted, and the lower bound."""
        at_least = f"at least {duration(sum(launch.seconds for launch in self.launches))}"
        known = [launch.predicted for launch in self.launches if launch.predicted is not None]
        if len(known) < len(self.launches):
            return at_least
        return f"{duration(sum(known))} predicted by {self.model}, {at_least}"

    def _launches(self) -> Table:
        """Return the table of predicted times, lower bounds and bounds of the launches."""
        rows = [
            (
                launch.name,
                launch.bound,
                launch.roof or "none",
                "" if launch.predicted is None else duration(launch.predicted),
                duration(launch.seconds),
                "" if launch.share is None else in_percent(launch.share),
            )
            for launch in self.launches
        ]
        return Table(("launch", "bound by", "roof", "predicted", "lower bound", "share"), rows, text=3)

    def _of_memories(self) -> Table:
        """Return the table of performance and intensities, or of traffic if no launch does any flop."""
        memories = tuple(self.bandwidths)
        if not any(launch.flops for launch in self.launches):
            moved = [{name: prefixed(nbytes, "B") for name, nbytes in launch.moved.items()} for launch in self.launches]
            traffic = [(launch.name, *map(of.get, memories)) for launch, of in zip(self.launches, moved, strict=True)]
            return _table(("launch", *(f"traffic, {name}" for name in memories)), traffic)
        rows = [
            (
                launch.name,
                prefixed(launch.performance, "flop/s") if launch.flops and launch.predicted is not None else None,
                prefixed(launch.attainable, "flop/s") if launch.flops else None,
                *({name: f"{ratio:.3g}" for name, ratio in launch.intensities.items()}.get(name) for name in memories),
            )
            for launch in self.launches
        ]
        return _table(("launch", "performance", "attainable", *(f"flop/B, {name}" for name in memories)), rows)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str | None]]) -> Table:
    """Return a table with an empty cell for each None."""
    return Table(headings, [tuple(cell or "" for cell in row) for row in rows])


def roofline_of(kernel: TimedProgram, model: str, predict: LaunchPredictor) -> Roofline:
    """Return the roofline of *kernel*, with the launches' times by *predict*, which evaluates *model*.

    A launch without a prediction lies on its roof, and a note gives the reason. The caller sets sizes and typical
    values.

    Raises :class:`MissingNumberError` if the device lacks a parameter that the roofs need.
    """
    devices = (launch.device for launch in kernel.launches)  # that with the bandwidth of the largest traffic
    roofs = _Roofs(max(devices, key=lambda each: each.level(DRAM).sustained_bandwidth or 0, default=kernel.device))
    bandwidths, peaks = roofs.bandwidths(), roofs.peaks()
    predicted = [_predicted(launch, model, predict) for launch in kernel.launches]
    pairs = zip(kernel.launches, predicted, strict=True)
    launches = tuple(_under_roofs(launch, roofs, bandwidths, peaks, seconds) for launch, (seconds, _) in pairs)
    missing = (f"{name} is unknown; no roof for it" for name in roofs.missing)
    notes = dict.fromkeys([*missing, *notes_of(kernel, ()), *(note for _, reasons in predicted for note in reasons)])
    every = tuple(Note(kind_of(note), note) for note in notes)
    return Roofline(kernel.kernel, {}, kernel.device.slug, bandwidths, peaks, launches, every, model=model)


def _predicted(launch: TimedLaunch, model: str, predict: LaunchPredictor) -> tuple[float | None, tuple[str, ...]]:
    try:
        seconds, notes = predict(launch)
    except LoopyperfError as error:
        return None, (f"{launch.name} is drawn on its roof: {model!r} cannot predict it: {error}",)
    if seconds > 0:
        return seconds, notes
    return None, (*notes, f"{launch.name} is drawn on its roof: {model!r} predicts {duration(seconds)}")


# {{{ the device


class _Roofs:
    """Computes bandwidths and peaks from the device parameters."""

    def __init__(self, device: Device) -> None:
        self.device, self.timing = completed(device), InstructionTimes(device)
        self.missing: dict[str, None] = {}
        self.cycles = device.needed("cores") * device.needed("clock")
        """cycles per second, summed over all cores"""
        self.levels: dict[str, list[str]] = {}
        """memory levels by pipeline, the nearest to the core first"""
        for level in self.device.memory:
            self.levels.setdefault(self.timing.pipeline_of(level.name), []).append(level.name)

    def memory(self, level: str) -> str:
        """Return the combined name of *level* and the other levels of its pipeline."""
        return " and ".join(self.levels[self.timing.pipeline_of(level)])

    def bandwidths(self) -> dict[str, float]:
        """Return the bandwidth of each memory, in B/s."""
        found: dict[str, float] = {}
        for level in (level for levels in self.levels.values() for level in levels):
            bandwidth = self._published(f"bandwidth of {level}", lambda level=level: self._bandwidth(level))
            if bandwidth is not None:
                found[self.memory(level)] = max(bandwidth, found.get(self.memory(level), 0.0))
        return found

    def _bandwidth(self, level: str) -> float:
        if level == "local":
            return WAVEFRONT / self.timing.wavefront * self.cycles
        return self.cycles / float(level_issue(self.device, level, 1))

    def peaks(self) -> dict[str, float]:
        """Return the peaks by name, in flop/s."""
        lanes, device = self.device.needed("warp_size") * self.cycles, self.device
        formulas: dict[str, Callable[[], float]] = {
            MULTIPLY_ADDS.format("f32"): lambda: MULTIPLY_ADD * lanes / device.issue_latency("fma", "f32"),
            MULTIPLY_ADDS.format("f64"): lambda: MULTIPLY_ADD * lanes / device.issue_latency("fma", "f64"),
            SPECIAL: lambda: lanes / device.issue_latency("special", "f32"),
            ISSUE_LIMIT: lambda: MULTIPLY_ADD * lanes * device.needed("issue_limit"),
        }
        found = {name: self._published(f"throughput of {name}", peak) for name, peak in formulas.items()}
        return {name: peak for name, peak in found.items() if peak is not None}

    def _published(self, name: str, number: Callable[[], float]) -> float | None:
        try:
            return number()
        except MissingNumberError:
            self.missing[name] = None
            return None


# }}}


# {{{ launches


def _under_roofs(
    launch: TimedLaunch,
    roofs: _Roofs,
    bandwidths: Mapping[str, float],
    peaks: Collection[str],
    predicted: float | None,
) -> LaunchUnderRoofs:
    work_items = launch.all_groups * launch.times * launch.work_items
    flops = sum(executions * _flops(insn) for executions, insn, _ in launch.executed()) * work_items
    moved: dict[str, float] = {}
    for _, level, nbytes in bytes_moved(launch):
        if nbytes > 0:
            moved[roofs.memory(level)] = moved.get(roofs.memory(level), 0.0) + nbytes
    busy = cached_for_launch(launch, LaunchDemand).busy
    bound = max(busy, key=lambda name: busy[name])
    seconds = analytic_cycles(roofline_cycles, launch, busy_sides) * launch.times / launch.device.needed("clock")
    slopes = {memory: moved[memory] / bandwidth for memory, bandwidth in bandwidths.items() if memory in moved}
    peak = _peak_of(launch, bound, peaks)
    nearest = max(slopes, key=lambda name: slopes[name], default="")
    is_touched = not peak and slopes.get(nearest, 0.0) > (1 - TOUCHING) * seconds
    return LaunchUnderRoofs(
        name=launch.name,
        flops=flops,
        moved={memory: moved[memory] for memory in map(" and ".join, roofs.levels.values()) if memory in moved},
        seconds=seconds,
        bound=bound,
        predicted=predicted,
        roof=nearest if is_touched else peak,
        memory=nearest if is_touched else " and ".join(roofs.levels.get(bound, ())),
    )


def _peak_of(launch: TimedLaunch, bound: str, peaks: Collection[str]) -> str:
    """Return which of *peaks* bounds *launch*, given its bound; empty if *bound* executes no flop."""
    if bound == ISSUE:
        return ISSUE_LIMIT
    found: dict[str, float] = {}
    for executions, insn, times in launch.executed():
        if (flops := _flops(insn)) and any(time.pipeline == bound for time in times):
            name = MULTIPLY_ADDS.format(insn.dtype) if insn.kind in OF_MULTIPLY_ADDS else SPECIAL
            found[name] = found.get(name, 0.0) + executions * flops
    known = [name for name in found if name in peaks]
    return max(known, key=lambda name: found[name], default=next(iter(peaks), "") if found else "")


def _flops(instruction: Instruction) -> int:
    is_counted = instruction.dtype.startswith("f") and not instruction.is_idle
    return FLOPS.get(instruction.kind, 0) if is_counted else 0


# }}}


ROOFLINE: ResultKind[Roofline] = json_result_kind("roofline", 256, Roofline)
"""cached rooflines, without sizes and typical values"""


def roofline(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    predictor: Predictor | None = None,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Roofline:
    """Return the roofline of *program* on *device* at one size: the roofs, and the flop and bytes of each launch.

    Parameters
    ----------
    program : loopy.TranslationUnit
        Kernel or program.
    device : str, path or Device, optional
        Name, parameter file or loaded device. The default is the one that ``LOOPYPERF_DEVICE`` names, or else this
        machine's OpenCL device.
    predictor : Predictor, optional
        A predictor (see :func:`loopyperf.predictor`) to use instead of *device* and of the ``"pipeline"`` model. Its
        model must be one with device parameters, or a fit of pipelines.
    typical : mapping, optional
        Typical iteration counts of loops and shares of conditions that depend on data, by name.
    parameters : mapping, optional
        Sizes by name, for sizes that have the name of an option.
    **sizes : int
        Values of the kernel's integer parameters.

    Returns
    -------
    Roofline
        Bandwidths in B/s and peaks in flop/s, and for each launch its flop, its bytes through each memory, and its
        predicted time and lower bound in seconds, without launch overhead. A launch without a prediction lies on its
        roof, and ``notes`` has the reason.

    Raises
    ------
    ParameterError
        A size or an option is invalid, or *predictor* does not predict launches.
    KernelError
        Loopy cannot prepare the kernel.
    UncountableError
        The kernel contains a construct without an exact count.
    UnknownDeviceError
        The device is unknown.
    MissingNumberError
        The device lacks a parameter that the roofs or the model need.
    OccupancyError
        The groups are too large for the device.

    See Also
    --------
    loopyperf.explain.plots.plot_roofline : Draw the result.

    Notes
    -----
    The bytes follow from the addresses of the accesses and the sizes of the caches. Sources: Williams et al., 2009;
    Yang et al., 2020.

    Examples
    --------
    >>> import loopy as lp, numpy as np, loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     name="doubled",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> launch = lpp.roofline(knl, device="nvidia-titan-v", n=2**20).launches[0]
    >>> launch.bound
    'DRAM'
    >>> launch.intensities["DRAM"]  # 1 flop per 8 bytes
    0.125
    """
    case = Case(program, merged_sizes(parameters, sizes), typical)
    if predictor is None:
        return roofline_at(case, chosen_device(device))
    given = _of_device(given_or_named(predictor, device=device))
    return roofline_at(case, given.parameters, given)


def roofline_at(case: Case, device: Device, predictor: Predictor | None = None) -> Roofline:
    """Return the roofline of *case* on *device*, or on that of *predictor*; see :func:`roofline`.

    Raises :class:`ParameterError` for a predictor that does not predict launches.
    """
    by = DevicePredictor(SIMULATED, device.slug, parameters=device) if predictor is None else _of_device(predictor)
    key = (by.parameters, case.typical, case.sizes, *by.depends_on)

    def find() -> Roofline:
        kernel = by.timing(case)

        def predict(launch: TimedLaunch) -> PredictedLaunch:
            answer = by.time(kernel.alone(launch))
            return answer.executing, tuple(without(answer.notes, NoteKind.NO_INTERVAL, NoteKind.LAUNCH_OVERHEAD))

        found = roofline_of(kernel, by.model, predict)
        every = dict.fromkeys([*found.notes, *by.notes, *by.machine(case).notes])
        return replace(found, notes=tuple(Note(kind_of(note), note) for note in every))

    found = found_once(ROOFLINE, case.kernel, key, find)
    return replace(found, sizes=dict(case.sizes), typical=dict(case.typical or {}))


def _of_device(given: Predictor) -> DevicePredictor:
    if isinstance(given, DevicePredictor):
        return given
    raise ParameterError(
        f"a roofline needs the time of each launch, which {given.model!r} does not predict; pass a predictor of "
        f"{SIMULATED!r} or another model with device parameters"
    )
