"""How many registers a work-item needs, and the orders of instructions that a compiler chooses for their sake.

ptxas moves loads ahead until nothing waits, or until one more register would let fewer groups reside on a core; where
that takes fewer registers than values do, it goes on to the next number of groups. What its choices are compared with
stands in docs/compiler/private_data.md. The exact figure is :func:`loopyperf.compiler.resources.resources`.

The order of instructions in which a warp alone waits least, and the registers that values and addresses take in it.

ptxas aims at it: list scheduling from the end of each piece of the program without loops, barriers and branches, in
which an instruction stands as late as what uses its result allows, by the latencies of the machine (Cooper and Torczon,
Engineering a Compiler, section 12.3.5); of several, that which could have stood there first. Of independent loads all
are under way at once; of a chain as many as its arithmetic takes to go on. Registers count addresses: an index of 32
bits, which arrays share whose indices differ by constants, an address of 64 bits for each global array, and a counter
for each loop. In loops, addresses that differ by products of sizes are one that moves on. What is measured stands in
docs/compiler/private_data.md.
"""

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from loopyperf.compiler.entry import is_axis
from loopyperf.compiler.private_arrays import MOST_REGISTERS
from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.errors import ParameterError
from loopyperf.idg.graph import Idg
from loopyperf.idg.live_values import Lives
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop, Opcode, loops_in, placed
from loopyperf.polyhedral.affine import Opaque, Symbol
from loopyperf.polyhedral.polynomial import Term

LATENCY: Mapping[str, int] = {Opcode.MUFU: 20}
ARITHMETIC, LOCAL, GLOBAL = 4, 30, 200
"""cycles, about, of Volta (Jia et al., Dissecting the NVIDIA Volta GPU architecture via microbenchmarking, 2018)"""


def registers_without_waiting(graph: Idg) -> int:
    """Return the registers of 32 bits that values and addresses of the machine *graph* take in the order of latency."""
    lives = Lives(in_order_of_latency(with_addresses(graph)))
    return max(lives.pressure(lives.taken[0]), default=0)


# {{{ the order


def in_order_of_latency(graph: Idg) -> Idg:
    """Return the machine *graph* with its instructions in the order in which a warp waits least."""
    return replace(graph, body=tuple(_ordered_items(graph, graph.body)))


def _ordered_items(graph: Idg, body: Sequence[Item]) -> Iterator[Item]:
    piece: list[int] = []
    for item in body:
        if isinstance(item, Loop) or graph.instructions[item].kind in (Opcode.BARRIER, Opcode.BRANCH):
            yield from _Piece(graph, piece).order()
            piece = []
            yield replace(item, body=tuple(_ordered_items(graph, item.body))) if isinstance(item, Loop) else item
        else:
            piece.append(item)
    yield from _Piece(graph, piece).order()


def _latency(instruction: Instruction) -> int:
    if instruction.kind == Opcode.LOAD:
        return LOCAL if instruction.subsystem == MemorySpace.LOCAL else GLOBAL
    return LATENCY.get(instruction.kind, ARITHMETIC)


class _Piece:
    """Instructions with nothing between that they are not moved past."""

    def __init__(self, graph: Idg, places: Sequence[int]) -> None:
        self.position = {place: position for position, place in enumerate(places)}
        self.latency = {place: _latency(graph.instructions[place]) for place in places}
        self.before: dict[int, set[int]] = {
            place: {
                edge.source
                for edge in graph.definitions[place]
                if not any(edge.distance) and self.position.get(edge.source, len(places)) < position
            }
            for place, position in self.position.items()
        }
        for one, other in pairwise(place for place in places if graph.instructions[place].is_volatile):
            self.before[other].add(one)

    def order(self) -> Iterator[int]:
        """Yield the instructions in their new order."""
        return reversed(self._from_last())

    def _from_last(self) -> list[int]:
        users = dict.fromkeys(self.position, 0)
        for each in (each for before in self.before.values() for each in before):
            users[each] += 1
        left_at = dict.fromkeys(self.position, 0)
        """of each: how many cycles before the end it has to begin at least"""
        ready = [(0, -self.position[place], place) for place, number in users.items() if not number]
        heapq.heapify(ready)
        found: list[int] = []
        cycle = 0
        while ready:
            begin, _, place = heapq.heappop(ready)
            cycle = max(cycle, begin)
            found.append(place)
            for each in self.before[place]:
                users[each] -= 1
                left_at[each] = max(left_at[each], cycle + self.latency[each])
                if not users[each]:
                    heapq.heappush(ready, (left_at[each], -self.position[each], each))
            cycle += 1
        return found


# }}}


# {{{ addresses


def with_addresses(graph: Idg) -> Idg:
    """Return the machine *graph* with what defines addresses, before their first use or the loops that it is in."""
    return _Addressing(graph).graph()


