"""Registers per work-item, and the instruction orders that a compiler chooses to save registers or hide latency.

ptxas moves loads ahead until no instruction waits, or until one more register would let fewer groups reside on a core.
If that needs fewer registers than the values do, it continues to the next number of groups. For the evidence, see
docs/compiler/private_data.md. For exact numbers, see :func:`loopyperf.compiler.resources.compiled`.

The registers needed without waiting are those of values and addresses in the order that minimizes the latency of a
single warp, which ptxas aims at. It is list scheduling from the end of each piece of the program without loops,
barriers and branches: an instruction is placed as late as the uses of its result allow, by the latencies of the machine
(Cooper and Torczon, Engineering a Compiler, section 12.3.5); ties go to the instruction that was ready first. All
independent loads are in flight at once; of a chain of loads, as many as its arithmetic takes to proceed. Registers
include addresses: a 32-bit index, shared by arrays whose indices differ by constants, a 64-bit address for each global
array, and a counter for each loop. In loops, addresses that differ by products of sizes count as one address that
advances. For measurements, see docs/compiler/private_data.md.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from loopyperf.compiler.entry import is_axis
from loopyperf.compiler.private_arrays import MOST_REGISTERS
from loopyperf.compiler.rewriting import Rewriting
from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.errors import ParameterError
from loopyperf.idg.graph import Idg
from loopyperf.idg.live_values import Lives
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop, Opcode, loops_in, placed
from loopyperf.polyhedral.affine import Opaque, Symbol
from loopyperf.polyhedral.polynomial import Term

NEAR = (MemorySpace.LOCAL, MemorySpace.CONSTANT)
"""memories of a core, with 32-bit addresses"""
LATENCY: Mapping[str, int] = {Opcode.MUFU: 20}
ARITHMETIC, LOCAL, GLOBAL = 4, 30, 200
"""approximate latencies on Volta, in cycles (Jia et al., Dissecting the NVIDIA Volta GPU architecture via
microbenchmarking, 2018)"""


def registers_without_waiting(graph: Idg) -> int:
    """Return the 32-bit registers of values and addresses of the machine *graph* in minimum-latency order."""
    lives = Lives(in_order_of_latency(with_addresses(graph)))
    return max(lives.pressure(lives.taken[0]), default=0)


# {{{ list scheduling
#
# Instructions keep their order relative to loops, barriers and branches; the pieces between these are ordered anew.


class Piece:
    """Instructions in program order, without a loop, barrier or branch between them."""

    def __init__(self, graph: Idg, places: Sequence[int]) -> None:
        """Find which of *places*, instructions of *graph*, wait for each other; volatile accesses keep their order."""
        self.places = places
        self.position = {place: position for position, place in enumerate(places)}
        self.before: dict[int, set[int]] = {
            place: {
                edge.source
                for edge in graph.definitions[place]
                if not any(edge.distance) and self.position.get(edge.source, len(places)) < position
            }
            for place, position in self.position.items()
        }
        """instruction -> those that it waits for"""
        for one, other in pairwise(place for place in places if graph.instructions[place].is_volatile):
            self.before[other].add(one)
        self.after: dict[int, set[int]] = {place: set() for place in places}
        """instruction -> those that wait for it"""
        for place, before in self.before.items():
            for source in before:
                self.after[source].add(place)


def in_pieces(graph: Idg, order: Callable[[Piece], Iterable[int]], is_fixed: Callable[[int], bool]) -> Idg:
    """Return *graph* with its pieces between loops and fixed instructions in another *order*."""

    def items(body: Sequence[Item]) -> Iterator[Item]:
        places: list[int] = []
        for item in (*body, None):
            if isinstance(item, int) and not is_fixed(item):
                places.append(item)
                continue
            yield from order(Piece(graph, places)) if len(places) > 1 else places
            places = []
            if item is not None:
                yield replace(item, body=tuple(items(item.body))) if isinstance(item, Loop) else item

    return Idg(graph.instructions, graph.edges, tuple(items(graph.body)))


def in_order_of_latency(graph: Idg) -> Idg:
    """Return the machine *graph* with its instructions in the order in which a single warp waits least."""
    return in_pieces(graph, partial(_from_last, graph), partial(_is_one_of, graph, (Opcode.BARRIER, Opcode.BRANCH)))


def _is_one_of(graph: Idg, kinds: Collection[str], place: int) -> bool:
    return graph.instructions[place].kind in kinds


def _latency(instruction: Instruction) -> int:
    if instruction.kind == Opcode.LOAD:
        return LOCAL if instruction.subsystem in NEAR else GLOBAL
    return LATENCY.get(instruction.kind, ARITHMETIC)


def _from_last(graph: Idg, piece: Piece) -> Sequence[int]:
    """Return the instructions of *piece*, each placed as late as its users allow, from the last one to the first."""
    users = {place: len(after) for place, after in piece.after.items()}
    left_at = dict.fromkeys(piece.places, 0)
    """instruction -> cycles before the end by which it has to start"""
    ready = [(0, -piece.position[place], place) for place, number in users.items() if not number]
    heapq.heapify(ready)
    found: list[int] = []
    cycle = 0
    while ready:
        start, _, place = heapq.heappop(ready)
        cycle = max(cycle, start)
        found.append(place)
        for source in piece.before[place]:
            users[source] -= 1
            left_at[source] = max(left_at[source], cycle + _latency(graph.instructions[source]))
            if not users[source]:
                heapq.heappush(ready, (left_at[source], -piece.position[source], source))
        cycle += 1
    return found[::-1]


# }}}


# {{{ addresses


def with_addresses(graph: Idg) -> Idg:
    """Return the machine *graph* with instructions that define addresses before the first use or its outer loop."""
    addressing = _Addressing(graph)
    return addressing.rebuilt([each for item in graph.body for each in (*addressing.before(item), item)])


class _Addressing(Rewriting):
    def __init__(self, graph: Idg) -> None:
        super().__init__(graph)
        self.defined: dict[Hashable, int] = {}

    def before(self, item: Item) -> Iterator[int]:
        """Yield the new definitions of addresses and loop counters that *item* needs."""
        if isinstance(item, int):
            yield from self._address(item)
            return
        for loop in loops_in((item,)):
            first = [place for place, _ in placed(loop.body)][:1]
            yield from self._defined(loop.number, "i64" if loop.is_counted else "i32", first)
        for place, _ in placed((item,)):
            yield from self._address(place)

    def _address(self, place: int) -> Iterator[int]:
        """Yield the new definitions for the address of *place*; a data-dependent address is a value already."""
        each = self.graph.instructions[place]
        if each.symbolic is None or each.subsystem == MemorySpace.PRIVATE:
            return
        terms = frozenset(term for term in each.symbolic.terms if term[0] and not self._moves_on(term, place))
        if not terms or any(isinstance(name, Opaque) for names, _ in terms for name in names):
            return
        if each.subsystem in NEAR:
            yield from self._defined((each.subsystem, terms), "i32", [place])
            return
        index = list(self._defined(terms, "i32", []))
        address = list(self._defined((each.reference.array, terms), "i64", [place]))
        self.edges += [Edge(self.defined[terms], each) for each in address]
        yield from (*index, *address)

    def _moves_on(self, term: Term[Symbol], place: int) -> bool:
        """Return whether *term* is a product of sizes that a loop around *place* adds to an address."""
        names = {loop.name for loop in self.graph.loops_around[place]}
        return bool(names) and not any(name in names or is_axis(name) for name in term[0])

    def _defined(self, key: Hashable, dtype: str, users: Sequence[int]) -> Iterator[int]:
        """Yield the instruction that defines *key*, if it is new, and connect it to its *users*."""
        if key not in self.defined:
            self.defined[key] = len(self.instructions)
            self.instructions.append(Instruction(Opcode.BITWISE, dtype, Pipeline.ALU, "", "address"))
            yield self.defined[key]
        self.edges += [Edge(self.defined[key], user) for user in users]


# }}}


GRANULARITY = 8
"""allocation granularity of the registers of a work-item"""
TOGETHER = 128
"""work-items that are allocated together: one warp in each of the four partitions of the register file, over which the
warps of a group are distributed in turn"""
BEYOND_FEW_VALUES = 11
"""fitted registers beyond those of values, if these are few: sizes, indices and the like"""
BEYOND_VALUES = 7
"""registers beyond those of values, if these take nearly all; chains of 500 to 800 terms spill accordingly on sm_75 to
sm_90"""
BEYOND_WITHOUT_WAITING = 7
"""fitted registers beyond those of values and addresses without waiting: stack pointer, one-time computation"""


MISSING = 64
MISSING_SHARE = 0.4
"""registers missing inside a loop, at least, for which ptxas spills nearly all values, and their share of the limit if
that is less: between 62 and 64 of 255 in NVRTC's machine code, 49 and 59 of 128, 31 and 47 of 80, 23 and 31 of 64"""
SCARCE = 32
"""registers that it takes then, or half of the limit if that is 128 or less"""


