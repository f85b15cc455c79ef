"""What a kernel does at given sizes: its launches, their classes of warps, what each executes and asks of memory.

A :class:`KernelProfile` is plain: two of the same kernel are equal, and one that was pickled is the same again. It
knows nothing of devices but how many lanes a warp has.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

from loopyperf.errors import UncountableError
from loopyperf.idg.graph import Idg, checked_access
from loopyperf.idg.warps.dispatch import Dispatch
from loopyperf.idg.warps.warp import Warp
from loopyperf.kernel.launches import Assumed
from loopyperf.memory.footprints import Footprints
from loopyperf.memory.profile import AccessProfile
from loopyperf.sheet import Sheet, Shown, Table, called
from loopyperf.units import amount, number_of


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """What a load or store of a class of warps asks of memory, as the example of the class executes it."""

    bits: int
    """that it moves for a lane"""
    profile: AccessProfile
    """what its executions do, by kind; empty where that is refused"""
    assumed: tuple[Assumed, ...] = ()
    """what was assumed of its addresses"""
    refusal: str = ""
    """why that is not known"""

    @property
    def known(self) -> AccessProfile:
        """Return the profile; raises :class:`UncountableError` where it is refused."""
        if self.refusal:
            raise UncountableError(self.refusal)
        return self.profile


@dataclass(frozen=True)
class WarpClass:
    """Warps that execute alike."""

    warps: int
    """how many there are in all executions of the launch"""
    is_uniform: bool
    """otherwise they differ in how often they execute some instructions: the graph has the mean"""
    example: Warp
    """one of them"""
    host: Mapping[str, int]
    """the values of the host's loops around the launch of the example"""
    graph: Idg
    """of the example"""
    accesses: Mapping[int, MemoryAccess]
    """of the graph's loads and stores of arrays, by their :attr:`~loopyperf.idg.program.Instruction.origin`"""
    unequal_loops: frozenset[str]
    """loops whose passes are not the same in all of them"""
    executed_accesses: int | Fraction
    """how often one of them loads from arrays or stores to them, by the source"""

    def access(self, number: int) -> AccessProfile:
        """Return what the load or store *number* of the graph asks of memory, as the example executes it.

        Raises :class:`GraphError` for an instruction that accesses no array, :class:`UncountableError` where that is
        refused.
        """
        return self.accesses[checked_access(self.graph, number)].known


@dataclass(frozen=True)
class LaunchProfile:
    """What one launch does."""

    name: str
    """of the device program"""
    classes: tuple[WarpClass, ...]
    """of warps, the one with most of them first; empty where nothing is executed"""
    grid: Mapping[int, int]
    """work-groups along each axis"""
    local_memory: int | None
    """bytes of a work-group; None where they depend on a parameter"""
    dispatch: Dispatch
    """the groups in the order in which the hardware starts them"""
    footprints: Footprints
    """what is touched of global arrays"""
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
        return -(-self.work_items // self.representative.example.size)

    @property
    def times(self) -> int:
        """Return how often it is executed, in loops on the host."""
        warps = sum(each.warps for each in self.classes)
        return warps // (self.groups * self.warps_per_group) if warps else 0

    @property
    def representative(self) -> WarpClass:
        """Return the class with most warps, which is that of the interior."""
        return self.classes[0]

    @property
    def shares(self) -> Mapping[int, float]:
        """Return number of a class of warps -> its share of all warps."""
        every = sum(each.warps for each in self.classes)
        return {number: each.warps / every for number, each in enumerate(self.classes)}

    @property
    def middle(self) -> Mapping[int, int]:
        """Return the classes of the warps of a group that accesses most, of the most frequent sort of such groups."""
        number = next(number for number, each in enumerate(self.classes) if each is self.accessing)
        groups = {group: 0.0 for group, warps in enumerate(self.dispatch.classes) if number in dict(warps)}
        for times, order in self.dispatch.executions:
            for run in order:
                if run.group in groups:
                    groups[run.group] += times * run.number
        return dict(self.dispatch.classes[max(groups, key=lambda group: groups[group])])

    @cached_property
    def accessing(self) -> WarpClass:
        """Return the class with most warps of those that access much: if groups differ, most warps may be idle."""
        if self.dispatch.is_uniform:
            return self.representative
        accesses = [each.warps * each.executed_accesses for each in self.classes]
        return next(each for each, number in zip(self.classes, accesses, strict=True) if 2 * number >= max(accesses))


@dataclass(frozen=True, repr=False)
class KernelProfile(Shown):
    """What a kernel does at given sizes."""

    kernel: str
    """its name"""
    sizes: Mapping[str, int]
    """of the kernel, those that are given"""
    warp_size: int
    """lanes of a warp"""
    launches: tuple[LaunchProfile, ...]
    """in the order of the program"""

    @property
    def longest(self) -> LaunchProfile:
        """Return the launch of which the warps of the most frequent class execute most instructions."""
        return max(self.launches, key=_executed)

    @property
    def graph(self) -> "KernelIdg":
        """Return the graph of the representative warp of the longest launch."""
        launch = self.longest
        graph = launch.representative.graph if launch.classes else Idg((), (), ())
        return KernelIdg(graph.instructions, graph.edges, graph.body, graph.idle, launch.name, self)

    @property
    def table(self) -> Table:
        """Return the classes of warps of each launch, with how many there are and what each executes."""
        rows = [
            (
                launch.name,
                " × ".join(map(str, launch.grid.values())),
                f"{each.warps:,}",
                amount(each.graph.executed),
                amount(each.executed_accesses),
            )
            for launch in self.launches
            for each in launch.classes
        ]
        return Table(("launch", "groups", "warps of a class", "instructions of each", "loads and stores"), rows)

    def sheet(self) -> Sheet:
        """Return the launches with their classes of warps."""
        launches = number_of(len(self.launches), "launch")
        return Sheet(
            asked=called(self.kernel, self.sizes),
            answer=f"{launches}, in warps of {self.warp_size} lanes",
            tables=[self.table],
        )


@dataclass(frozen=True, repr=False)
class KernelIdg(Idg):
    """The graph of the representative warp of a kernel's longest launch, with what all others do."""

    launch: str = ""
    """the name of the launch whose representative warp this is"""
    profile: KernelProfile = KernelProfile("", {}, 32, ())
    """of the kernel that it is of"""

    @property
    def launches(self) -> tuple[LaunchProfile, ...]:
        """Return all launches of the kernel, with the graphs of all classes of their warps."""
        return self.profile.launches

    def _summary(self) -> str:
        return f"{self.launch} {super()._summary()}"

    def _further_tables(self) -> tuple[Table, ...]:
        return (self.profile.table,)


def _executed(launch: LaunchProfile) -> int | Fraction:
    """Return how many instructions the warps of the most frequent class execute."""
    return launch.representative.warps * launch.representative.graph.executed if launch.classes else 0
