"""Traffic of private memory behind a cache, from the reuse distances of a warp's stack.

A cache still holds an element if it holds as much of each warp's stack as was touched since the element's last access
(Mattson, Gecsei, Slutz and Traiger, Evaluation techniques for storage hierarchies, 1970). A smaller cache has evicted
it, because all warps go through their stacks in the same order. Stored data is written back on eviction. Stacks pass
from one group to the next, so the first accesses of a program follow the last ones of the same program.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple, cast

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

# {{{ one access of a warp to private memory
#
# The stacks of the lanes are interleaved by words of 32 bits, so lanes that access the same element access consecutive
# words (CUDA C++ Programming Guide, "Device Memory Accesses", local memory). Each word of an element occupies space for
# all lanes of the warp: one line for warps of 32.


WORD = 4
"""bytes"""


def private_access(ref: Reference, lanes: int) -> SectorAccess:
    """Return the sectors of the private access *ref* if all *lanes* of a warp access the same element.

    Raises :class:`UncountableError` for a reference to another memory.
    """
    if ref.space != MemorySpace.PRIVATE:
        raise UncountableError(f"{ref.array!r} is in {ref.space} memory, not private; use access_pattern(...)")
    words = max(1, ref.bits // 32)
    starts = np.arange(lanes) * WORD + lanes * WORD * np.arange(words)[:, np.newaxis]
    return replace(sector_access(starts.ravel(), min(WORD, ref.bits // 8)), lanes=lanes)


# }}}


# {{{ reuse of the stack


LIMIT = 50_000
"""most accesses that are analyzed"""

_Element = tuple[str, int | tuple[int, int]]
"""array and element; if the element is data, a number of the access, so that each counts as another element"""


class Moved(NamedTuple):
    """Data moved between a cache and the next level, in executions of loads and stores."""

    loads: float = 0.0
    fetched: float = 0.0
    """loads that miss in the cache"""
    stores: float = 0.0
    written: float = 0.0
    """stores that are written back"""


@dataclass(frozen=True, eq=False)
class StackReuse:
    """The accesses of a warp to private memory if it executes its program twice in succession."""

    elements: NDArray[np.int64]
    """number of the element of each access"""
    is_store: NDArray[np.bool_]
    executions: NDArray[np.float64]
    """executions represented by each access"""
    distances: NDArray[np.float64]
    """reuse distance: bytes of the stack touched since the last access to the element, itself included; inf at first"""

    @classmethod
    def of(cls, graph: Idg, lanes: int) -> "StackReuse":
        """Analyze the machine *graph* of a warp of *lanes*, up to :data:`LIMIT` accesses."""
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
        """Return the data moved by the second execution if a cache has *room* bytes for the stack."""
        is_lost = self.distances > room
        again = np.arange(len(is_lost)) >= len(is_lost) // 2
        loads, stores = again & ~self.is_store, again & self.is_store
        chosen = (loads, loads & is_lost, stores, again & is_lost & self._changed(is_lost))
        return Moved(*(float(self.executions[each].sum()) for each in chosen))

    def _changed(self, is_lost: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the accesses before which the cache holds a stored value that is not yet written back.

        A store makes the element dirty; a load that fetches the element gets it clean.
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
    """Return the bytes of the elements accessed since the last access to each of *elements*, itself included."""
    last: dict[int, int] = {}
    times: list[int] = []
    """times of the last access to each element, in ascending order"""
    nbytes: list[int] = []
    """size in bytes of each of these elements"""
    found = [inf] * len(elements)
    same_size = len(set(widths)) == 1
    for time, element in enumerate(elements):
        if element in last:
            position = bisect_left(times, last[element])
            found[time] = widths[0] * (len(times) - position) if same_size else sum(nbytes[position:])
            del times[position], nbytes[position]
        times.append(time)
        nbytes.append(widths[time])
        last[element] = time
    return np.array(found, dtype=np.float64)


@dataclass
class _Walk:
    """Collects accesses to private memory in program order."""

    graph: Idg
    found: list[tuple[int, _Element, float]] = field(default_factory=list[tuple[int, _Element, float]])
    """place, element and represented executions of each access; up to :data:`LIMIT`"""
    _affine: dict[int, Affine[str] | None] = field(default_factory=dict[int, Affine[str] | None])
    _tests: dict[int, Callable[[IterationRanges], bool] | None] = field(
        default_factory=dict[int, Callable[[IterationRanges], bool] | None]
    )
    _moved: dict[int, bool | None] = field(default_factory=dict[int, bool | None])
    _number: int = 0

    def __post_init__(self) -> None:
        for place, instruction in enumerate(self.graph.instructions):
            if instruction.subsystem == MemorySpace.PRIVATE:
                known = instruction.address
                is_affine = known is not None and all(isinstance(variable, str) for variable, _ in known.terms)
                self._affine[place] = cast("Affine[str]", known) if is_affine else None
                self._tests[place] = None if instruction.condition is None else test_of(instruction.condition)

    def through(self, body: Sequence[Item], iterations: Mapping[str, int], executions: float) -> None:
        """Append the accesses of *body* in *iterations*; each represents *executions*."""
        for item in body:
            if isinstance(item, Loop):
                self._through_loop(item, iterations, executions)
            elif item in self._tests and ((test := self._tests[item]) is None or test(iterations)):
                self.found.append((item, self._element(item, iterations), executions))

    def _through_loop(self, loop: Loop, iterations: Mapping[str, int], executions: float) -> None:
        if (is_moving := self._moves(loop)) is None:
            return
        trips = valued(loop.trips, iterations)
        # If nothing depends on the iteration, all but the first are the same.
        repeats = 1 if is_moving else max(trips - 1, 1)
        for number in range(trips if repeats == 1 else min(trips, 2)):
            if len(self.found) >= LIMIT:
                return
            self.through(loop.body, {**iterations, loop.name: number}, executions * (repeats if number else 1))

    def _moves(self, loop: Loop) -> bool | None:
        """Return whether the accesses in *loop* depend on its iteration; None if it has no accesses."""
        if loop.number not in self._moved:
            inside = [(place, around) for place, around in placed(loop.body) if place in self._affine]
            controls = [self.graph.instructions[place].condition for place, _ in inside]
            controls += [inner.trips for _, around in inside for inner in around]
            moving = {
                name for place, _ in inside if (found := self._affine[place]) is not None for name in found.variables
            }
            self._moved[loop.number] = loop.name in names_of(controls) | moving if inside else None
        return self._moved[loop.number]

    def _element(self, place: int, iterations: Mapping[str, int]) -> _Element:
        reference, address = self.graph.instructions[place].reference, self._affine[place]
        if address is None:
            self._number += 1
            return reference.array, (place, self._number)
        at = address.constant
        for name, times in address.terms:
            at += times * iterations.get(name, 0)
        return reference.array, at


# }}}