@dataclass(frozen=True, slots=True)
class RegisterFile:
    """The 32-bit registers of a core; defaults are those of NVIDIA GPUs from compute capability 3.5 on."""

    size: int = 65_536
    """registers per core (CUDA C++ Programming Guide, "Compute Capabilities")"""
    most: int = MOST_REGISTERS
    """registers per work-item, at most"""
    steps: tuple[int, ...] = (32, 40, 48, 56, 64, 72, 80, 96, 128, 168)
    """largest registers per work-item for each number of resident groups, in ascending order: by warps per partition of
    the register file, of which 16 is the maximum"""
    may_be_scarce: bool = True
    """whether the compiler spills nearly all values if too many are missing in a loop; not if its choice is known"""


NVIDIA = RegisterFile()


@dataclass(frozen=True, slots=True)
class Registers:
    """The 32-bit registers of a work-item."""

    live: int
    """registers of simultaneously live values, in an instruction order that keeps few alive"""
    needed: int
    """estimated minimum, whether or not that many are available"""
    wanted: int
    """estimate of the registers with which instructions wait only for inevitable latencies"""
    limit: int
    """registers available to a work-item, at most"""
    room: int
    """registers available to values among these"""
    step: int
    """registers per work-item, at most, that let as many groups reside as those needed"""

    @property
    def allocated(self) -> int:
        """Return the allocated registers: those wanted, up to the step."""
        return min(max(self.wanted, self.needed), self.step)

    @property
    def left(self) -> int:
        """Return the registers available beyond those needed."""
        return max(self.limit - self.needed, 0)

    @property
    def spilled(self) -> int:
        """Return the registers that do not fit and are expected to be spilled."""
        return max(self.needed - self.limit, 0)


