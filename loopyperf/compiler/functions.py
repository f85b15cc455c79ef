"""Functions and divisions as the machine instruction sequences that nvcc generates for them.

The sequences are the common path without fast math. They are derived from executed machine code (``sequences.toml``).
Divisions in 64 bits take a short path if both operands fit in 32 bits, and call a subroutine otherwise: data of 64 bits
is assumed not to fit.
Architectures before Volta and other vendors are assumed to use the sequences of Volta and later.
"""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from loopyperf.compiler.entry import HOPPER, Capability
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Instruction, Opcode, Operand, expanded
from loopyperf.polyhedral.affine import Affine

BASE: Capability = (8, 0)
"""architecture with a complete table; the tables of others list only sequences that differ in more than integers"""
RECIPROCAL = "1/"
"""name of a division whose dividend is the constant 1"""
OPERATORS = ("//", "%")
"""names of integer division and remainder"""
LONG = "long"
"""end of the name of a division whose operands do not fit in 32 bits"""
WORDS: Mapping[str, tuple[str, str]] = {
    **{
        f"{letter}{name}": (kind, dtype)
        for letter, dtype in (("F", "f32"), ("D", "f64"))
        for name, kind in (
            ("ADD", Opcode.ADD),
            ("MUL", Opcode.MUL),
            ("FMA", Opcode.FMA),
            ("SETP", Opcode.COMPARE),
            ("MNMX", Opcode.MIN_MAX),
        )
    },
    "IMAD": (Opcode.FMA, "i32"),
    "INT": (Opcode.INTEGER, ""),
    "BRA": (Opcode.BRANCH, ""),
    "FSEL": (Opcode.SELECT, ""),
    "MUFU": (Opcode.MUFU, ""),
    "FCHK": (Opcode.FCHK, ""),
    "CONVERT": (Opcode.CONVERT, ""),
}
"""word of the table -> opcode and data type; an empty type stands for that of the result"""
OPEN = ("exp", "powi")
"""functions that end with a product, which a following sum fuses into a multiply-add"""
INSTRUCTIONS_OF_PTX = ("sqrt", "rsqrt")
"""functions with a PTX instruction; calls of the others are inlined before loops are unrolled"""
WRITTEN_OUT = (Opcode.SPECIAL, Opcode.POW, Opcode.POWI)
"""opcodes whose functions are inlined"""
BRANCH = "BRA"
SLOW = (Opcode.MUFU, Opcode.CONVERT)
"""opcodes with long latencies"""


@dataclass(frozen=True, slots=True)
class MachineSequence:
    """The machine instructions of one function."""

    chain: tuple[tuple[str, str], ...]
    """(opcode, data type) of the instructions on the longest dependency chain"""
    beside: tuple[tuple[str, str], ...] = ()
    """(opcode, data type) of the other instructions"""
    constants: int = 0
    """number of constants that are moved into registers"""

    @property
    def length(self) -> int:
        """Return the number of instructions."""
        return len(self.chain) + len(self.beside) + self.constants


# {{{ choice of the sequence


def sequence_of(
    instruction: Instruction, capability: Capability = HOPPER, *, is_long: bool = False
) -> MachineSequence | None:
    """Return the sequence of *instruction* on devices of *capability*; None if it is one instruction or unknown.

    *is_long* tells whether an operand of a division in 64 bits does not fit in 32 bits.
    """
    if instruction.kind == Opcode.POWI and (exponent := exponent_of(instruction)) is not None:
        return _power(instruction.dtype, exponent, capability)
    name = _name(instruction)
    if name is None:
        return None
    table = _table(capability)
    dtype = re.sub(r"(?<=^[iu])(8|16)$", "32", instruction.dtype)  # shorter integers are computed in 32 bits
    if is_long and f"{name} {LONG} {dtype}" in table:
        return table[f"{name} {LONG} {dtype}"]
    return table.get(f"{name} {dtype}") or table.get(f"{name.removesuffix('f')} {dtype}")  # C names, such as sqrtf


def is_known_function(instruction: Instruction, described: Collection[str]) -> bool:
    """Return whether *described*, with names such as ``"div f64"``, includes *instruction*.

    Integer divisions have other names, because Loopy rounds them its own way.
    """
    return f"{_name(instruction)} {instruction.dtype}" in described


def _name(instruction: Instruction) -> str | None:
    """Return the name of *instruction* in the table; None if it has none."""
    match instruction.kind:
        case Opcode.SPECIAL:
            return instruction.function
        case Opcode.DIV | Opcode.MOD:
            return _division(instruction)
        case Opcode.POW:
            known = [isinstance(operand.known, (int, float)) for operand in instruction.operands]
            return "pow of constant" if known[:1] == [True] else "pow by constant" if known[1:] == [True] else "pow"
        case Opcode.MIN_MAX:
            return "min/max" if instruction.dtype.startswith("f") else "min/max integer"
        case Opcode.POWI | Opcode.ADD | Opcode.MUL | Opcode.SHIFT | Opcode.BITWISE if not instruction.is_index:
            return instruction.kind
        case _:
            return None


