"""Constant folding, copy propagation, conversions and dead code: instructions that the compiler removes or adds."""

from collections.abc import Sequence
from dataclasses import replace

import pymbolic.primitives as prim

from loopyperf.compiler.entry import HOPPER, TURING, Capability
from loopyperf.compiler.predication import TEST
from loopyperf.compiler.rewriting import Rewriting
from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg, composed, number_of_runs, rewritten
from loopyperf.idg.program import Dependence, Edge, Instruction, Loop, Opcode, Operand, expanded, loops_in
from loopyperf.polyhedral.expressions import names_of
from loopyperf.polyhedral.polynomial import Polynomial

LASTING = (Opcode.STORE, Opcode.BARRIER, Opcode.INTEGER, Opcode.BRANCH)
"""opcodes that are kept even if no instruction uses the result; INTEGER occurs only in the machine graph"""


def without_index_arithmetic(graph: Idg) -> Idg:
    """Return *graph* with addresses folded into loads and stores: affine ones are immediates in machine code.

    An index that is used as data, as in ``t = i``, is still computed, and so is one that changes by no constant step
    per iteration, such as ``1 << k`` (docs/compiler.md, section 5).
    """
    if not any(instruction.is_index for instruction in graph.instructions):
        return graph
    loops = {loop.name for loop in loops_in(graph.body)}
    irregular = {place for place, instruction in enumerate(graph.instructions) if _is_irregular(instruction, loops)}
    kept = irregular | {place for place, instruction in enumerate(graph.instructions) if not instruction.is_index}
    pending = list(kept - irregular)
    while pending:
        target = pending.pop()
        wanted = (edge.source for edge in graph.definitions[target] if _is_data(graph.instructions[target], edge))
        found = set(wanted) - kept
        kept |= found
        pending += found
    return rewritten(graph, sorted(kept), _past(graph, irregular, kept))


def _is_irregular(instruction: Instruction, loops: set[str]) -> bool:
    """Return whether an index instruction computes a value that no pointer with a constant step in *loops* replaces.

    Sums are excluded because they are part of a multiply-add. Conditions are excluded because they are no addresses;
    their tests are counted separately.
    """
    known = [operand.known for operand in instruction.operands]
    others = (Opcode.ADD, Opcode.COMPARE, Opcode.LOGIC)
    if not instruction.is_index or instruction.kind in others or not loops & names_of(known):
        return False
    if instruction.kind != Opcode.MUL or any(each is None for each in known):
        return True
    return not Polynomial.of(prim.Product(tuple(known))).is_affine_in(loops)


def _past(graph: Idg, irregular: set[int], kept: set[int]) -> list[Edge]:
    """Return the edges of *graph*; edges from removed instructions lead from the *irregular* indices that they use.

    Index instructions wait for no condition: they are computed for all lanes.
    """
    edges = [edge for edge in graph.edges if edge.through != Dependence.CONTROL or edge.target not in irregular]
    reached = set(irregular)
    for place in (place for place in range(len(graph.instructions)) if irregular and place not in kept):
        if before := [edge for edge in edges if edge.target == place and edge.source in reached]:
            reached.add(place)
            after = [edge for edge in edges if edge.source == place and edge.target != place]
            edges += [composed(graph, first, second) for second in after for first in before]
    return edges


def _is_data(instruction: Instruction, edge: Edge) -> bool:
    """Return whether *edge* alone defines an operand of *instruction*, and the operand is not part of an address."""
    if instruction.address is not None and not (instruction.kind == Opcode.STORE and edge.operand == 0):
        return False
    return edge.operand is not None and instruction.operands[edge.operand].known is None


