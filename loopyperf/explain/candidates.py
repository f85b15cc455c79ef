"""Candidate changes that may make a launch faster, each with its evidence.

Every candidate rests on evidence in the launch: accesses that need more sectors or wavefronts than their elements
fill, spilled registers, empty warp slots, idle cores, or waiting at barriers. :mod:`loopyperf.explain.in_loopy` makes
the change, and :mod:`loopyperf.explain.findings` predicts the changed kernel.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import islpy as isl
from loopy.diagnostic import ExpressionNotAffineError
from loopy.kernel import LoopKernel
from loopy.kernel.instruction import Assignment, InstructionBase
from loopy.symbolic import CoefficientCollector, WalkMapper

from loopyperf.compiler.machine_program import MachineLaunch
from loopyperf.device.lambdas import DRAM
from loopyperf.device.vocabulary import Vocabulary, vocabulary
from loopyperf.explain.review import LaunchReview
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Instruction, Loop, Opcode
from loopyperf.kernel import Kernel
from loopyperf.pipeline.timed_program import TimedLaunch
from loopyperf.polyhedral.sets import between_ends
from loopyperf.units import Word

BUSY = 0.5
"""utilization from which a pipeline may be the bottleneck"""
NEARLY = 0.8
"""ratio to the utilization of another resource from which both may be the bottleneck"""
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
    SMALLER_GROUPS = "smaller groups"
    """more, smaller groups balance the load of the cores"""
    LARGER_GROUPS = "larger groups"
    """fewer, larger groups fill their warps, and take less time to start"""
    REDUCE_ONCE = "reduce once"
    """work-items reduce their partial sums once instead of in each iteration"""
    WIDER_ROWS = "wider rows"
    """a warp is one row of its group, so that its lanes share the loads of that row"""
    SEVERAL_RESULTS = "several results"
    """a work-item computes several results, which share loads from local memory or wait at the same time"""
    UNROLL = "unroll"
    """unrolling a loop saves counter updates and branches"""
    LOCAL_TILE = "local tile"
    """tiles in local memory, or several results per work-item, serve loads that repeat"""
    CACHE_BLOCKS = "cache blocks"
    """concurrent groups share more of their loads in the last-level cache"""
    DIVERGENCE = "divergence"
    """all lanes of a warp take the same branch"""
    PRECISION = "single precision"
    """no argument, literal or temporary raises single precision to double"""
    FEWER_ATOMICS = "fewer atomics"
    """a group updates a common element once, instead of each work-item"""
    PARTIAL_SUMS = "partial sums"
    """several accumulators, whose additions do not wait for one another"""
    REDUNDANT = "redundant work"
    """no iname remains on which no result depends"""
    FEWER_LAUNCHES = "fewer launches"
    """a launch does more work, so that its overhead matters less"""


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
    share: float
    """share of the time, or of stall cycles, that the waste may cause, from 0 to 1"""
    amount: int = 0
    """new value of the changed quantity, e.g. work-items per group"""
    along: str = ""
    """for uncoalesced accesses, the axis or loop with unit stride, e.g. ``"l.1"`` or ``"k"``"""


@dataclass(frozen=True)
class LaunchSeen:
    """A launch at all stages of the prediction, with its review: the input of the candidate finders."""

    machine: MachineLaunch
    launch: TimedLaunch
    review: LaunchReview
    kernel: Kernel
    """the kernel after Loopy's preprocessing"""
    given: LoopKernel
    """the kernel as given"""
    sizes: Mapping[str, int]
    """parameter values by name"""
    overhead: float = 0.0
    """share of the launch overhead in the run time of the whole kernel"""

    @cached_property
    def words(self) -> Vocabulary:
        """Return the device's terms, e.g. "warp" or "wavefront"."""
        return vocabulary(self.launch.device)

    @cached_property
    def inames(self) -> Mapping[str, Sequence[str]]:
        """Return the inames along each axis, by axis, e.g. ``"l.0"``."""
        launch = next(launch for launch in self.kernel.launches if launch.name == self.machine.name)
        found: dict[str, list[str]] = {}
        for iname, (sort, axis) in launch.numbering.items():
            found.setdefault(f"{sort[0]}.{axis}", []).append(iname)
        return found

    def length(self, iname: str) -> int:
        """Return the number of values of *iname* at the given sizes; 0 if they are unknown."""
        points = self.kernel.domain((iname,))
        for name, (_, position) in points.get_var_dict(isl.dim_type.param).items():
            if name in self.sizes:
                points = points.fix_val(isl.dim_type.param, position, isl.Val(self.sizes[name]))
        values = between_ends(points, iname)
        return 0 if values is None else len(values)

    @property
    def graph(self) -> Idg:
        """Return the machine graph of the most frequent warp class."""
        return self.machine.representative.graph

    def busy(self, *names: str) -> float:
        """Return the highest utilization among the given pipelines and memory levels, from 0 to 1."""
        return max((self.review.utilization.get(name, 0.0) for name in names), default=0.0)

    @property
    def of_memory(self) -> float:
        """Return the share of the time in which wasted accesses of global memory may be the limit.

        Traffic of DRAM that is compulsory is no waste, and a level that is much less busy than it is no limit.
        """
        traffic = self.review.traffic
        levels = self.busy(*(level for level in traffic.moved if level != DRAM), self.review.pipeline_of_local)
        levels = levels if levels >= NEARLY * self.busy(DRAM) else 0.0
        return max(
            levels, self.busy(DRAM) * (1 - 1 / max(1.0, traffic.excess)), self.review.waits_for("memory latency")
        )


def parts_of(instruction: InstructionBase) -> list[Any]:
    """Return the right-hand side of *instruction* and its conditions, with all their subexpressions."""
    found = _Parts()
    for each in (*instruction.predicates, *([instruction.expression] if isinstance(instruction, Assignment) else [])):
        found(each)
    return found.parts


class _Parts(WalkMapper[[]]):
    """Collects all subexpressions."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[Any] = []

    def visit(self, expr: Any) -> bool:
        self.parts.append(expr)
        return True


def steps_of(index: Any, inames: Sequence[str] | None = None) -> Mapping[Any, Any]:
    """Return the factor of each of *inames*, by default of each variable, in *index*; empty if it is not affine."""
    try:
        return CoefficientCollector(inames)(index)
    except (ExpressionNotAffineError, NotImplementedError):  # e.g. i // 2
        return {}


TREE = 3
"""barriers per iteration from which a loop is assumed to contain a tree reduction"""
CONTROL = (Opcode.INTEGER, Opcode.BRANCH, Opcode.COMPARE, Opcode.MOVE)
"""opcodes of loop control"""


def is_control(around: Sequence[Loop], instruction: Instruction) -> bool:
    """Return whether *instruction* is loop control, i.e. updates a loop counter or tests for the end."""
    return bool(around) and not instruction.source and instruction.kind in CONTROL


def barriers_each_time(graph: Idg, loop: Loop) -> float:
    """Return the number of barriers per source iteration of *loop*, without those of inner loops."""
    items = [graph.instructions[item] for item in loop.body if not isinstance(item, Loop)]
    return sum(each.kind == Opcode.BARRIER for each in items) / max(1, loop.copies)


def lines(instructions: Iterable[Instruction]) -> tuple[str, ...]:
    """Return the source lines of *instructions*, the most often executed first."""
    often: dict[str, float] = {}
    for insn in instructions:
        if insn.source:
            often[insn.source] = often.get(insn.source, 0.0) + float(insn.executions)
    return tuple(sorted(often, key=lambda source: -often[source]))