def _division(instruction: Instruction) -> str:
    dividend, divisor = (
        [operand.known for operand in instruction.operands] if len(instruction.operands) == 2 else (None, None)
    )
    is_size = any(operand.is_integer for operand in instruction.operands[1:])
    is_constant = isinstance(divisor, (int, float)) and not is_size
    if instruction.dtype.startswith("f"):
        return RECIPROCAL if dividend in (1, -1) else "/constant" if is_constant else instruction.kind
    operator = OPERATORS[instruction.kind != Opcode.DIV]
    if is_constant:
        is_power_of_two = isinstance(divisor, int) and divisor > 0 and divisor.bit_count() == 1
        return f"{operator} {'power of 2' if is_power_of_two else 'constant'}"
    is_bounded = (instruction.is_index or is_size) and Affine.of(divisor) is not None
    is_positive = instruction.dtype.startswith("u") or is_bounded
    return operator if is_positive else f"{operator} any sign"


def exponent_of(instruction: Instruction) -> int | None:
    """Return the integer exponent of *instruction*; None if it is not a known integer."""
    known = instruction.operands[1].known if len(instruction.operands) == 2 else None
    return int(known) if isinstance(known, int) else None


def _power(dtype: str, exponent: int, capability: Capability) -> MachineSequence:
    """Return the products of an integer power, which the compiler inlines; a negative power starts with 1/x."""
    products = abs(exponent).bit_length() + abs(exponent).bit_count() - 2
    table, product = _table(capability), MachineSequence(((Opcode.MUL, dtype),))
    multiplied = table.get(f"mul {dtype}", product).chain * products
    inverse = table[f"{RECIPROCAL} f64"].chain if exponent < 0 else ()
    return MachineSequence((*inverse, *multiplied) or ((Opcode.MOVE, dtype),))


@cache
def _table(capability: Capability) -> Mapping[str, MachineSequence]:
    """Return (function and type) -> sequence for devices of *capability*."""
    tables = tomllib.loads(Path(__file__).with_name("sequences.toml").read_text())
    known = {capability_of(name): rows for name, rows in tables.items()}
    nearest = max((each for each in known if each <= capability), default=min(known))
    rows = known[BASE] | known[nearest]
    return {name: _sequence(*row, is_hopper=capability >= HOPPER) for name, row in rows.items()}


def capability_of(architecture: str) -> Capability:
    """Return the compute capability of an *architecture* name: ``(8, 6)`` for ``"sm_86"``."""
    number = architecture.removeprefix("sm_")
    return int(number[:-1]), int(number[-1])


def _sequence(chain: str, beside: str, before: int, after: int, *, is_hopper: bool) -> MachineSequence:
    """Return the sequence of a row of the table; a sequence with branches moves its constants into registers each time.

    From Hopper on, doubles that do not fit into an instruction are moved once.
    """
    constants = after if is_hopper else before
    if BRANCH not in f"{chain} {beside}":
        return MachineSequence(_read(chain), _read(beside), constants)
    return MachineSequence(_read(chain), _read(f"{beside} INT*{before}"), max(0, constants - before))


def _read(words: str) -> tuple[tuple[str, str], ...]:
    split = (word.partition("*") for word in words.split())
    return tuple(WORDS[name] for name, _, number in split for _ in range(int(number or 1)))


def length(instruction: Instruction) -> int:
    """Return about how many PTX instructions *instruction* is; functions are inlined before loops are unrolled."""
    if instruction.kind not in WRITTEN_OUT or instruction.function in INSTRUCTIONS_OF_PTX:
        return 1
    sequence = sequence_of(instruction)
    return 1 if sequence is None else sequence.length


# }}}


def with_squares(graph: Idg) -> Idg:
    """Return *graph* with squares as products, as in Loopy's generated code."""
    products = [
        replace(instruction, kind=Opcode.MUL, subsystem=_subsystem(Opcode.MUL, instruction.dtype))
        if instruction.kind == Opcode.SQUARE
        else instruction
        for instruction in graph.instructions
    ]
    return graph.changed(products)


def with_function_sequences(
    graph: Idg, capability: Capability = HOPPER, described: Collection[str] = frozenset()
) -> Idg:
    """Return *graph* with functions and divisions replaced by sequences of instructions.

    Those in *described*, e.g. ``"div f64"``, and those without a known sequence stay one instruction each.
    """
    return _Expansion(graph, capability, described).expanded()


