"""A kernel under the roofs of a device: the data of the roofline chart.

    P ≤ min(P_peak, I_m · B_m),        I_m = F / D_m        for each memory m

with the performance P (flop/s), the flop F of a launch, the bytes D_m that it moves by way of the memory m, and its
bandwidth B_m. Each memory so has an intensity of its own; that of device memory is the one of Williams et al., the
others are those of the hierarchical roofline (Yang et al.). All is at the clock under load, that of the latencies.
A launch lies at F over the seconds T that a model predicts, below the F/T_min of the model ``roofline``, which is
attainable.

S. Williams, A. Waterman and D. Patterson, Roofline, 2009; C. Yang, T. Kurth and S. Williams, Hierarchical Roofline
Analysis for GPUs, 2020; Lemeire, section 2.1.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from loopyperf.calibration.choice import chosen_device
from loopyperf.device.description import Device
from loopyperf.device.device_library import DeviceChoice
from loopyperf.device.lambdas import level_issue
from loopyperf.device.substitutes import completed
from loopyperf.device.vocabulary import ISSUE
from loopyperf.display import ReportText, Shown, Table, called, plain
from loopyperf.errors import LoopyperfError, MissingNumberError, ParameterError
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.kernel import Program
from loopyperf.memory.sectors import SECTOR
from loopyperf.models.analytic import analytic_cycles
from loopyperf.models.demand import LaunchDemand, cached_for_launch
from loopyperf.models.model_interface import LAUNCH_COST
from loopyperf.models.result import NO_INTERVAL
from loopyperf.models.roofline import cycles as roofline_cycles
from loopyperf.models.timing import WAVEFRONT, InstructionTimes, notes_of
from loopyperf.models.workload import busy_sides
from loopyperf.pipeline.timed_program import TimedLaunch, TimedProgram
from loopyperf.predict.estimate import given_or_named
from loopyperf.predict.on_device import SIMULATED, DevicePredictor
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.cache import ResultKind, json_result_kind
from loopyperf.stages.case import Case, found_once, merged_sizes
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
"""kind of a machine instruction of a floating-point type -> flop of a lane"""
MULTIPLY_ADD = 2
"""flop"""
MULTIPLY_ADDS, SPECIAL, ISSUE_LIMIT = "{} multiply-adds", "special functions", "issue limit"
"""names of peaks; the first is that of a type"""
OF_MULTIPLY_ADDS = frozenset({Opcode.ADD, Opcode.MUL, Opcode.FMA})
"""kinds of machine instructions that multiply-adds are a peak of"""
OF_ALL_LANES = "flop of lanes that a condition turns off count as well"
TOUCHING = 0.1
"""of the time: a memory that is busy so much less is not what bounds; cores with fewer groups make small differences"""
PredictedLaunch = tuple[float, tuple[str, ...]]
"""the seconds of all executions of a launch, without what launching costs, and what they rest on, in sentences"""
LaunchPredictor = Callable[[TimedLaunch], PredictedLaunch]
"""raises :class:`LoopyperfError` for a launch that it cannot predict"""


@dataclass(frozen=True, slots=True)
class LaunchUnderRoofs:
    """What a launch does in all its executions, how long that takes by a model, and at least."""

    name: str
    """of the device program"""
    flops: float
    """flop that its machine instructions do; lanes that a condition turns off count as those that it does not"""
    moved: Mapping[str, float]
    """memory -> bytes that are moved by way of it"""
    seconds: float
    """by the model ``roofline``: the core with most groups is busy so long; without what a launch costs"""
    bound: str
    """the subsystem that is busy longest"""
    predicted: float | None = None
    """seconds by :attr:`Roofline.model`, without what launching costs; None where the model has no answer"""
    roof: str = ""
    """the memory or the peak whose roof bounds it; empty where what is busy longest has no roof"""
    memory: str = ""
    """the memory that is busy longest; empty where something else is"""

    @property
    def attainable(self) -> float:
        """Return what the roofs allow, in flop/s; 0 for a launch that takes no time, which does nothing."""
        return self.flops / self.seconds if self.seconds else 0.0

    @property
    def performance(self) -> float:
        """Return what is predicted, in flop/s; what is attainable where the model has no answer."""
        return self.flops / self.predicted if self.predicted else self.attainable

    @property
    def share(self) -> float | None:
        """Return which share of what is attainable is predicted; None where the model has no answer.

        It is above 1 where the model sees less than the roofline.
        """
        return self.seconds / self.predicted if self.predicted else None

    @property
    def share_in_words(self) -> str:
        """Return the share in percent with what bounds the launch; empty where the model has no answer."""
        if self.share is None:
            return ""
        allows = f"its roof allows ({self.roof})" if self.roof else f"{self.bound} allows, which has no roof"
        return f"{in_percent(self.share)} of what {allows}"

    @property
    def intensities(self) -> dict[str, float]:
        """Return memory -> flop for each byte that is moved by way of it."""
        return {memory: self.flops / moved for memory, moved in self.moved.items() if moved}

    def to_dict(self) -> dict[str, Any]:
        """Return the launch as plain values that JSON can hold, with what follows from them."""
        derived = {"attainable": self.attainable, "performance": self.performance, "share": self.share}
        return {**asdict(self), **derived, "intensities": self.intensities}


@dataclass(frozen=True, slots=True, repr=False)
class Roofline(Shown):
    """The roofs of a device, and the launches of a kernel under them."""

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    bandwidths: Mapping[str, float]
    """memory -> B/s of the whole device, the nearest to the core first; memories of one pipeline are one"""
    peaks: Mapping[str, float]
    """what is limited -> flop/s of the whole device: multiply-adds by type, special functions, issues"""
    launches: tuple[LaunchUnderRoofs, ...]
    """one for each device program, in the order of the program"""
    notes: tuple[str, ...]
    """roofs that the device's description does not state, and what was assumed, in sentences"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """what was stated of what the source does not tell"""
    model: str = "pipeline"
    """the model that predicts the times of launches"""

    @property
    def below_all_roofs(self) -> str:
        """Return a sentence on the launches that are bound by what no roof is of; empty where there are none."""
        below = [launch for launch in self.launches if launch.flops and not launch.roof]
        if not below:
            return ""
        bounds = list(dict.fromkeys(launch.bound for launch in below))
        have, names = "has" if len(bounds) == 1 else "have", ", ".join(launch.name for launch in below)
        return f"{' and '.join(bounds)} {have} no roof: what {names} can attain lies below all of them"

    def report_text(self) -> ReportText:
        """Return the launches with what bounds them, and the roofs."""
        roofs = [(name, prefixed(each, "B/s")) for name, each in self.bandwidths.items()]
        roofs += [(name, prefixed(each, "flop/s")) for name, each in self.peaks.items()]
        return ReportText(
            question=f"{called(self.kernel, self.sizes, self.typical)} under the roofs of {self.device}",
            answer=f"{number_of(len(self.launches), 'launch')}, {self._seconds} beside what launching takes",
            tables=[self._launches(), self._of_memories(), Table(("roof", "at most"), roofs)],
            remarks=list(filter(None, [self.below_all_roofs])),
            notes=self.notes,
        )

    @property
    def _seconds(self) -> str:
        """Return how long all launches take by the model, if it has an answer for all of them, and at least."""
        at_least = f"{duration(sum(each.seconds for each in self.launches))} at least"
        known = [each.predicted for each in self.launches if each.predicted is not None]
        return at_least if len(known) < len(self.launches) else f"{duration(sum(known))} by {self.model}, {at_least}"

    def _launches(self) -> Table:
        """Return how long each launch takes, by the model and at least, and what bounds it."""
        headings = ("launch", "bound", "roof", "predicted", "at least", "share")
        return Table(headings, [_times(each) for each in self.launches], text=3)

    def _of_memories(self) -> Table:
        """Return performances and intensities of the launches, or what they move where none does any flop."""
        memories = tuple(self.bandwidths)
        if not any(each.flops for each in self.launches):
            moved = [(each.name, *_moved(each, memories)) for each in self.launches]
            return Table(("launch", *(f"moved, {name}" for name in memories)), moved)
        rows = [(each.name, *_performances(each), *_intensities(each, memories)) for each in self.launches]
        return Table(("launch", "performance", "attainable", *(f"flop/B, {name}" for name in memories)), rows)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values that JSON can hold; times are in seconds."""
        return {
            "kernel": self.kernel,
            "sizes": plain(self.sizes),
            "typical": plain(self.typical),
            "device": self.device,
            "model": self.model,
            "bandwidths": dict(self.bandwidths),
            "peaks": dict(self.peaks),
            "launches": [each.to_dict() for each in self.launches],
            "notes": list(self.notes),
        }


def _times(launch: LaunchUnderRoofs) -> tuple[str, ...]:
    predicted = "" if launch.predicted is None else duration(launch.predicted)
    share = "" if launch.share is None else in_percent(launch.share)
    return launch.name, launch.bound, launch.roof or "none", predicted, duration(launch.seconds), share


def _performances(launch: LaunchUnderRoofs) -> tuple[str, str]:
    if not launch.flops:
        return "", ""
    predicted = "" if launch.predicted is None else prefixed(launch.performance, "flop/s")
    return predicted, prefixed(launch.attainable, "flop/s")


def _moved(launch: LaunchUnderRoofs, memories: Iterable[str]) -> Iterator[str]:
    return (prefixed(launch.moved[memory], "B") if memory in launch.moved else "" for memory in memories)


def _intensities(launch: LaunchUnderRoofs, memories: Iterable[str]) -> Iterator[str]:
    found = launch.intensities
    return (f"{found[memory]:.3g}" if memory in found else "" for memory in memories)


def roofline_of(kernel: TimedProgram, model: str, predict: LaunchPredictor) -> Roofline:
    """Return the data of the chart of *kernel*, with the times of launches that *predict* has by *model*.

    A launch that has none lies on its roof, and a note says why. Sizes and typical values are left to the caller.

    Raises :class:`MissingNumberError` for a number that the description of the device lacks and the roofs need.
    """
    roofs = _Roofs(kernel.device)
    bandwidths, peaks = roofs.bandwidths(), roofs.peaks()
    predicted = [_predicted(launch, model, predict) for launch in kernel.launches]
    pairs = zip(kernel.launches, predicted, strict=True)
    launches = tuple(_under_roofs(launch, roofs, bandwidths, peaks, seconds) for launch, (seconds, _) in pairs)
    missing = (f"{name} is not described: there is no such roof" for name in roofs.missing)
    notes = dict.fromkeys([*missing, *notes_of(kernel, ()), *(note for _, said in predicted for note in said)])
    return Roofline(kernel.kernel, {}, kernel.device.slug, bandwidths, peaks, launches, tuple(notes), model=model)


def _predicted(launch: TimedLaunch, model: str, predict: LaunchPredictor) -> tuple[float | None, tuple[str, ...]]:
    try:
        seconds, notes = predict(launch)
    except LoopyperfError as error:
        return None, (f"{launch.name} lies on its roof, as {model} has no answer: {error}",)
    if seconds > 0:
        return seconds, notes
    return None, (*notes, f"{launch.name} lies on its roof, as {model} predicts {duration(seconds)}")


# {{{ the device


class _Roofs:
    """What a device can do, as far as its description states it."""

    def __init__(self, device: Device) -> None:
        self.device, self.timing = completed(device), InstructionTimes(device)
        self.missing: dict[str, None] = {}
        self.cycles = device.needed("cores") * device.needed("clock")
        """of all cores in a second"""
        self.levels: dict[str, list[str]] = {}
        """pipeline -> the memories that it serves, the nearest to the core first"""
        for level in self.device.memory:
            self.levels.setdefault(self.timing.pipeline_of(level.name), []).append(level.name)

    def memory(self, level: str) -> str:
        """Return what the memory is called that *level* is, with those whose pipeline it shares."""
        return " and ".join(self.levels[self.timing.pipeline_of(level)])

    def bandwidths(self) -> dict[str, float]:
        """Return memory -> B/s."""
        found: dict[str, float] = {}
        for level in (level for levels in self.levels.values() for level in levels):
            bandwidth = self._published(f"the bandwidth of {level}", lambda level=level: self._bandwidth(level))
            if bandwidth is not None:
                found[self.memory(level)] = max(bandwidth, found.get(self.memory(level), 0.0))
        return found

    def _bandwidth(self, level: str) -> float:
        if level == "local":
            return WAVEFRONT / self.timing.wavefront * self.cycles
        return self.cycles / float(level_issue(self.device, level, 1))

    def peaks(self) -> dict[str, float]:
        """Return what is limited -> flop/s."""
        lanes, device = self.device.needed("warp_size") * self.cycles, self.device
        asked: dict[str, Callable[[], float]] = {
            MULTIPLY_ADDS.format("f32"): lambda: MULTIPLY_ADD * lanes / device.issue_latency("fma", "f32"),
            MULTIPLY_ADDS.format("f64"): lambda: MULTIPLY_ADD * lanes / device.issue_latency("fma", "f64"),
            SPECIAL: lambda: lanes / device.issue_latency("special", "f32"),
            ISSUE_LIMIT: lambda: MULTIPLY_ADD * lanes * device.needed("issue_limit"),
        }
        found = {name: self._published(f"the throughput of {name}", peak) for name, peak in asked.items()}
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
    groups = launch.all_groups * launch.times
    flops = sum(executions * _flops(each) for executions, each, _ in launch.executed()) * groups * launch.work_items
    moved: dict[str, float] = {}
    for level, of_warp in _moved_by_warp(launch):
        memory = roofs.memory(level)
        moved[memory] = moved.get(memory, 0.0) + of_warp * groups * launch.warps_per_group
    busy = cached_for_launch(launch, LaunchDemand).busy
    bound = max(busy, key=lambda name: busy[name])
    seconds = analytic_cycles(roofline_cycles, launch, busy_sides) * launch.times / launch.device.needed("clock")
    slopes = {memory: moved[memory] / each for memory, each in bandwidths.items() if memory in moved}
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
    """Return which of *peaks* bounds *launch* if *bound* is busy longest; empty where that does no flop."""
    if bound == ISSUE:
        return ISSUE_LIMIT
    found: dict[str, float] = {}
    for executions, each, times in launch.executed():
        if (flops := _flops(each)) and any(time.pipeline == bound for time in times):
            name = MULTIPLY_ADDS.format(each.dtype) if each.kind in OF_MULTIPLY_ADDS else SPECIAL
            found[name] = found.get(name, 0.0) + executions * flops
    known = [name for name in found if name in peaks]
    return max(known, key=lambda name: found[name], default=next(iter(peaks), "") if found else "")


def _flops(instruction: Instruction) -> int:
    is_counted = instruction.dtype.startswith("f") and not instruction.is_idle
    return FLOPS.get(instruction.kind, 0) if is_counted else 0


def _moved_by_warp(launch: TimedLaunch) -> Iterator[tuple[str, float]]:
    """Yield levels of memory, each with bytes that an access of the mean warp moves by way of it."""
    for executions, each, request in launch.requested():
        if request.served is None:
            yield "local", executions * request.wavefronts * WAVEFRONT
        reached = request.reaching(each.kind).items()
        yield from ((level, executions * sectors * SECTOR) for level, sectors in reached if sectors > 0)


# }}}


ROOFLINE: ResultKind[Roofline] = json_result_kind("roofline", 256, Roofline)
"""without sizes and typical values, which are those of who asks"""


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
    """Return the roofs of *device*, in flop/s and B/s, and the flop and bytes of each launch of *program* at one size.

    :func:`loopyperf.explain.plots.plot_roofline` draws it. The bytes follow from the kernel's addresses, as for all
    models of a device. Each launch has the seconds that the model ``"pipeline"`` predicts and a lower bound by
    ``"roofline"``, both without launch overhead. *predictor*, of another model of a device or a
    fit of its pipelines, takes the place of *device* and of that model (see :func:`loopyperf.predictor`). A launch of
    which the model has no answer lies on its roof, and the ``notes`` say why. Sizes are single integers; *device*,
    *typical* and *parameters* are those of :func:`loopyperf.estimate` with a model of a device.

    Raises :class:`ParameterError` for a predictor that is of no device; and it, :class:`KernelError`,
    :class:`UncountableError`, :class:`UnknownDeviceError`, :class:`MissingNumberError` and :class:`OccupancyError` as
    :func:`loopyperf.estimate` does. Source: Williams et al., 2009; Yang et al., 2020.
    """
    case = Case(program, merged_sizes(parameters, sizes), typical)
    if predictor is None:
        return roofline_at(case, chosen_device(device))
    given = _of_device(given_or_named(predictor, device=device))
    return roofline_at(case, given.parameters, given)


def roofline_at(case: Case, device: Device, predictor: Predictor | None = None) -> Roofline:
    """Return *case* under the roofs of *device*, or of that of *predictor*, which predicts then; see :func:`roofline`.

    Raises :class:`ParameterError` for a predictor that is not of a model of a device.
    """
    by = DevicePredictor(SIMULATED, device.slug, parameters=device) if predictor is None else _of_device(predictor)
    asked = (by.parameters, case.typical, case.sizes, *by.depends_on)

    def find() -> Roofline:
        kernel, notes = by.timed(case)
        found = roofline_of(kernel, by.model, _without_launching(by, kernel))
        return replace(found, notes=tuple(dict.fromkeys([*found.notes, *by.notes, *notes])))

    found = found_once(ROOFLINE, case.kernel, asked, find)
    return replace(found, sizes=dict(case.sizes), typical=dict(case.typical or {}))


def _of_device(given: Predictor) -> DevicePredictor:
    if isinstance(given, DevicePredictor):
        return given
    raise ParameterError(
        f"a roofline needs the time of each launch: give a predictor of a model of a device, such as {SIMULATED!r}, or "
        f"of a fit of pipelines; received one of {given.model!r}"
    )


def _without_launching(by: DevicePredictor, kernel: TimedProgram) -> LaunchPredictor:
    """Return what predicts a launch of *kernel* alone, without what launching it costs."""

    def predict(launch: TimedLaunch) -> PredictedLaunch:
        answer = by.time(kernel.alone(launch))
        notes = (note for note in answer.notes if not note.startswith((NO_INTERVAL, LAUNCH_COST)))
        return answer.executing, tuple(notes)

    return predict
