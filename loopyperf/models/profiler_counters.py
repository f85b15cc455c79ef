"""Predicted profiler counters of a kernel, by the names of NVIDIA Nsight Compute's metrics.

Most are sums over the machine graphs of all warps. Metrics per cycle, in percent of a peak, use the predicted run time.
All values are for one execution of a launch.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from loopyperf.compiler.machine_program import MachineLaunch, MachineProgram
from loopyperf.counts.item import MemorySpace
from loopyperf.device.description import Device
from loopyperf.device.lambdas import DRAM, bytes_per_cycle
from loopyperf.device.parts import Per, Pipeline
from loopyperf.display import ReportText, Table, Tabular, fields_of
from loopyperf.errors import ParameterError, UnknownMetricError
from loopyperf.idg.program import Instruction, Loop, Opcode
from loopyperf.memory.kernel_profile import WarpClass
from loopyperf.memory.sectors import SECTOR
from loopyperf.models.demand import LaunchDemand, cached_for_launch
from loopyperf.models.program_timing import divergent_shares
from loopyperf.models.result import Estimate
from loopyperf.models.timing import InstructionTimes
from loopyperf.pipeline.timed_program import Request, TimedLaunch, TimedProgram
from loopyperf.units import amount, number_of

# {{{ predicted counters as plain values


PERCENT, RATIO = "%", ""
UNITS = {word: word for word in ("sectors", "requests", "wavefronts", "conflicts", "registers", "waves", "inst")}
"""Word in the name of a metric -> its unit; the first match counts."""


@dataclass(frozen=True)
class LaunchCounters:
    """Predicted profiler counters of one execution of a launch."""

    name: str
    """Name of the device program."""
    times: int
    """Number of executions."""
    groups: int
    """Groups of one execution."""
    work_items: int
    """Work-items of a group."""
    values: Mapping[str, float]
    """Metric of the profiler -> value."""

    def __getitem__(self, metric: str) -> float:
        """Return the value of *metric*; raises :class:`UnknownMetricError` if it is not predicted."""
        if metric not in self.values:
            raise UnknownMetricError(f"metric {metric!r} is not predicted; list(counters) shows those that are")
        return self.values[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)


@dataclass(frozen=True, repr=False)
class Counters(Tabular, Mapping[str, float]):
    """Predicted profiler counters of a kernel, by launch; a mapping from metrics to values if it has one launch."""

    _OMITTED = ("estimate",)

    kernel: str
    """Name of the kernel."""
    sizes: Mapping[str, Any]
    """Kernel parameters: name -> value."""
    device: str
    """Slug of the device, e.g. ``"nvidia-v100"``."""
    launches: tuple[LaunchCounters, ...]
    """Counters of each non-empty device program, in program order."""
    estimate: Estimate
    """Run time of the kernel."""
    notes: tuple[str, ...] = ()
    """Assumptions."""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Typical values, given by the caller, of quantities that the source does not determine."""

    def __getitem__(self, metric: str) -> float:
        """Return the value of *metric* for the kernel's only launch.

        :raises UnknownMetricError: if *metric* is not predicted.
        :raises ParameterError: if there are several launches.
        """
        if len(self.launches) != 1:
            raise ParameterError(
                f"{self.kernel} has {number_of(len(self.launches), 'launch')}; use one of counters.launches"
            )
        return self.launches[0][metric]

    def __contains__(self, metric: object) -> bool:
        return any(metric in launch.values for launch in self.launches)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(metric for launch in self.launches for metric in launch))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def report_text(self) -> ReportText:
        """Return the metrics of each launch, with their values and units."""
        rows = [
            (metric, amount(value), unit_of_metric(metric), *([launch.name] if len(self.launches) > 1 else []))
            for launch in self.launches
            for metric, value in launch.values.items()
        ]
        headings = ("metric", "value", "unit", *(["launch"] if len(self.launches) > 1 else []))
        return ReportText(
            question=self.estimate.inputs,
            answer=f"{self.estimate.time_and_interval}; predicted profiler counters of one execution",
            tables=[Table(headings, rows, last=len(headings) - 2)],
            notes=self.notes,
        )

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each metric of each launch, in the unit of the metric."""
        return [
            {"launch": launch.name, "metric": metric, "value": float(value), "unit": unit_of_metric(metric)}
            for launch in self.launches
            for metric, value in launch.values.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the counters as plain values for JSON."""
        return {**fields_of(self), "model": self.estimate.model, "seconds": float(self.estimate)}


def unit_of_metric(metric: str) -> str:
    """Return the unit of *metric*, e.g. ``"sectors"`` or ``"%"``; empty for a ratio."""
    if "pct" in metric:
        return PERCENT
    if metric.endswith(".ratio"):
        return RATIO
    return next((unit for word, unit in UNITS.items() if word in metric), RATIO)


