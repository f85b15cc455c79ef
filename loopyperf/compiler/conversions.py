"""Conversions: what is of one type and used as another is converted by an instruction of its own.

The source graph has none, since counts hold them to be free, as the paper does; the machine executes them: float to
double and back, integers to floating point (docs/compiler.md, section 4). Integers of all lengths are one type here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop, Opcode, Operand

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
    """Return *graph* with a conversion for each value and type that it is used as without being of it.

    A value is converted once to each type, right where it is computed; a loop variable where it is used.
    """
    return _Converter(graph).converted()


class _Converter:
    def __init__(self, graph: Idg) -> None:
        self.graph = graph
        self.instructions = list(graph.instructions)
        self.edges: list[Edge] = []
        self.after: dict[int, list[int]] = {}
        """of an instruction: the conversions of its result"""
        self.before: dict[int, list[int]] = {}
        """of an instruction: the conversions of operands that are no results of others"""
        self.of_result: dict[tuple[int, str], int] = {}

    def converted(self) -> Idg:
        for edge in self.graph.edges:
            self.edges.append(self._to_type(edge))
        for place in range(len(self.graph.instructions)):
            self._convert_operands(place)
        return Idg(tuple(self.instructions), tuple(self.edges), tuple(self._items(self.graph.body)))

    def _to_type(self, edge: Edge) -> Edge:
        source, target = self.graph.instructions[edge.source], self.graph.instructions[edge.target]
        wanted = _wanted(target, edge.operand) if edge.through == Dependence.DATA else ""
        given = _given(source)
        if not given or not wanted or given == wanted or (_is_integer(given) and _is_integer(wanted)):
            return edge
        key = edge.source, wanted
        if key not in self.of_result:
            self.of_result[key] = place = self._add(edge.source, wanted, self.after)
            loops = [loop.name for loop in self.graph.loops_around[edge.source]]
            self.edges.append(Edge.within(edge.source, place, loops, operand=0))
        return replace(edge, source=self.of_result[key])

    def _convert_operands(self, place: int) -> None:
        """Convert the operands of an instruction that are loop variables, hardware indices and sizes."""
        each = self.graph.instructions[place]
        for slot, operand in enumerate(each.operands):
            wanted = _wanted(each, slot)
            if operand.is_integer and wanted and not _is_integer(wanted):
                found = self._add(place, wanted, self.before, operand)
                loops = [loop.name for loop in self.graph.loops_around[place]]
                self.edges.append(Edge.within(found, place, loops, operand=slot))
                changed = list(self.instructions[place].operands)
                changed[slot] = Operand()
                self.instructions[place] = replace(self.instructions[place], operands=tuple(changed))

    def _add(self, place: int, dtype: str, where: dict[int, list[int]], operand: Operand | None = None) -> int:
        """Add a conversion to *dtype* beside the instruction at *place*, as often executed; return its own place."""
        beside = self.graph.instructions[place]
        new = Instruction(
            kind=Opcode.CONVERT,
            dtype=dtype,
            subsystem=Pipeline.ALU,
            source=beside.source,
            text=f"to {dtype}",
            executions=beside.executions,
            condition=beside.condition,
            operands=(operand or Operand(),),
        )
        where.setdefault(place, []).append(len(self.instructions))
        self.instructions.append(new)
        return len(self.instructions) - 1

    def _items(self, body: Sequence[Item]) -> Iterator[Item]:
        for item in body:
            if isinstance(item, Loop):
                yield replace(item, body=tuple(self._items(item.body)))
            else:
                yield from (*self.before.get(item, ()), item, *self.after.get(item, ()))


def _given(instruction: Instruction) -> str:
    """Return the type of what *instruction* computes; empty where that is not told."""
    if instruction.kind == Opcode.LOAD:
        return instruction.scalar
    return instruction.dtype if instruction.kind in ARITHMETIC else ""


def _wanted(instruction: Instruction, operand: int | None) -> str:
    """Return the type that *instruction* works in; empty where that is not told, and for indices."""
    if instruction.kind == Opcode.STORE:
        return instruction.scalar if operand == 0 else ""
    return instruction.dtype if instruction.kind in ARITHMETIC and operand is not None else ""


def _is_integer(dtype: str) -> bool:
    return dtype.startswith(("i", "u"))
