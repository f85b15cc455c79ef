"""Where predicates are evaluated.

Loopy's code generator writes one ``if`` around consecutive instructions and loops that share a predicate, and others
inside it. So the predicate itself, with what it loads, runs once for all of them, and only where those around it hold.
What the host tests before a launch, the device does not.
The rules are those of ``build_loop_nest`` in Loopy's ``codegen/control.py``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from loopy.kernel.data import GroupInameTag
from loopy.kernel.instruction import InstructionBase
from loopy.schedule import Barrier, EnterLoop, RunInstruction, ScheduleItem, gather_schedule_block
from loopy.symbolic import get_dependencies

from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Launch


@dataclass(frozen=True, slots=True)
class Guard:
    """An evaluation of a predicate for several instructions."""

    predicate: Any
    before: tuple[Any, ...]
    """the predicates that hold where it is evaluated"""
    inames: frozenset[str]
    instruction: InstructionBase
    """the first one guarded"""


@dataclass(frozen=True, slots=True)
class _Item:
    """An instruction, a barrier or a loop."""

    instructions: tuple[InstructionBase, ...]
    loop: str | None = None
    inside: tuple["_Item", ...] = ()
    has_barrier: bool = False

    @property
    def predicates(self) -> frozenset[Any]:
        """Return what all of it requires."""
        required = [frozenset[Any](instruction.predicates) for instruction in self.instructions]
        return frozenset[Any].intersection(*required) if required else frozenset()


def guards(kernel: Kernel, launch: Launch) -> Iterator[Guard]:
    """Yield the evaluations of predicates in *launch*, in the order of the code."""
    if not any(instruction.predicates for instruction in launch.instructions):
        return iter(())
    return _guards(kernel, tuple(_items(kernel, launch.schedule)), launch.host_conditions, launch.host_inames)


def _guards(kernel: Kernel, items: Sequence[_Item], before: tuple[Any, ...], loops: frozenset[str]) -> Iterator[Guard]:
    while items:
        together, shared = _sharing(kernel, items, frozenset(before), loops)
        items = items[len(together) :]
        if shared:
            hardware = _hardware_inames(kernel, together)
            for place, predicate in enumerate(shared):
                needed = get_dependencies(predicate) & kernel.loopy_kernel.all_inames()
                inames = loops | hardware | needed
                yield Guard(predicate, (*before, *shared[:place]), inames, together[0].instructions[0])
            yield from _guards(kernel, together, (*before, *shared), loops)
        elif together[0].loop is not None:
            yield from _guards(kernel, together[0].inside, before, loops | {together[0].loop})


def _sharing(
    kernel: Kernel, items: Sequence[_Item], known: frozenset[Any], loops: frozenset[str]
) -> tuple[Sequence[_Item], tuple[Any, ...]]:
    """Return the most items from the first one on that share predicates not yet *known* to hold, and these."""
    shared = _hoistable(kernel, items[0], loops) - known
    length = 1
    while length < len(items) and shared & _hoistable(kernel, items[length], loops):
        shared &= _hoistable(kernel, items[length], loops)
        length += 1
    return items[:length], tuple(sorted(shared, key=repr))


def _hoistable(kernel: Kernel, item: _Item, loops: frozenset[str]) -> frozenset[Any]:
    """Return the predicates that can be evaluated before *item*: its own loops do not change them."""
    available = loops | _hardware_inames(kernel, [item])
    if item.has_barrier:  # which all work-items of a group must meet
        available = {iname for iname in available if _is_of_groups(kernel, iname) or iname in loops}
    inames = kernel.loopy_kernel.all_inames()
    return frozenset(each for each in item.predicates if get_dependencies(each) & inames <= available)


def _is_of_groups(kernel: Kernel, iname: str) -> bool:
    return isinstance(kernel.hardware_axis(iname), GroupInameTag)


def _hardware_inames(kernel: Kernel, items: Sequence[_Item]) -> frozenset[str]:
    """Return the inames of hardware axes that all instructions of *items* use."""
    within = [instruction.within_inames for item in items for instruction in item.instructions]
    shared = frozenset[str].intersection(*within) if within else frozenset[str]()
    return frozenset(iname for iname in shared if kernel.hardware_axis(iname) is not None)


def _items(kernel: Kernel, schedule: Sequence[ScheduleItem]) -> Iterator[_Item]:
    place = 0
    while place < len(schedule):
        item = schedule[place]
        end = place + 1
        if isinstance(item, RunInstruction):
            yield _Item((kernel.loopy_kernel.id_to_insn[item.insn_id],))
        elif isinstance(item, Barrier):
            yield _Item((), has_barrier=True)
        elif isinstance(item, EnterLoop):
            _, end = gather_schedule_block(schedule, place)
            inside = tuple(_items(kernel, schedule[place + 1 : end - 1]))
            instructions = tuple(instruction for each in inside for instruction in each.instructions)
            yield _Item(instructions, item.iname, inside, any(each.has_barrier for each in inside))
        place = end
