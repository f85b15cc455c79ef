"""Elements of an instruction dependence graph: warp instructions, loops, and edges."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from itertools import count, takewhile
from operator import attrgetter
from typing import Any, cast

from loopyperf.polyhedral.affine import Affine, Symbol
from loopyperf.polyhedral.polynomial import Polynomial
from loopyperf.units import Word


class Opcode(Word):
    """Operation of an instruction. Hand-written graphs may use other words."""

    ADD = "add"
    MUL = "mul"
    FMA = "fma"
    """multiply-add"""
    DIV = "div"
    MOD = "mod"
    """remainder of a division"""
    POW = "pow"
    POWI = "powi"
    """power with an integer exponent"""
    SQUARE = "square"
    SPECIAL = "special"
    """call of a function, see :attr:`Instruction.function`"""
    MUFU = "mufu"
    """approximation by the special function unit, a building block of function sequences"""
    MIN_MAX = "min/max"
    COMPARE = "compare"
    LOGIC = "logic"
    """logical operation on conditions"""
    BITWISE = "bitwise"
    SHIFT = "shift"
    SELECT = "select"
    """choice between two values by a condition"""
    CONVERT = "convert"
    """type conversion"""
    MOVE = "move"
    INTEGER = "integer"
    """integer arithmetic that the compiler adds for addresses and loops"""
    FCHK = "fchk"
    """test whether a division needs the slow path"""
    LOAD = "load"
    STORE = "store"
    BRANCH = "branch"
    BARRIER = "barrier"


class Dependence(Word):
    """Kind of a dependence between two instructions."""

    DATA = "data"
    """through a value in a register"""
    MEMORY = "memory"
    """through a value in memory"""
    SYNCHRONIZATION = "synchronization"
    """one of the two is a barrier"""
    CONTROL = "control"
    """through a predicate"""


TripCount = Any
"""an integer, or a pymbolic expression; each variable is the iteration, from 0, of the loop of that name"""
Iteration = Affine[Symbol]
"""an iteration number from 0, as an affine function; each variable is the iteration of the loop of that name"""


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a private array, which lives in a register unless the compiler keeps the array in memory."""

    array: str
    """name of the array"""
    address: Affine[Symbol] | None
    """offset from the first element, in elements, in the variables of operands; None if it depends on data"""
    bits: int
    """bits of one element; in an array of vectors, each vector is one element"""
    length: int
    """number of elements of the array"""
    member: Any = None
    """index of the vector member, an expression in the variables of operands; None for all members"""
    member_bits: int = 0
    """bits of one vector member; 0 if elements are not vectors"""

    @property
    def affine(self) -> Affine[str] | None:
        """Return the address if it is affine in named variables, else None."""
        known = self.address
        is_affine = known is not None and all(isinstance(variable, str) for variable, _ in known.terms)
        return cast("Affine[str]", known) if is_affine else None


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of an instruction."""

    known: Any = None
    """a number, or an expression of loop iterations and hardware inames; None if edges provide the value"""
    is_negated: bool = False
    """whether the operand is negated"""
    element: Element | None = None
    """the private-array element that the operand reads, if any"""
    is_integer: bool = False
    """whether the operand is an expression of loop variables, hardware indices and sizes"""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on the work-item."""

    text: str
    """the condition"""
    holds: bool
    """whether it must be true, or false"""
    names: frozenset[str]
    """names in it: loop variables, sizes, and hardware axes, such as ``l0`` and ``g1``"""

    @property
    def is_on_lanes(self) -> bool:
        """Return whether it depends on the position of the work-item in its group."""
        return not self.names.isdisjoint(("l0", "l1", "l2"))


Predicates = frozenset[Predicate]