def estimated_registers(graph: Idg, work_items: int = 1, file: RegisterFile = NVIDIA) -> Registers:
    """Return the estimated 32-bit registers of a work-item, given the machine *graph* of its warp.

    *work_items* is the size of a work-group, whose work-items share the register *file* of a core. Raises
    :class:`ParameterError` if it is less than 1.
    """
    return registers_of(Lives(graph), registers_without_waiting(graph), work_items, file)


def registers_of(lives: Lives, without_waiting: int, work_items: int = 1, file: RegisterFile = NVIDIA) -> Registers:
    """Return the estimated registers of a work-item for values with these *lives*; see :func:`estimated_registers`."""
    if work_items < 1:
        raise ParameterError(f"work_items must be at least 1, got {work_items}")
    pressure = lives.pressure(lives.taken[0])
    live = max(pressure, default=0)
    allocated = -(-work_items // TOGETHER) * TOGETHER
    limit = min(file.most, file.size // allocated // GRANULARITY * GRANULARITY)
    most = lives.registers + BEYOND_VALUES
    needed = live + BEYOND_FEW_VALUES if most <= limit else most
    if file.may_be_scarce and _in_loops(lives, pressure) + BEYOND_VALUES - limit >= min(MISSING, MISSING_SHARE * limit):
        limit = SCARCE if limit > TOGETHER else limit // 2
    step = next((each for each in file.steps if each >= needed), limit)
    wanted = without_waiting + BEYOND_WITHOUT_WAITING
    return Registers(live, needed, wanted, limit, limit - BEYOND_VALUES, min(step, limit))


def _in_loops(lives: Lives, pressure: Sequence[int]) -> int:
    """Return the largest *pressure* inside a loop."""
    spans = (lives.text.span(loop) for loop in loops_in(lives.graph.body))
    return max((pressure[place] for span in spans for place in span), default=0)


# {{{ low register pressure order
#
# ptxas reorders if the program order keeps many values alive.
#
# List scheduling for register pressure (Goodman and Hsu, Code scheduling and register allocation in large basic blocks,
# ICS 1988): among the ready instructions, the one after which the fewest registers are in use comes first. Loads come
# late: when they enable a computation, or when nothing else is left in program order. Pieces between loops, barriers
# and branches are ordered separately. For measurements, see docs/compiler/private_data.md.


KEPT_IN_ORDER = 64
"""registers of values up to which the program order is kept"""


def with_few_registers(lives: Lives) -> Lives:
    """Return the *lives* of values in the best of three orders: the one that needs the fewest registers at once.

    The candidates are the program order and two list schedules: one loads a value when the program needs it next, the
    other when that enables the most computation.
    """
    if lives.registers <= KEPT_IN_ORDER:
        return lives
    graph, found = lives.graph, [lives]
    users: list[list[Edge]] = [[] for _ in graph.instructions]
    for edge in graph.edges:
        users[edge.source].append(edge)

    def is_fixed(place: int) -> bool:
        """Return whether no instruction may move past *place*: a barrier, or a test that controls a branch."""
        kind = graph.instructions[place].kind
        return kind in (Opcode.BARRIER, Opcode.BRANCH) or (kind == Opcode.INTEGER and not users[place])

    for is_eager in (False, True):
        order = partial(_Pressure, lives, users, is_eager)
        found.append(Lives(in_pieces(graph, lambda piece, order=order: order(piece).order(), is_fixed), like=lives))
    return min(found, key=lambda each: each.registers)


class _Pressure:
    """The registers that the instructions of a piece take."""

    def __init__(self, lives: Lives, users: Sequence[Sequence[Edge]], is_eager: bool, piece: Piece) -> None:
        self.graph, self.width, self.is_eager = lives.graph, lives.widths, is_eager
        places, self.position = piece.places, piece.position
        self.program = sorted(places, key=self._is_load)
        """instructions in program order, with loads before the others"""
        self.wanted = 0
        """leading instructions of *program* known to be scheduled"""
        self.values: dict[int, set[int]] = {place: set() for place in places}
        """instruction -> values that it uses, named by their definitions; ``~definition`` for values of an earlier
        iteration"""
        self.missing, self.waiting = piece.before, piece.after
        """instruction -> unscheduled instructions that it waits for, and those that wait for it"""
        self.left: defaultdict[int, int] = defaultdict(int)
        """value -> unscheduled instructions that use it; values used elsewhere never drop to 0"""
        self.enabled: defaultdict[int, set[int]] = defaultdict(set)
        """load -> instructions that wait only for it"""
        self.done: set[int] = set()
        self.ready: list[tuple[int, int, int]] = []
        self.loads: list[tuple[int, int, int]] = []
        """heaps of (increase in registers, position, instruction)"""
        for place in places:
            self._find(users[place], place)
        for value in (value for values in self.values.values() for value in values):
            self.left[value] += 1

    def _is_load(self, place: int) -> bool:
        return self.graph.instructions[place].kind == Opcode.LOAD

    def _find(self, uses: Sequence[Edge], place: int) -> None:
        """Record what uses the result of *place* here, in the next iteration, or elsewhere."""
        for edge in (edge for edge in uses if edge.through == Dependence.DATA):
            is_here = edge.target in self.position and not any(edge.distance)
            if edge.target in self.position:
                self.values[edge.target].add(place if is_here else ~place)
            if not is_here:
                self.left[place] = 1

    # {{{ scheduling

    def order(self) -> Iterator[int]:
        """Yield the instructions in their new order."""
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
        """Return the next instruction: one that needs no more registers, a load that enables one, or the next."""
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
        """Return the entry of *heap* that increases the registers least at present."""
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
        """Return the increase in registers after *place* and the instructions that wait only for it."""
        enabled = [user for user in self.enabled[place] if user not in self.done]
        cost = self._alone(place) + sum(self._alone(user, place) for user in enabled)
        return cost - self.width[place] if enabled and self.left[place] == len(enabled) else cost

    def _alone(self, place: int, kept: int | None = None) -> int:
        """Return the increase in registers after *place* alone: those of its result less those of values used up."""
        used_up = (value for value in self.values[place] if self.left[value] == 1 and value != kept)
        taken = self.width[place] if self.left[place] else 0
        return taken - sum(self.width[value if value >= 0 else ~value] for value in used_up)

    def _consider(self, place: int) -> None:
        """Add *place* to the candidates if it is ready, or the load if it waits for a single load."""
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
                for user in self.waiting.get(value, set()) - self.done:
                    self._consider(user)
        for user in self.waiting[place]:
            self.missing[user].discard(place)
            self._consider(user)

    # }}}


# }}}


# {{{ load scheduling: loads as early as their addresses are known
#
# A warp issues in order, so a load after an instruction that waits for another load waits too. Between barriers and
# loops, loads move up past instructions that do not determine their addresses, as long as the number of unused results
# stays limited: each takes a register. Volatile accesses keep their order. Scheduling does not change what is executed,
# and register estimates use the program order, so this is not one of ``PASSES``.


WAITING = 8
"""unused load results, at most: about as in nvcc's machine code (docs/compiler.md, section 11)"""


def with_scheduled_loads(graph: Idg, waiting: int = WAITING, registers: int | None = None) -> Idg:
    """Return the machine *graph* with loads moved up, with at most *waiting* unused results at a time.

    If *registers* is given, the unused results must also fit into that many registers, 64 bits each.
    """
    if registers is not None:
        waiting = min(waiting, max(registers, 0) // 2)
    return in_pieces(graph, partial(_with_early_loads, graph, waiting), partial(_is_one_of, graph, (Opcode.BARRIER,)))


def _with_early_loads(graph: Idg, most: int, piece: Piece) -> Iterator[int]:
    """Yield the instructions of *piece* with loads moved up, with at most *most* unused results."""
    missing = {place: len(before) for place, before in piece.before.items()}
    loads, others = list[int](), list[int]()
    unused = set[int]()
    """loads whose results are not used yet"""

    def add_if_ready(place: int) -> None:
        if not missing[place]:
            is_load = graph.instructions[place].kind == Opcode.LOAD
            heapq.heappush(loads if is_load else others, piece.position[place])

    for place in piece.places:
        add_if_ready(place)
    while loads or others:
        is_early = bool(loads) and (not others or len(unused) < most or loads[0] < others[0])
        place = piece.places[heapq.heappop(loads if is_early else others)]
        yield place
        unused -= {edge.source for edge in graph.definitions[place]}
        if is_early and piece.after[place]:
            unused.add(place)
        for user in piece.after[place]:
            missing[user] -= 1
            add_if_ready(user)


# }}}
