"""From a kernel to what it does at given sizes: a graph for each launch and for each class of its warps."""

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from itertools import chain

from loopyperf.counts.execution import Site
from loopyperf.counts.item import MemorySpace
from loopyperf.counts.memory import ask_length, scaled_by_data
from loopyperf.counts.sizes import numbered
from loopyperf.counts.stride_classes import STRIDE_CLASSES
from loopyperf.counts.typical import Typical
from loopyperf.errors import UncountableError
from loopyperf.idg.construction.drafts import Draft
from loopyperf.idg.construction.executed import Executed, LaunchProgram, kinds_of_warps
from loopyperf.idg.construction.warp_graph import warp_graph
from loopyperf.idg.graph import Idg, checked_access
from loopyperf.idg.warps.dispatch import Grid, dispatched, hosts_of
from loopyperf.idg.warps.executions import LaunchExecutions
from loopyperf.idg.warps.kinds import loops_by_place
from loopyperf.idg.warps.warp import grid_extent, warps_of_group
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Launch
from loopyperf.memory import AccessPattern, access_pattern, pattern_of_copy
from loopyperf.memory.array_accesses import footprints_of
from loopyperf.memory.footprints import Footprints, StatementLoop
from loopyperf.memory.index_values import lane_axes_of_data
from loopyperf.memory.kernel_profile import AccessProfile, KernelProfile, LaunchProfile, MemoryAccess, WarpClass
from loopyperf.polyhedral.points import Points

# {{{ what loads and stores of a graph ask of memory, as the example of a kind of warps executes them


def source_pattern(executed: Executed, origin: int) -> AccessPattern:
    """Return how the warp executes the access at place *origin* of the program, in all its passes."""
    draft = executed.draft(origin)
    assert draft.reference is not None
    site = Site(executed.program.launch, draft.statement.inames, draft.conditions, draft.statement.name)
    warp = executed.warp
    passes = warp.of_launch.passes(site, warp.warp, warp.host)
    return access_pattern(draft.reference, passes, stated_stride(executed.program, draft))


def stated_stride(program: LaunchProgram, draft: Draft) -> str | None:
    """Return the stride class that is stated of the access that *draft* is, if data tells its lanes apart."""
    ref, kernel = draft.reference, program.kernel
    if ref is None or ref.space != MemorySpace.GLOBAL:
        return None
    ask_length(kernel, program.typical, ref)
    if not lane_axes_of_data(kernel, ref.index, program.counter.loops(draft.statement.inames).starts):
        return None
    factors = chain(*scaled_by_data(kernel, ref.index).values())
    return program.typical.stride(ref.array, STRIDE_CLASSES, factors)


def copied_pattern(executed: Executed, source: Idg, graph: Idg, number: int) -> AccessPattern:
    """Return how the warp executes instruction *number* of *graph*, which lowering made of *source*.

    It may be one of the copies of an unrolled loop, and move more than one element for a lane. Raises
    :class:`UncountableError` where its passes cannot be told from those of the other copies.
    """
    instruction = graph.instructions[number]
    assert instruction.origin is not None
    pattern = source_pattern(executed, instruction.origin)
    before = source.instructions[executed.numbers[instruction.origin]]
    if (before.dtype, before.executions) == (instruction.dtype, instruction.executions):
        return pattern
    trips = {loop.name: loop.trips for loop in graph.loops_around[number]}
    numbers = {name: each for name, each in trips.items() if isinstance(each, int)}
    if instruction.address is None or instruction.condition is not None or len(numbers) < len(trips):
        raise UncountableError(
            f"instruction {number}, {instruction.text}, is one of several copies of an access, of which addresses or "
            "passes are no functions of the loops around: ask for the instruction of the source graph, which is all of "
            "them"
        )
    return pattern_of_copy(pattern, instruction.address.expression, numbers, instruction.bits)


# }}}


# {{{ source launch


def kernel_profile(kernel: Kernel, sizes: Mapping[str, int], typical: Typical, warp_size: int = 32) -> KernelProfile:
    """Return what *kernel* does at *sizes*, in warps of *warp_size* lanes.

    Raises :class:`UncountableError` for what depends on data of which nothing is stated, and :class:`ParameterError`
    for more passes of loops than can be numbered.
    """
    with numbered(sizes):
        launches = tuple(each.profile() for each in source_launches(kernel, sizes, typical, warp_size))
    return KernelProfile(kernel.name, dict(sizes), warp_size, launches)


def source_launches(
    kernel: Kernel, sizes: Mapping[str, int], typical: Typical, warp_size: int = 32
) -> "Iterator[SourceLaunch]":
    """Yield the launches of *kernel* at *sizes*; see :func:`kernel_profile`."""
    for launch in kernel.launches:
        yield SourceLaunch(kernel, launch, sizes, typical, warp_size)


