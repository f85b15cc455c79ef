"""What an instruction dependence graph is made of: warp instructions, loops around them, edges between them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count, takewhile
from typing import Any, cast

from loopyperf.polyhedral.affine import Affine, Symbol
from loopyperf.polyhedral.polynomial import Polynomial
from loopyperf.units import Word


class Opcode(Word):
    """What an instruction does. Graphs that are typed in may have kinds of their own."""

    ADD = "add"
    MUL = "mul"
    FMA = "fma"
    """a multiplication and an addition"""
    DIV = "div"
    MOD = "mod"
    """the remainder of a division"""
    POW = "pow"
    POWI = "powi"
    """a power with an integer as exponent"""
    SQUARE = "square"
    SPECIAL = "special"
    """a function; its name begins the instruction's text"""
    MUFU = "mufu"
    """an approximation by the unit for special functions, of which sequences for functions are made"""
    MIN_MAX = "min/max"
    COMPARE = "compare"
    LOGIC = "logic"
    """of conditions"""
    BITWISE = "bitwise"
    SHIFT = "shift"
    SELECT = "select"
    """one of two values by a condition"""
    CONVERT = "convert"
    """a number to another type"""
    MOVE = "move"
    INTEGER = "integer"
    """arithmetic of the compiler's own on integers, for addresses and loops"""
    FCHK = "fchk"
    """whether a quotient needs the long way"""
    LOAD = "load"
    STORE = "store"
    BRANCH = "branch"
    BARRIER = "barrier"


class Dependence(Word):
    """What passes from one instruction to another, so that the other has to wait."""

    DATA = "data"
    """a value, in a register"""
    MEMORY = "memory"
    """a value, in memory"""
    SYNCHRONIZATION = "synchronization"
    """nothing: one of them is a barrier"""
    CONTROL = "control"
    """a predicate"""


TripCount = Any
"""an integer, or a pymbolic expression of the iterations of loops, each a variable with its name, from 0"""
Iteration = Affine[Symbol]
"""a number of a pass, as a sum of multiples of those of other loops, each a variable of the loop's name"""


@dataclass(frozen=True, slots=True)
class Element:
    """An element of a private array. It is a register, unless the compiler keeps the array in memory."""

    array: str
    """its name"""
    address: Affine[Symbol] | None
    """elements from the array's first one, as a function of what operands are functions of; None if data"""
    bits: int
    """of one element; of an array of vectors, each of these is an element"""
    length: int
    """elements of the array"""
    member: Any = None
    """of a vector: which of its members it is, an expression like those of operands; None for all of them"""
    member_bits: int = 0
    """of a member; 0 where an element has none"""

    @property
    def affine(self) -> Affine[str] | None:
        """Return the address as a sum of multiples of variables; None where it is none."""
        known = self.address
        is_affine = known is not None and all(isinstance(variable, str) for variable, _ in known.terms)
        return cast("Affine[str]", known) if is_affine else None


