"""The loops of a launch as its schedule nests them, with what stands where."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

from loopy.kernel.data import IlpBaseTag, VectorizeTag
from loopy.kernel.instruction import InstructionBase
from loopy.schedule import Barrier as BarrierItem
from loopy.schedule import EnterLoop, RunInstruction, ScheduleItem, gather_schedule_block

from loopyperf.counts.conditions import Guard, guards
from loopyperf.counts.loops import vector_loop
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Barrier, Launch, is_unrolled


@dataclass(frozen=True, slots=True)
class Statement:
    """An instruction, a barrier, or the evaluation of a predicate, in the order of the generated code."""

    what: InstructionBase | Barrier | Guard
    loops: tuple["Nest", ...]
    """around it, from the outermost on"""
    inames: frozenset[str]
    """those that it runs over, hardware axes included; a vector's is none of them"""
    number: int
    """in the order of the program, counted from 0"""

    @property
    def name(self) -> str:
        """Return the id of the instruction, or of the first one that a predicate guards, or the barrier's label."""
        match self.what:
            case Barrier(label=label):
                return label
            case Guard(instruction=first):
                return first.id
            case instruction:
                return instruction.id


@dataclass(eq=False, slots=True)
class Nest:
    """A sequential loop, told apart from others over the same iname by identity."""

    iname: str
    is_unrolled: bool
    body: list["Nest | Statement"] = field(default_factory=list["Nest | Statement"])

    def statements(self) -> Iterator[Statement]:
        """Yield the statements inside it, in their order."""
        for item in self.body:
            if isinstance(item, Statement):
                yield item
            else:
                yield from item.statements()


def nest_of(kernel: Kernel, launch: Launch) -> Nest:
    """Return the body of *launch* as a loop of one pass, which is no loop of the kernel."""
    whole = Nest("", is_unrolled=False)
    _Reader(kernel, launch).fill(whole, launch.schedule, ())
    return whole


class _Reader:
    """Reads the schedule of one launch."""

    def __init__(self, kernel: Kernel, launch: Launch) -> None:
        self.kernel, self.launch = kernel, launch
        self.barriers = iter(launch.barriers)
        self.numbers = count()
        self.guards: dict[tuple[str, int], list[Guard]] = {}
        for guard in guards(kernel, launch):
            depth = sum(kernel.hardware_axes.get(name) is None for name in guard.inames - launch.host_inames)
            self.guards.setdefault((guard.instruction.id, depth), []).append(guard)

    def fill(self, nest: Nest, schedule: Sequence[ScheduleItem], loops: tuple[Nest, ...]) -> None:
        """Append what *schedule* says to the body of *nest*, which is inside *loops*."""
        place = 0
        while place < len(schedule):
            item, end = schedule[place], place + 1
            if isinstance(item, EnterLoop):
                _, end = gather_schedule_block(schedule, place)
                self._add_loop(nest, item.iname, schedule[place:end], loops)
            elif isinstance(item, RunInstruction):
                self._add_guards(nest, [item], loops)
                self._add_instruction(nest, self.kernel.loopy_kernel.id_to_insn[item.insn_id], loops)
            elif isinstance(item, BarrierItem) and item.synchronization_kind == "local":
                barrier = next(self.barriers)
                self._append(nest, barrier, loops, barrier.inames | barrier.groups)
            place = end

    def _add_loop(self, nest: Nest, iname: str, block: Sequence[ScheduleItem], loops: tuple[Nest, ...]) -> None:
        """Append the loop over *iname* that *block* is; of a vector's loop, each instruction has copies of its own."""
        if self.kernel.loopy_kernel.iname_tags_of_type(iname, VectorizeTag):
            self.fill(nest, block[1:-1], loops)
            return
        self._add_guards(nest, block, loops)
        inner = Nest(iname, is_unrolled(self.kernel.loopy_kernel, iname))
        self.fill(inner, block[1:-1], (*loops, inner))
        nest.body.append(inner)

    def _add_guards(self, nest: Nest, block: Sequence[ScheduleItem], loops: tuple[Nest, ...]) -> None:
        first = next((item.insn_id for item in block if isinstance(item, RunInstruction)), "")
        for guard in self.guards.pop((first, len(loops)), []):
            self._append(nest, guard, loops, self.kernel.on_every_lane(self.launch, guard.inames))

    def _add_instruction(self, nest: Nest, instruction: InstructionBase, loops: tuple[Nest, ...]) -> None:
        """Append *instruction*, inside loops of its own over what Loopy writes copies of it for."""
        vector = vector_loop(self.kernel, instruction)
        inames = instruction.within_inames - {vector.iname if vector else ""}
        for iname in sorted(inames.difference(outer.iname for outer in loops)):
            if self.kernel.loopy_kernel.iname_tags_of_type(iname, (IlpBaseTag, VectorizeTag)):
                inner = Nest(iname, is_unrolled=True)
                nest.body.append(inner)
                nest, loops = inner, (*loops, inner)
        self._append(nest, instruction, loops, self.kernel.on_every_lane(self.launch, frozenset(inames)))

    def _append(
        self, nest: Nest, what: InstructionBase | Barrier | Guard, loops: tuple[Nest, ...], inames: frozenset[str]
    ) -> None:
        nest.body.append(Statement(what, loops, inames, next(self.numbers)))
