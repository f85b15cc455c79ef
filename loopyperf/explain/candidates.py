"""Candidate changes that may make a launch faster, each with its evidence and a way to build the changed launch.

Every candidate rests on evidence in the launch: accesses that need more sectors or wavefronts than their elements
fill, spilled registers, empty warp slots, idle cores, or waiting at barriers. :mod:`loopyperf.explain.findings`
simulates the candidates to find their gain.
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
"""utilization from which a pipeline may be the bottleneck"""
WAITED = 0.1
"""share of stall cycles, or of all instructions; a smaller share does not justify a change"""


class ChangeClass(Word):
    """The kind of change in a finding."""

    COALESCE = "coalesce"
    """neighboring work-items access neighboring elements, after a change of the inames' tags or of the layout"""
    TRANSPOSE = "transpose"
    """a tile in local memory coalesces the accesses of some arrays; the others are coalesced already"""
    PAD = "pad"
    """longer rows of a tile in local memory avoid bank conflicts"""
    FEWER_VALUES = "fewer values"
    """a work-item computes fewer values at once, so that they fit in registers"""
    REGISTERS = "registers"
    """values move from local (stack) memory to registers"""
    OCCUPANCY = "occupancy"
    """more groups are resident on a core"""
    SMALLER_GROUPS = "smaller groups"
    """more, smaller groups balance the load of the cores"""
    REDUCE_ONCE = "reduce once"
    """work-items reduce their partial sums once instead of in each iteration"""
    DOUBLE_BUFFER = "double buffer"
    """two alternating tiles reduce the barriers to one per iteration"""
    WIDER_ROWS = "wider rows"
    """a warp is one row of its group, so that its lanes share the loads of that row"""
    REGISTER_TILE = "register tile"
    """a work-item computes several elements, which share loads from local memory"""
    LARGER_TILE = "larger tile"
    """a group loads larger tiles into local memory, and each loaded element serves more work-items"""
    VECTORS = "vectors"
    """a lane loads or stores several neighboring elements at once, e.g. a ``float4``"""
    UNROLL = "unroll"
    """unrolling a loop saves counter updates and branches"""
    CACHE_BLOCKS = "cache blocks"
    """concurrent groups share more of their loads in the last-level cache"""


@dataclass(frozen=True)
class ChangeCandidate:
    """A change that may make a launch faster."""

    kind: ChangeClass
    subject: tuple[str, ...]
    """names of the arrays, loops or sizes to change"""
    lines: tuple[str, ...]
    """ids of the affected source instructions, the most often executed first"""
    evidence: str
    """the waste, as a clause with numbers"""
    after: "Callable[[], TimedLaunch | MachineChange]" = field(repr=False)
    """function that returns the launch after the change"""
    amount: int = 0
    """new value of the changed quantity, e.g. work-items per group, concurrent groups or parts"""
    before: int = 0
    """its present value"""
    along: str = ""
    """for uncoalesced accesses, the axis or loop with unit stride, e.g. ``"l.1"`` or ``"k"``"""


@dataclass(frozen=True)
class MachineChange:
    """A change of a launch that requires compiling or timing its program again."""

    compiled: Resources | None = None
    """registers and spills that the compiler would use, if they change"""
    concurrent_groups: int | None = None
    """resident groups per core, if they change"""
    loop: str = ""
    """unrolled loop whose iterations are divided among several work-items; empty for none"""
    parts: int = 1
    """number of work-items that share the loop's iterations"""


@dataclass(frozen=True)
class LaunchSeen:
    """A launch at all stages of the prediction, with its review: the input of the candidate finders."""

    profile: LaunchProfile
    machine: MachineLaunch
    launch: TimedLaunch
    review: LaunchReview
    rows: Mapping[str, int]
    """array in local memory -> elements per row"""

    @cached_property
    def words(self) -> Vocabulary:
        """Return the device's terms, e.g. "warp" or "wavefront"."""
        return vocabulary(self.launch.device)

    @property
    def graph(self) -> Idg:
        """Return the machine graph of the most frequent warp class."""
        return self.machine.representative.graph

    def busy(self, *names: str) -> float:
        """Return the highest utilization among the given pipelines and memory levels, from 0 to 1."""
        return max((self.review.utilization.get(name, 0.0) for name in names), default=0.0)


def lines(instructions: Iterable[Instruction]) -> tuple[str, ...]:
    """Return the source lines of *instructions*, the most often executed first."""
    often: dict[str, float] = {}
    for each in instructions:
        if each.source:
            often[each.source] = often.get(each.source, 0.0) + float(each.executions)
    return tuple(sorted(often, key=lambda source: -often[source]))