class SourceLaunch:
    """A launch of a kernel at given sizes: what its profile is made of."""

    def __init__(
        self, kernel: Kernel, launch: Launch, sizes: Mapping[str, int], typical: Typical, warp_size: int
    ) -> None:
        """Look at *launch* of *kernel*; see :func:`kernel_profile`."""
        self.kernel, self.launch, self.sizes = kernel, launch, sizes
        self.program = LaunchProgram(kernel, launch, typical)
        self.executions = LaunchExecutions(self.program.counter, launch, sizes, warp_size)
        # What is stated is asked for, whether the example executes it or not.
        self.executions.ask_weights([(draft.statement, draft.conditions) for draft in self.program.drafts])
        for draft in self.program.drafts:
            stated_stride(self.program, draft)
        self.kinds = kinds_of_warps(self.program, self.executions)
        self.executed = cache(self._executed)
        """what the example executes of the class of warps of that number"""
        self.graph = cache(self._graph)
        """the graph of the class of warps of that number"""

    def _executed(self, number: int = 0) -> Executed:
        return Executed(self.program, self.executions, self.kinds[number])

    def _graph(self, number: int = 0) -> Idg:
        return warp_graph(self.executed(number))

    def access(self, place: int, number: int = 0, graph: Idg | None = None) -> AccessPattern:
        """Return what the load or store at *place* of the graph of a class asks of memory, as the example executes it.

        *number* is that of the class. With *graph*, what lowering made of the class's own one, it is an instruction of
        that. Lanes whose addresses are data are taken to be far apart: see the pattern's ``assumed``. Raises
        :class:`GraphError` for what accesses no array, and :class:`UncountableError` for a copy whose passes cannot be
        told from those of other copies.
        """
        source = self.graph(number)
        origin = checked_access(source if graph is None else graph, place)
        if graph is None or graph is source:
            return source_pattern(self.executed(number), origin)
        return copied_pattern(self.executed(number), source, graph, place)

    def profile(self) -> LaunchProfile:
        """Return what the launch does, as a plain value."""
        grid = {axis: grid_extent(self.launch, axis, self.sizes) for axis in sorted(self.launch.group_axes)}
        return LaunchProfile(
            name=self.launch.name,
            classes=tuple(map(self._warp_class, range(len(self.kinds)))),
            grid=grid,
            local_memory=self.launch.local_memory,
            dispatch=dispatched(self.kinds, self._groups(tuple(grid.values()))),
            footprints=self._footprints(),
            assumed=(*self.kernel.assumed, *self.launch.assumptions),
        )

    def _warp_class(self, number: int) -> WarpClass:
        kind, graph = self.kinds[number], self.graph(number)
        example, host = self.executions.placement.warp(kind.example)
        accessing = [each for each in graph.instructions if each.origin is not None]
        return WarpClass(
            warps=kind.warps,
            is_uniform=kind.is_uniform,
            example=example,
            host=host,
            graph=graph,
            accesses={
                each.origin: self._memory_access(number, each.origin, each.bits)
                for each in accessing
                if each.origin is not None
            },
            unequal_loops=frozenset() if kind.is_uniform else self._loops_by_place,
            executed_accesses=sum((each.executions for each in accessing), 0),
        )

    def _memory_access(self, number: int, origin: int, bits: int) -> MemoryAccess:
        try:
            pattern = source_pattern(self.executed(number), origin)
            return MemoryAccess(bits, pattern.profile, pattern.assumptions)
        except UncountableError as error:  # which matters to those who ask for it
            return MemoryAccess(bits, AccessProfile({}), refusal=str(error))

    def _footprints(self) -> Footprints:
        try:
            return footprints_of(self.program, self.sizes)
        except UncountableError as error:
            return Footprints((), StatementLoop("", ()), (), (), refusal=str(error))

    @cached_property
    def _loops_by_place(self) -> frozenset[str]:
        """Return the loops whose passes depend on where a warp is."""
        executions = self.executions
        return frozenset(
            draft.statement.loops[place].iname
            for draft in self.program.drafts
            for place in loops_by_place(
                executions.by_place(draft.statement, draft.conditions), executions.placement.axes
            )
        )

    def _groups(self, extents: tuple[int, ...]) -> Grid:
        """Return where the groups of the launch are."""
        placement = self.executions.placement
        hosts = hosts_of(Points(self.executions.warps), len(placement.host))
        return Grid(hosts, extents, warps_of_group(placement.shape, placement.size))


# }}}
