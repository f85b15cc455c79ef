"""GPUPerf's time of a launch: Texec = Wparallel + Wserial + T'mem, each told apart by the instructions that cost it."""

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

# {{{ what GPUPerf is told of a launch and of its device
#
# The inputs of Sim, Table 2, from machine graphs and the catalog.
#
# Of what the paper took from profilers, an emulator and disassembly: instructions, ILP and MLP come from the machine
# graphs, transactions from the addresses of the lanes, how far accesses go from the layer conditions.


ROUNDING = 1e-9
"""share by which numbers of sectors differ that are the same"""
SPECIAL = Opcode.MUFU
"""the kind of instructions that special function units execute"""


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """An access of global or private memory."""

    executions: float
    """of a warp, on average"""
    instruction: Instruction
    array: str
    transactions: float
    """lines that it asks for"""
    sectors: float
    """that it asks for"""
    served: Served
    lanes: int
    """of a full warp"""

    @property
    def fewest_sectors(self) -> float:
        """Return the sectors that a full warp asks for of neighbouring elements."""
        return self.lanes * self.instruction.bits / 8 / SECTOR

    @property
    def is_spread(self) -> bool:
        """Return whether it asks for more sectors than that."""
        return self.sectors > self.fewest_sectors * (1 + ROUNDING)


@dataclass(frozen=True, slots=True)
class OtherInstruction:
    """An instruction other than such an access."""

    executions: float
    """of a warp, on average"""
    instruction: Instruction
    issue: float
    """λ, in cycles, without bank conflicts"""
    completion: float
    """Λ, in cycles, without bank conflicts"""
    conflicts: float
    """cycles that its bank conflicts take of local memory"""


