"""Values that are stored and used again: what was stored is not loaded, and what is stored over was not stored.

Both hold within a straight piece of code in which no barrier is met: nobody else may look in between, unless accesses
are volatile (docs/compiler.md, section 5).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop, Opcode
from loopyperf.idg.rewriting import composed, rewritten


def with_forwarded_stores(graph: Idg) -> Idg:
    """Return *graph* without loads of what was stored right before, and without stores that are stored over."""
    finder = _Finder(graph)
    finder.look_at(graph.body)
    return _forwarded(graph, finder.stored_by, finder.dead)


class _Finder:
    """Goes through the straight pieces of a program."""

    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.stored_by: dict[int, int] = {}
        """of a load: the store that it would read"""
        self.dead: set[int] = set()
        """stores that are stored over before anybody looks"""

    def look_at(self, body: Sequence[Item]) -> None:
        """Look for both in *body*."""
        stored: dict[str, list[int]] = {}
        """of an array: what was stored to it, as far as it is there still, the latest last"""
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
        same = [store for store in known if self._are_same(place, store)]
        if same and self._gives_a_value(same[-1]):
            self.stored_by[place] = same[-1]
        else:
            unread.difference_update(store for store in known if not self._are_apart(place, store))

    def _store(self, place: int, known: list[int], unread: set[int]) -> None:
        self.dead |= {store for store in known if store in unread and self._are_same(place, store)}
        known[:] = [store for store in known if self._are_apart(place, store)]
        known.append(place)
        unread.add(place)

    def _are_same(self, one: int, other: int) -> bool:
        left, right = self.graph.instructions[one], self.graph.instructions[other]
        return left.symbolic is not None and _what(left) == _what(right)

    def _are_apart(self, one: int, other: int) -> bool:
        """Return whether the two accesses are of elements that are a constant number of elements apart."""
        left, right = (self.graph.instructions[place].symbolic for place in (one, other))
        if left is None or right is None or left.without_constant != right.without_constant:
            return False
        return left.constant != right.constant

    def _gives_a_value(self, store: int) -> bool:
        """Return whether an instruction computes what is stored, so that the uses of a load can wait for it."""
        stored = [edge for edge in self.graph.definitions[store] if edge.operand == 0]
        operands = self.graph.instructions[store].operands
        return bool(stored) and not (operands and operands[0].is_negated)


def _what(access: Instruction) -> tuple[Any, ...]:
    """Return what tells which element *access* is of, and when it is done; the condition is one on passes."""
    under = access.tests, access.predicates, access.condition, access.is_idle
    return access.symbolic, access.reference.bits, under


def _forwarded(graph: Idg, stored_by: dict[int, int], dead: set[int]) -> Idg:
    edges = [edge for edge in graph.edges if edge.source not in stored_by]
    for edge in graph.edges:
        if edge.source in stored_by and edge.through == Dependence.DATA:
            edges += _from_the_value(graph, edge, stored_by)
    kept = [place for place in range(len(graph.instructions)) if place not in stored_by and place not in dead]
    return rewritten(graph, kept, edges)


def _from_the_value(graph: Idg, edge: Edge, stored_by: dict[int, int]) -> list[Edge]:
    """Return the edges of a use of a load from what was stored there, which may have been such a load itself."""
    store = stored_by[edge.source]
    found: list[Edge] = []
    for definition in (each for each in graph.definitions[store] if each.operand == 0):
        new = composed(graph, definition, replace(edge, source=store))
        found += _from_the_value(graph, new, stored_by) if new.source in stored_by else [new]
    return found
