"""GPUPerf's time of a launch, Texec = Wparallel + Wserial + T'mem, attributed to the instructions that cause it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from loopyperf.counts.item import MemorySpace
from loopyperf.device.description import Device
from loopyperf.device.lambdas import DRAM, bytes_per_cycle, global_levels
from loopyperf.idg.graph import Idg
from loopyperf.idg.parallelism import ilp, mlp
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.memory.sectors import LINE, SECTOR
from loopyperf.models.demand import MEMORY, cached_for_launch, is_floating_point, is_memory
from loopyperf.models.literature.gpuperf import Analysis, Inputs, Parameters, analyse
from loopyperf.models.result import BreakdownRow
from loopyperf.models.timing import InstructionTimes
from loopyperf.pipeline.timed_graph import Timed
from loopyperf.pipeline.timed_program import Served, TimedLaunch

# {{{ inputs of GPUPerf for a launch and its device
#
# The inputs of Sim, Table 2, from machine graphs and device parameters.
#
# The paper used profilers, an emulator and disassembly. Here, instructions, ILP and MLP come from the machine graphs,
# transactions from the addresses of the lanes, and the levels that serve accesses from the layer conditions.


SPECIAL = Opcode.MUFU
"""Opcode of the instructions that special function units execute."""


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """An access of global or private memory."""

    executions: float
    """Mean executions per warp."""
    instruction: Instruction
    transactions: float
    """Requested lines."""
    sectors: float
    """Requested sectors."""
    served: Served


@dataclass(frozen=True, slots=True)
class OtherInstruction:
    """Any other instruction."""

    executions: float
    """Mean executions per warp."""
    instruction: Instruction
    issue: float
    """λ, in cycles, without bank conflicts."""
    completion: float
    """Λ, in cycles, without bank conflicts."""
    conflicts: float
    """Additional cycles of local memory due to bank conflicts."""


class LaunchInputs:
    """GPUPerf's inputs of a launch."""

    def __init__(self, launch: TimedLaunch) -> None:
        """Use *launch*; quantities are computed on first use."""
        self.launch, self.timing = launch, InstructionTimes(launch.device)

    @cached_property
    def analysis(self) -> Analysis:
        """Return every quantity of GPUPerf, in cycles of all executions of the launch."""
        return analyse(self.inputs, self.parameters)

    # {{{ instructions

    @cached_property
    def requests(self) -> Sequence[MemoryRequest]:
        """Return the accesses of global and private memory."""
        return [
            MemoryRequest(executions, instruction, max(1.0, asked.lines), asked.sectors, asked.served)
            for executions, instruction, asked in self.launch.requested()
            if asked.served is not None
        ]

    @cached_property
    def others(self) -> Sequence[OtherInstruction]:
        """Return all other instructions."""
        return [
            self._executed(executions, instruction, times[0])
            for executions, instruction, times in self.launch.executed()
            if not is_memory(instruction)
        ]

    def _executed(self, executions: float, instruction: Instruction, time: Timed) -> OtherInstruction:
        """Return the instruction with its bank conflicts: the accesses of the banks beyond one for each 32 bits."""
        issue, completion = float(time.issue), float(time.completion)
        conflicts = 0.0
        if instruction.subsystem == MemorySpace.LOCAL and not instruction.is_idle:
            words = max(1, instruction.bits // 32)
            alone = self.timing.local_memory(words)
            conflicts = max(0.0, issue - float(alone.issue))
        return OtherInstruction(executions, instruction, issue - conflicts, completion - conflicts, conflicts)

    @cached_property
    def computing(self) -> Sequence[OtherInstruction]:
        """Return the arithmetic of the SIMD units: all but barriers, special functions and local memory accesses."""
        elsewhere = (Opcode.BARRIER, SPECIAL, Opcode.LOAD, Opcode.STORE)
        return [other for other in self.others if other.instruction.kind not in elsewhere]

    def _mean(self, values: Sequence[tuple[float, float]], otherwise: float) -> float:
        """Return the mean of (executions, value) pairs, weighted by the executions; *otherwise* if there are none."""
        number = sum(executions for executions, _ in values)
        return sum(executions * value for executions, value in values) / number if number else otherwise

    # }}}

    @cached_property
    def parameters(self) -> Parameters:
        """Return GPUPerf's inputs of the device.

        SIMD_width corresponds to the mean issue rate of the launch's instructions.

        :raises MissingNumberError: if a device parameter is unknown.
        """
        device = self.launch.device
        issue = self._mean([(each.executions, each.issue) for each in self.computing], 1.0)
        latency = self._mean(
            [(each.executions, each.completion) for each in self.computing if is_floating_point(each.instruction)],
            float(device.completion_latency("add", "f32")),
        )
        return Parameters(
            freq=device.needed("clock"),
            mem_peak_bandwidth=_peak_bandwidth(device),
            simd_width=device.needed("warp_size") / issue,
            sfu_width=device.needed("warp_size") / float(device.issue_latency("special", "f32")),
            fp_lat=latency,
            dram_lat=self.timing.latency(DRAM),
            delta=self.delta,
            gamma=0.0,  # equation 8 as printed makes a kernel faster the more instructions it has (docs/models.md)
            hit_lat=self._hit,
            warp_size=device.needed("warp_size"),
            transaction_size=self._moved,
            most_warps=device.limits.needed("warps"),
        )

    @cached_property
    def _moved(self) -> float:
        """Return the mean number of bytes that a request moves from or to device memory, at least 1.

        The paper's transaction of 128 bytes is the whole request of a warp for adjacent 32-bit words.
        """
        moved = [(each.executions, each.sectors * SECTOR * each.served.asked.get(DRAM, 0.0)) for each in self.requests]
        return max(1.0, self._mean(moved, 1.0))

    @property
    def delta(self) -> float:
        """Return Δ, in cycles; if it was not measured, the time of a line at a core's share of the DRAM bandwidth."""
        level = self.launch.device.level(DRAM)
        if level.departure_delay is not None:
            return level.departure_delay
        return LINE / bytes_per_cycle(self.launch.device, level) * self.launch.balance_of(DRAM)

    @cached_property
    def inputs(self) -> Inputs:
        """Return GPUPerf's inputs of the kernel."""
        launch = self.launch
        requests = sum(request.executions for request in self.requests)
        special = self._number(lambda each: each.kind == SPECIAL)
        computing = self.computing
        active = launch.active_cores
        touched = launch.sectors * SECTOR / self._moved
        return Inputs(
            insts=sum(other.executions for other in self.others) - special + requests,
            mem_insts=requests,
            sync_insts=self._number(lambda each: each.kind == Opcode.BARRIER),
            sfu_insts=special,
            fp_insts=self._number(is_floating_point),
            total_warps=launch.warps_of_core * active,
            active_sms=active,
            n=min(launch.execution.concurrent_warps, launch.warps_of_core / launch.times),
            avg_trans_warp=self._mean([(request.executions, request.transactions) for request in self.requests], 1.0),
            size_of_data=launch.times * touched / active,
            ilp=self._over_programs(lambda graph: float(ilp(graph))),
            mlp=self._over_programs(lambda graph: float(mlp(graph, MEMORY))),
            avg_inst_lat=self._mean([(each.executions, each.completion) for each in computing], 1.0),
            amat=self._amat,
            o_bank=sum(other.executions * other.conflicts for other in self.others) * launch.warps_of_core,
        )

    @property
    def _amat(self) -> float | None:
        """Return AMAT over all levels: each one's latency for the requests that reach it."""
        if not self.requests:
            return None
        return self._mean([(request.executions, self.latency(request)) for request in self.requests], 1.0)

    def latency(self, request: MemoryRequest) -> float:
        """Return the mean cycles of a request, by equations 12 and 13: hit_lat, and the latency of the serving levels.

        A request that misses the nearest cache waits for a farther level. The latency of that level is from a load to
        the use of its result, and includes the path through the nearer caches.
        """
        farther = list(request.served.waited.items())[1:]
        if not farther:  # no cache between the core and memory
            return self._hit + self._queued
        reached = [share for _, share in farther]
        served = [here - beyond for here, beyond in zip(reached, [*reached[1:], 0.0], strict=True)]
        waited = [
            share * self.timing.latency(name) for (name, _), share in zip(farther, served, strict=True) if share > 0
        ]
        return self._hit + served[-1] * self._queued + sum(waited)

    @cached_property
    def _hit(self) -> float:
        """Return hit_lat, in cycles: the latency of the nearest level whose latency is known."""
        levels = global_levels(self.launch.device)
        return self.timing.latency(next((level.name for level in levels if level.latency is not None), DRAM))

    @cached_property
    def _queued(self) -> float:
        """Return the mean cycles that the transactions of a request wait for each other (equation 13)."""
        return (self._mean([(each.executions, each.transactions) for each in self.requests], 1.0) - 1) * self.delta

    # {{{ sums and means over warp programs

    def _number(self, is_counted: Callable[[Instruction], bool]) -> float:
        return sum(other.executions for other in self.others if is_counted(other.instruction))

    def _over_programs(self, value: Callable[[Idg], float]) -> float:
        shares, programs = zip(*self.launch.shared(), strict=True)
        return fmean([value(each.graph) for each in programs], weights=shares)

    # }}}


def _peak_bandwidth(device: Device) -> float:
    """Return the published bandwidth of device memory, in bytes/s, or the measured one if none is published."""
    level = device.level(DRAM)
    if level.bandwidth is not None:
        return level.bandwidth
    return bytes_per_cycle(device, level) * device.needed("cores") * device.needed("clock")


# }}}


# {{{ breakdown


Costs = dict[tuple[str, str], tuple[float, float]]
"""(Property, source) -> (executions on a core, cycles)."""


def gpuperf_rows(launch: TimedLaunch) -> Iterator[BreakdownRow]:
    """Yield the cost of *launch* by GPUPerf, in seconds: computation, serialization, visible memory time."""
    clock = launch.device.needed("clock")
    for (name, source), (number, cycles) in _costs(launch).items():
        seconds = float(cycles / clock)  # GPUPerf's numbers are NumPy scalars
        yield BreakdownRow(name, source, number, seconds / number, seconds)


def gpuperf_notes(launch: TimedLaunch) -> Iterator[str]:
    """Yield GPUPerf's assumptions about *launch*."""
    if cached_for_launch(launch, LaunchInputs).inputs.sync_insts:
        yield "GPUPerf excludes the waiting of warps at barriers: see docs/models.md"


def _costs(launch: TimedLaunch) -> Costs:
    seen = cached_for_launch(launch, LaunchInputs)
    found = seen.analysis
    warps = launch.warps_of_core
    each_instruction = found.w_parallel / (seen.inputs.insts * warps)
    each_barrier = found.o_sync / (seen.inputs.sync_insts * warps) if seen.inputs.sync_insts else 0.0
    each_special = found.o_sfu / (seen.inputs.sfu_insts * warps) if seen.inputs.sfu_insts else 0.0
    visible = found.t_mem_visible / found.t_mem if seen.requests else 0.0
    costs: Costs = {}

    def add(name: str, source: str, executions: float, cycles: float) -> None:
        number, before = costs.get((name, source), (0.0, 0.0))
        costs[name, source] = (number + executions * warps, before + cycles * executions * warps)

    for other in seen.others:
        source = other.instruction.label
        if other.instruction.kind == SPECIAL:
            add("special functions", source, other.executions, each_special)
            continue
        add("instructions", source, other.executions, each_instruction)
        if other.instruction.kind == Opcode.BARRIER:
            add("synchronization", source, other.executions, each_barrier)
        if other.conflicts:
            add("bank conflicts", source, other.executions, other.conflicts)
    for request in seen.requests:
        source = request.instruction.label
        add("instructions", source, request.executions, each_instruction)
        add("memory", source, request.executions, visible * seen.latency(request) / found.itmlp)
    return {key: cost for key, cost in costs.items() if cost[0]}


# }}}
