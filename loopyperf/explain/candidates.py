"""Changes that may make a launch faster, found by what it wastes: each with its evidence, and the launch after it.

There is no candidate without evidence in the launch itself: accesses that take more sectors or wavefronts than their
elements fill, registers that spill, warp slots that stay empty, cores that are idle, barriers that warps wait at.
What a candidate gains is for a model to say: see :mod:`loopyperf.explain.findings`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from loopyperf.compiler.machine_program import MachineLaunch
from loopyperf.compiler.resources import Resources
from loopyperf.device.vocabulary import Vocabulary, vocabulary
from loopyperf.explain.review import LaunchReview
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Instruction
from loopyperf.memory.kernel_profile import LaunchProfile
from loopyperf.pipeline.timed_program import TimedLaunch
from loopyperf.units import Word

BUSY = 0.5
"""of its peak, from which on a pipeline may be what bounds"""
WAITED = 0.1
"""of all waiting, or of all instructions: what is less is not worth a change"""


class ChangeClass(Word):
    """What kind of change a finding is."""

    COALESCE = "coalesce"
    """neighboring work-items access neighboring elements"""
    TRANSPOSE = "transpose"
    """the same of some arrays, where other accesses are coalesced already: by a tile in local memory"""
    PAD = "pad"
    """a row of a tile in local memory is longer, against bank conflicts"""
    FEWER_VALUES = "fewer values"
    """a work-item computes fewer values at once, so that they fit into registers"""
    REGISTERS = "registers"
    """what lives in local (stack) memory lives in registers"""
    OCCUPANCY = "occupancy"
    """more groups reside on a core"""
    SMALLER_GROUPS = "smaller groups"
    """groups are smaller and more, so that cores have equal parts"""
    REDUCE_ONCE = "reduce once"
    """work-items add up what they have once, not in each iteration"""
    DOUBLE_BUFFER = "double buffer"
    """two tiles take turns, so that an iteration has one barrier"""
    WIDER_ROWS = "wider rows"
    """a warp is one row of its group, so that its lanes share what rows load"""
    REGISTER_TILE = "register tile"
    """a work-item computes several elements, which share what it loads from local memory"""
    LARGER_TILE = "larger tile"
    """a group loads larger tiles into local memory, each element of which serves more work-items"""
    VECTORS = "vectors"
    """a lane loads or stores several neighbors at once, e.g. a ``float4``"""
    UNROLL = "unroll"
    """the body of a loop is written out several times, which saves counting and tests"""
    CACHE_BLOCKS = "cache blocks"
    """groups that run together share what they load from device memory"""


@dataclass(frozen=True)
class ChangeCandidate:
    """A change that may make a launch faster."""

    kind: ChangeClass
    subject: tuple[str, ...]
    """the arrays, loops or sizes that it is about"""
    lines: tuple[str, ...]
    """the instructions of the source that it concerns, those that cost most first"""
    evidence: str
    """what is wasted, in a clause with its numbers"""
    after: "Callable[[], TimedLaunch | MachineChange]" = field(repr=False)
    """the launch after the change"""
    amount: int = 0
    """the new number that it is about: work-items of a group, groups at once, parts"""
    before: int = 0
    """what that number is now"""
    along: str = ""
    """of uncoalesced accesses: the axis or loop along which elements are neighbors, e.g. ``"l.1"``, ``"k"``"""


@dataclass(frozen=True)
class MachineChange:
    """A launch that the compiler would make something else of: for which its program has to be timed once more."""

    compiled: Resources | None = None
    """what the compiler would make of the launch"""
    concurrent_groups: int | None = None
    """that reside on a core at once"""
    loop: str = ""
    """an unrolled loop whose iterations are dealt to several work-items"""
    parts: int = 1
    """to so many"""


@dataclass(frozen=True)
class LaunchSeen:
    """A launch at all stages, and what limits it: where candidates are found."""

    profile: LaunchProfile
    machine: MachineLaunch
    launch: TimedLaunch
    review: LaunchReview
    rows: Mapping[str, int]
    """array in local memory -> elements of a row"""

    @cached_property
    def words(self) -> Vocabulary:
        """Return what parts of the device are called."""
        return vocabulary(self.launch.device)

    @property
    def graph(self) -> Idg:
        """Return the machine graph of the warps of which there are most."""
        return self.machine.representative.graph

    def busy(self, *names: str) -> float:
        """Return how busy the busiest of some pipelines and memory levels is, from 0 to 1."""
        return max((self.review.utilization.get(name, 0.0) for name in names), default=0.0)


def lines(instructions: Iterable[Instruction]) -> tuple[str, ...]:
    """Return the lines of the source that *instructions* are of, those that are executed most often first."""
    often: dict[str, float] = {}
    for each in instructions:
        if each.source:
            often[each.source] = often.get(each.source, 0.0) + float(each.executions)
    return tuple(sorted(often, key=lambda source: -often[source]))