@dataclass(frozen=True, slots=True)
class DataCondition:
    """A condition on data, as evaluated once: it has one truth value for all instructions that it guards."""

    text: str
    """the condition"""
    holds: bool
    """whether it must be true, or false"""
    version: int
    """last statement before the evaluation that writes what the condition reads; -1 if none"""
    iterations: tuple[Iteration, ...]
    """iteration of each loop around the evaluation, outermost first"""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One warp instruction."""

    kind: str
    """an :class:`Opcode`; any word in hand-written graphs"""
    dtype: str = ""
    """type of the result, e.g. ``"f32"``; empty if there is no result"""
    subsystem: str = ""
    """the :class:`Pipeline` that executes it, or the :class:`MemorySpace` that it accesses; any word in hand-written
    graphs"""
    source: str = ""
    """id of the Loopy instruction that it implements"""
    text: str = ""
    """source text of the operation"""
    reference: Any = None
    """loads and stores: the accessed array element, see :class:`loopyperf.counts.memory_accesses.Reference`"""
    executions: int | Fraction = 1
    """executions per warp; a fraction if ``typical`` gives the probability of a condition on data"""
    condition: Any = None
    """condition on the iterations of the enclosing loops; None if executed in all of them"""
    operands: tuple[Operand, ...] = ()
    """operands in order"""
    address: Affine[Symbol] | None = None
    """loads and stores: offset from the array's first element, in elements, in the variables of operands; None if it
    depends on data"""
    symbolic: Polynomial[Symbol] | None = None
    """loads and stores: the address as the compiler knows it, with sizes as symbols and hardware indices named by
    axis, e.g. ``l.0``, ``g.1``"""
    tests: Predicates = frozenset()
    """conditions on the work-item, independent of loop iterations, under which it executes"""
    part: int = 0
    """index among the instructions into which one source operation is split, as for complex numbers and vectors"""
    is_bound: bool = False
    """whether its result is data that bounds a loop"""
    is_index: bool = False
    """whether loop variables and sizes alone determine its result"""
    origin: int | None = None
    """loads and stores: program position of the original access, also for copies"""
    defines: tuple[Element, ...] = ()
    """private-array elements that the result is assigned to"""
    scalar: str = ""
    """loads and stores: the array's scalar type, e.g. ``"f32"``"""
    predicates: Predicates = frozenset()
    """source-level conditions on the work-item under which it executes"""
    on_data: tuple[DataCondition, ...] = ()
    """conditions on data under which it executes"""
    is_volatile: bool = False
    """loads and stores: whether the compiler may neither move nor merge it"""
    is_assumed: bool = False
    """whether it stands for foreign code (from ``typical``) or for hardware work; never moved or removed, even if its
    result is unused"""
    is_idle: bool = False
    """whether it is issued with no active lane; it costs only its issue time"""
    function: str = ""
    """name of the called function of real numbers; empty for other kinds than :attr:`Opcode.SPECIAL`"""

    @property
    def label(self) -> str:
        """Return the id of the Loopy instruction, or the kind if there is none."""
        return self.source or self.kind

    def executes_whenever(self, other: "Instruction") -> bool:
        """Return whether it executes, in the same iteration, for each lane for which *other* does."""
        return (
            self.tests <= other.tests
            and self.predicates <= other.predicates
            and set(self.on_data) <= set(other.on_data)
            and (self.condition is None or self.condition == other.condition)
            and (not self.is_idle or other.is_idle)
        )

    @property
    def bits(self) -> int:
        """Return the bits per lane of a load or store."""
        return int(self.dtype.removeprefix("b"))


_FIELDS = attrgetter(*(each.name for each in fields(Instruction)))


def on_subsystem(instruction: Instruction, subsystem: str) -> Instruction:
    """Return *instruction* on another *subsystem*; there are thousands, and ``replace`` takes three times as long."""
    kind, dtype, _, *others = _FIELDS(instruction)
    return Instruction(kind, dtype, subsystem, *others)


STAYING = (Opcode.STORE, Opcode.BARRIER, Opcode.MOVE, Opcode.INTEGER, Opcode.BRANCH)
"""kinds that are neither moved nor merged; a move reinitializes a value that the iterations of an inner loop change"""
WORK_ITEM, WORK_GROUP = "the work-item", "the work-group"


@dataclass(frozen=True, slots=True)
class LoopBound:
    """What the generated code reveals about the trip count of a loop."""

    values: tuple[int, ...] | None = None
    """all possible trip counts in ascending order; None if they are not a finite set of constants"""
    depends_on: frozenset[str] = frozenset()
    """run-time quantities that it depends on: sizes by name, :data:`WORK_ITEM`, :data:`WORK_GROUP`"""
    loops: frozenset[str] = frozenset()
    """names of the enclosing loops whose iterations it depends on"""
    has_or: bool = False
    """whether the code selects between several values by a condition that contains an *or*"""