def without_moves(graph: Idg) -> Idg:
    """Return *graph* with each use of a copied register connected to the source of the copy.

    A constant that is the only possible value of an operand becomes part of the instruction; other constants are moved
    into registers.
    """
    edges: list[Edge | None] = list(graph.edges)
    at: list[list[int]] = [[] for _ in graph.instructions]
    """instruction -> numbers of its edges"""
    for number, edge in enumerate(graph.edges):
        at[edge.source].append(number)
        if edge.target != edge.source:
            at[edge.target].append(number)
    gone: set[int] = set()
    for place in (place for place, instruction in enumerate(graph.instructions) if instruction.kind == Opcode.MOVE):
        touching = [edge for number in at[place] if (edge := edges[number]) is not None]
        before = [edge for edge in touching if edge.target == place and edge.operand == 0]
        (operand, *_) = graph.instructions[place].operands or (Operand(),)
        if before and not operand.is_negated and len(graph.instructions[place].operands) == 1:
            after = [edge for edge in touching if edge.source == place and edge.target != place]
            for number in at[place]:
                edges[number] = None
            for edge in (composed(graph, first, second) for second in after for first in before):
                at[edge.source].append(len(edges))
                at[edge.target].append(len(edges))
                edges.append(edge)
            gone.add(place)
    kept = [place for place in range(len(graph.instructions)) if place not in gone]
    return _with_constants(rewritten(graph, kept, [edge for edge in edges if edge is not None]))


def _with_constants(graph: Idg) -> Idg:
    """Return *graph* with constants as operands where no other value is possible."""
    feeding: dict[tuple[int, int | None], list[Edge]] = {}
    for edge in graph.edges:
        feeding.setdefault((edge.target, edge.operand), []).append(edge)
    replaced: dict[int, Instruction] = {}
    absorbed: set[Edge] = set()
    for (target, slot), (edge, *others) in feeding.items():
        constant = None if slot is None or others or edge.condition is not None else _constant(graph, edge.source)
        if slot is not None and constant is not None:
            instruction = replaced.get(target, graph.instructions[target])
            sign = instruction.operands[slot].is_negated != constant.is_negated
            operands = (*instruction.operands[:slot], Operand(constant.known, sign), *instruction.operands[slot + 1 :])
            replaced[target] = replace(instruction, operands=operands)
            absorbed.add(edge)
    left = [edge for edge in graph.edges if edge not in absorbed]
    used = {edge.source for edge in left}
    kept = [place for place, each in enumerate(graph.instructions) if each.kind != Opcode.MOVE or place in used]
    return rewritten(graph, kept, left, replaced)


def _constant(graph: Idg, place: int) -> Operand | None:
    """Return the constant that an instruction moves into a register; None for other instructions."""
    move = graph.instructions[place]
    if move.kind != Opcode.MOVE or len(move.operands) != 1 or graph.definitions[place]:
        return None
    return move.operands[0] if move.operands[0].known is not None else None


# {{{ constant memory
#
# Instructions take an element of constant memory as an operand, c[bank][offset], if its address is an immediate; from
# Turing on, also if a uniform register has the offset, that is, if only loops change it. Other elements are loaded
# (LDC) through the constant cache. Measured with NVRTC for sm_70, sm_80 and sm_90 (docs/compiler/memory.md, 5.12).


def with_constant_memory(graph: Idg) -> Idg:
    """Return *graph* with loads from constant memory in that memory instead of global memory."""
    places = {place: each for place, each in enumerate(graph.instructions) if _is_constant_load(each)}
    changed = {place: replace(each, subsystem=MemorySpace.CONSTANT) for place, each in places.items()}
    return rewritten(graph, range(len(graph.instructions)), graph.edges, changed) if changed else graph


