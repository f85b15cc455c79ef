"""The instruction dependence graphs of a kernel: one for each launch and for each kind of its warps."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

from loopyperf.assumptions import Assumed
from loopyperf.counts.magnitude import numbered
from loopyperf.counts.typical import Typical
from loopyperf.errors import GraphError
from loopyperf.idg.access import AccessPattern
from loopyperf.idg.access.working_sets import WorkingSets
from loopyperf.idg.construction.executed import Executed
from loopyperf.idg.construction.instruction_access import checked_access, copied_pattern, source_pattern, stated_stride
from loopyperf.idg.construction.launch_program import LaunchProgram, kinds_of_warps
from loopyperf.idg.construction.warp_graph import warp_graph
from loopyperf.idg.graph import Idg
from loopyperf.idg.warps.dispatch import Dispatch, Grid, dispatched, hosts_of
from loopyperf.idg.warps.executions import LaunchExecutions
from loopyperf.idg.warps.kinds import Kind, loops_by_place
from loopyperf.idg.warps.warp import grid_extent, warps_of_group
from loopyperf.kernel import Kernel
from loopyperf.polyhedral.points import Points
from loopyperf.sheet import Table
from loopyperf.units import amount


class WarpKind:
    """Warps that execute alike."""

    def __init__(self, kind: Kind, executions: LaunchExecutions, program: LaunchProgram) -> None:
        """Take the warps of *kind*, of the launch of *program*; their graph is made when it is asked for."""
        self.warps = kind.warps
        """how many there are in all executions of the launch"""
        self.is_uniform = kind.is_uniform
        """otherwise they differ in how often they execute some instructions: the graph has the mean"""
        self.example, self.host = executions.placement.warp(kind.example)
        """one of them, and the values of the host's loops around its launch"""
        self._made_of: tuple[LaunchProgram, LaunchExecutions, Kind] | None = (program, executions, kind)
        self.unequal_loops = frozenset[str]() if kind.is_uniform else _loops_by_place(program, executions)
        """loops whose passes are not the same in all of them"""

    @cached_property
    def graph(self) -> Idg:
        """Return the graph of the example."""
        return warp_graph(self._executed)

    @cached_property
    def accesses(self) -> int | Fraction:
        """Return how often one of them loads from arrays or stores to them."""
        return sum((each.executions for each in self.graph.instructions if each.origin is not None), 0)

    @property
    def _origin(self) -> tuple[LaunchProgram, LaunchExecutions, Kind]:
        if self._made_of is None:
            raise GraphError("a graph that was pickled has forgotten its kernel: build it anew to ask for accesses")
        return self._made_of

    @cached_property
    def _executed(self) -> Executed:
        return Executed(*self._origin)

    @cached_property
    def _sets(self) -> WorkingSets:
        program, executions, _ = self._origin
        return WorkingSets(program, executions)

    def working_sets(self) -> WorkingSets:
        """Return what the launch touches of global arrays, in parts."""
        return self._sets

    def access(self, number: int, graph: Idg | None = None) -> AccessPattern:
        """Return what the load or store *number* of the graph asks of memory, as the example executes it.

        With *graph*, what lowering made of the kind's own one, it is an instruction of that. Lanes whose addresses are
        data are taken to be far apart: see the pattern's ``assumed``. Raises :class:`GraphError` for what accesses no
        array, and :class:`UncountableError` for a copy whose passes cannot be told from those of other copies.
        """
        origin = checked_access(self.graph if graph is None else graph, number)
        if graph is None or graph is self.graph:
            return source_pattern(self._executed, origin)
        return copied_pattern(self._executed, self.graph, graph, number)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the graph, and not what it is made of."""
        kept = {name: value for name, value in self.__dict__.items() if name not in ("_executed", "_sets")}
        return {**kept, "graph": self.graph, "_made_of": None}


@dataclass(frozen=True)
class LaunchGraphs:
    """The graphs of one launch."""

    name: str
    """of the device program"""
    kinds: tuple[WarpKind, ...]
    """the one of most warps first"""
    grid: Mapping[int, int]
    """work-groups along each axis"""
    local_memory: int | None
    """bytes of a work-group; None where they depend on a parameter"""
    dispatch: Dispatch
    """the groups in the order in which the hardware starts them"""
    assumed: tuple[Assumed, ...] = ()
    """which hardware axes were added"""

    @property
    def groups(self) -> int:
        """Return the work-groups of one execution."""
        return prod(self.grid.values())

    @property
    def work_items(self) -> int:
        """Return the work-items of a group."""
        return prod(self.representative.example.shape.values())

    @property
    def warps_per_group(self) -> int:
        """Return the warps of a group."""
        example = self.representative.example
        return warps_of_group(example.shape, example.size)

    @property
    def times(self) -> int:
        """Return how often it is executed, in loops on the host."""
        warps = sum(kind.warps for kind in self.kinds)
        return warps // (self.groups * self.warps_per_group) if warps else 0

    @property
    def representative(self) -> WarpKind:
        """Return the kind of most warps, which is that of the interior."""
        return self.kinds[0]

    @property
    def shares(self) -> Mapping[int, float]:
        """Return kind of warps -> its share of all warps."""
        every = sum(kind.warps for kind in self.kinds)
        return {number: kind.warps / every for number, kind in enumerate(self.kinds)}

    @property
    def middle(self) -> Mapping[int, int]:
        """Return the kinds of the warps of a group that accesses most, of the most frequent class of such groups."""
        kind = self.kinds.index(self.accessing)
        groups = {group: 0.0 for group, warps in enumerate(self.dispatch.classes) if kind in dict(warps)}
        for times, order in self.dispatch.executions:
            for run in order:
                if run.group in groups:
                    groups[run.group] += times * run.number
        return dict(self.dispatch.classes[max(groups, key=lambda group: groups[group])])

    @cached_property
    def accessing(self) -> WarpKind:
        """Return the kind of most warps of those that access much: if groups differ, most warps may be idle."""
        if self.dispatch.is_uniform:
            return self.representative
        accesses = [kind.warps * kind.accesses for kind in self.kinds]
        return next(kind for kind, number in zip(self.kinds, accesses, strict=True) if 2 * number >= max(accesses))


@dataclass(frozen=True, repr=False)
class KernelIdg(Idg):
    """The graph of the representative warp of a kernel's longest launch, with those of all others."""

    kernel: str = ""
    """its name"""
    launch: str = ""
    """the name of the launch whose representative warp this is"""
    launches: tuple[LaunchGraphs, ...] = ()
    """in the order of the program"""
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """of the kernel"""

    def _summary(self) -> str:
        return f"{self.launch} {super()._summary()}"

    def _further_tables(self) -> tuple[Table, ...]:
        rows = [
            (
                launch.name,
                " × ".join(map(str, launch.grid.values())),
                f"{kind.warps:,}",
                amount(kind.graph.executed),
            )
            for launch in self.launches
            for kind in launch.kinds
        ]
        headings = ("launch", "groups", "warps of a kind", "instructions of each")
        return (Table(headings, rows),)