@dataclass(frozen=True, slots=True)
class Operand:
    """What an instruction works on."""

    known: Any = None
    """a number, or an expression of the passes of loops and of the hardware's inames; None where edges lead to it"""
    is_negated: bool = False
    """it is taken with the other sign"""
    element: Element | None = None
    """of a private array, where it is one"""
    is_integer: bool = False
    """it is known, no number, and made of loop variables, hardware indices and sizes"""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One warp instruction."""

    kind: str
    """an :class:`Opcode`; in graphs that are typed in, any word"""
    dtype: str = ""
    """of the result, e.g. ``"f32"``; empty where it has none"""
    subsystem: str = ""
    """the pipeline that executes it: a :class:`Pipeline`, or the :class:`MemorySpace` that it accesses; in graphs that
    are typed in, any word"""
    source: str = ""
    """the Loopy instruction that it comes from"""
    text: str = ""
    """what it does, in the words of the source"""
    reference: Any = None
    """of loads and stores: which element of which array, see :class:`loopyperf.counts.memory_accesses.Reference`"""
    executions: int | Fraction = 1
    """how often the warp executes it; a fraction where ``typical`` says how often a condition on data holds"""
    condition: Any = None
    """where it runs in some passes of the loops around it only: a condition on these passes"""
    operands: tuple[Operand, ...] = ()
    """what it works on, in order"""
    address: Affine[Symbol] | None = None
    """of loads and stores: elements from the array's first one, as a function of what operands are functions of; None
    if data"""
    symbolic: Polynomial[Symbol] | None = None
    """of loads and stores: the same with sizes left as they are named, which is what the compiler knows of it, and
    with hardware indices by their axes, e.g. ``l.0``, ``g.1``"""
    tests: frozenset[str] = frozenset()
    """the conditions that decide which work-items of the grid execute it, whatever pass of a loop they are in"""
    part: int = 0
    """which it is of those alike that one operation of the source is made of, as of complex numbers and vectors"""
    is_bound: bool = False
    """data: how often a loop is passed depends on its result"""
    is_index: bool = False
    """it computes what loop variables and sizes alone determine"""
    origin: int | None = None
    """of loads and stores: the place in the launch's program of the access that this is, or is a copy of"""
    defines: tuple[Element, ...] = ()
    """elements of private arrays that its result becomes"""
    scalar: str = ""
    """of loads and stores: the type of the array's numbers, e.g. ``"f32"``"""
    predicates: frozenset[str] = frozenset()
    """the conditions written in the source that decide which work-items execute it, see :data:`NOT`"""
    is_volatile: bool = False
    """of loads and stores: the compiler does each where it stands, as often as it stands there"""
    is_assumed: bool = False
    """foreign code does it, as ``typical`` says, or the machine: it is executed where it stands, whether its result is
    used or not"""
    is_idle: bool = False
    """it is issued, but no lane of the warp takes part: it takes time to issue, and nothing else"""

    @property
    def label(self) -> str:
        """Return the Loopy instruction that it comes from; its kind where it comes from none."""
        return self.source or self.kind

    @property
    def bits(self) -> int:
        """Return how wide each lane's access is, of loads and stores."""
        return int(self.dtype.removeprefix("b"))


STAYING = (Opcode.STORE, Opcode.BARRIER, Opcode.MOVE, Opcode.INTEGER, Opcode.BRANCH)
"""kinds of instructions that are executed where they stand, each for itself; a move begins anew what the passes of an
inner loop change"""
NOT = "not "
"""what a predicate begins with that is the opposite of another"""
WORK_ITEM, WORK_GROUP = "the work-item", "the work-group"


@dataclass(frozen=True, slots=True)
class LoopBound:
    """What the code of a loop says of the number of passes."""

    values: tuple[int, ...] | None = None
    """all that it can be, in ascending order; None where that is not a choice between constants"""
    depends_on: frozenset[str] = frozenset()
    """of what is known at run time only: sizes by name, :data:`WORK_ITEM`, :data:`WORK_GROUP`"""
    loops: frozenset[str] = frozenset()
    """around it, by name, in whose passes it differs"""
    has_or: bool = False
    """the code chooses between several values by a condition with an *or* in it"""


AT_RUN_TIME = LoopBound(None, frozenset(("what is not known when it is compiled",)))


@dataclass(frozen=True, slots=True)
class Loop:
    """A body that is run several times."""

    name: str
    """the iname"""
    trips: TripCount
    """the number of passes each time that the loop is entered; may depend on the passes of the loops around it"""
    body: tuple["Item", ...]
    """instructions by number, and inner loops, in the order of the program"""
    is_unrolled: bool = False
    """a copy of the body is written for each pass"""
    bound: LoopBound = AT_RUN_TIME
    """what its code says of the number of passes, whatever the sizes and the warp"""
    copies: int = 1
    """how many passes of the loop of the source a pass of this one stands for"""
    lanes: tuple[int, ...] = ()
    """how many passes each lane makes, where that depends on the lane and on nothing else"""
    number: int = 0
    """its place among the loops of its graph in the order of the program; the graph assigns it"""

    @property
    def is_constant(self) -> bool:
        """Return whether the number of passes is known when the kernel is compiled, if that of the loops around is."""
        return not self.bound.depends_on

    @property
    def lanes_diverge(self) -> bool:
        """Return whether the number of passes is not the same for all work-items of a group."""
        return WORK_ITEM in self.bound.depends_on

    @property
    def is_counted(self) -> bool:
        """Return whether passes are counted at run time: the compiler does not know how many there are."""
        return not (self.is_constant or self.is_unrolled)


