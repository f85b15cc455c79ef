"""Profile of a kernel at given sizes: a graph for each launch and each class of its warps, and touched memory."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from math import prod

from loopyperf.counts.item import MemorySpace
from loopyperf.counts.sizes import Typical, check_64_bit
from loopyperf.errors import UncountableError
from loopyperf.idg.dispatch import Grid, dispatched, hosts_of
from loopyperf.idg.executions import LaunchExecutions
from loopyperf.idg.graph import Idg
from loopyperf.idg.launch_program import ExecutedLaunch, LaunchProgram, classes_of_warps
from loopyperf.idg.program import Predicates
from loopyperf.idg.warp_classes import WarpKind, grid_extent, loops_by_place, warp_period, warps_of_group
from loopyperf.idg.warp_graph import warp_graph
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import SUBJECTS, Assumption
from loopyperf.memory import AccessPattern, access_pattern
from loopyperf.memory.footprints import Footprints, StatementLoop
from loopyperf.memory.kernel_profile import (
    AccessProfile,
    KernelProfile,
    LaunchProfile,
    MemoryAccess,
    WarpAccess,
    WarpClass,
)
from loopyperf.memory.launch_footprints import footprints_of, given_pattern
from loopyperf.memory.sectors import MERGED
from loopyperf.polyhedral.points import Points, fixed, points_listed

# {{{ memory accesses of loads and stores in a graph, as the representative warp of a class executes them


def source_pattern(executed: ExecutedLaunch, origin: int) -> AccessPattern:
    """Return how the warp executes the access at place *origin* of the program, in all its iterations."""
    draft = executed.draft(origin)
    assert draft.reference is not None
    iterations = executed.warp.lanes(executed.program.site(draft))
    return access_pattern(draft.reference, iterations, given_pattern(executed.program, draft))


# }}}


# {{{ profile of a launch


class KernelStructure:
    """The size-independent part of a kernel's profiles."""

    def __init__(self, kernel: Kernel, typical: Typical) -> None:
        """Store *kernel*; its launches are analyzed at the first profile."""
        self.kernel, self.typical = kernel, typical
        self._launches: list[LaunchProgram] = []

    def profile(self, sizes: Mapping[str, int], warp_size: int = 32) -> KernelProfile:
        """Return the profile of the kernel at *sizes*, in warps of *warp_size* lanes.

        Raises :class:`UncountableError` for a dependence on data without a typical value, and :class:`ParameterError`
        if iterations overflow 64 bits.
        """
        with check_64_bit(sizes):
            launches = tuple(
                SourceLaunch(self._program(place), sizes, warp_size).profile()
                for place in range(len(self.kernel.launches))
            )
        return KernelProfile(self.kernel.name, dict(sizes), warp_size, launches, self.kernel.is_opencl)

    def _program(self, place: int) -> LaunchProgram:
        if place == len(self._launches):
            program = LaunchProgram(self.kernel, self.kernel.launches[place], self.typical)
            # Look up typical values for all accesses, also for those that the representative warp does not execute.
            program.check_weights()
            for draft in program.drafts:
                given_pattern(program, draft)
            self._launches.append(program)
        return self._launches[place]


MANY_DEPENDENCES = (
    f"dependences through {SUBJECTS} are too many to find exactly; each read waits for the last execution of every "
    "earlier write, to any element"
)