class _Addressing:
    def __init__(self, graph: Idg) -> None:
        self.source, self.instructions, self.edges = graph, list(graph.instructions), list(graph.edges)
        self.defined: dict[Hashable, int] = {}

    def graph(self) -> Idg:
        body = tuple(each for item in self.source.body for each in (*self._before(item), item))
        return Idg(tuple(self.instructions), tuple(self.edges), body)

    def _before(self, item: Item) -> Iterator[int]:
        """Yield what defines the addresses of *item*, and the counters of loops, that is not defined yet."""
        if isinstance(item, int):
            yield from self._address(item)
            return
        for loop in loops_in((item,)):
            first = [place for place, _ in placed(loop.body)][:1]
            yield from self._defined(loop.number, "i64" if loop.is_counted else "i32", first)
        for place, _ in placed((item,)):
            yield from self._address(place)

    def _address(self, place: int) -> Iterator[int]:
        """Yield what defines the address of *place*; what data decide is loaded, and is a value already."""
        each = self.source.instructions[place]
        if each.symbolic is None or each.subsystem == MemorySpace.PRIVATE:
            return
        terms = frozenset(term for term in each.symbolic.terms if term[0] and not self._moves_on(term, place))
        if not terms or any(isinstance(name, Opaque) for names, _ in terms for name in names):
            return
        if each.subsystem == MemorySpace.LOCAL:
            yield from self._defined((MemorySpace.LOCAL, terms), "i32", [place])
            return
        index = list(self._defined(terms, "i32", []))
        address = list(self._defined((each.reference.array, terms), "i64", [place]))
        self.edges += [Edge(self.defined[terms], each) for each in address]
        yield from (*index, *address)

    def _moves_on(self, term: Term[Symbol], place: int) -> bool:
        """Return whether *term* is a product of sizes, which a loop around *place* adds to an address."""
        names = {loop.name for loop in self.source.loops_around[place]}
        return bool(names) and not any(name in names or is_axis(name) for name in term[0])

    def _defined(self, key: Hashable, dtype: str, users: Sequence[int]) -> Iterator[int]:
        """Yield the instruction that defines *key*, where it is new; *users* use it."""
        if key not in self.defined:
            self.defined[key] = len(self.instructions)
            self.instructions.append(Instruction(Opcode.BITWISE, dtype, Pipeline.ALU, "", "address"))
            yield self.defined[key]
        self.edges += [Edge(self.defined[key], user) for user in users]


# }}}


GRAIN = 8
"""registers of a work-item are allocated in such steps"""
TOGETHER = 128
"""work-items: one warp in each of the four parts of the register file, where a group's warps lie in turns"""
FEW = 11
"""beside those of values where they are few: sizes, indices and the like; fitted"""
LEAST = 7
"""beside those of the values, where these take nearly all: chains of 500 to 800 terms on sm_75 to sm_90 spill so"""
FIXED = 7
"""beside those of values and addresses, where nothing waits: the stack pointer, what is done once; fitted"""


@dataclass(frozen=True, slots=True)
class RegisterFile:
    """The registers of 32 bits that a core has for work-items: as NVIDIA's have them from compute capability 3.5 on."""

    size: int = 65_536
    """of a core (CUDA C++ Programming Guide, "Compute Capabilities")"""
    most: int = MOST_REGISTERS
    """that a work-item can have"""
    steps: tuple[int, ...] = (32, 40, 48, 56, 64, 72, 80, 96, 128, 168)
    """that a work-item can have without fewer groups on a core than with some less, in ascending order: by warps in a
    part of the register file, where 16 are the most"""


NVIDIA = RegisterFile()


@dataclass(frozen=True, slots=True)
class Registers:
    """The registers of a work-item."""

    live: int
    """that values take at the same time, in an order of instructions that keeps few"""
    needed: int
    """an estimate of how many it cannot do without, whether there are so many or not"""
    wanted: int
    """an estimate of how many it would have so that nothing waits but for what it has to"""
    limit: int
    """how many a work-item can have"""
    room: int
    """that there is for values among them"""
    step: int
    """how many it can have without fewer groups on a core than with those needed"""

    @property
    def allocated(self) -> int:
        """Return how many it gets: those wanted, up to the step."""
        return min(max(self.wanted, self.needed), self.step)

    @property
    def left(self) -> int:
        """Return how many it could have beside those that it needs."""
        return max(self.limit - self.needed, 0)

    @property
    def spilled(self) -> int:
        """Return how many do not fit, and are expected in private memory."""
        return max(self.needed - self.limit, 0)


def estimated_registers(graph: Idg, work_items: int = 1, file: RegisterFile = NVIDIA) -> Registers:
    """Return the registers of 32 bits that a work-item needs, by the machine *graph* of its warp.

    *work_items* are those of a work-group, which share the register *file* of a core. Raises :class:`ParameterError`
    where there are none.
    """
    return registers_of(Lives(graph), registers_without_waiting(graph), work_items, file)