# }}}


# {{{ instruction classes of the profiler


MISCELLANEOUS = frozenset({Opcode.MOVE, Opcode.SELECT, Opcode.BARRIER})
FLOATS: Mapping[str, str] = {"f16": "fp16", "f32": "fp32", "f64": "fp64"}
SORTS: tuple[str, ...] = ("fp16", "fp32", "fp64", "integer", "control", "memory", "misc", "conversion")


def counter_class(instruction: Instruction) -> str:
    """Return the profiler's class of *instruction*, one of :data:`SORTS`."""
    if instruction.kind in (Opcode.LOAD, Opcode.STORE):
        return "memory"
    if instruction.kind == Opcode.BRANCH:
        return "control"
    if instruction.kind in MISCELLANEOUS:
        return "misc"
    if instruction.kind == Opcode.CONVERT:
        return "conversion"
    if instruction.kind == Opcode.MUFU:
        return "fp32"
    return FLOATS.get(instruction.dtype, "integer")


# }}}


# {{{ sums over the warps of a launch


@dataclass(frozen=True)
class _Sums:
    """Sums over all warps of one execution of a launch."""

    machine: MachineLaunch
    timed: TimedLaunch
    seconds: float
    """Run time of all executions, without launch overhead."""

    @cached_property
    def executed(self) -> "list[tuple[float, Instruction, Request | None, float]]":
        """Return (executions, instruction, memory request, active lanes) of each instruction."""
        return [
            (each.warps / self.machine.times * float(instruction.executions), instruction, request, lanes)
            for number, each in enumerate(self.machine.classes)
            for instruction, request, lanes in zip(
                each.graph.instructions,
                self.timed.programs[number].requests,
                active_lanes(each, self.machine.work_items / self.machine.warps_per_group),
                strict=True,
            )
        ]

    @cached_property
    def threads(self) -> Mapping[str, float]:
        """Return instruction class -> executions, counted by active lane."""
        found = dict.fromkeys(SORTS, 0.0)
        for number, instruction, _, lanes in self.executed:
            found[counter_class(instruction)] += number * lanes
        return found

    @cached_property
    def instructions(self) -> float:
        """Return the number of instructions that warps execute."""
        return sum(number for number, *_ in self.executed)

    @cached_property
    def accesses(self) -> Mapping[tuple[str, str], float]:
        """Return (memory, direction) -> number of access instructions."""
        return self._sums(lambda _: 1.0)

    @cached_property
    def sectors(self) -> Mapping[tuple[str, str], float]:
        """Return (memory, direction) -> requested sectors."""
        return self._sums(lambda request: request.sectors)

    @cached_property
    def wavefronts(self) -> Mapping[tuple[str, str], float]:
        """Return (memory, direction) -> wavefronts (accesses of the local memory banks)."""
        return self._sums(lambda request: request.wavefronts)

    @staticmethod
    def through_l1(amounts: Mapping[tuple[str, str], float]) -> float:
        """Return the sum of *amounts* by (memory, direction), without those of the constant cache."""
        return sum(amount for (memory, _), amount in amounts.items() if memory != MemorySpace.CONSTANT)

    def _sums(self, of: Callable[[Request], float]) -> Mapping[tuple[str, str], float]:
        found: defaultdict[tuple[str, str], float] = defaultdict(float)
        for number, instruction, request, _ in self.executed:
            if request is not None:
                found[instruction.subsystem, access_kind(instruction)] += number * of(request)
        return found

    def moved(self, level: str, direction: str) -> float:
        """Return the sectors that accesses of one of :data:`OPERATIONS` move through a memory *level*.

        Sectors that DRAM reads for stores and reductions count as loads.
        """
        found = 0.0
        for number, instruction, request, _ in self.executed:
            if request is not None and request.served is not None:
                filled = number * request.sectors * request.served.filled if level == DRAM else 0.0
                moved = number * request.reaching.get(level, 0.0) - filled
                found += moved if access_kind(instruction) == direction else 0.0
                found += filled if direction == "load" else 0.0
        return found

    @cached_property
    def dram(self) -> Mapping[str, float]:
        """Return ``"load"`` and ``"store"`` -> sectors read from DRAM and written to it."""
        written = sum(self.moved(DRAM, operation) for operation in OPERATIONS if operation != "load")
        return {"load": self.moved(DRAM, "load"), "store": written}

    def looked_up(self, direction: str) -> float:
        """Return the number of sector lookups in the shared cache, over all its partitions.

        A sector whose memory belongs to the other partition is looked up in both: for each store, and for each load
        that misses, because the core's own partition keeps a copy of loaded data (measured on an H200:
        docs/accuracy/counters.md).
        """
        shared = _shared_cache(self.timed.device)
        if shared is None:
            return 0.0
        elsewhere = 1 - 1 / (self.timed.device.level(shared).partitions or 1)
        asked = self.moved(shared, direction)
        return asked + elsewhere * (self.dram["load"] if direction == "load" else asked)

    @property
    def written(self) -> float:
        """Return the sectors written to DRAM; dirty data left in the shared cache is written after the launch."""
        device = self.timed.device
        cache = _shared_cache(device)
        size = 0 if cache is None else device.level(cache).size or 0
        return max(0.0, self.dram["store"] - MAX_DIRTY_SHARE * size / SECTOR)