AT_RUN_TIME = LoopBound(None, frozenset(("unknown at compile time",)))


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of a graph."""

    name: str
    """the iname"""
    trips: TripCount
    """trip count per entry; may depend on the iterations of the enclosing loops"""
    body: tuple["Item", ...]
    """instruction indices and inner loops in program order"""
    is_unrolled: bool = False
    """whether Loopy writes a copy of the body for each iteration"""
    bound: LoopBound = AT_RUN_TIME
    """what the generated code reveals about the trip count, for all sizes and warps"""
    copies: int = 1
    """iterations of the source loop per iteration of this loop"""
    lanes: tuple[int, ...] = ()
    """trip count of each lane, if it depends on the lane only; otherwise empty"""
    number: int = 0
    """index among the loops of the graph in program order; assigned by the graph"""

    @property
    def is_constant(self) -> bool:
        """Return whether the trip count is known at compile time, given the iterations of the enclosing loops."""
        return not self.bound.depends_on

    @property
    def lanes_diverge(self) -> bool:
        """Return whether the trip count differs between the work-items of a group."""
        return WORK_ITEM in self.bound.depends_on

    @property
    def is_counted(self) -> bool:
        """Return whether the trip count is unknown at compile time, so that the loop needs a counter."""
        return not (self.is_constant or self.is_unrolled)


Item = int | Loop
"""index of an instruction in :attr:`Idg.instructions`, or a loop"""


@dataclass(frozen=True, slots=True)
class Edge:
    """A dependence: *target* uses what *source* defines."""

    source: int
    """index of the defining instruction"""
    target: int
    """index of the using instruction"""
    distance: tuple[int, ...] = ()
    """distance of *source* before *target* in iterations of each common loop, outermost first. Shorter than the number
    of common loops if the inner ones are re-entered in between; then the first iteration of *target* depends on their
    last iteration."""
    iterations: tuple[Iteration, ...] = ()
    """iteration of each loop around *source*, outermost first, in terms of the iterations of the loops around
    *target*"""
    condition: Any = None
    """condition on the iterations of the loops around *target* under which the edge exists; None for always"""
    through: Dependence = Dependence.DATA
    """kind of the dependence"""
    operand: int | None = None
    """index of the target's operand that it provides; None if it provides none"""

    @classmethod
    def within(
        cls,
        source: int,
        target: int,
        loops: Iterable[str],
        through: Dependence = Dependence.DATA,
        operand: int | None = None,
        condition: Any = None,
    ) -> "Edge":
        """Return the edge from *source* to *target* within one iteration of their common *loops*, given by name."""
        same: tuple[Iteration, ...] = tuple(Affine(((name, 1),)) for name in loops)
        return cls(source, target, (0,) * len(same), same, condition, through, operand)

    def between(self, source: int, target: int) -> "Edge":
        """Return this edge with other ends."""
        if (source, target) == (self.source, self.target):
            return self
        return Edge(source, target, self.distance, self.iterations, self.condition, self.through, self.operand)

    @property
    def is_carried(self) -> bool:
        """Return whether the edge is loop-carried: its source is in an earlier iteration of a loop."""
        return any(self.distance)


@dataclass(frozen=True, slots=True)
class Idle:
    """Instructions that a warp reaches with no active lane, in program order."""

    instructions: tuple[Instruction, ...]
    """the instructions, with the number of times that the warp reaches each as executions"""
    edges: tuple[Edge, ...]
    """dependences between them within one iteration"""
    places: tuple[tuple[int, tuple[str, ...]], ...]
    """for each, the index of the graph's instruction before which it stands, and the names of the enclosing loops"""


def integer_if_whole(number: int | Fraction) -> int | Fraction:
    """Return *number* as an integer if it is one."""
    return number.numerator if number.denominator == 1 else number


def lag(iteration: Iteration, loop: str) -> int | None:
    """Return by how many iterations of *loop* an *iteration* lies back; None if that is not constant."""
    return -iteration.constant if iteration.terms == ((loop, 1),) else None


def is_innermost(loop: Loop) -> bool:
    """Return whether *loop* contains no other loop."""
    return not any(isinstance(item, Loop) for item in loop.body)


def loops_in(body: Sequence[Item]) -> Iterator[Loop]:
    """Yield the loops in *body*, outer before inner."""
    for item in body:
        if isinstance(item, Loop):
            yield item
            yield from loops_in(item.body)


def number_loops(body: Sequence[Item]) -> tuple[Item, ...]:
    """Return *body* with its loops numbered in program order, outer before inner."""
    if all(loop.number == number for number, loop in enumerate(loops_in(body))):
        return tuple(body)
    return tuple(_numbered(body, count()))


def _numbered(body: Sequence[Item], numbers: Iterator[int]) -> Iterator[Item]:
    for item in body:
        if isinstance(item, Loop):
            yield replace(item, number=next(numbers), body=tuple(_numbered(item.body, numbers)))
        else:
            yield item


def expanded(body: Sequence[Item], parts: Mapping[int, Sequence[int]]) -> tuple[Item, ...]:
    """Return *body* with *parts* in place of the instructions that have any."""
    found: list[Item] = []
    for item in body:
        if isinstance(item, Loop):
            found.append(replace(item, body=expanded(item.body, parts)))
        else:
            found += parts.get(item, (item,))
    return tuple(found)


def common_depth(one: Sequence[Loop], other: Sequence[Loop]) -> int:
    """Return the number of loops around both of two instructions, given the loops around each, outermost first."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0].number == pair[1].number, pairs))


def placed(body: Sequence[Item], around: tuple[Loop, ...] = ()) -> Iterator[tuple[int, tuple[Loop, ...]]]:
    """Yield the instructions of *body* in program order, each with its enclosing loops."""
    for item in body:
        if isinstance(item, Loop):
            yield from placed(item.body, (*around, item))
        else:
            yield item, around
