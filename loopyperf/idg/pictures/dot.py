"""A graph in the DOT language of Graphviz: ``dot -Tsvg`` draws it.

Written by hand: the packages that write DOT (graphviz, pydot) would save these lines, and no more, for a dependency.
"""

from collections.abc import Iterator, Mapping, Sequence

from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.pictures.edge_words import of_pass, when
from loopyperf.idg.pictures.listing import clipped, head
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop

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
    number, condition = of_pass(graph, edge), when(edge)
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