def registers_of(lives: Lives, without_waiting: int, work_items: int = 1, file: RegisterFile = NVIDIA) -> Registers:
    """Return the registers that a work-item needs for values with these *lives*; see :func:`estimated_registers`."""
    if work_items < 1:
        raise ParameterError(f"a work-group has 1 work-item or more, received {work_items}")
    live = max(lives.pressure(lives.taken[0]), default=0)
    allocated = -(-work_items // TOGETHER) * TOGETHER
    limit = min(file.most, file.size // allocated // GRAIN * GRAIN)
    needed = live + FEW if lives.registers + LEAST <= limit else lives.registers + LEAST
    step = next((each for each in file.steps if each >= needed), limit)
    return Registers(live, needed, without_waiting + FIXED, limit, limit - LEAST, min(step, limit))


# {{{ an order of instructions that keeps few values alive
#
# What ptxas does where the program's own order keeps many.
#
# List scheduling for register pressure (Goodman and Hsu, Code scheduling and register allocation in large basic blocks,
# ICS 1988): of what is ready, that comes first after which the fewest registers are taken. Loads come late: one comes
# where it lets something be computed, or where the order of the program has nothing else left. Pieces between loops,
# barriers and branches are put in order one by one. What is measured stands in docs/compiler/private_data.md.


MANY = 64
"""registers: where values take no more, the order of the program is left as it is"""


def with_few_registers(lives: Lives) -> Lives:
    """Return the *lives* of values in that order, of three, in which they take the fewest registers at once.

    They are that of the program, and two of list scheduling: one brings a value where the program wants it next, the
    other where it lets most be computed.
    """
    if lives.registers <= MANY:
        return lives
    graph, found = lives.graph, [lives]
    for is_eager in (False, True):
        body = tuple(_Scheduler(lives, is_eager).items(graph.body))
        found.append(Lives(Idg(graph.instructions, graph.edges, body), like=lives))
    return min(found, key=lambda each: each.registers)


class _Scheduler:
    def __init__(self, lives: Lives, is_eager: bool) -> None:
        self.graph, self.is_eager, self.width = lives.graph, is_eager, lives.widths
        self.users: list[list[Edge]] = [[] for _ in self.graph.instructions]
        for edge in self.graph.edges:
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


# }}}


# {{{ the order that the compiler gives instructions: loads as early as their addresses are known
#
# A warp issues in order, so that a load which stands behind what waits for another load waits too. Between barriers and
# loops, loads are moved up past what does not decide their addresses, as long as not too many of their results wait to
# be used: each is a register. Volatile accesses keep their order. The order changes nothing that is executed, and
# registers are estimated on the program's own, so this is no pass of ``PASSES``.


WAITING = 8
"""results of loads that wait to be used, at most: about as in nvcc's machine code (docs/compiler.md, section 11)"""


def with_scheduled_loads(graph: Idg, waiting: int = WAITING, registers: int | None = None) -> Idg:
    """Return the machine *graph* with loads moved up, where no more than *waiting* of their results wait to be used.

    With *registers*, no more than there is room for in so many, of 64 bits each.
    """
    if registers is not None:
        waiting = min(waiting, max(registers, 0) // 2)
    return Idg(graph.instructions, graph.edges, tuple(_items(graph, graph.body, waiting)))


def _items(graph: Idg, body: Sequence[Item], waiting: int) -> Iterator[Item]:
    block: list[int] = []
    for item in body:
        if isinstance(item, Loop) or graph.instructions[item].kind == Opcode.BARRIER:
            yield from _Straight(graph, block, waiting).order()
            block = []
            yield replace(item, body=tuple(_items(graph, item.body, waiting))) if isinstance(item, Loop) else item
        else:
            block.append(item)
    yield from _Straight(graph, block, waiting).order()


class _Straight:
    """Instructions that are executed one after the other, neither a barrier nor a loop among them."""

    def __init__(self, graph: Idg, places: Sequence[int], waiting: int) -> None:
        self.graph, self.places, self.most = graph, places, waiting
        self.position = {place: position for position, place in enumerate(places)}
        self.users: dict[int, list[int]] = {place: [] for place in places}
        self.missing = dict.fromkeys(places, 0)
        volatile = [place for place in places if graph.instructions[place].is_volatile]
        before = dict(zip(volatile[1:], volatile[:-1], strict=True))
        for place in places:
            sources = {edge.source for edge in graph.definitions[place] if not any(edge.distance)}
            for source in sources.union([before[place]] if place in before else ()):
                if source in self.position:
                    self.users[source].append(place)
                    self.missing[place] += 1

    def order(self) -> Iterator[int]:
        """Yield the places in their new order."""
        loads: list[int] = []
        others: list[int] = []
        unused = set[int]()
        """loads that nothing has used yet"""
        for place in self.places:
            if not self.missing[place]:
                heapq.heappush(self._ready(place, loads, others), self.position[place])
        while loads or others:
            is_early = bool(loads) and (not others or len(unused) < self.most or loads[0] < others[0])
            place = self.places[heapq.heappop(loads if is_early else others)]
            yield place
            unused -= {edge.source for edge in self.graph.definitions[place]}
            if is_early and self.users[place]:
                unused.add(place)
            for user in self.users[place]:
                self.missing[user] -= 1
                if not self.missing[user]:
                    heapq.heappush(self._ready(user, loads, others), self.position[user])

    def _ready(self, place: int, loads: list[int], others: list[int]) -> list[int]:
        return loads if self.graph.instructions[place].kind == Opcode.LOAD else others


# }}}
