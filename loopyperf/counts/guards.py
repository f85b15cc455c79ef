"""Where predicates are evaluated.

Loopy's code generator writes one ``if`` around consecutive instructions that share a predicate, and around a whole loop
where all in it shares one that the loop does not change. So the predicate itself, with what it loads, runs once for all
of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from loopy.kernel.instruction import InstructionBase
from loopy.symbolic import get_dependencies

from loopyperf.kernel import Kernel
from loopyperf.launches import Launch


@dataclass(frozen=True, slots=True)
class Guard:
    """An evaluation of a predicate for several instructions."""

    predicate: Any
    inames: frozenset[str]
    instruction: InstructionBase
    """the first one guarded"""


def guards(kernel: Kernel, launch: Launch) -> Iterator[Guard]:
    """Yield the evaluations of predicates in *launch*, in the order of their first instructions."""
    predicates = {predicate: None for insn in launch.instructions for predicate in insn.predicates}
    found = [guard for predicate in predicates for guard in _guards_of(kernel, launch, predicate)]
    order = {insn.id: place for place, insn in enumerate(launch.instructions)}
    return iter(sorted(found, key=lambda guard: order[guard.instruction.id]))


def _guards_of(kernel: Kernel, launch: Launch, predicate: Any) -> Iterator[Guard]:
    for guarded in _runs(launch, predicate):
        shared = frozenset[str].intersection(*(insn.within_inames for insn in guarded))
        changing = shared & get_dependencies(predicate)
        inside = {iname for iname in shared - changing if _holds_only(kernel, launch, iname, guarded)}
        yield Guard(predicate, shared - inside, guarded[0])


def _runs(launch: Launch, predicate: Any) -> Iterator[Sequence[InstructionBase]]:
    """Yield the longest sequences of instructions that *predicate* guards, without a barrier in between."""
    run: list[InstructionBase] = []
    after_barrier = {barrier.following for barrier in launch.barriers}
    for instruction in launch.instructions:
        guarded = predicate in instruction.predicates
        if run and (not guarded or instruction.id in after_barrier):
            yield tuple(run)
            run = []
        if guarded:
            run.append(instruction)
    if run:
        yield tuple(run)


def _holds_only(kernel: Kernel, launch: Launch, iname: str, guarded: Sequence[InstructionBase]) -> bool:
    """Return whether *iname* is a sequential loop in which nothing but *guarded* runs."""
    if kernel.hardware_axis(iname) is not None:
        return False
    among = {insn.id for insn in guarded}
    return all(insn.id in among for insn in launch.instructions if iname in insn.within_inames)
