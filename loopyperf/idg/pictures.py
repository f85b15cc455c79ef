"""Instruction dependence graphs as pictures: a listing for terminals, and Graphviz's DOT."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pymbolic.primitives as prim

from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop, lag
from loopyperf.polyhedral.affine import Affine


def when(edge: Edge) -> str:
    """Return the condition of *edge*, empty if none.

    That there is the pass which its source is of goes without saying.
    """
    condition = edge.condition
    parts: tuple[Any, ...] = condition.children if isinstance(condition, prim.LogicalAnd) else (condition,)
    worded = [part for part in parts if part is not None and not _only_requires_iteration(part, edge)]
    return " and ".join(map(str, worded))


def _only_requires_iteration(condition: Any, edge: Edge) -> bool:
    match condition:
        case prim.Comparison(left=left, operator=operator, right=0):
            return str(operator) == ">=" and Affine.around(left) in edge.iterations
        case _:
            return False


def iteration_of(graph: Idg, edge: Edge) -> str:
    """Return of which pass the source of *edge* is, e.g. ``"k - 1"`` or ``"k = 15"``; empty if that of the target."""
    return ", ".join(_iterations(graph, edge))


def _iterations(graph: Idg, edge: Edge) -> Iterator[str]:
    for loop, number in zip(graph.loops_around[edge.source], edge.iterations, strict=False):
        earlier = lag(number, loop.name)
        if earlier is None:
            yield f"{loop.name} = {number}"
        elif earlier:
            yield f"{loop.name} - {earlier}"


WIDEST = 60
"""characters of a line of the source: what goes beyond is left out"""
INDENTATION = "    "


@dataclass(frozen=True, slots=True)
class _Line:
    """A loop's head, of which nothing else is known, or an instruction."""

    text: str
    place: int | None = None

    def cells(self, graph: Idg) -> tuple[str, ...]:
        """Return what stands in the columns."""
        if self.place is None:
            return "", self.text, "", "", "", ""
        each = graph.instructions[self.place]
        kind = f"{each.kind} {each.dtype}".rstrip()
        return str(self.place), self.text, kind, each.subsystem, f"×{each.executions}", _waits(graph, self.place)


def listing(graph: Idg) -> str:
    """Return the rolled *graph* as lines of text, an instruction or the head of a loop each.

    The columns are: the number of the instruction; the line of the source, inside its loops; kind and type; the
    subsystem; how often one warp executes it; and what it waits for, with the pass of a loop that this is of (``k - 1``
    of the one before, ``k = 15`` of a fixed one), where not in all passes, and through what, if not through registers.
    """
    rows = [line.cells(graph) for line in _lines(graph, graph.body, "")]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(f"{_row(row, widths)}\n" for row in rows)


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    number, *others = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return "  ".join((number.strip().rjust(widths[0]), *others)).rstrip()


def _lines(graph: Idg, body: Sequence[Item], indentation: str) -> Iterator[_Line]:
    for item in body:
        if isinstance(item, Loop):
            yield _Line(f"{indentation}{head(item)}:")
            yield from _lines(graph, item.body, indentation + INDENTATION)
        else:
            yield _Line(indentation + _text(graph.instructions[item]), item)


def head(loop: Loop) -> str:
    """Return the head of *loop*: its name and its number of passes."""
    number = "1 pass" if loop.trips == 1 else f"{loop.trips} passes"
    return f"for {loop.name} in {number}{', unrolled' if loop.is_unrolled else ''}"


def _text(instruction: Instruction) -> str:
    text = " ".join(instruction.text.split()) or instruction.label
    guard = "" if instruction.condition is None else f"if {instruction.condition}: "
    return clipped(guard + text)


def clipped(text: str) -> str:
    """Return *text* in at most :data:`WIDEST` characters."""
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _waits(graph: Idg, place: int) -> str:
    edges = sorted(graph.definitions[place], key=lambda edge: edge.source)
    waits = dict.fromkeys(_definition(graph, edge) for edge in edges)
    return f"waits for {', '.join(waits)}" if waits else ""


def _definition(graph: Idg, edge: Edge) -> str:
    number, condition = iteration_of(graph, edge), when(edge)
    of = f" [{number}]" if number else ""
    through = "" if edge.through == Dependence.DATA else f" ({edge.through})"
    return f"{edge.source}{of}{through}{f' if {condition}' if condition else ''}"


COLOURS: Mapping[str, str] = {
    Pipeline.ALU: "#cfe2f3",
    Pipeline.SFU: "#d9d2e9",
    Pipeline.FP64: "#b4c7e7",
    MemorySpace.LOCAL: "#d9ead3",
    MemorySpace.GLOBAL: "#f9cb9c",
    MemorySpace.PRIVATE: "#ffe599",
    Pipeline.BARRIER: "#f4b6b6",
}
"""of the boxes, by subsystem"""
OTHER_COLOUR = "#eeeeee"
STYLES = {
    Dependence.DATA: "solid",
    Dependence.MEMORY: "dashed",
    Dependence.SYNCHRONIZATION: "dotted",
    Dependence.CONTROL: "dashed",
}
"""of the arrows, by what a dependence is through"""


def dot(graph: Idg) -> str:
    """Return the rolled *graph* as DOT text: a box for each instruction, a frame for each loop, an arrow for each edge.

    An arrow from another pass of a loop says from which; it does not order the boxes.
    """
    lines = [
        "digraph {",
        '    node [shape=box, style=filled, fontname="monospace"];',
        '    edge [fontname="monospace"];',
        *_body(graph, graph.body, "    ", ""),
        *dict.fromkeys(f"    {_arrow(graph, edge)}" for edge in graph.edges),
        "}",
    ]
    return "".join(f"{line}\n" for line in lines)


def _body(graph: Idg, body: Sequence[Item], indentation: str, path: str) -> Iterator[str]:
    for number, item in enumerate(body):
        if isinstance(item, Loop):
            name = f"{path}_{number}"
            yield f"{indentation}subgraph cluster{name} {{"
            yield f"{indentation}    label={_quoted(head(item))};"
            yield from _body(graph, item.body, indentation + "    ", name)
            yield f"{indentation}}}"
        else:
            yield f"{indentation}{_box(item, graph.instructions[item])}"


def _box(place: int, instruction: Instruction) -> str:
    kind = f"{instruction.kind} {instruction.dtype}".rstrip()
    guard = [] if instruction.condition is None else [f"if {instruction.condition}"]
    text = [line] if (line := clipped(" ".join(instruction.text.split()))) else []
    label = "\n".join((f"{place}: {kind} ×{instruction.executions}", *guard, *text))
    return f"{place} [label={_quoted(label)}, fillcolor={_quoted(COLOURS.get(instruction.subsystem, OTHER_COLOUR))}];"


def _arrow(graph: Idg, edge: Edge) -> str:
    number, condition = iteration_of(graph, edge), when(edge)
    label = "\n".join(filter(None, (number, f"if {condition}" if condition else "")))
    attributes = [f"style={STYLES[edge.through]}"]
    if label:
        attributes.append(f"label={_quoted(label)}")
    if edge.is_carried:
        attributes.append("constraint=false")
    return f"{edge.source} -> {edge.target} [{', '.join(attributes)}];"


def _quoted(text: str) -> str:
    """Return *text* as a string of the DOT language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
