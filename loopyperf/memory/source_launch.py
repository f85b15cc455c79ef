"""From a kernel to what it does at given sizes: a graph for each launch and for each class of its warps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import chain
from math import prod

from loopyperf.counts.item import MemorySpace
from loopyperf.counts.memory import ask_length, scaled_by_data
from loopyperf.counts.sizes import numbered
from loopyperf.counts.stride_classes import STRIDE_CLASSES
from loopyperf.counts.typical import Typical
from loopyperf.errors import UncountableError
from loopyperf.idg.construction.drafts import Draft
from loopyperf.idg.construction.executed import Executed, LaunchProgram, kinds_of_warps
from loopyperf.idg.construction.warp_graph import warp_graph
from loopyperf.idg.graph import Idg
from loopyperf.idg.warps.dispatch import Grid, dispatched, hosts_of
from loopyperf.idg.warps.executions import LaunchExecutions
from loopyperf.idg.warps.kinds import Kind, loops_by_place
from loopyperf.idg.warps.warp import grid_extent, warps_of_group, warps_until_alike
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import SUBJECTS, Assumption
from loopyperf.memory import AccessPattern, access_pattern
from loopyperf.memory.array_accesses import footprints_of
from loopyperf.memory.footprints import Footprints, StatementLoop
from loopyperf.memory.index_values import lane_axes_of_data
from loopyperf.memory.kernel_profile import (
    AccessProfile,
    KernelProfile,
    LaunchProfile,
    MemoryAccess,
    WarpAccess,
    WarpClass,
)
from loopyperf.memory.sectors import MERGED
from loopyperf.polyhedral.points import Points, fixed, points_listed

# {{{ what loads and stores of a graph ask of memory, as the example of a kind of warps executes them


def source_pattern(executed: Executed, origin: int) -> AccessPattern:
    """Return how the warp executes the access at place *origin* of the program, in all its passes."""
    draft = executed.draft(origin)
    assert draft.reference is not None
    passes = executed.warp.lanes(executed.program.site(draft))
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


# }}}


# {{{ source launch


def kernel_profile(kernel: Kernel, sizes: Mapping[str, int], typical: Typical, warp_size: int = 32) -> KernelProfile:
    """Return what *kernel* does at *sizes*, in warps of *warp_size* lanes.

    Raises :class:`UncountableError` for what depends on data of which nothing is stated, and :class:`ParameterError`
    for more passes of loops than can be numbered.
    """
    return KernelStructure(kernel, typical).profile(sizes, warp_size)


class KernelStructure:
    """What a kernel does, as far as its sizes do not say: all of its profiles are made from this."""

    def __init__(self, kernel: Kernel, typical: Typical) -> None:
        """Take *kernel*; its launches are looked at when a profile is first asked for."""
        self.kernel, self.typical = kernel, typical
        self._launches: list[LaunchProgram] = []

    def profile(self, sizes: Mapping[str, int], warp_size: int = 32) -> KernelProfile:
        """Return what the kernel does at *sizes*; see :func:`kernel_profile`."""
        with numbered(sizes):
            launches = tuple(
                SourceLaunch(self._program(place), sizes, warp_size).profile()
                for place in range(len(self.kernel.launches))
            )
        return KernelProfile(self.kernel.name, dict(sizes), warp_size, launches, self.kernel.is_opencl)

    def _program(self, place: int) -> LaunchProgram:
        if place == len(self._launches):
            program = LaunchProgram(self.kernel, self.kernel.launches[place], self.typical)
            # What is stated is asked for, whether the example executes it or not.
            program.ask_weights()
            for draft in program.drafts:
                stated_stride(program, draft)
            self._launches.append(program)
        return self._launches[place]


MANY_DEPENDENCES = (
    f"dependences through {SUBJECTS} are too many to find exactly: each read waits for the last execution of every "
    "earlier write, whichever element it is of"
)


class SourceLaunch:
    """A launch of a kernel at given sizes: what its profile is made of."""

    def __init__(self, program: LaunchProgram, sizes: Mapping[str, int], warp_size: int) -> None:
        """Look at the launch of *program*; see :func:`kernel_profile`."""
        self.program, self.kernel, self.launch, self.sizes = program, program.kernel, program.launch, sizes
        self.executions = LaunchExecutions(program.counter, program.launch, sizes, warp_size)
        self.kinds = kinds_of_warps(program, self.executions)
        self._not_exact: dict[str, None] = {}

    def profile(self) -> LaunchProfile:
        """Return what the launch does, as a plain value."""
        classes = tuple(self._classes())
        many = [Assumption(MANY_DEPENDENCES, name, name) for name in self._not_exact]
        grid = {axis: grid_extent(self.launch, axis, self.sizes) for axis in sorted(self.launch.group_axes)}
        return LaunchProfile(
            name=self.launch.name,
            classes=classes,
            grid=grid,
            local_memory=self.launch.local_memory,
            dispatch=dispatched(self.kinds, self._groups(tuple(grid.values()))),
            footprints=self._footprints(),
            assumed=(*self.kernel.assumed, *self.launch.assumptions, *many),
        )

    def _classes(self) -> Iterator[WarpClass]:
        graphs: list[Idg] = []
        for kind in self.kinds:
            executed = Executed(self.program, self.executions, kind)
            graph = warp_graph(executed)
            self._not_exact |= executed.not_exact
            # Equal graphs are one object, so that a compiler looks at it once.
            same = next((each for each in graphs if each == graph), graph)
            graphs += [graph] if same is graph else []
            yield self._warp_class(kind, executed, same)

    def _warp_class(self, kind: Kind, executed: Executed, graph: Idg) -> WarpClass:
        example, host = self.executions.placement.warp(kind.example)
        accessing = [(each, each.origin) for each in graph.instructions if each.origin is not None]
        others = [Executed(self.program, self.executions, each) for each in self._laid_out_otherwise(kind)]
        return WarpClass(
            warps=kind.warps,
            is_uniform=kind.is_uniform,
            example=example,
            host=host,
            graph=graph,
            accesses={origin: _memory_access([executed, *others], origin, each.bits) for each, origin in accessing},
            unequal_loops=frozenset() if kind.is_uniform else self._loops_by_place,
            executed_accesses=sum((each.executions for each, _ in accessing), 0),
        )

    def _laid_out_otherwise(self, kind: Kind) -> Iterator[Kind]:
        """Yield *kind* with other examples of the same group, whose lanes lie in other places of the group's rows.

        They are full warps: one that a group does not fill takes as long as one that it does (docs/pipeline.md).
        """
        placement, (*group, number) = self.executions.placement, kind.example
        period = warps_until_alike(placement.shape, placement.size)
        if period > 1:
            here = points_listed(fixed(kind.places, dict(enumerate(group))))
            full = prod(placement.shape.values()) // placement.size
            numbers = sorted((n for n in (int(place[-1]) for place in here) if n < full), key=lambda n: abs(n - number))
            first = {each % period: each for each in reversed(numbers)}
            examples = ((*group, each) for each in first.values() if each != number)
            yield from (replace(kind, example=each) for each in examples if kind.is_of(each))

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


def _memory_access(examples: Sequence[Executed], origin: int, bits: int) -> MemoryAccess:
    """Return what the access at place *origin* of the program asks for, on average over *examples* of a kind."""
    try:
        patterns = [source_pattern(each, origin) for each in examples]
        (pattern, *_), wider = patterns, dict[int, AccessProfile]()
        if pattern.reference.space == MemorySpace.LOCAL and pattern.reference.direction == "load":
            widths = [width for width in MERGED if width > pattern.width]
            wider = {
                8 * width: mean_profile([replace(each, width=width).profile for each in patterns]) for width in widths
            }
        return MemoryAccess(bits, mean_profile([each.profile for each in patterns]), wider, pattern.assumptions)
    except UncountableError as error:  # which matters to those who ask for it
        return MemoryAccess(bits, AccessProfile({}), {}, refusal=str(error))


def mean_profile(profiles: Sequence[AccessProfile]) -> AccessProfile:
    """Return the mean of *profiles*, of as many warps."""
    if all(each == profiles[0] for each in profiles):
        return profiles[0]
    found: dict[WarpAccess, int | Fraction] = {}
    for access, number in (pair for each in profiles for pair in each.executions.items()):
        found[access] = found.get(access, 0) + number
    return AccessProfile({access: Fraction(number, len(profiles)) for access, number in found.items()})


# }}}