def with_constant_operands(graph: Idg, capability: Capability = HOPPER) -> Idg:
    """Return *graph* without loads from constant memory that instructions take as operands.

    An instruction takes one such operand. A further one, and one that is stored, an index or one of several possible
    values, moves into a register first.
    """
    taken = {
        place
        for place, instruction in enumerate(graph.instructions)
        if _is_constant_load(instruction) and _is_uniform(instruction, graph.loops_around[place], capability >= TURING)
    }
    if not taken:
        return graph
    sources: dict[tuple[int, int | None], set[int]] = {}
    for edge in graph.edges:
        sources.setdefault((edge.target, edge.operand), set()).add(edge.source)
    moved: dict[int, Instruction] = {}
    direct: dict[int, int] = {}
    """instruction -> the load that is its operand"""
    for (target, _), found in sources.items():
        for place in sorted(found & taken - moved.keys()):
            is_alone = len(found) == 1 and direct.setdefault(target, place) == place
            if not is_alone or graph.instructions[target].reference is not None:
                each = graph.instructions[place]
                moved[place] = replace(_value(each), kind=Opcode.MOVE, subsystem=Pipeline.ALU, operands=(Operand(),))
    kept = [place for place in range(len(graph.instructions)) if place not in taken or place in moved]
    return rewritten(graph, kept, [edge for edge in graph.edges if edge.target not in moved], moved)


def _is_uniform(access: Instruction, around: Sequence[Loop], is_in_uniform_registers: bool) -> bool:
    """Return whether the address of *access* is an immediate, or if allowed, depends only on the loops *around* it."""
    loops = {loop.name for loop in around if is_in_uniform_registers and not loop.lanes_diverge}
    return access.symbolic is not None and access.symbolic.names <= loops


def _value(load: Instruction) -> Instruction:
    """Return *load* without its access to memory, with the type of the loaded value."""
    return replace(load, dtype=load.scalar, reference=None, address=None, symbolic=None, origin=None)


def _is_constant_load(instruction: Instruction) -> bool:
    reference = instruction.reference
    return instruction.kind == Opcode.LOAD and reference is not None and reference.is_in_constant_memory


# }}}


def _lasts(instruction: Instruction) -> bool:
    """Return whether *instruction* is kept even if unused, because it decides which others execute and how often."""
    is_decision = instruction.is_bound or (instruction.kind == Opcode.COMPARE and len(instruction.operands) == 2)
    stays = instruction.is_idle or instruction.is_volatile or instruction.is_assumed
    return instruction.kind in LASTING or stays or is_decision


def without_unused(graph: Idg) -> Idg:
    """Return *graph* without instructions whose results no lasting instruction depends on."""
    needed: set[int] = set()
    pending = [place for place, instruction in enumerate(graph.instructions) if _lasts(instruction)]
    while pending:
        place = pending.pop()
        if place not in needed:
            needed.add(place)
            pending += [edge.source for edge in graph.definitions[place]]
    return rewritten(graph, sorted(needed), graph.edges)


# {{{ conversions between types
#
# The source graph has no conversions because counts treat them as free, as the paper does. The machine executes them:
# float to double and back, integer to floating point (docs/compiler.md, section 4). Integers of all widths count as one
# type here.


ARITHMETIC = (
    Opcode.ADD,
    Opcode.MUL,
    Opcode.SQUARE,
    Opcode.FMA,
    Opcode.DIV,
    Opcode.MOD,
    Opcode.POW,
    Opcode.POWI,
    Opcode.SPECIAL,
    Opcode.MIN_MAX,
)


def with_conversions(graph: Idg) -> Idg:
    """Return *graph* with a conversion for each value that is used as another type.

    A value is converted once to each type, right after it is computed; a loop variable is converted at each use. The
    subsystem of a conversion is FP64 if one of the types has 64 bits, INTEGER from 32-bit integers to f32, else SFU.
    """
    return _Converter(graph).converted()