class SourceLaunch:
    """A launch of a kernel at given sizes, from which its profile is built."""

    def __init__(self, program: LaunchProgram, sizes: Mapping[str, int], warp_size: int) -> None:
        """Analyze the launch of *program* at *sizes*, in warps of *warp_size* lanes."""
        self.program, self.kernel, self.launch, self.sizes = program, program.kernel, program.launch, sizes
        self.executions = LaunchExecutions(program.counter, program.launch, sizes, warp_size)
        self.kinds = classes_of_warps(program, self.executions)
        self._not_exact: dict[str, None] = {}

    def profile(self) -> LaunchProfile:
        """Return the profile of the launch, as plain data."""
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
            assumed=(*self.kernel.assumed, *self.kernel.index_overflow(self.sizes), *self.launch.assumptions, *many),
        )

    def _classes(self) -> Iterator[WarpClass]:
        graphs: list[Idg] = []
        for kind in self.kinds:
            executed = ExecutedLaunch(self.program, self.executions, kind)
            graph = warp_graph(executed)
            self._not_exact |= executed.not_exact
            # Equal graphs are one object, so that a compiler analyzes it once.
            same = next((each for each in graphs if each == graph), graph)
            graphs += [graph] if same is graph else []
            yield self._warp_class(kind, executed, same)

    def _warp_class(self, kind: WarpKind, executed: ExecutedLaunch, graph: Idg) -> WarpClass:
        example, host = self.executions.placement.warp(kind.example)
        accessing = [(each, each.origin) for each in graph.instructions if each.origin is not None]
        others = [ExecutedLaunch(self.program, self.executions, each) for each in self._other_representatives(kind)]
        return WarpClass(
            warps=kind.warps,
            is_uniform=kind.is_uniform,
            example=example,
            host=host,
            graph=graph,
            accesses={origin: _memory_access([executed, *others], origin, each.bits) for each, origin in accessing},
            unequal_loops=frozenset() if kind.is_uniform else self._loops_by_place,
            executed_accesses=sum((each.executions for each, _ in accessing), 0),
            active=dict(_partly_active(executed, graph)),
        )

    def _other_representatives(self, kind: WarpKind) -> Iterator[WarpKind]:
        """Yield *kind* with other representatives in the same group, whose lanes are elsewhere in the group's rows.

        They are full warps: a partial warp takes as long as a full one (docs/pipeline.md).
        """
        placement, (*group, number) = self.executions.placement, kind.example
        period = warp_period(placement.shape, placement.size)
        if period > 1:
            here = points_listed(fixed(kind.places, dict(enumerate(group))))
            full = prod(placement.shape.values()) // placement.size
            numbers = sorted((n for n in (int(place[-1]) for place in here) if n < full), key=lambda n: abs(n - number))
            first = {each % period: each for each in reversed(numbers)}
            examples = ((*group, each) for each in first.values() if each != number)
            yield from (replace(kind, example=example) for example in examples if kind.is_of(example))

    def _footprints(self) -> Footprints:
        try:
            return footprints_of(self.program, self.sizes)
        except UncountableError as error:
            return Footprints((), StatementLoop("", ()), (), (), refusal=str(error))

    @cached_property
    def _loops_by_place(self) -> frozenset[str]:
        """Return the loops whose iteration count depends on the position of the warp."""
        executions = self.executions
        return frozenset(
            draft.statement.loops[place].iname
            for draft in self.program.drafts
            for place in loops_by_place(
                executions.by_place(draft.statement, draft.step.conditions), executions.placement.axes
            )
        )

    def _groups(self, extents: tuple[int, ...]) -> Grid:
        """Return the grid of the launch with its groups."""
        placement = self.executions.placement
        hosts = hosts_of(Points(self.executions.warps), len(placement.host))
        return Grid(hosts, extents, warps_of_group(placement.shape, placement.size))


def _partly_active(executed: ExecutedLaunch, graph: Idg) -> Iterator[tuple[tuple[str, Predicates], Fraction]]:
    """Yield (source, predicates) and the mean share of active lanes of instructions that not all lanes execute."""
    for place, instruction in zip(executed.numbers, graph.instructions, strict=True):
        if instruction.predicates or instruction.tests:
            iterations = executed.warp.lanes(executed.program.site(executed.draft(place)))
            every = [(len(activity.lanes), activity.iterations.number) for activity in iterations.activities]
            if number := sum(times for _, times in every):
                share = Fraction(sum(lanes * times for lanes, times in every), number * iterations.warp.lanes)
                if share < 1:
                    yield (instruction.source, instruction.predicates), share


def _memory_access(examples: Sequence[ExecutedLaunch], origin: int, bits: int) -> MemoryAccess:
    """Return the memory access at place *origin* of the program, averaged over the *examples* of a class of warps."""
    try:
        patterns = [source_pattern(example, origin) for example in examples]
        (pattern, *_), wider = patterns, dict[int, AccessProfile]()
        if pattern.reference.space == MemorySpace.LOCAL and pattern.reference.direction == "load":
            widths = [width for width in MERGED if width > pattern.width]
            wider = {
                8 * width: mean_profile([replace(each, width=width).profile for each in patterns]) for width in widths
            }
        return MemoryAccess(bits, mean_profile([each.profile for each in patterns]), wider, pattern.assumptions)
    except UncountableError as error:  # raised again when the profile is requested
        return MemoryAccess(bits, AccessProfile({}), {}, refusal=str(error))


def mean_profile(profiles: Sequence[AccessProfile]) -> AccessProfile:
    """Return the mean of *profiles*, weighted equally."""
    if all(profile == profiles[0] for profile in profiles):
        return profiles[0]
    found: dict[WarpAccess, int | Fraction] = {}
    for access, number in (pair for profile in profiles for pair in profile.executions.items()):
        found[access] = found.get(access, 0) + number
    return AccessProfile({access: Fraction(number, len(profiles)) for access, number in found.items()})


# }}}
