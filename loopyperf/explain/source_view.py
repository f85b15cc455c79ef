"""List a kernel's source line by line."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import islpy as isl
from loopy.kernel.instruction import CInstruction, InstructionBase, MultiAssignmentBase
from loopy.schedule import Barrier, CallKernel, EnterLoop, LeaveLoop, ReturnFromKernel, RunInstruction, ScheduleItem
from loopy.symbolic import pw_aff_to_expr

from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Launch, is_unrolled

PARAM, SET = isl.dim_type.param, isl.dim_type.set
UNDERLINE = "\N{COMBINING LOW LINE}"
Kind = Literal["launch", "loop", "barrier", "instruction", "other"]


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a source listing."""

    kind: Kind
    """kind of line; ``"other"`` is a source of costs that is not a source line"""
    depth: int
    """nesting depth in launches and loops"""
    text: str
    """text without indentation"""
    source: str
    """name in :attr:`loopyperf.models.result.BreakdownRow.source`; empty for loops, which have no costs"""


def listing_of(kernel: Kernel) -> tuple[SourceLine, ...]:
    """Return the lines of *kernel* in schedule order, with loop bounds and grid sizes."""
    return tuple(_Listing(kernel).lines())


class _Listing:
    """Walks the schedule and keeps track of the enclosing launch and loops."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.launches = {launch.name: launch for launch in kernel.launches}
        self.depth = 0
        self.loops: list[str] = []
        """entered loops, including those on the host"""
        self.numbering: Mapping[str, object] = {}
        """hardware inames of the current launch, if any"""
        self.barriers: Iterator[str] = iter(())
        """labels of the remaining barriers of the launch"""

    def lines(self) -> Iterator[SourceLine]:
        for item in cast("tuple[ScheduleItem, ...]", self.kernel.loopy_kernel.linearization):
            if isinstance(item, CallKernel):
                yield self._open(self.launches[item.kernel_name])
            elif isinstance(item, EnterLoop):
                yield self._enter(item.iname)
            elif isinstance(item, ReturnFromKernel):
                self.numbering = {}
                self.depth -= 1
            elif isinstance(item, LeaveLoop):
                self.loops.pop()
                self.depth -= 1
            elif isinstance(item, RunInstruction):
                instruction = self.kernel.loopy_kernel.id_to_insn[item.insn_id]
                yield SourceLine("instruction", self.depth, _statement(instruction), item.insn_id)
            elif isinstance(item, Barrier) and item.synchronization_kind == "local":
                yield SourceLine("barrier", self.depth, "barrier", next(self.barriers))

    def _open(self, launch: Launch) -> SourceLine:
        self.barriers = (barrier.label for barrier in launch.barriers)
        self.numbering = launch.numbering
        line = SourceLine("launch", self.depth, _launch(launch), f"launch of {launch.name}")
        self.depth += 1
        return line

    def _enter(self, iname: str) -> SourceLine:
        line = SourceLine("loop", self.depth, self._loop(iname), "")
        self.loops.append(iname)
        self.depth += 1
        return line

    def _loop(self, iname: str) -> str:
        """Return the header of the loop over *iname*, whose bounds may depend on enclosing loops and axes."""
        kernel = self.kernel.loopy_kernel
        assumed = isl.Set.from_basic_set(kernel.assumptions)
        points = isl.Set.from_basic_set(self._over(iname)).intersect_params(assumed)
        known = points.params()
        first, last = (_in_words(end.gist(known)) for end in (points.dim_min(0), points.dim_max(0)))
        return f"for {iname} in {first} .. {last}{', unrolled' if is_unrolled(kernel, iname) else ''}"

    def _over(self, iname: str) -> isl.BasicSet:
        """Return the domain of *iname*, with enclosing loops and hardware axes as parameters."""
        points = self.kernel.loopy_kernel.get_inames_domain(frozenset([iname]))
        around = {*self.loops, *self.numbering}
        for name in (name for name in points.get_var_names_not_none(SET) if name != iname):
            place = points.get_var_dict(SET)[name][1]
            if name in around:
                points = points.move_dims(PARAM, points.dim(PARAM), SET, place, 1)
            else:
                points = points.project_out(SET, place, 1)
        return points


def _launch(launch: Launch) -> str:
    groups, work_items = (
        " × ".join(_factor(axes[axis], len(axes)) for axis in sorted(axes)) or "1"
        for axes in (launch.group_axes, launch.local_axes)
    )
    return f"launch {launch.name}: {groups} groups of {work_items} work-items"


def _factor(number: isl.PwAff, factors: int) -> str:
    """Return *number* as text, in parentheses if it is a sum and one of several *factors*."""
    words = _in_words(number)
    return f"({words})" if factors > 1 and " " in words else words


def _in_words(number: isl.PwAff) -> str:
    return str(pw_aff_to_expr(number, int_ok=True))


def _statement(instruction: InstructionBase) -> str:
    """Return the statement of *instruction* as text, after its conditions."""
    if isinstance(instruction, MultiAssignmentBase):
        targets = ", ".join(map(str, cast("tuple[Any, ...]", instruction.assignees)))
        does = f"{targets} = {instruction.expression}" if targets else str(instruction.expression)
    elif isinstance(instruction, CInstruction):
        does = cast("str", instruction.code).strip()
    else:
        does = type(instruction).__name__
    conditions = sorted(map(str, cast("frozenset[Any]", instruction.predicates)))
    line = f"if {' and '.join(conditions)}: {does}" if conditions else does
    # Loopy underlines known functions with combining characters.
    return line.replace(UNDERLINE, "")
