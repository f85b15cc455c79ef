"""What caches do not keep of private memory: by how much of its stack a warp touches between two accesses.

A cache that holds as much of the stack of each warp as was touched since an element's last access still has it
(Mattson, Gecsei, Slutz and Traiger, Evaluation techniques for storage hierarchies, 1970); one that holds less has lost
it, as all warps go through their stacks in the same order. What was stored is written on when it is given up. Stacks
pass from one group to the next, so that a program's first accesses come after the last ones of the same program.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import cast

import numpy as np
from numpy.typing import NDArray

from loopyperf.counts.item import MemorySpace
from loopyperf.counts.memory_accesses import Reference
from loopyperf.errors import UncountableError
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Item, Loop, Opcode, placed
from loopyperf.memory.sectors import LINE, SectorAccess, sector_access
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.expressions import IterationRanges, names_of, test_of, valued

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


@dataclass(frozen=True, eq=False)
class StackReuse:
    """The accesses of private memory of a warp that executes its program twice, one after the other."""

    elements: NDArray[np.int64]
    """which of them each access is of"""
    is_store: NDArray[np.bool_]
    executions: NDArray[np.float64]
    """that each stands for"""
    distances: NDArray[np.float64]
    """bytes of the stack that were touched since the last access of the element, its own included; infinite for the
    first one"""

    @classmethod
    def of(cls, graph: Idg, lanes: int) -> "StackReuse":
        """Take the machine *graph* of a warp of *lanes*; of its accesses, the first :data:`LIMIT` are looked at."""
        walk = _Walk(graph)
        walk.through(graph.body, {}, 1.0)
        sequence = walk.found[:LIMIT]
        accessing = {place: graph.instructions[place] for place in dict.fromkeys(place for place, _, _ in sequence)}
        touched = {place: private_access(each.reference, lanes).lines * LINE for place, each in accessing.items()}
        stores = {place for place, each in accessing.items() if each.kind == Opcode.STORE}
        numbers: dict[_Element, int] = {}
        elements = [numbers.setdefault(element, len(numbers)) for _, element, _ in sequence]
        return cls(
            elements=np.array(elements * 2, dtype=np.int64),
            is_store=np.array([place in stores for place, _, _ in sequence] * 2, dtype=np.bool_),
            executions=np.array([executions for _, _, executions in sequence] * 2, dtype=np.float64),
            distances=_distances(elements * 2, [touched[place] for place, _, _ in sequence] * 2),
        )

    def moved(self, room: float) -> Moved:
        """Return what the second execution moves if a cache has *room* for so many bytes of the stack."""
        is_lost = self.distances > room
        again = np.arange(len(is_lost)) >= len(is_lost) // 2
        loads, stores = again & ~self.is_store, again & self.is_store
        chosen = (loads, loads & is_lost, stores, again & is_lost & self._changed(is_lost))
        return Moved(*(float(self.executions[each].sum()) for each in chosen))

    def _changed(self, is_lost: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return before which accesses the cache has what was stored to the element and was not written on.

        A store changes it; a load that fetches the element gets it as it is behind the cache.
        """
        order = np.argsort(self.elements, kind="stable")
        deciding = (self.is_store | is_lost)[order]
        latest = np.maximum.accumulate(np.where(deciding, np.arange(len(order)), -1))
        before = np.concatenate([np.full(1, -1), latest])[:-1]
        of_element = self.elements[order]
        is_known = before >= np.searchsorted(of_element, of_element)
        changed = np.zeros(len(order), dtype=np.bool_)
        changed[order] = is_known & self.is_store[order][before]
        return changed


def _distances(elements: Sequence[int], widths: Sequence[int]) -> NDArray[np.float64]:
    """Return the bytes of all elements that were accessed since the last access of each of *elements*, and its own."""
    last: dict[int, int] = {}
    times: list[int] = []
    """of the last accesses of all elements, in ascending order"""
    taken: list[int] = []
    """beside them: the bytes that each element takes"""
    found = [inf] * len(elements)
    are_alike = len(set(widths)) == 1
    for time, element in enumerate(elements):
        if element in last:
            position = bisect_left(times, last[element])
            found[time] = widths[0] * (len(times) - position) if are_alike else sum(taken[position:])
            del times[position], taken[position]
        times.append(time)
        taken.append(widths[time])
        last[element] = time
    return np.array(found, dtype=np.float64)


@dataclass
class _Walk:
    """The accesses of private memory, in the order of the program."""

    graph: Idg
    found: list[tuple[int, _Element, float]] = field(default_factory=list[tuple[int, _Element, float]])
    """the place, the element and the number of executions that each stands for; once they are :data:`LIMIT`, no more"""
    _affine: dict[int, Affine[str] | None] = field(default_factory=dict[int, Affine[str] | None])
    _tests: dict[int, Callable[[IterationRanges], bool] | None] = field(
        default_factory=dict[int, Callable[[IterationRanges], bool] | None]
    )
    _moved: dict[int, bool | None] = field(default_factory=dict[int, bool | None])
    _number: int = 0

    def __post_init__(self) -> None:
        for place, each in enumerate(self.graph.instructions):
            if each.subsystem == MemorySpace.PRIVATE:
                known = each.address
                is_affine = known is not None and all(isinstance(variable, str) for variable, _ in known.terms)
                self._affine[place] = cast("Affine[str]", known) if is_affine else None
                self._tests[place] = None if each.condition is None else test_of(each.condition)

    def through(self, body: Sequence[Item], passes: Mapping[str, int], executions: float) -> None:
        """Append the accesses of *body* in these *passes*, each of which stands for so many *executions*."""
        for item in body:
            if isinstance(item, Loop):
                self._through_loop(item, passes, executions)
            elif item in self._tests and ((test := self._tests[item]) is None or test(passes)):
                self.found.append((item, self._element(item, passes), executions))

    def _through_loop(self, loop: Loop, passes: Mapping[str, int], executions: float) -> None:
        if (is_moving := self._moves(loop)) is None:
            return
        trips = valued(loop.trips, passes)
        # Where nothing depends on the pass, all but the first are alike.
        alike = 1 if is_moving else max(trips - 1, 1)
        for number in range(trips if alike == 1 else min(trips, 2)):
            if len(self.found) >= LIMIT:
                return
            self.through(loop.body, {**passes, loop.name: number}, executions * (alike if number else 1))

    def _moves(self, loop: Loop) -> bool | None:
        """Return whether the accesses in *loop* depend on its pass; None where there are none."""
        if loop.number not in self._moved:
            inside = [(place, around) for place, around in placed(loop.body) if place in self._affine]
            said = [self.graph.instructions[place].condition for place, _ in inside]
            said += [inner.trips for _, around in inside for inner in around]
            moving = {
                name for place, _ in inside if (found := self._affine[place]) is not None for name in found.variables
            }
            self._moved[loop.number] = loop.name in names_of(said) | moving if inside else None
        return self._moved[loop.number]

    def _element(self, place: int, passes: Mapping[str, int]) -> _Element:
        reference, address = self.graph.instructions[place].reference, self._affine[place]
        if address is None:
            self._number += 1
            return reference.array, (place, self._number)
        at = address.constant
        for name, times in address.terms:
            at += times * passes.get(name, 0)
        return reference.array, at


# }}}
