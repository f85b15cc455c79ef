"""The pipeline model: the machine graphs of a kernel, executed on a simulated core (Cornelis; Lemeire, 3 to 6).

The kernel's graphs are lowered to what the compiler makes of them, each instruction is given its latencies on the
device (:mod:`loopyperf.models.timing`), and a core executes as many groups as fall to it. Launches add up.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import gcd

from loopyperf.device.description import Device
from loopyperf.device.occupancy import occupancy
from loopyperf.errors import UncountableError
from loopyperf.idg.access.private_reuse import StackReuse
from loopyperf.idg.construction.kernel_graphs import KernelIdg, LaunchGraphs
from loopyperf.idg.graph import Idg
from loopyperf.idg.lowering import lowered, private_arrays
from loopyperf.idg.lowering.early_loads import with_early_loads
from loopyperf.idg.lowering.entry import HOPPER, Capability
from loopyperf.idg.lowering.private_memory import SPACE
from loopyperf.idg.lowering.reloading import with_reloads
from loopyperf.idg.metrics.registers import Registers, estimated_registers
from loopyperf.idg.program import Instruction
from loopyperf.idg.unrolling import runs_of_all
from loopyperf.models.exact_sum import adding_up
from loopyperf.models.interface import ModelTime
from loopyperf.models.result import Breakdown, Row
from loopyperf.models.shortened import FEW, shortened
from loopyperf.models.timed_graph import TimedGraph
from loopyperf.models.timing import Timed, Timing, partitions, steady
from loopyperf.models.traffic import Residence, Served, levels_that_serve, levels_that_serve_stacks
from loopyperf.models.warp_accesses import WarpAccesses
from loopyperf.models.warp_mix import dealt_out
from loopyperf.pipeline import Execution, Simulation, execution_on, simulate

ISSUES = 3_000_000
"""instructions that are simulated, about, at most"""


def pipeline_time(kernel: KernelIdg, device: Device, concurrent_groups: int | None = None) -> ModelTime:
    """Return how long *kernel* takes on *device*, in seconds, by simulating the core that has most to do.

    Each launch has a row for every instruction on its busiest pipeline, one for the rest of its time, in which results
    are waited for, and one for the launch itself. With *concurrent_groups*, no more than so many reside on a core at
    once, as if something else took the room. Raises :class:`MissingNumberError` for a number that the device's
    description does not state, and :class:`OccupancyError` for a group that fits on no core.
    """
    rows: list[Row] = []
    notes: dict[str, None] = {}
    for launch in kernel.launches:
        if launch.kinds:
            simulated = _Launch(launch, device, concurrent_groups)
            rows += simulated.rows()
            notes.update(simulated.notes)
        if device.stated("launch_overhead"):
            cost = launch.times * device.launch_overhead
            rows.append(Row("launches", f"launch of {launch.name}", launch.times, device.launch_overhead, cost))
    if not device.stated("launch_overhead"):
        notes[f"what a launch costs on {device.slug} is not described: taken as nothing"] = None
    seconds, costs = adding_up([row.seconds for row in rows])
    exact = (Row(row.property, row.source, row.count, row.weight, cost) for row, cost in zip(rows, costs, strict=True))
    return ModelTime(seconds, Breakdown(tuple(exact)), notes=tuple(notes))


class _Launch:
    """A launch on a device."""

    def __init__(self, launch: LaunchGraphs, device: Device, concurrent_groups: int | None) -> None:
        self.launch, self.device = launch, device
        self.notes: dict[str, None] = {}
        self.order = tuple(dealt_out(launch))
        """the kinds of the warps of one or more groups one after the other"""
        capability = _capability(device)
        programs = {kind: self._machine(launch.kinds[kind].graph, capability) for kind in set(self.order)}
        registers = {kind: estimated_registers(graph, launch.work_items) for kind, graph in programs.items()}
        self.execution = self._execution(registers.values(), concurrent_groups)
        self.machine = {
            kind: with_early_loads(graph, registers=registers[kind].left) for kind, graph in programs.items()
        }
        at_once = min(self.execution.concurrent_groups, self.execution.total_groups)
        self.residence = Residence(at_once, min(launch.groups, at_once * device.cores))
        self.accesses = {kind: WarpAccesses(launch.kinds[kind], graph) for kind, graph in self.machine.items()}
        self.timing = Timing(device)
        self.served = levels_that_serve(launch, device, self.residence, self._sectors())
        order = [(kind, number % partitions(device)) for number, kind in enumerate(self._repeated())]
        timed = {kind: self._timed(kind) for kind in self.machine}
        parts = {(kind, part): timed[kind].in_partition(part, partitions(device)) for kind, part in set(order)}
        self.graphs = [parts[each] for each in order]
        self.notes.update(self.timing.missing)
        self.notes.update((sentence, None) for each in self.accesses.values() for sentence in each.assumed)

    def _machine(self, source: Idg, capability: Capability) -> Idg:
        """Return what the compiler makes of a graph: what it has no registers to keep, it loads again."""
        for each in private_arrays(source, capability):
            if each.home == "unsure":
                home = "memory" if each.is_in_memory else "registers"
                self.notes[f"where the private array {each.name} is, is not sure: taken as in {home}"] = None
        graph = lowered(source, capability=capability)
        registers = estimated_registers(graph, self.launch.work_items)
        return with_reloads(graph, registers.room) if registers.spilled else graph

    def _repeated(self) -> list[int]:
        """Return the kinds of the warps of so many groups that the next ones begin in the first partition again."""
        size = self.launch.warps_per_group
        order = list(self.order) * (size if len(self.order) == 1 else 1)
        return order * (partitions(self.device) // gcd(len(order), partitions(self.device)))

    def _execution(self, found: Collection[Registers], most_groups: int | None) -> Execution:
        work_items = self.launch.work_items
        if self.launch.local_memory is None:
            raise UncountableError(f"how much local memory {self.launch.name} takes depends on a parameter")
        registers = max(each.allocated for each in found)
        limits = self.device.limits
        if limits.stated("registers_per_work_item"):
            registers = min(registers, limits.registers_per_work_item)
        spilled = max(each.needed for each in found) - registers
        if spilled > 0:
            self.notes[f"{spilled} registers of a work-item may not fit: what they spill is not timed"] = None
        room = occupancy(self.device, work_items, registers, self.launch.local_memory)
        execution = execution_on(room, self.launch.groups, self.device.cores)
        groups = execution.concurrent_groups
        return replace(execution, concurrent_groups=groups if most_groups is None else min(groups, most_groups))

    def _sectors(self) -> dict[str, float]:
        """Return array -> the sectors of it that a group asks for, on average."""
        total: Counter[str] = Counter()
        for kind in self.order:
            total.update(self.accesses[kind].sectors_by_array)
        groups = (
            len(self.order) / self.launch.warps_per_group if len(self.order) > 1 else 1 / self.launch.warps_per_group
        )
        return {array: number / groups for array, number in total.items()}

    @cached_property
    def _stacks_served(self) -> Mapping[str, Served]:
        """Return how far loads and stores of private memory go."""
        of_kind = {kind: StackReuse.of(graph) for kind, graph in self.machine.items()}
        stacks = [of_kind[kind] for kind in self.order]
        return levels_that_serve_stacks(self.launch, self.device, self.residence, stacks)

    # {{{ a graph with latencies

    def _timed(self, kind: int) -> "TimedGraph":
        accesses, graph = self.accesses[kind], self.machine[kind]
        # Less than all runs where a condition on data seldom holds, or where nvcc writes out a loop that the graph has.
        shares = [
            min(1.0, float(each.executions) / runs) if runs else 1.0
            for each, runs in zip(graph.instructions, runs_of_all(graph.instructions, graph.loops_around), strict=True)
        ]
        timed = [
            [steady(time.times(share)) for time in self._of(accesses, number, each)]
            for number, (each, share) in enumerate(zip(graph.instructions, shares, strict=True))
        ]
        return TimedGraph.of(graph, timed, self.timing.start(self.launch.warps_per_group))

    def _of(self, accesses: "WarpAccesses", number: int, instruction: Instruction) -> tuple[Timed, ...]:
        if instruction.reference is None or instruction.is_idle:
            return (self.timing.arithmetic(instruction),)
        if instruction.subsystem == "local":
            return (self.timing.local_memory(accesses.wavefronts(number)),)
        if instruction.subsystem == SPACE:
            served = self._stacks_served[instruction.kind]
        else:
            served = self.served[instruction.reference.array]
        return self.timing.memory(instruction.kind, served, accesses.asked(number))

    # }}}

    def rows(self) -> Iterator[Row]:
        """Yield what the launch costs: on its busiest pipeline by instruction, and the rest."""
        device, launch = self.device, self.launch
        seconds = launch.times * self._cycles() / device.clock
        on_core = -(-launch.groups // device.cores) * launch.times * launch.warps_per_group / len(self.graphs)
        busy: dict[str, dict[tuple[str, float], float]] = {}
        for graph in self.graphs:
            for instruction, lambdas in graph.issued:
                costs = busy.setdefault(instruction.subsystem, {})
                key = (instruction.source or instruction.kind, float(lambdas.issue) / device.clock)
                costs[key] = costs.get(key, 0) + float(instruction.executions) * on_core
        totals = {name: sum(each * number for (_, each), number in costs.items()) for name, costs in busy.items()}
        busiest = max(totals, key=lambda name: totals[name])
        # What is extrapolated from some groups to all may be less, by a little.
        scale = min(1.0, seconds / totals[busiest])
        for (source, each), number in busy[busiest].items():
            yield Row(busiest, source, number, each, scale * each * number)
        rest = max(0.0, seconds - totals[busiest])
        yield Row("latency", f"launch of {launch.name}", launch.times, rest / launch.times, rest)

    def _cycles(self) -> float:
        """Return how long the core with most groups takes, in cycles.

        Where the groups that reside at once have too many instructions to be simulated, programs with fewer passes of
        their loops are, two of them, and each further instruction takes as long as what the longer one has more.
        """
        at_once, number = self.execution.concurrent_groups, self.execution.total_groups
        graphs = {id(each.graph): each.graph for each in self.graphs}
        issued = {key: sum(runs_of_all(graph.instructions, graph.loops_around)) for key, graph in graphs.items()}
        executed = sum(issued[id(each.graph)] for each in self.graphs) / len(self.graphs)
        executed *= self.execution.warps_per_group * min(at_once, number)
        if executed <= ISSUES:
            return self._of_all_groups([each.graph for each in self.graphs], executed)[0]
        (cycles, some), (before, fewer) = (self._shortened(ISSUES / executed / part, FEW // part) for part in (1, 2))
        whole = executed / min(at_once, number) * number
        return cycles + (cycles - before) / (some - fewer) * (whole - some) if some > fewer else cycles / some * whole

    def _shortened(self, share: float, fewest: int) -> tuple[float, float]:
        """Return how many cycles a core takes for a *share* of passes, and how many instructions they have."""
        short = {id(each.graph): shortened(each.graph, share, fewest) for each in self.graphs}
        return self._of_all_groups([short[id(each.graph)] for each in self.graphs], ISSUES)

    def _of_all_groups(self, graphs: Sequence[Idg], executed: float) -> tuple[float, float]:
        """Return how many cycles all groups of a core take, and how many instructions they have.

        The groups that reside at once have about so many *executed*. Where all together have too many, the last ones
        stand for all others.
        """
        lambdas = {place: each for graph in self.graphs for place, each in graph.lambdas.items()}

        def simulated(groups: int) -> Simulation:
            return simulate(
                graphs,
                lambda instruction: lambdas[id(instruction)],
                replace(self.execution, total_groups=groups),
                issue_limit=self.device.issue_limit if self.device.stated("issue_limit") else None,
            )

        at_once, number = self.execution.concurrent_groups, self.execution.total_groups
        some = max(2, int(ISSUES // executed)) * at_once
        last = simulated(min(some, number))
        if number <= some:
            return last.cycles, last.instructions
        more = (last.cycles - simulated(some - at_once).cycles) / at_once * (number - some)
        return last.cycles + more, last.instructions / some * number


def _capability(device: Device) -> Capability:
    """Return the compute capability of *device*; of others than NVIDIA's, that of Hopper."""
    major, dot, minor = device.target.partition(".")
    return (int(major), int(minor)) if dot and major.isdigit() and minor.isdigit() else HOPPER
