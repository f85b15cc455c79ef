"""What caches do not keep of private memory: by how much of its stack a warp touches between two accesses.

A cache that holds as much of the stack of each warp as was touched since an element's last access still has it
(Mattson, Gecsei, Slutz and Traiger, Evaluation techniques for storage hierarchies, 1970); one that holds less has lost
it, as all warps go through their stacks in the same order. What was stored is written on when it is given up. Stacks
pass from one group to the next, so that a program's first accesses come after the last ones of the same program.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np

from loopyperf.counts.item import MemorySpace
from loopyperf.counts.memory import Reference
from loopyperf.errors import UncountableError
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Item, Loop, Opcode, placed
from loopyperf.memory.sectors import LINE, SectorAccess, sector_access
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.expressions import Passes, names_of, test_of, valued

# {{{ what one access of a warp asks of private memory
#
# The stacks of the lanes are interleaved by words of 32 bits, so that lanes which access the same element access
# consecutive words (CUDA C++ Programming Guide, "Device Memory Accesses", local memory). Each word of an element has
# room of its own for all lanes of the warp: a line, of warps of 32.


WORD = 4
"""bytes"""


def private_access(ref: Reference, lanes: int) -> SectorAccess:
    """Return what *ref*, one of private memory, asks for where all *lanes* of a warp access the same element.

    Raises :class:`UncountableError` for a reference of another memory.
    """
    if ref.space != MemorySpace.PRIVATE:
        raise UncountableError(f"{ref.array!r} lives in {ref.space} memory: take access_pattern(...)")
    words = max(1, ref.bits // 32)
    starts = np.arange(lanes) * WORD + lanes * WORD * np.arange(words)[:, np.newaxis]
    return replace(sector_access(starts.ravel(), min(WORD, ref.bits // 8)), lanes=lanes)


# }}}


# {{{ private reuse


LIMIT = 50_000
"""accesses that are looked at"""

_Element = tuple[str, int | tuple[int, int]]
"""an array, and which of its elements; where that is data, which access: each is taken for another element"""


@dataclass(frozen=True, slots=True)
class StackAccess:
    """An access of private memory by a warp."""

    element: _Element
    is_store: bool
    executions: float
    """that it stands for"""
    distance: int | None
    """bytes of the stack that were touched since the last access of the element, its own included; None if it is the
    first one"""


@dataclass(frozen=True, slots=True)
class Moved:
    """What moves between a cache and what is behind it, in executions of loads and stores."""

    loads: float = 0.0
    fetched: float = 0.0
    """loads that the cache has to fetch for"""
    stores: float = 0.0
    written: float = 0.0
    """stores that it writes on"""

    def __add__(self, other: "Moved") -> "Moved":
        """Return both together."""
        return Moved(
            self.loads + other.loads,
            self.fetched + other.fetched,
            self.stores + other.stores,
            self.written + other.written,
        )


@dataclass(frozen=True)
class StackReuse:
    """The accesses of private memory of a warp that executes its program twice, one after the other."""

    accesses: tuple[StackAccess, ...]

    @classmethod
    def of(cls, graph: Idg, lanes: int) -> "StackReuse":
        """Take the machine *graph* of a warp of *lanes*; of its accesses, the first :data:`LIMIT` are looked at."""
        sequence = [each for each, _ in zip(_Walk(graph).accesses(graph.body, {}, 1.0), range(LIMIT), strict=False)]
        touched = {
            place: private_access(graph.instructions[place].reference, lanes).lines * LINE
            for place in {place for place, _, _ in sequence}
        }
        last: dict[_Element, int] = {}
        times: list[int] = []
        """of the last accesses of all elements, in ascending order"""
        widths: list[int] = []
        """beside them: the bytes that each element takes"""
        found: list[StackAccess] = []
        for time, (place, element, executions) in enumerate([*sequence, *sequence]):
            distance = None
            if element in last:
                position = bisect_left(times, last[element])
                distance = sum(widths[position:])
                del times[position], widths[position]
            times.append(time)
            widths.append(touched[place])
            last[element] = time
            found.append(StackAccess(element, graph.instructions[place].kind == Opcode.STORE, executions, distance))
        return cls(tuple(found))

    def moved(self, room: float) -> Moved:
        """Return what the second execution moves if a cache has *room* for so many bytes of the stack."""
        changed: set[_Element] = set()
        """what is in the cache with something stored that was not written on"""
        loads = fetched = stores = written = 0.0
        for number, each in enumerate(self.accesses):
            is_lost = each.distance is None or each.distance > room
            if number >= len(self.accesses) // 2:
                loads += 0 if each.is_store else each.executions
                fetched += each.executions if is_lost and not each.is_store else 0
                stores += each.executions if each.is_store else 0
                written += each.executions if is_lost and each.element in changed else 0
            if each.is_store:
                changed.add(each.element)
            elif is_lost:
                changed.discard(each.element)
        return Moved(loads, fetched, stores, written)


@dataclass
class _Walk:
    """The accesses of private memory, in the order of the program."""

    graph: Idg
    _affine: dict[int, Affine[str] | None] = field(default_factory=dict[int, Affine[str] | None])
    _tests: dict[int, Callable[[Passes], bool]] = field(default_factory=dict[int, Callable[[Passes], bool]])
    _moved: dict[int, bool] = field(default_factory=dict[int, bool])
    _number: int = 0

    def __post_init__(self) -> None:
        for place, each in enumerate(self.graph.instructions):
            if each.subsystem == MemorySpace.PRIVATE:
                known = each.address
                is_affine = known is not None and all(isinstance(variable, str) for variable, _ in known.terms)
                self._affine[place] = cast("Affine[str]", known) if is_affine else None
                self._tests[place] = test_of(each.condition)

    def accesses(
        self, body: Sequence[Item], passes: Mapping[str, int], executions: float
    ) -> Iterator[tuple[int, _Element, float]]:
        """Yield the place, the element and the number of executions that this one stands for."""
        for item in body:
            if isinstance(item, Loop):
                yield from self._loop(item, passes, executions)
            elif item in self._tests and self._tests[item](passes):
                yield item, self._element(item, passes), executions

    def _loop(self, loop: Loop, passes: Mapping[str, int], executions: float) -> Iterator[tuple[int, _Element, float]]:
        if not any(place in self._affine for place, _ in placed(loop.body)):
            return
        trips = valued(loop.trips, passes)
        # Where nothing depends on the pass, all but the first are alike.
        alike = 1 if self._moves(loop) else max(trips - 1, 1)
        for number in range(trips if alike == 1 else min(trips, 2)):
            inside = {**passes, loop.name: number}
            yield from self.accesses(loop.body, inside, executions * (alike if number else 1))

    def _moves(self, loop: Loop) -> bool:
        """Return whether the accesses in *loop* depend on its pass."""
        if loop.number not in self._moved:
            inside = [(place, around) for place, around in placed(loop.body) if place in self._affine]
            said = [self.graph.instructions[place].condition for place, _ in inside]
            said += [inner.trips for _, around in inside for inner in around]
            moving = {
                name for place, _ in inside if (found := self._affine[place]) is not None for name in found.variables
            }
            self._moved[loop.number] = loop.name in names_of(said) | moving
        return self._moved[loop.number]

    def _element(self, place: int, passes: Mapping[str, int]) -> _Element:
        reference, address = self.graph.instructions[place].reference, self._affine[place]
        if address is None:
            self._number += 1
            return reference.array, (place, self._number)
        return reference.array, address.constant + sum(times * passes.get(name, 0) for name, times in address.terms)


# }}}
