"""Text renderings of instruction dependence graphs: a listing for terminals, and Graphviz DOT."""

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
    """Return the condition of *edge* as text, empty if none.

    Tests that only require the source iteration to exist are omitted.
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
    """Return the iteration of the source of *edge*, e.g. ``"k - 1"`` or ``"k = 15"``; empty if the target's own."""
    return ", ".join(_iterations(graph, edge))


def _iterations(graph: Idg, edge: Edge) -> Iterator[str]:
    for loop, number in zip(graph.loops_around[edge.source], edge.iterations, strict=False):
        earlier = lag(number, loop.name)
        if earlier is None:
            yield f"{loop.name} = {number}"
        elif earlier:
            yield f"{loop.name} - {earlier}"


WIDEST = 60
"""maximum characters of a source line; longer lines are truncated"""
INDENTATION = "    "


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the listing: a loop header, or an instruction with its index *place*."""

    text: str
    place: int | None = None

    def cells(self, graph: Idg) -> tuple[str, ...]:
        """Return the contents of the columns."""
        if self.place is None:
            return "", self.text, "", "", "", ""
        each = graph.instructions[self.place]
        kind = f"{each.kind} {each.dtype}".rstrip()
        return str(self.place), self.text, kind, each.subsystem, f"×{each.executions}", _waits(graph, self.place)


def listing(graph: Idg) -> str:
    """Return the rolled *graph* as text, one line per instruction or loop header.

    The columns are: instruction index; source line, indented by loop; kind and type; subsystem; executions per warp;
    and the instructions that it waits for. A dependence shows its loop iteration (``k - 1`` for the previous one,
    ``k = 15`` for a fixed one), its condition if it does not always exist, and its kind if it is not through registers.
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
    """Return the header of *loop*: its name and trip count."""
    number = "1 iteration" if loop.trips == 1 else f"{loop.trips} iterations"
    return f"for {loop.name} in {number}{', unrolled' if loop.is_unrolled else ''}"


def _text(instruction: Instruction) -> str:
    text = " ".join(instruction.text.split()) or instruction.label
    guard = "" if instruction.condition is None else f"if {instruction.condition}: "
    return clipped(guard + text)


def clipped(text: str) -> str:
    """Return *text* truncated to :data:`WIDEST` characters."""
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
    MemorySpace.CONSTANT: "#ead1dc",
    Pipeline.BARRIER: "#f4b6b6",
}
"""fill colors of the boxes, by subsystem"""
OTHER_COLOUR = "#eeeeee"
STYLES = {
    Dependence.DATA: "solid",
    Dependence.MEMORY: "dashed",
    Dependence.SYNCHRONIZATION: "dotted",
    Dependence.CONTROL: "dashed",
}
"""line styles of the arrows, by kind of dependence"""


def dot(graph: Idg) -> str:
    """Return the rolled *graph* as DOT text: a box per instruction, a frame per loop, an arrow per edge.

    A loop-carried arrow is labeled with its source iteration and does not constrain the layout.
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
