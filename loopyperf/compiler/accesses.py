"""Loads and stores of the machine graph: store forwarding, address arithmetic, access widths.

The unrolled copies of a loop load neighboring elements one after the other. A wide load requires the first one to be
aligned in every lane: every term of the address except the copy number must be a multiple of the width
(docs/compiler.md, section 5.1). Vectors wider than one instruction can move are loaded and stored by several
instructions.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg, composed, rewritten
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop, Opcode, expanded

# {{{ store-to-load forwarding and dead stores
#
# A load of a value that was just stored is removed, and so is a store that is overwritten before it is read.
#
# Both apply only within straight-line code without barriers, because no other work-item may look at the memory in
# between, and only if the store that serves a load, or overwrites a store, executes whenever the other access does.
# Volatile accesses are never removed (docs/compiler.md, section 5).


def with_forwarded_stores(graph: Idg) -> Idg:
    """Return *graph* without loads of values that were just stored, and without overwritten stores."""
    finder = _Finder(graph)
    finder.look_at(graph.body)
    return _forwarded(graph, finder.stored_by, finder.dead) if finder.stored_by or finder.dead else graph


class _Finder:
    """Finds forwarded loads and dead stores in the straight-line parts of a program."""

    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.stored_by: dict[int, int] = {}
        """load -> the store whose value it reads"""
        self.dead: set[int] = set()
        """stores that are overwritten before they are read"""

    def look_at(self, body: Sequence[Item]) -> None:
        """Search *body*."""
        stored: dict[str, list[int]] = {}
        """array -> stores to it that are still valid, the latest last"""
        unread: set[int] = set()
        for item in body:
            if isinstance(item, Loop):
                self.look_at(item.body)
            each = None if isinstance(item, Loop) else self.graph.instructions[item]
            if each is None or each.kind == Opcode.BARRIER:
                stored, unread = {}, set()
            elif each.reference is not None and not each.is_volatile and not isinstance(item, Loop):
                known = stored.setdefault(each.reference.array, [])
                if each.kind == Opcode.LOAD:
                    self._load(item, known, unread)
                else:
                    self._store(item, known, unread)

    def _load(self, place: int, known: list[int], unread: set[int]) -> None:
        instructions = self.graph.instructions
        stores = (store for store in known if instructions[place].is_idle or not instructions[store].is_idle)
        near = [store for store in stores if not self._are_apart(place, store)]
        if near and self._covers(near[-1], place) and self._gives_a_value(near[-1]):
            self.stored_by[place] = near[-1]
        else:
            unread.difference_update(near)

    def _store(self, place: int, known: list[int], unread: set[int]) -> None:
        covered = {store for store in known if self._covers(place, store)}
        self.dead |= covered & unread
        known[:] = [store for store in known if store not in covered]
        known.append(place)
        unread.add(place)

    def _covers(self, one: int, other: int) -> bool:
        """Return whether *one* accesses the element of *other* whenever *other* does."""
        left, right = self.graph.instructions[one], self.graph.instructions[other]
        is_same = left.symbolic is not None and left.symbolic == right.symbolic
        return is_same and left.reference.bits == right.reference.bits and left.executes_whenever(right)

    def _are_apart(self, one: int, other: int) -> bool:
        """Return whether the two accesses are a nonzero constant number of elements apart."""
        left, right = (self.graph.instructions[place].symbolic for place in (one, other))
        if left is None or right is None or left.without_constant != right.without_constant:
            return False
        return left.constant != right.constant

    def _gives_a_value(self, store: int) -> bool:
        """Return whether an instruction computes the stored value, so that uses of the load can wait for it instead."""
        stored = [edge for edge in self.graph.definitions[store] if edge.operand == 0]
        operands = self.graph.instructions[store].operands
        return bool(stored) and not (operands and operands[0].is_negated)


def _forwarded(graph: Idg, stored_by: dict[int, int], dead: set[int]) -> Idg:
    edges = [edge for edge in graph.edges if edge.source not in stored_by]
    for edge in graph.edges:
        if edge.source in stored_by and edge.through == Dependence.DATA:
            edges += _from_the_value(graph, edge, stored_by)
    kept = [place for place in range(len(graph.instructions)) if place not in stored_by and place not in dead]
    return rewritten(graph, kept, edges)


def _from_the_value(graph: Idg, edge: Edge, stored_by: dict[int, int]) -> list[Edge]:
    """Return the edges from the value that a forwarded load would read to its use; forwarding may be repeated."""
    store = stored_by[edge.source]
    found: list[Edge] = []
    for definition in (each for each in graph.definitions[store] if each.operand == 0):
        new = composed(graph, definition, replace(edge, source=store))
        found += _from_the_value(graph, new, stored_by) if new.source in stored_by else [new]
    return found


# }}}


# {{{ addresses of indirect accesses and irregular indices
#
# Affine addresses are immediates. The others are computed for each access.


IRREGULAR: Mapping[str, int] = {
    MemorySpace.GLOBAL: 2,
    MemorySpace.LOCAL: 1,
    MemorySpace.PRIVATE: 1,
    MemorySpace.CONSTANT: 1,
}
"""memory space -> multiply-adds for the address of an index that changes by no constant step per iteration"""


def with_indirect_addresses(graph: Idg) -> Idg:
    """Return *graph* with a multiply-add before each indirect access: base + index * size.

    Indices that are computed in each iteration, such as ``1 << k``, need one too; in global memory they need a further
    addition. Accesses to the same row by the same index share the address (docs/compiler.md, section 5).
    """
    return _Addressing(graph).added()


class _Addressing:
    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.instructions = list(graph.instructions)
        self.parts: dict[int, list[int]] = {}
        """access -> instructions that compute its address, and the access"""
        self.last: dict[Any, int] = {}

    def added(self) -> Idg:
        indirect = {
            place: None
            for place, instruction in enumerate(self.graph.instructions)
            if instruction.reference is not None and (instruction.address is None or self._is_irregular(place))
        }
        if not indirect:
            return self.graph
        edges = [edge for edge in self.graph.edges if edge.target not in indirect or not self._is_index(edge)]
        for place in indirect:
            edges += self._addressed(place)
        return Idg(tuple(self.instructions), tuple(dict.fromkeys(edges)), expanded(self.graph.body, self.parts))

    def _addressed(self, place: int) -> Iterator[Edge]:
        """Yield the edges to and from the address computation of the access at *place*."""
        access, loops = self.graph.instructions[place], self.graph.loops_around[place]
        wanted = [edge for edge in self.graph.definitions[place] if self._is_index(edge)]
        what = frozenset((edge.source, edge.iterations, edge.condition) for edge in wanted)
        under = access.condition, access.on_data
        key = (access.reference.array, tuple(loop.number for loop in loops), under, what)
        names = [loop.name for loop in loops]
        if key not in self.last:
            number = 1 if access.address is None else IRREGULAR[access.subsystem]
            added = range(len(self.instructions), len(self.instructions) + number)
            self.last[key], self.parts[place] = added[-1], [*added, place]
            self.instructions += [_step(access)] * number
            yield from (replace(edge, target=added[0], operand=None) for edge in wanted)
            yield from (Edge.within(one, one + 1, names) for one in added[:-1])
        yield Edge.within(self.last[key], place, names)

    def _is_irregular(self, place: int) -> bool:
        """Return whether the address depends on index arithmetic that is computed in each iteration."""
        sources = (edge.source for edge in self.graph.definitions[place] if self._is_index(edge))
        around = self.graph.loops_around
        return any(self.graph.instructions[source].is_index and around[source] == around[place] for source in sources)

    def _is_index(self, edge: Edge) -> bool:
        """Return whether *edge* leads to the index of an access; operand 0 of a store is the stored value."""
        is_store = self.graph.instructions[edge.target].kind == Opcode.STORE
        return edge.through == Dependence.DATA and edge.operand is not None and edge.operand >= int(is_store)


def _step(access: Instruction) -> Instruction:
    """Return one instruction of the address computation of *access*."""
    text, condition = f"address of {access.reference.array}", access.condition
    found = Instruction(Opcode.INTEGER, "i64", Pipeline.ALU, access.source, text, None, access.executions, condition)
    return replace(found, is_idle=access.is_idle)


# }}}


# {{{ wide loads


WIDEST = 128
"""width of the widest access, in bits"""


def with_wide_loads(graph: Idg) -> Idg:
    """Return *graph* with aligned loads of neighboring elements of local memory merged to 64 or 128 bits."""
    leader: dict[int, int] = {}
    widened: dict[int, Instruction] = {}
    for block in _blocks(graph.body):
        position = {place: position for position, place in enumerate(block)}
        for together in _neighbours(graph, block):
            first = graph.instructions[together[0]]
            bits = first.reference.bits * len(together)
            earliest = min(together, key=position.__getitem__)  # a use of one of them may come before the others
            widened[earliest] = replace(first, dtype=f"b{bits}")
            leader.update(dict.fromkeys(together, earliest))
    kept = [place for place in range(len(graph.instructions)) if leader.get(place, place) == place]
    return rewritten(
        graph, kept, graph.edges, widened, {place: first for place, first in leader.items() if place != first}
    )


def _blocks(body: Sequence[Item]) -> list[list[int]]:
    """Return the instructions of each piece of straight-line code, between loops and inside them."""
    found: list[list[int]] = [[]]
    for item in body:
        if isinstance(item, Loop):
            found += [*_blocks(item.body), []]
        else:
            found[-1].append(item)
    return found


def _neighbours(graph: Idg, block: Sequence[int]) -> list[list[int]]:
    """Return groups of loads in *block* to be merged: neighboring elements between the same barriers and stores."""
    groups: dict[Any, dict[int, int]] = {}
    epoch = 0
    for place in block:
        each = graph.instructions[place]
        epoch += each.kind in (Opcode.BARRIER, Opcode.STORE)
        if (
            each.kind == Opcode.LOAD
            and each.subsystem == MemorySpace.LOCAL
            and each.reference is not None
            and not each.is_volatile
        ):
            address = each.address
            if address is not None and all(isinstance(variable, str) for variable, _ in address.terms):
                where = (epoch, each.condition, each.is_idle, each.tests, each.predicates, each.on_data)
                key = (each.reference.array, each.reference.bits, address.terms, where)
                groups.setdefault(key, {})[address.constant] = place
    return [
        part
        for (_, bits, terms, _), places in groups.items()
        for part in _parts(places, bits, [factor for _, factor in terms])
    ]


def _parts(places: dict[int, int], bits: int, factors: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = []
    end = min(places, default=0)
    """index after the last element handled"""
    for start in sorted(places):
        if start < end:
            continue
        number = WIDEST // bits
        while number > 1:
            together = [start + step for step in range(number)]
            aligned = start % number == 0 and all(factor % number == 0 for factor in factors)
            if aligned and all(each in places for each in together):
                found.append([places[each] for each in together])
                break
            number //= 2
        end = start + max(number, 1)
    return found


# {{{ vectors wider than 128 bits


def with_split_vectors(graph: Idg) -> Idg:
    """Return *graph* with loads and stores of more than 128 bits split into several instructions.

    An instruction that uses one member of a vector waits only for the load of that member; the store of a member waits
    only for the instruction that computes it.
    """
    wide = [place for place, instruction in enumerate(graph.instructions) if _pieces(instruction) > 1]
    if not wide:
        return graph
    instructions, pieces = list(graph.instructions), dict[int, list[int]]()
    for place in wide:
        like, number = graph.instructions[place], _pieces(graph.instructions[place])
        instructions[place] = replace(like, dtype=f"b{WIDEST}")
        pieces[place] = [place, *range(len(instructions), len(instructions) + number - 1)]
        instructions += [instructions[place]] * (number - 1)
    edges = tuple(new for edge in graph.edges for new in _split_edge(graph, pieces, edge))
    return Idg(tuple(instructions), edges, expanded(graph.body, pieces))


def _pieces(instruction: Instruction) -> int:
    """Return into how many instructions a load or store is split: one for each 128 bits."""
    is_narrow = instruction.reference is None or len(instruction.dtype) <= len("b64")
    return 1 if is_narrow else instruction.bits // WIDEST


def _split_edge(graph: Idg, pieces: Mapping[int, Sequence[int]], edge: Edge) -> Iterator[Edge]:
    """Yield the edges that replace *edge* if its ends are split: between equal pieces, or to the piece of a member."""
    before, after = pieces.get(edge.source, [edge.source]), pieces.get(edge.target, [edge.target])
    if edge.through == Dependence.DATA and len(before) == len(after):
        yield from (edge.between(*ends) for ends in zip(before, after, strict=True))
        return
    if edge.through == Dependence.DATA and len(before) > 1:
        before = [before[_piece(graph, edge.source, edge.target, edge.operand)]]
    elif edge.operand == 0 and len(after) > 1:
        after = [after[_piece(graph, edge.target, edge.source, None)]]
    yield from (edge.between(source, target) for source in before for target in after)


def _piece(graph: Idg, access: int, other: int, operand: int | None) -> int:
    """Return the piece of *access* that has the member which instruction *other*, or its *operand*, uses."""
    wide, instruction = graph.instructions[access], graph.instructions[other]
    element = None if operand is None else instruction.operands[operand].element
    member = instruction.part if element is None or not isinstance(element.member, int) else element.member
    members = wide.bits // int(wide.scalar[1:] or 32)
    return member % members * _pieces(wide) // members


# }}}


# }}}