class _Converter:
    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.instructions = list(graph.instructions)
        self.edges: list[Edge] = []
        self.parts: dict[int, tuple[int, ...]] = {}
        """instruction -> conversions of its operands that are no results, the instruction, conversions of its result"""
        self.of_result: dict[tuple[int, str], int] = {}

    def converted(self) -> Idg:
        for edge in self.graph.edges:
            self.edges.append(self._to_type(edge))
        for place in range(len(self.graph.instructions)):
            self._convert_operands(place)
        if not self.parts:
            return self.graph
        return Idg(tuple(self.instructions), tuple(self.edges), expanded(self.graph.body, self.parts))

    def _to_type(self, edge: Edge) -> Edge:
        source, target = self.graph.instructions[edge.source], self.graph.instructions[edge.target]
        wanted = _wanted(target, edge.operand) if edge.through == Dependence.DATA else ""
        given = _given(source)
        if not given or not wanted or given == wanted or (_is_integer(given) and _is_integer(wanted)):
            return edge
        key = edge.source, wanted
        if key not in self.of_result:
            self.of_result[key] = place = self._add(edge.source, given, wanted)
            loops = [loop.name for loop in self.graph.loops_around[edge.source]]
            self.edges.append(Edge.within(edge.source, place, loops, operand=0))
        return replace(edge, source=self.of_result[key])

    def _convert_operands(self, place: int) -> None:
        """Convert the operands of an instruction that are loop variables, hardware indices or sizes."""
        each = self.graph.instructions[place]
        for slot, operand in enumerate(each.operands):
            wanted = _wanted(each, slot)
            if operand.is_integer and wanted and not _is_integer(wanted):
                found = self._add(place, "i32", wanted, operand)
                loops = [loop.name for loop in self.graph.loops_around[place]]
                self.edges.append(Edge.within(found, place, loops, operand=slot))
                changed = list(self.instructions[place].operands)
                changed[slot] = Operand()
                self.instructions[place] = replace(self.instructions[place], operands=tuple(changed))

    def _add(self, place: int, given: str, wanted: str, operand: Operand | None = None) -> int:
        """Add a conversion next to the instruction at *place*, of one of its operands or of its result; return it."""
        beside = self.graph.instructions[place]
        of_integers = Pipeline.INTEGER if _is_integer(given) and wanted == "f32" else Pipeline.SFU
        new = Instruction(
            kind=Opcode.CONVERT,
            dtype=wanted,
            subsystem=Pipeline.FP64 if "64" in given + wanted else of_integers,
            source=beside.source,
            text=f"to {wanted}",
            executions=beside.executions,
            condition=beside.condition,
            on_data=beside.on_data,
            operands=(operand or Operand(),),
        )
        added, parts = len(self.instructions), self.parts.get(place, (place,))
        at = parts.index(place) if operand is not None else len(parts)
        self.parts[place] = (*parts[:at], added, *parts[at:])
        self.instructions.append(new)
        return added


def _given(instruction: Instruction) -> str:
    """Return the type of the result of *instruction*; empty if unknown."""
    if instruction.kind == Opcode.LOAD:
        return instruction.scalar
    return instruction.dtype if instruction.kind in ARITHMETIC else ""


def _wanted(instruction: Instruction, operand: int | None) -> str:
    """Return the type in which *instruction* computes; empty if unknown, and for indices."""
    if instruction.kind == Opcode.STORE:
        return instruction.scalar if operand == 0 else ""
    return instruction.dtype if instruction.kind in ARITHMETIC and operand is not None else ""


def _is_integer(dtype: str) -> bool:
    return dtype.startswith(("i", "u"))


# }}}


# {{{ guarded unrolled copies
#
# In a loop that Loopy unrolls, each copy starts with a test of its own if lanes have different trip counts.
#
# A short copy is predicated instead of branched around (docs/compiler.md, section 6): the instructions that compute the
# predicate execute in all copies, whether or not any lane of the warp is active.


def with_guarded_copies(graph: Idg) -> Idg:
    """Return *graph* with the tests of unrolled copies that not all lanes execute."""
    rewriting = Rewriting(graph)

    def tests(loops: tuple[Loop, ...]) -> Sequence[int]:
        loop = loops[-1]
        if not (loop.is_unrolled and loop.lanes_diverge):
            return ()
        return rewriting.add(Opcode.INTEGER, f"in {loop.name}?", TEST, number_of_runs(None, loops))

    return rewriting.rebuilt(rewriting.body_with(first=tests))


# }}}