Item = int | Loop
"""the place of an instruction in :attr:`Idg.instructions`, or a loop"""


@dataclass(frozen=True, slots=True)
class Edge:
    """*target* uses what *source* defines."""

    source: int
    """number of an instruction"""
    target: int
    """number of an instruction"""
    distance: tuple[int, ...] = ()
    """by how many passes of each loop around both, from the outermost on, *source* is earlier. Shorter where the inner
    ones are entered anew in between: then it is their last pass that *target*'s first one waits for."""
    iterations: tuple[Iteration, ...] = ()
    """the pass of each loop around *source*, from the outermost on, given the passes of those around *target*"""
    condition: Any = None
    """on the passes of the loops around *target*: there this edge is; None if in all"""
    through: Dependence = Dependence.DATA
    """what passes from one to the other"""
    operand: int | None = None
    """which of the target's operands it leads to; None where it is none of them"""

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
        """Return the edge from *source* to *target* in the same pass of *loops*, which are around both, by name."""
        same: tuple[Iteration, ...] = tuple(Affine(((name, 1),)) for name in loops)
        return cls(source, target, (0,) * len(same), same, condition, through, operand)

    def between(self, source: int, target: int) -> "Edge":
        """Return the same edge from *source* to *target*."""
        if (source, target) == (self.source, self.target):
            return self
        return Edge(source, target, self.distance, self.iterations, self.condition, self.through, self.operand)

    @property
    def is_carried(self) -> bool:
        """Return whether the source is in an earlier pass of a loop than the target."""
        return any(self.distance)


@dataclass(frozen=True, slots=True)
class Idle:
    """What a warp comes by without any of its lanes taking part, in the order of the program."""

    instructions: tuple[Instruction, ...]
    """executed as often as the warp comes by"""
    edges: tuple[Edge, ...]
    """between them, within one pass"""
    places: tuple[tuple[int, tuple[str, ...]], ...]
    """of each: the instruction of the graph before which it stands, and the loops around it by name"""


def integer_if_whole(number: int | Fraction) -> int | Fraction:
    """Return *number* as an integer if it is one."""
    return number.numerator if number.denominator == 1 else number


def lag(iteration: Iteration, loop: str) -> int | None:
    """Return by how many passes of *loop* an *iteration* is earlier; None where that is not always the same."""
    return -iteration.constant if iteration.terms == ((loop, 1),) else None


def is_innermost(loop: Loop) -> bool:
    """Return whether there is no loop in *loop*."""
    return not any(isinstance(item, Loop) for item in loop.body)


def loops_in(body: Sequence[Item]) -> Iterator[Loop]:
    """Yield the loops in *body*, each before those inside it."""
    for item in body:
        if isinstance(item, Loop):
            yield item
            yield from loops_in(item.body)


def number_loops(body: Sequence[Item]) -> tuple[Item, ...]:
    """Return *body* with its loops numbered in the order of the program, each before those inside it."""
    if all(loop.number == number for number, loop in enumerate(loops_in(body))):
        return tuple(body)
    return tuple(_numbered(body, count()))


def _numbered(body: Sequence[Item], numbers: Iterator[int]) -> Iterator[Item]:
    for item in body:
        if isinstance(item, Loop):
            yield replace(item, number=next(numbers), body=tuple(_numbered(item.body, numbers)))
        else:
            yield item


def common_depth(one: Sequence[Loop], other: Sequence[Loop]) -> int:
    """Return how many loops are around both of two instructions, given the loops around each, the outermost first."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0].number == pair[1].number, pairs))


def placed(body: Sequence[Item], around: tuple[Loop, ...] = ()) -> Iterator[tuple[int, tuple[Loop, ...]]]:
    """Yield the instructions of *body* in the order of the program, each with the loops around it."""
    for item in body:
        if isinstance(item, Loop):
            yield from placed(item.body, (*around, item))
        else:
            yield item, around
