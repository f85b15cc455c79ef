"""What a machine loop costs beside its body: counting, comparing, branching, and moving pointers on.

The rules are measured on executed machine code (docs/compiler.md, section 2): a branch and a comparison; a counter, two
where the number of passes is not known before; a step for each base in local memory; two for a pointer to a global
array, five where several share an index; and one for each access that the passes move by a distance that the compiler
does not know.
"""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from loopyperf.compiler.entry import is_axis
from loopyperf.compiler.nvcc_unrolling import steps_are_far, written_out
from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Instruction, Item, Iteration, Loop, Opcode, is_innermost
from loopyperf.idg.unrolling import number_of_runs
from loopyperf.polyhedral.affine import Affine, Symbol
from loopyperf.polyhedral.polynomial import Polynomial, Term

AGAIN = 3
"""invariants that are computed once more in a pass with barriers, rather than kept in registers"""
ONE_POINTER = 2
SHARED_POINTER = 5
"""of each of several arrays that are accessed by one index that is not the same in all lanes"""
FAR_AGAIN = 2
"""in a loop whose steps are far: a pointer from the constant bank, and what the passes left are compared with"""
POINTERS_ANEW = 2
"""in a pass with barriers: computed from an index that moves on"""


NOWHERE = Polynomial.of(0)
"""for what accesses no memory, or where data tell"""


def with_loop_control(graph: Idg) -> Idg:
    """Return *graph* with what its loops make a warp execute beside their bodies."""
    return _Control(graph).added()


class _Control:
    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.instructions = list(graph.instructions)
        self.edges = list(graph.edges)

    def added(self) -> Idg:
        body = tuple(self._items(self.graph.body, ()))
        return Idg(tuple(self.instructions), tuple(self.edges), body)

    def _items(self, body: Sequence[Item], around: tuple[Loop, ...]) -> Iterator[Item]:
        for item in body:
            if isinstance(item, Loop):
                inside = (*self._items(item.body, (*around, item)), *self._control(item, (*around, item)))
                yield replace(item, body=inside)
            else:
                yield item

    def _control(self, loop: Loop, loops: tuple[Loop, ...]) -> list[int]:
        """Add what a pass of the innermost of *loops* ends with; return the places of it.

        The number of passes of some loops varies: nvcc writes them out too, and controls several copies together.
        """
        share = Fraction(number_of_runs(None, loops), written_out(self.graph, loops)) * loop.copies
        passes = int(share) if share.denominator == 1 else share
        counters = 2 if loop.is_counted and not loop.lanes_part else 1
        steps = [self._step(f"count {loop.name}", loops, passes) for _ in range(counters)]
        moved = [place for place in _directly(loop) if any(loop.name in each for each, _ in self._address(place).terms)]
        meets = any(
            self.graph.instructions[place].kind == Opcode.BARRIER for place in loop.body if isinstance(place, int)
        )
        again = (AGAIN if meets else 0) + self._steps_by_products(moved, loop)
        steps += [self._add(Opcode.INTEGER, f"invariant of {loop.name}", passes) for _ in range(again)]
        pointers = self._parting_pointers(moved, loop) if loop.lanes_part else self._pointers(moved, loop, meets)
        for place in pointers:
            step = self._step(f"move on to the next {loop.name}", loops, passes)
            self.edges.append(self._edge(step, place, loops, 1))
            steps.append(step)
        compare = self._add(Opcode.COMPARE, f"another {loop.name}?", passes)
        branch = self._add(Opcode.BRANCH, f"next {loop.name}", passes)
        self.edges += [self._edge(steps[0], compare, loops, 0), self._edge(compare, branch, loops, 0)]
        return [*steps, compare, branch]

    def _address(self, place: int) -> Polynomial[Symbol]:
        return self.graph.instructions[place].symbolic or NOWHERE

    def _pointers(self, moved: Sequence[int], loop: Loop, meets: bool) -> Iterator[int]:
        """Yield for each instruction that moves addresses on in *loop* an access that uses it.

        Accesses that are a known distance apart share an address, with immediates.
        """
        apart: dict[Hashable, tuple[int, Polynomial[Symbol]]] = {}
        for place in moved:
            each, address = self.graph.instructions[place], self._address(place)
            apart.setdefault((each.subsystem, each.reference.array, address.without_constant), (place, address))
        known: dict[int, Polynomial[Symbol]] = {}
        for place, address in apart.values():
            is_near = self.graph.instructions[place].subsystem in (MemorySpace.LOCAL, MemorySpace.PRIVATE)
            if is_near or address.factor_of(loop.name).variables:
                yield place
            else:
                known[place] = address.without_constant
        if not meets and loop.is_counted and steps_are_far([self.graph.instructions[place] for place in moved], loop):
            yield from _far_pointers(known)
            return
        shared = Counter(known.values())
        for place, index in known.items():
            if meets:
                number = POINTERS_ANEW if len(known) > 1 else ONE_POINTER
            else:
                number = SHARED_POINTER if shared[index] > 1 and _is_of_lanes(index) else ONE_POINTER
            yield from [place] * number

    def _steps_by_products(self, moved: Sequence[int], loop: Loop) -> int:
        """Return in how many copies addresses move by a product of sizes, which each copy moves to a register anew."""
        addresses = [self._address(place) for place in moved]
        far = [each for each in addresses if any(map(_is_product, each.factor_of(loop.name).terms))]
        names = frozenset((loop.name,))
        return len({frozenset(filter(_is_product, each.without(names).terms)) for each in far})

    def _parting_pointers(self, moved: Sequence[int], loop: Loop) -> Iterator[int]:
        """Yield one access for each array: each has an index; where a loop is inside, they are computed there."""
        arrays = {self.graph.instructions[place].reference.array: place for place in moved}
        yield from arrays.values() if is_innermost(loop) else ()

    # {{{ instructions

    def _add(self, kind: str, text: str, executions: int | Fraction) -> int:
        subsystem = Pipeline.CONTROL if kind == Opcode.BRANCH else Pipeline.ALU
        self.instructions.append(Instruction(kind, "i32", subsystem, "", text, executions=executions))
        return len(self.instructions) - 1

    def _step(self, text: str, loops: tuple[Loop, ...], passes: int | Fraction) -> int:
        place = self._add(Opcode.INTEGER, text, passes)
        self.edges.append(self._edge(place, place, loops, 1))
        return place

    def _edge(self, source: int, target: int, loops: tuple[Loop, ...], distance: int) -> Edge:
        *outer, inner = (loop.name for loop in loops)
        around: list[Iteration] = [Affine(((name, 1),)) for name in outer]
        return Edge(source, target, (*[0] * len(outer), distance), (*around, Affine(((inner, 1),), -distance)))

    # }}}


def _far_pointers(known: Mapping[int, Polynomial[Symbol]]) -> Iterator[int]:
    """Yield an access for each index that moves on, each address that is made of it, and for what is done anew."""
    indices = {index: place for place, index in known.items()}
    yield from indices.values()
    yield from known
    yield from list(known)[:1] * FAR_AGAIN


def _is_of_lanes(index: Polynomial[Symbol]) -> bool:
    return any(name.startswith("l.") for name in index.names)


def _is_product(term: Term[Symbol]) -> bool:
    """Return whether *term* is a multiple of a product of sizes."""
    names, _ = term
    return len(names) > 1 and not any(map(is_axis, names))


def _directly(loop: Loop) -> list[int]:
    """Return the instructions in *loop*, those of loops inside included: their pointers move on with it too."""
    return [place for item in loop.body for place in (_directly(item) if isinstance(item, Loop) else [item])]
