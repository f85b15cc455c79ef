"""The places where generated code evaluates predicates, according to ``loopy.codegen.control.build_loop_nest``.

Loopy writes an ``if`` around the longest sequence of adjacent instructions and loops that share predicates, and inside
it further ones around subsequences that share more. Conditions from loop bounds, which may split a sequence, are not
considered.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import loopy as lp
from loopy.kernel.data import LocalInameTag
from loopy.schedule import Barrier, CallKernel, EnterLoop, LeaveLoop, ReturnFromKernel, RunInstruction
from loopy.symbolic import get_dependencies

from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Launch


@dataclass(frozen=True)
class Evaluation:
    """One place where the generated code evaluates a predicate."""

    predicate: Any
    inames: frozenset[str]
    instruction: str
    """the first instruction that it guards"""
    implied: tuple[Any, ...]
    """predicates that hold wherever this one is evaluated"""


@dataclass(frozen=True)
class _Item:
    """An instruction, a barrier (without name), or a loop with its body."""

    instruction: str | None = None
    loop: str | None = None
    body: "tuple[_Item, ...]" = ()

    @property
    def leaves(self) -> "list[_Item]":
        return [leaf for item in self.body for leaf in item.leaves] if self.loop else [self]


def evaluations(kernel: Kernel, launch: Launch) -> list[Evaluation]:
    """Return the evaluations of predicates in *launch*."""
    return list(_Writer(kernel).written(_tree(kernel, launch), launch.host_inames, tested_before(kernel, launch)))


def tested_before(kernel: Kernel, launch: Launch) -> tuple[Any, ...]:
    """Return the predicates around the launch that the host tests, which only PyOpenCL host programs do."""
    if not isinstance(kernel.loopy_kernel.target, lp.PyOpenCLTarget):
        return ()
    writer = _Writer(kernel)
    whole = _Item(loop="the launch", body=_tree(kernel, launch))
    shared = writer.required(whole)
    return tuple(sorted((each for each in shared if writer.inames(each) <= launch.host_inames), key=repr))


def _tree(kernel: Kernel, launch: Launch) -> tuple[_Item, ...]:
    schedule = iter(kernel.loopy_kernel.linearization or ())
    for _ in kernel.launches[: kernel.launches.index(launch) + 1]:
        next(entry for entry in schedule if isinstance(entry, CallKernel))
    return tuple(_items(schedule))


def _items(schedule: Iterator[Any]) -> Iterator[_Item]:
    for entry in schedule:
        match entry:
            case EnterLoop():
                yield _Item(loop=entry.iname, body=tuple(_items(schedule)))
            case LeaveLoop() | ReturnFromKernel():
                return
            case RunInstruction():
                yield _Item(instruction=entry.insn_id)
            case Barrier():
                yield _Item()


class _Writer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.loopy_kernel = kernel, kernel.loopy_kernel

    def written(self, items: Sequence[_Item], loops: frozenset[str], holding: tuple[Any, ...]) -> Iterator[Evaluation]:
        """Yield the evaluations in *items*, inside *loops* and where the predicates *holding* hold."""
        while items:
            length, shared = self._shared_prefix(items, loops, holding)
            inside = holding
            for predicate in sorted(shared, key=repr):
                yield self._evaluation(predicate, items[:length], loops, inside)
                inside = (*inside, predicate)
            if length == 1 or not shared:
                yield from self._within(items[0], loops, inside)
                length = 1
            else:
                yield from self.written(items[:length], loops, inside)
            items = items[length:]

    def _within(self, item: _Item, loops: frozenset[str], holding: tuple[Any, ...]) -> Iterator[Evaluation]:
        if item.loop:
            yield from self.written(item.body, loops | {item.loop}, holding)
        elif item.instruction:
            instruction = self.loopy_kernel.id_to_insn[item.instruction]
            for predicate in sorted(instruction.predicates - set(holding), key=repr):
                yield Evaluation(predicate, frozenset(instruction.within_inames), item.instruction, holding)
                holding = (*holding, predicate)

    def _shared_prefix(
        self, items: Sequence[_Item], loops: frozenset[str], holding: tuple[Any, ...]
    ) -> tuple[int, set[Any]]:
        """Return how many of the first *items* share predicates, and these predicates."""
        best, admissible = (1, set[Any]()), self._admissible(items[0], loops)
        shared = self.required(items[0]) - set(holding)
        for length, item in enumerate(items, start=1):
            admissible &= self._admissible(item, loops)
            shared = {p for p in shared & self.required(item) if self.inames(p) <= admissible}
            if not shared:
                break
            best = (length, shared)
        return best

    def required(self, item: _Item) -> set[Any]:
        of_leaves = [
            self.loopy_kernel.id_to_insn[leaf.instruction].predicates for leaf in item.leaves if leaf.instruction
        ]
        has_barrier = any(leaf.instruction is None for leaf in item.leaves)
        return set(frozenset.intersection(*of_leaves)) if of_leaves and not has_barrier else set()

    def _admissible(self, item: _Item, loops: frozenset[str]) -> set[str]:
        leaves = [leaf.instruction for leaf in item.leaves]
        used = {iname for name in leaves if name for iname in self.loopy_kernel.id_to_insn[name].within_inames}
        parallel = {iname for iname in used if self.kernel.hardware_axes.get(iname) is not None}
        if None in leaves:
            parallel -= {iname for iname in parallel if isinstance(self.kernel.hardware_axes.get(iname), LocalInameTag)}
        return set(loops) | parallel

    def inames(self, predicate: Any) -> frozenset[str]:
        return get_dependencies(predicate) & self.loopy_kernel.all_inames()

    def _evaluation(
        self, predicate: Any, items: Sequence[_Item], loops: frozenset[str], holding: tuple[Any, ...]
    ) -> Evaluation:
        names = [leaf.instruction for item in items for leaf in item.leaves]
        shared = frozenset.intersection(*(self.loopy_kernel.id_to_insn[name].within_inames for name in names))
        entered = loops | {iname for iname in shared if self.kernel.hardware_axes.get(iname) is not None}
        return Evaluation(predicate, frozenset(shared & entered), names[0], holding)
