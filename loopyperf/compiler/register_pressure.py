"""An order of instructions that keeps few values alive: what ptxas does where the program's own order keeps many.

List scheduling for register pressure (Goodman and Hsu, Code scheduling and register allocation in large basic blocks,
ICS 1988): of what is ready, that comes first after which the fewest registers are taken. Loads come late: one comes
where it lets something be computed, or where the order of the program has nothing else left. Pieces between loops,
barriers and branches are put in order one by one. What is measured stands in docs/compiler/private_data.md.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from loopyperf.idg.graph import Idg
from loopyperf.idg.metrics.live_values import live_registers, widths
from loopyperf.idg.program import Dependence, Edge, Item, Loop, Opcode

MANY = 64
"""registers: where values take no more, the order of the program is left as it is"""


def with_few_registers(graph: Idg) -> Idg:
    """Return *graph* in that order, of three, in which values take the fewest registers at once.

    They are that of the program, and two of list scheduling: one brings a value where the program wants it next, the
    other where it lets most be computed.
    """
    least, found = live_registers(graph), graph
    if least <= MANY:
        return graph
    for is_eager in (False, True):
        other = Idg(graph.instructions, graph.edges, tuple(_Scheduler(graph, is_eager).items(graph.body)))
        if (registers := live_registers(other)) < least:
            found, least = other, registers
    return found


class _Scheduler:
    def __init__(self, graph: Idg, is_eager: bool) -> None:
        self.graph, self.is_eager, self.width = graph, is_eager, widths(graph)
        self.users: list[list[Edge]] = [[] for _ in graph.instructions]
        for edge in graph.edges:
            self.users[edge.source].append(edge)

    def items(self, body: Sequence[Item]) -> Iterator[Item]:
        """Yield the items of *body* in their new order."""
        block: list[int] = []
        for item in body:
            if isinstance(item, Loop) or self._is_between(item):
                yield from _Block(self, block).order()
                block = []
                yield replace(item, body=tuple(self.items(item.body))) if isinstance(item, Loop) else item
            else:
                block.append(item)
        yield from _Block(self, block).order()

    def _is_between(self, place: int) -> bool:
        """Return whether nothing is moved past *place*: a barrier, or a test whether to go on or to go around."""
        kind = self.graph.instructions[place].kind
        return kind in (Opcode.BARRIER, Opcode.BRANCH) or (kind == Opcode.INTEGER and not self.users[place])


class _Block:
    """Instructions that are executed one after the other, with nothing between that they are not moved past."""

    def __init__(self, scheduler: _Scheduler, places: Sequence[int]) -> None:
        self.graph, self.width, self.is_eager = scheduler.graph, scheduler.width, scheduler.is_eager
        self.position = {place: position for position, place in enumerate(places)}
        self.program = sorted(places, key=self._is_load)
        """what is wanted: loads come before what uses them"""
        self.wanted = 0
        """how many of these are done, at least"""
        self.values: dict[int, set[int]] = {place: set() for place in places}
        """of an instruction: what it uses, each by what defines it; of an earlier pass, by the complement of that"""
        self.missing: dict[int, set[int]] = {place: set() for place in places}
        """of an instruction: what has to come before it, and has not yet"""
        self.waiting: defaultdict[int, set[int]] = defaultdict(set)
        """of an instruction: what waits for it"""
        self.left: defaultdict[int, int] = defaultdict(int)
        """of a value: instructions that are to use it yet; one that is used elsewhere is never used up"""
        self.enabled: defaultdict[int, set[int]] = defaultdict(set)
        """of a load: what waits for it alone"""
        self.done: set[int] = set()
        self.ready: list[tuple[int, int, int]] = []
        self.loads: list[tuple[int, int, int]] = []
        """both: how many more registers are taken after it, its position, its place"""
        for place in places:
            self._find(scheduler.users[place], place)
        for value in (value for values in self.values.values() for value in values):
            self.left[value] += 1
        volatile = [place for place in places if self.graph.instructions[place].is_volatile]
        for before, after in pairwise(volatile):
            self._wait(before, after)

    def _is_load(self, place: int) -> bool:
        return self.graph.instructions[place].kind == Opcode.LOAD

    def _find(self, uses: Sequence[Edge], place: int) -> None:
        """Find what waits for *place*, and what uses its result: here, in the next pass, or elsewhere."""
        for edge in uses:
            is_here = edge.target in self.position and not any(edge.distance)
            if is_here:
                self._wait(place, edge.target)
            if edge.through == Dependence.DATA:
                value = place if is_here else ~place
                if edge.target in self.position:
                    self.values[edge.target].add(value)
                if not is_here:
                    self.left[place] = 1

    def _wait(self, before: int, after: int) -> None:
        self.missing[after].add(before)
        self.waiting[before].add(after)

    # {{{ the order

    def order(self) -> Iterator[int]:
        """Yield the places in their new order."""
        for place in self.position:
            self._consider(place)
        while self.wanted < len(self.program):
            if self.program[self.wanted] in self.done:
                self.wanted += 1
                continue
            place = self._next()
            yield place
            self._do(place)

    def _next(self) -> int:
        """Return what comes next: what takes no more registers, a load that lets such come, or what is wanted."""
        ready = self._least(self.ready)
        if ready is not None and ready[0] <= 0:
            return ready[-1]
        if self.is_eager:
            candidates = [each for each in (ready, self._least(self.loads)) if each is not None]
            if candidates:
                return min(candidates)[-1]
        place = self.program[self.wanted]
        while self.missing[place]:
            place = min(self.missing[place], key=self.position.__getitem__)
        return place

    def _least(self, heap: list[tuple[int, int, int]]) -> tuple[int, int, int] | None:
        """Return what of *heap* takes the fewest registers now."""
        while heap:
            cost, position, place = heap[0]
            if place in self.done:
                heapq.heappop(heap)
            elif cost < (now := self._cost(place)):
                heapq.heapreplace(heap, (now, position, place))
            else:
                return heap[0]
        return None

    def _cost(self, place: int) -> int:
        """Return how many more registers are taken after *place*, and after what waits for it alone."""
        enabled = [user for user in self.enabled[place] if user not in self.done]
        cost = self._alone(place) + sum(self._alone(user, place) for user in enabled)
        return cost - self.width[place] if enabled and self.left[place] == len(enabled) else cost

    def _alone(self, place: int, kept: int | None = None) -> int:
        """Return how many more registers are taken after *place*: its result's, less those of values used up."""
        used_up = (value for value in self.values[place] if self.left[value] == 1 and value != kept)
        taken = self.width[place] if self.left[place] else 0
        return taken - sum(self.width[value if value >= 0 else ~value] for value in used_up)

    def _consider(self, place: int) -> None:
        """Let *place* be chosen where it is ready, or the load that it waits for alone."""
        missing = self.missing[place]
        if not missing and not self._is_load(place):
            heapq.heappush(self.ready, (self._cost(place), self.position[place], place))
        elif not missing and self.enabled[place]:
            heapq.heappush(self.loads, (self._cost(place), self.position[place], place))
        elif len(missing) == 1 and self._is_load(load := next(iter(missing))):
            self.enabled[load].add(place)
            if not self.missing[load]:
                heapq.heappush(self.loads, (self._cost(load), self.position[load], load))

    def _do(self, place: int) -> None:
        self.done.add(place)
        for value in self.values[place]:
            self.left[value] -= 1
            if self.left[value] == 1:
                for user in self.waiting[value] - self.done:
                    self._consider(user)
        for user in self.waiting[place]:
            self.missing[user].discard(place)
            self._consider(user)

    # }}}