class _Expansion:
    def __init__(self, graph: Idg, capability: Capability, described: Collection[str]) -> None:
        self.graph, self.capability, self.described = graph, capability, described
        self.instructions = list(graph.instructions)
        self.edges: list[Edge] = []
        self.sequences: dict[int, list[int]] = {}
        """instruction -> the sequence that replaces it; its last instruction has the result"""
        self.constants: dict[MachineSequence, Instruction] = {}
        """sequences in use, each with one instruction that it replaces"""

    def expanded(self) -> Idg:
        for place, instruction in enumerate(self.graph.instructions):
            sequence = sequence_of(instruction, self.capability, is_long=not self._fits(place, instruction))
            if sequence is not None and not is_known_function(instruction, self.described):
                self._expand(place, instruction, sequence)
                self.constants.setdefault(sequence, instruction)
        if not self.sequences:
            return self.graph
        moved = (self._moved(edge) for edge in self.graph.edges)
        # All calls of a function share the moves of its constants.
        constants = sum(each.constants for each in self.constants)
        move = Instruction(Opcode.INTEGER, "i32", Pipeline.ALU, text="constant of a function")
        moves = range(len(self.instructions), len(self.instructions) + constants)
        body = (*moves, *expanded(self.graph.body, self.sequences))
        return Idg((*self.instructions, *[move] * constants), (*moved, *self.edges), body)

    def _fits(self, place: int, division: Instruction) -> bool:
        """Return whether the operands of a *division* are known to fit in 32 bits.

        Loop variables and sizes do, and so do values of 32-bit types, which are assumed not to be negative.
        """
        if division.kind not in (Opcode.DIV, Opcode.MOD) or division.is_index or not division.dtype.endswith("64"):
            return True
        defining = {edge.operand: self.graph.instructions[edge.source] for edge in self.graph.definitions[place]}
        return all(
            operand.is_integer
            or (isinstance(operand.known, int) and operand.known < 2**32)
            or (number in defining and _is_short(defining[number]))
            for number, operand in enumerate(division.operands)
        )

    def _expand(self, place: int, old: Instruction, sequence: MachineSequence) -> None:
        loops = [loop.name for loop in self.graph.loops_around[place]]
        is_open = (old.function in OPEN or old.kind in OPEN) and sequence.chain[-1][0] == Opcode.MUL
        steps = list(_arranged(sequence))
        places = [place, *range(len(self.instructions), len(self.instructions) + len(steps) - 1)]
        for number, ((kind, dtype), sources) in enumerate(steps):
            is_last = is_open and number + 1 == len(steps)
            operands = old.operands if not number else (Operand(), Operand()) if is_last else ()
            new = replace(old, kind=kind, dtype=dtype or old.dtype, operands=operands)
            new = replace(new, subsystem=_subsystem(kind, new.dtype))
            if number:
                self.instructions.append(new)
            else:
                self.instructions[place] = new
            slot = 0 if is_last else None
            self.edges += [Edge.within(places[s], places[number], loops, operand=slot) for s in sources]
        self.sequences[place] = places

    def _moved(self, edge: Edge) -> Edge:
        """Return *edge* from the last, or to the first, instruction of a sequence; its operand slot is dropped."""
        if edge.source not in self.sequences and edge.target not in self.sequences:
            return edge
        slot = None if edge.target in self.sequences else edge.operand
        return replace(edge, source=self.sequences.get(edge.source, [edge.source])[-1], operand=slot)


def _is_short(instruction: Instruction) -> bool:
    """Return whether the result of *instruction* has at most 32 bits."""
    of = instruction.scalar or instruction.dtype
    return of.lstrip("iub").isdecimal() and int(of.lstrip("iub")) <= 32


def _arranged(sequence: MachineSequence) -> Iterator[tuple[tuple[str, str], tuple[int, ...]]]:
    """Yield the instructions of *sequence* in program order, each with the earlier ones that it waits for.

    Instructions off the chain are spread evenly along it. Those with long latencies run in parallel to the rest of the
    chain.
    """
    chain, beside = sequence.chain, sequence.beside
    if len(chain) < 3:
        yield from ((step, (number - 1,) if number else ()) for number, step in enumerate((*chain, *beside)))
        return
    places = [1 + number * (len(chain) - 2) // max(1, len(beside)) for number in range(len(beside))]
    written, links, feeding = 0, list[int](), dict[int, list[int]]()
    for link, step in enumerate(chain):
        before = links[-1:]
        yield step, (*before, *feeding.get(link, ()))
        links.append(written)
        written += 1
        for number, place in enumerate(places):
            if place == link:
                target = len(chain) - 1 if beside[number][0] in SLOW else link + 1
                yield beside[number], tuple(before)
                feeding.setdefault(target, []).append(written)
                written += 1


def _subsystem(kind: str, dtype: str) -> str:
    if kind in (Opcode.MUFU, Opcode.BRANCH):
        return Pipeline.SFU if kind == Opcode.MUFU else Pipeline.CONTROL
    is_double = dtype == "f64" and kind in (Opcode.FMA, Opcode.MUL, Opcode.ADD, Opcode.CONVERT)
    return Pipeline.FP64 if is_double else Pipeline.ALU
