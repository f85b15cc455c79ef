"""The pipeline model: the machine graphs of a kernel, executed on a simulated core (Cornelis; Lemeire, 3 to 6).

The kernel's graphs are lowered to what the compiler makes of them, each instruction is given its latencies on the
device (:mod:`loopyperf.models.timing`), and a core executes as many groups as fall to it. Launches add up.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

from loopyperf.device.description import Device
from loopyperf.device.lambdas import Lambdas
from loopyperf.device.occupancy import Occupancy, occupancy
from loopyperf.errors import UncountableError
from loopyperf.idg.access.private_stack import private_access
from loopyperf.idg.construction.kernel_graphs import KernelIdg, LaunchGraphs, WarpKind
from loopyperf.idg.graph import Idg
from loopyperf.idg.lowering import lowered
from loopyperf.idg.lowering.entry import HOPPER, Capability
from loopyperf.idg.lowering.scheduling import with_early_loads
from loopyperf.idg.metrics.registers import estimated_registers
from loopyperf.idg.program import Edge, Instruction
from loopyperf.models.exact_sum import adding_up
from loopyperf.models.interface import ModelTime
from loopyperf.models.result import Breakdown, Row
from loopyperf.models.timing import Timed, Timing, partitions, steady
from loopyperf.models.traffic import Residence, level_of_private_memory, levels_that_serve
from loopyperf.pipeline import execution_on, simulate

MIXED = 8
"""groups that the kinds of warps are dealt out to, one after the other"""
ISSUES = 3_000_000
"""instructions that are simulated at most, unless one generation of groups has more"""
WAITING = 8
"""results of loads that wait when one is used: the middle of what nvcc does in eleven kernels (docs/compiler.md)"""
START = "start"
"""the pipeline of the instruction that stands for the begin of a group"""


def pipeline_time(kernel: KernelIdg, device: Device) -> ModelTime:
    """Return how long *kernel* takes on *device*, in seconds, by simulating the core that has most to do.

    Each launch has a row for every instruction on its busiest pipeline, one for the rest of its time, in which results
    are waited for, and one for the launch itself. Raises :class:`MissingNumberError` for a number that the device's
    description does not state, and :class:`OccupancyError` for a group that fits on no core.
    """
    rows: list[Row] = []
    notes: dict[str, None] = {}
    for launch in kernel.launches:
        if launch.kinds:
            simulated = _Launch(launch, device)
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

    def __init__(self, launch: LaunchGraphs, device: Device) -> None:
        self.launch, self.device = launch, device
        self.notes: dict[str, None] = {}
        self.order = tuple(_dealt_out(launch))
        """the kinds of the warps of one or more groups one after the other"""
        capability = _capability(device)
        self.machine = {kind: lowered(launch.kinds[kind].graph, capability=capability) for kind in set(self.order)}
        self.occupancy = self._occupancy()
        on_device = min(launch.groups, self.occupancy.groups * device.cores)
        self.residence = Residence(min(self.occupancy.groups, -(-launch.groups // device.cores)), on_device)
        self.accesses = {kind: _Accesses(launch.kinds[kind], graph) for kind, graph in self.machine.items()}
        self.timing = Timing(device, levels_that_serve(launch, device, self.residence, self._sectors()))
        timed = {kind: self._timed(kind) for kind in self.machine}
        self.graphs = [
            timed[kind].in_partition(number % partitions(device), partitions(device))
            for number, kind in enumerate(self._repeated())
        ]
        self.notes.update(self.timing.missing)
        self.notes.update((sentence, None) for each in self.accesses.values() for sentence in each.assumed)

    def _repeated(self) -> list[int]:
        """Return the kinds of the warps of so many groups that the next ones begin in the first partition again."""
        size = self.launch.warps_per_group
        order = list(self.order) * (size if len(self.order) == 1 else 1)
        return order * (partitions(self.device) // gcd(len(order), partitions(self.device)))

    def _occupancy(self) -> Occupancy:
        work_items = self.launch.work_items
        if self.launch.local_memory is None:
            raise UncountableError(f"how much local memory {self.launch.name} takes depends on a parameter")
        found = [estimated_registers(graph, work_items) for graph in self.machine.values()]
        most = max(each.allocated for each in found)
        limits = self.device.limits
        if limits.stated("registers_per_work_item"):
            most = min(most, limits.registers_per_work_item)
        spilled = max(each.needed for each in found) - most
        if spilled > 0:
            self.notes[f"{spilled} registers of a work-item may not fit: what they spill is not timed"] = None
        return occupancy(self.device, work_items, most, self.launch.local_memory)

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
    def _private_level(self) -> str:
        """Return the level of memory that serves private arrays."""
        spaces = [each for graph in self.machine.values() for each in graph.instructions if each.subsystem == "private"]
        arrays = {each.reference.array for each in spaces if each.reference is not None}
        return level_of_private_memory(self.launch, self.device, self.residence, arrays)

    # {{{ a graph with latencies

    def _timed(self, kind: int) -> "_TimedGraph":
        accesses, graph = self.accesses[kind], with_early_loads(self.machine[kind], WAITING)
        timed = [steady(self._of(accesses, number, each)) for number, each in enumerate(graph.instructions)]
        return _TimedGraph.of(graph, timed, self.device)

    def _of(self, accesses: "_Accesses", number: int, instruction: Instruction) -> Timed:
        if instruction.subsystem == "local" and instruction.reference is not None:
            return self.timing.local_memory(accesses.wavefronts(number))
        if instruction.subsystem == "private" and instruction.reference is not None:
            return self.timing.private_memory(accesses.private_sectors(number), self._private_level)
        if instruction.subsystem == "global" and instruction.reference is not None:
            return self.timing.global_memory(instruction, instruction.reference.array, accesses.sectors(number))
        return self.timing.arithmetic(instruction)

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
        """Return how long the core with most groups takes, in cycles."""
        execution = execution_on(self.occupancy, self.launch.groups, self.device.cores)
        graphs = self.graphs
        lambdas = {place: each for graph in graphs for place, each in graph.lambdas.items()}

        def cycles(groups: int) -> float:
            return simulate(
                [each.graph for each in graphs],
                lambda instruction: lambdas[id(instruction)],
                replace(execution, total_groups=groups),
                issue_limit=self.device.issue_limit if self.device.stated("issue_limit") else None,
            ).cycles

        at_once, number = execution.concurrent_groups, execution.total_groups
        issued = sum(float(each.graph.executed) for each in graphs) / len(graphs) * execution.warps_per_group
        some = max(2, int(ISSUES // (issued * at_once))) * at_once
        if number <= some:
            return cycles(number)
        last = cycles(some)
        return last + (last - cycles(some - at_once)) / at_once * (number - some)


@dataclass(frozen=True, eq=False)
class _TimedGraph:
    """A machine graph whose subsystems are the pipelines of a device, with the latencies of its instructions."""

    graph: Idg
    lambdas: Mapping[int, Lambdas]
    """by the identities of the instructions"""
    split: frozenset[str]
    """pipelines of which each partition of the core has its own"""

    @classmethod
    def of(cls, graph: Idg, timed: Sequence[Timed], device: Device) -> "_TimedGraph":
        """Take *graph* with what its instructions take, after the begin of its group where the device tells of it."""
        instructions = [
            replace(each, subsystem=time.pipeline) for each, time in zip(graph.instructions, timed, strict=True)
        ]
        lambdas = [each.lambdas for each in timed]
        split = frozenset(time.pipeline for time in timed if time.is_split)
        edges, body = graph.edges, graph.body
        if device.stated("group_start"):
            start, first = len(instructions), _first(body)
            instructions.append(Instruction(START, subsystem=START, text="the begin of a group"))
            lambdas.append(Lambdas(1 / 64, device.group_start))
            edges, body = (*edges, Edge(start, first, through="control")), (start, *body)
        by_identity = {id(each): found for each, found in zip(instructions, lambdas, strict=True)}
        return cls(Idg(tuple(instructions), edges, body), by_identity, split)

    def in_partition(self, number: int, partitions: int) -> "_TimedGraph":
        """Return the graph of a warp in partition *number*, whose part of split pipelines is so many times slower."""
        changed: list[tuple[Instruction, Lambdas]] = []
        for each, lambdas in self.issued:
            if each.subsystem in self.split:
                lambdas = Lambdas(lambdas.issue * partitions, lambdas.completion)
                each = replace(each, subsystem=f"{each.subsystem} {number}")
            else:
                each = replace(each)
            changed.append((each, lambdas))
        graph = Idg(tuple(each for each, _ in changed), self.graph.edges, self.graph.body)
        return _TimedGraph(graph, {id(each): lambdas for each, lambdas in changed}, self.split)

    @property
    def issued(self) -> Iterator[tuple[Instruction, Lambdas]]:
        """Yield each instruction with its latencies."""
        yield from ((each, self.lambdas[id(each)]) for each in self.graph.instructions)


class _Accesses:
    """What the loads and stores of a machine graph ask of memory, each time that they are executed, on average."""

    def __init__(self, kind: WarpKind, graph: Idg) -> None:
        self.kind, self.graph = kind, graph
        self.assumed: dict[str, None] = {}
        self._sources = {each.origin: place for place, each in enumerate(kind.graph.instructions)}
        self._found: dict[int, tuple[int, float]] = {}

    def sectors(self, number: int) -> float:
        """Return the sectors of global memory that instruction *number* asks for."""
        return self._mean(number, "sectors")

    def wavefronts(self, number: int) -> float:
        """Return the passes through the banks of local memory that instruction *number* takes."""
        return self._mean(number, "wavefronts")

    def private_sectors(self, number: int) -> float:
        """Return the sectors of private memory that instruction *number* asks for."""
        reference = self.graph.instructions[number].reference
        assert reference is not None
        return private_access(reference, self.kind.example.lanes).sectors

    @property
    def sectors_by_array(self) -> Counter[str]:
        """Return array -> the sectors that a warp asks for."""
        found: Counter[str] = Counter()
        for number, each in enumerate(self.graph.instructions):
            if each.subsystem == "global" and each.reference is not None:
                found[each.reference.array] += self.sectors(number) * float(each.executions)  # pyright: ignore
        return found

    def _mean(self, number: int, quantity: str) -> float:
        """Return the mean of *quantity* over all executions; copies and merged accesses are as their source."""
        instruction = self.graph.instructions[number]
        origin = instruction.origin
        assert origin is not None
        if origin not in self._found:
            source = self._sources[origin]
            pattern = self.kind.access(source)
            self.assumed.update(dict.fromkeys(pattern.assumed))
            bits = int(self.kind.graph.instructions[source].dtype.removeprefix("b"))
            self._found[origin] = bits, float(pattern.profile.mean(quantity))  # pyright: ignore
        bits, mean = self._found[origin]
        return mean * int(instruction.dtype.removeprefix("b")) / bits


def _dealt_out(launch: LaunchGraphs) -> Iterator[int]:
    """Yield the kinds of the warps of some groups one after the other, each kind as often as it is among all warps.

    Kinds that meet barriers another number of times are in groups of their own.
    """
    if len(launch.kinds) == 1:
        yield 0
        return
    together: dict[float, list[int]] = {}
    for number, kind in enumerate(launch.kinds):
        barriers = sum(float(each.executions) for each in kind.graph.instructions if each.kind == "barrier")
        together.setdefault(barriers, []).append(number)
    warps = [[launch.kinds[number].warps for number in kinds] for kinds in together.values()]
    size = launch.warps_per_group
    for kinds, of_kinds, groups in zip(together.values(), warps, _shared(MIXED, [*map(sum, warps)]), strict=True):
        numbers = _shared(groups * size, of_kinds)
        inside = sorted(zip(kinds, numbers, strict=True), key=lambda each: launch.kinds[each[0]].example.number)
        slots = [kind for kind, number in inside for _ in range(number)]
        for group in range(groups):
            yield from slots[group::groups]


def _shared(whole: int, weights: Sequence[int]) -> list[int]:
    """Return *whole* in parts that are to each other as *weights*, rounded by their largest remainders."""
    exact = [whole * weight / sum(weights) for weight in weights]
    parts = [int(each) for each in exact]
    nearest = sorted(range(len(weights)), key=lambda place: parts[place] - exact[place])
    for place in nearest[: whole - sum(parts)]:
        parts[place] += 1
    return parts


def _first(body: Sequence[object]) -> int:
    item = body[0]
    return item if isinstance(item, int) else _first(item.body)  # pyright: ignore


def _capability(device: Device) -> Capability:
    """Return the compute capability of *device*; of others than NVIDIA's, that of Hopper."""
    major, dot, minor = device.target.partition(".")
    return (int(major), int(minor)) if dot and major.isdigit() and minor.isdigit() else HOPPER