LOADS_AND_STORES = (("load", "ld"), ("store", "st"))
OPERATIONS: Mapping[str, str] = {"load": "ld", "store": "st", "red": "red", "atom": "atom"}
"""kind of an access -> its name in metrics"""


def access_kind(instruction: Instruction) -> str:
    """Return the kind of an access: ``"red"`` for an atomic addition, ``"atom"`` for a compare-exchange."""
    update = None if instruction.reference is None else instruction.reference.update
    return instruction.kind if update is None else "atom" if update.is_loop else "red"


def active_lanes(warps: WarpClass, lanes: float) -> list[float]:
    """Return the mean number of active lanes of each instruction; *lanes* is the mean number of lanes of a warp."""
    graph, of_example, parts = warps.graph, warps.example.lanes, divergent_shares(warps)
    return [
        lanes * (_of_access(warps, each) * parts.get(each.origin or 0, 1.0) / of_example or _share(warps, each, loops))
        for each, loops in zip(graph.instructions, graph.loops_around, strict=True)
    ]


def _of_access(warps: WarpClass, instruction: Instruction) -> float:
    """Return the mean number of lanes of an array access, 0 if unknown."""
    access = None if instruction.origin is None else warps.accesses.get(instruction.origin)
    return 0.0 if access is None or access.refusal or instruction.is_idle else float(access.profile.mean("lanes"))


def _share(warps: WarpClass, instruction: Instruction, loops: tuple[Loop, ...]) -> float:
    """Return the mean share of lanes that are active in *instruction*, inside *loops*.

    Conditions select lanes, and lanes may leave loops at different iterations.
    """
    share = warps.active.get((instruction.source, instruction.predicates))
    if share is not None:
        return float(share)
    loop = next((each for each in reversed(loops) if any(each.lanes)), None)
    if loop is None:
        return 1.0
    iterations = loop.trips * loop.copies if isinstance(loop.trips, int) else 0
    return sum(loop.lanes) / (len(loop.lanes) * max(iterations, *loop.lanes))


# }}}


# {{{ metrics of Nsight Compute


L1_SECTORS = "l1tex__t_sectors_pipe_lsu_mem"
PIPELINES = {
    Pipeline.ALU: "smsp__pipe_fma_cycles_active",
    Pipeline.FP64: "smsp__inst_executed_pipe_fp64",
    Pipeline.SFU: "smsp__inst_executed_pipe_xu",
}
MAX_DIRTY_SHARE = 0.5
"""Maximum fraction of the shared cache that is dirty when a launch ends (measured: docs/accuracy)."""


def counters_of(machine: MachineProgram, timed: TimedProgram, seconds: Sequence[float]) -> tuple[LaunchCounters, ...]:
    """Return the predicted Nsight Compute metrics of each launch; *seconds* are for all its executions."""
    launches = zip(machine.launches, timed.launches, seconds, strict=True)
    return tuple(
        LaunchCounters(one.name, one.times, one.groups, one.work_items, dict(_metrics(_Sums(one, other, each))))
        for one, other, each in launches
    )


def _metrics(sums: _Sums) -> Iterator[tuple[str, float]]:
    yield from _of_memory(sums)
    yield from _of_instructions(sums)
    yield from _of_residence(sums)
    yield from _per_cycle(sums)