class LaunchInputs:
    """A launch as GPUPerf sees it."""

    def __init__(self, launch: TimedLaunch) -> None:
        """Take the launch; what is asked for is found then."""
        self.launch, self.timing = launch, InstructionTimes(launch.device)

    @cached_property
    def analysis(self) -> Analysis:
        """Return every quantity of GPUPerf, in cycles of all executions of the launch."""
        return analyse(self.inputs, self.parameters)

    # {{{ instructions

    @cached_property
    def requests(self) -> Sequence[MemoryRequest]:
        """Return the accesses of global and private memory."""
        lanes = self.launch.device.needed("warp_size")
        return [
            MemoryRequest(executions, each, asked.array, max(1.0, asked.lines), asked.sectors, asked.served, lanes)
            for executions, each, asked in self.launch.requested()
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
        """Return the instruction, with what its bank conflicts take told apart: beyond a pass for each 32 bits."""
        issue, completion = float(time.issue), float(time.completion)
        conflicts = 0.0
        if instruction.subsystem == MemorySpace.LOCAL and not instruction.is_idle:
            words = max(1, instruction.bits // 32)
            alone = self.timing.local_memory(words)
            conflicts = max(0.0, issue - float(alone.issue))
        return OtherInstruction(executions, instruction, issue - conflicts, completion - conflicts, conflicts)

    @property
    def every(self) -> Iterator[tuple[float, Instruction]]:
        """Yield how often a warp executes each instruction, and it."""
        yield from ((executions, instruction) for executions, instruction, _ in self.launch.executed())

    @cached_property
    def computing(self) -> Sequence[OtherInstruction]:
        """Return the arithmetic that the SIMD units execute: neither barriers, special functions, nor local memory."""
        elsewhere = (Opcode.BARRIER, SPECIAL, Opcode.LOAD, Opcode.STORE)
        return [each for each in self.others if each.instruction.kind not in elsewhere]

    def _mean(self, values: Sequence[tuple[float, float]], otherwise: float) -> float:
        """Return the mean of values by how often they occur."""
        number = sum(executions for executions, _ in values)
        return sum(executions * value for executions, value in values) / number if number else otherwise

    # }}}

    @cached_property
    def parameters(self) -> Parameters:
        """Return what GPUPerf is told of the device.

        SIMD_width is the one at which the instructions of the launch issue on average. Raises
        :class:`MissingNumberError` for what the device's description does not state.
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
        """Return the bytes of device memory that a request moves, on average, and 1 at least.

        The paper's transaction of 128 bytes is the whole request of a warp for neighbouring words of 32 bits.
        """
        moved = [(each.executions, each.sectors * SECTOR * each.served.asked.get(DRAM, 0.0)) for each in self.requests]
        return max(1.0, self._mean(moved, 1.0))

    @property
    def delta(self) -> float:
        """Return Δ, in cycles; where nobody has measured it, the time that what a core has of DRAM takes for a line."""
        level = self.launch.device.level(DRAM)
        if level.departure_delay is not None:
            return level.departure_delay
        return LINE / bytes_per_cycle(self.launch.device, level) * self.launch.balance_of(DRAM)

    @cached_property
    def inputs(self) -> Inputs:
        """Return what GPUPerf is told of the launch."""
        launch = self.launch
        requests = sum(each.executions for each in self.requests)
        special = self._number(lambda each: each.kind == SPECIAL)
        computing = self.computing
        active = launch.active_cores
        touched = launch.sectors * SECTOR / self._moved
        return Inputs(
            insts=sum(each.executions for each in self.others) - special + requests,
            mem_insts=requests,
            sync_insts=self._number(lambda each: each.kind == Opcode.BARRIER),
            sfu_insts=special,
            fp_insts=self._number(is_floating_point),
            total_warps=launch.warps_of_core * active,
            active_sms=active,
            n=min(launch.execution.concurrent_warps, launch.warps_of_core / launch.times),
            avg_trans_warp=self._mean([(each.executions, each.transactions) for each in self.requests], 1.0),
            size_of_data=launch.times * touched / active,
            ilp=self._over_programs(lambda graph: float(ilp(graph))),
            mlp=self._over_programs(lambda graph: float(mlp(graph, MEMORY))),
            avg_inst_lat=self._mean([(each.executions, each.completion) for each in computing], 1.0),
            amat=self._amat,
            o_bank=sum(each.executions * each.conflicts for each in self.others) * launch.warps_of_core,
        )

    @property
    def _amat(self) -> float | None:
        """Return AMAT over all levels: each one's latency for the requests that reach it."""
        if not self.requests:
            return None
        return self._mean([(each.executions, self.latency(each)) for each in self.requests], 1.0)

    def latency(self, request: MemoryRequest) -> float:
        """Return the average cycles of a request, by equations 12 and 13: hit_lat, and the latency of what serves it.

        A request that the nearest cache does not serve waits for one of the farther levels, whose latencies are those
        from a load to the use of what it loads: they have the way through the caches before in them.
        """
        farther = list(request.served.waited.items())[1:]
        if not farther:  # nothing is between the core and the memory
            return self._hit + self._queued
        reached = [share for _, share in farther]
        served = [here - beyond for here, beyond in zip(reached, [*reached[1:], 0.0], strict=True)]
        waited = [
            share * self.timing.latency(name) for (name, _), share in zip(farther, served, strict=True) if share > 0
        ]
        return self._hit + served[-1] * self._queued + sum(waited)

    @cached_property
    def _hit(self) -> float:
        """Return hit_lat, in cycles: of the nearest level whose latency is stated."""
        levels = global_levels(self.launch.device)
        return self.timing.latency(next((each.name for each in levels if each.latency is not None), DRAM))

    @cached_property
    def _queued(self) -> float:
        """Return the cycles that the transactions of a request wait for each other, on average (equation 13)."""
        return (self._mean([(each.executions, each.transactions) for each in self.requests], 1.0) - 1) * self.delta

    def cost(self, request: MemoryRequest) -> float:
        """Return the cycles of all executions of a request in a warp."""
        return request.executions * self.latency(request)

    # {{{ over programs of warps

    def _number(self, is_counted: Callable[[Instruction], bool]) -> float:
        return sum(each.executions for each in self.others if is_counted(each.instruction))

    def _over_programs(self, value: Callable[[Idg], float]) -> float:
        shares, programs = zip(*self.launch.shared(), strict=True)
        return fmean([value(each.graph) for each in programs], weights=shares)

    # }}}


def _peak_bandwidth(device: Device) -> float:
    """Return the published bandwidth of device memory in bytes/s; the measured one where none is."""
    level = device.level(DRAM)
    if level.bandwidth is not None:
        return level.bandwidth
    return bytes_per_cycle(device, level) * device.needed("cores") * device.needed("clock")


# }}}


# {{{ gpuperf rows


Costs = dict[tuple[str, str], tuple[float, float]]
"""property and source -> how often a core executes it, and the cycles that it costs"""


def gpuperf_rows(launch: TimedLaunch) -> Iterator[BreakdownRow]:
    """Yield what *launch* costs by GPUPerf, in seconds: computation, serialization, memory that nothing hides."""
    clock = launch.device.needed("clock")
    for (name, source), (number, cycles) in _costs(launch).items():
        seconds = float(cycles / clock)  # GPUPerf's are NumPy's
        yield BreakdownRow(name, source, number, seconds / number, seconds)


def gpuperf_notes(launch: TimedLaunch) -> Iterator[str]:
    """Yield what GPUPerf assumes of *launch*."""
    if cached_for_launch(launch, LaunchInputs).inputs.sync_insts:
        yield "what warps wait for each other at barriers is left out of GPUPerf: see docs/models.md"


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

    for each in seen.others:
        source = each.instruction.label
        if each.instruction.kind == SPECIAL:
            add("special functions", source, each.executions, each_special)
            continue
        add("instructions", source, each.executions, each_instruction)
        if each.instruction.kind == Opcode.BARRIER:
            add("synchronization", source, each.executions, each_barrier)
        if each.conflicts:
            add("bank conflicts", source, each.executions, each.conflicts)
    for each in seen.requests:
        source = each.instruction.label
        add("instructions", source, each.executions, each_instruction)
        add("memory", source, each.executions, visible * seen.latency(each) / found.itmlp)
    return {key: cost for key, cost in costs.items() if cost[0]}


# }}}