def kernel_graphs(kernel: Kernel, sizes: Mapping[str, int], typical: Typical, warp_size: int = 32) -> KernelIdg:
    """Return the source graphs of *kernel* at *sizes*, in warps of *warp_size* lanes.

    Raises :class:`UncountableError` for what depends on data of which nothing is stated, and :class:`ParameterError`
    for more passes of loops than can be numbered.
    """
    with numbered(sizes):
        return _graphs(kernel, sizes, typical, warp_size)


def _graphs(kernel: Kernel, sizes: Mapping[str, int], typical: Typical, warp_size: int) -> KernelIdg:
    launches: list[LaunchGraphs] = []
    for launch in kernel.launches:
        program = LaunchProgram(kernel, launch, typical)
        executions = LaunchExecutions(program.counter, launch, sizes, warp_size)
        for draft in program.drafts:  # what is stated is asked for, whether the representative warp executes it or not
            executions.weight(draft.statement, draft.conditions)
            stated_stride(program, draft)
        kinds = kinds_of_warps(program, executions)
        grid = {axis: grid_extent(launch, axis, sizes) for axis in sorted(launch.group_axes)}
        dispatch = dispatched(kinds, _groups(executions, tuple(grid.values())))
        of_warps = tuple(WarpKind(kind, executions, program) for kind in kinds)
        assumed = (*kernel.assumed, *launch.assumptions)
        launches.append(LaunchGraphs(launch.name, of_warps, grid, launch.local_memory, dispatch, assumed))
    longest = max(launches, key=_executed)
    graph = longest.representative.graph if longest.kinds else Idg((), (), ())
    return KernelIdg(
        graph.instructions, graph.edges, graph.body, graph.idle, kernel.name, longest.name, tuple(launches), dict(sizes)
    )


def _groups(executions: LaunchExecutions, extents: tuple[int, ...]) -> Grid:
    """Return where the groups of a launch are."""
    placement = executions.placement
    hosts = hosts_of(Points(executions.warps), len(placement.host))
    return Grid(hosts, extents, warps_of_group(placement.shape, placement.size))


def _loops_by_place(program: LaunchProgram, executions: LaunchExecutions) -> frozenset[str]:
    """Return the loops whose passes depend on where a warp is."""
    return frozenset(
        draft.statement.loops[place].iname
        for draft in program.drafts
        for place in loops_by_place(executions.by_place(draft.statement, draft.conditions), executions.placement.axes)
    )


def _executed(launch: LaunchGraphs) -> int | Fraction:
    """Return how many instructions the warps of the most frequent kind execute."""
    return launch.representative.warps * launch.representative.graph.executed if launch.kinds else 0