def _of_memory(sums: _Sums) -> Iterator[tuple[str, float]]:
    words = {"load": "read", "store": "write", "red": "red", "atom": "atom"}
    shared = _shared_cache(sums.timed.device)
    yield "dram__sectors_read.sum", sums.dram["load"]
    yield "dram__sectors_write.sum", sums.written
    for direction, word in words.items():
        if shared is not None:
            yield f"lts__t_sectors_op_{word}.sum", sums.looked_up(direction)
            yield f"lts__t_sectors_srcunit_tex_op_{word}.sum", sums.moved(shared, direction)
    for direction, op in OPERATIONS.items():
        requests, sectors = (each[MemorySpace.GLOBAL, direction] for each in (sums.accesses, sums.sectors))
        yield f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum", requests
        yield f"{L1_SECTORS}_global_op_{op}.sum", sectors
        per_request = sectors / requests if requests else 0.0
        yield f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{op}.ratio", per_request
    for direction, op in LOADS_AND_STORES:
        yield f"{L1_SECTORS}_local_op_{op}.sum", sums.sectors[MemorySpace.PRIVATE, direction]
    for direction, op in LOADS_AND_STORES:
        wavefronts = sums.wavefronts[MemorySpace.LOCAL, direction]
        yield f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum", wavefronts
        conflicts = wavefronts - sums.accesses[MemorySpace.LOCAL, direction]
        yield f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum", conflicts
    yield "l1tex__data_pipe_lsu_wavefronts.sum", sums.through_l1(sums.wavefronts)


def _of_instructions(sums: _Sums) -> Iterator[tuple[str, float]]:
    yield "smsp__inst_executed.sum", sums.instructions
    for sort, number in sums.threads.items():
        yield f"smsp__sass_thread_inst_executed_op_{sort}_pred_on.sum", number
    lanes = sum(sums.threads.values()) / sums.instructions if sums.instructions else 0.0
    for which in ("thread_inst_executed", "thread_inst_executed_pred_on"):
        yield f"smsp__{which}_per_inst_executed.ratio", lanes
        yield f"smsp__{which}_per_inst_executed.pct", 100 * lanes / sums.timed.device.needed("warp_size")


def _of_residence(sums: _Sums) -> Iterator[tuple[str, float]]:
    launch, execution = sums.machine, sums.timed.execution
    slots = launch.room.warp_slots
    yield "launch__registers_per_thread", launch.registers
    yield "launch__waves_per_multiprocessor", launch.groups / (sums.timed.device.needed("cores") * launch.room.groups)
    yield "sm__maximum_warps_per_active_cycle_pct", 100 * launch.room.share
    at_once = min(execution.concurrent_groups, execution.total_groups) * launch.warps_per_group
    yield "sm__warps_active.avg.pct_of_peak_sustained_active", 100 * at_once / slots


def _per_cycle(sums: _Sums) -> Iterator[tuple[str, float]]:
    launch = sums.timed
    cycles = sums.seconds * launch.device.needed("clock") / launch.times
    cores, partitions = launch.device.needed("cores"), launch.partitions
    active = cycles * cores * launch.balance
    taken = InstructionTimes(launch.device).least * sums.through_l1(sums.accesses)
    requests = sums.accesses[MemorySpace.GLOBAL, "load"]
    yield "smsp__cycles_active.avg.pct_of_peak_sustained_elapsed", 100 * launch.balance
    for metric, share in (
        ("smsp__issue_active", sums.instructions / partitions),
        ("smsp__inst_executed_pipe_lsu", taken / partitions),
        ("l1tex__t_requests_pipe_lsu_mem_global_op_ld", requests),
    ):
        yield f"{metric}.avg.pct_of_peak_sustained_active", 100 * share / active
    busy, warps = cached_for_launch(launch, LaunchDemand).busy, launch.warps_of_core / launch.times
    for pipeline, metric in PIPELINES.items():
        yield f"{metric}.avg.pct_of_peak_sustained_active", 100 * busy.get(pipeline, 0.0) * warps / cycles
    wavefronts = sum(sums.wavefronts[MemorySpace.LOCAL, each] for each in ("load", "store"))
    yield (
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed",
        100 * wavefronts / (cycles * cores),
    )
    yield from _of_bandwidth(sums, cycles)


def _of_bandwidth(sums: _Sums, cycles: float) -> Iterator[tuple[str, float]]:
    device = sums.timed.device
    shared = _shared_cache(device)
    through = (
        (shared, "lts__t_sectors", sum(map(sums.looked_up, OPERATIONS))),
        (DRAM, "dram__throughput", sums.dram["load"] + sums.written),
    )
    for name, metric, sectors in through:
        if name is not None:
            level = device.level(name)
            peak = bytes_per_cycle(device, level) * device.needed("cores")
            if name == shared and level.bandwidth is not None:
                peak = level.bandwidth / device.needed("clock")
            yield f"{metric}.avg.pct_of_peak_sustained_elapsed", 100 * SECTOR * sectors / (peak * cycles)


def _shared_cache(device: Device) -> str | None:
    """Return the name of the farthest cache that all cores share, None if there is none."""
    caches = [level.name for level in device.memory if level.per == Per.DEVICE and level.name != DRAM]
    return caches[-1] if caches else None


# }}}
