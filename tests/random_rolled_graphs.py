"""Random rolled graphs: a loop in a loop with instructions around, edges and conditions of every sort between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from pymbolic import parse

from loopyperf.errors import GraphError
from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.polyhedral.affine import Affine


@dataclass(frozen=True, kw_only=True)
class Sorts:
    """What is drawn."""

    subsystems: Sequence[str]
    of_outer: Sequence[str]
    """conditions on the outer loop"""
    of_inner: Sequence[str]
    """and on both"""
    instructions: int
    """at most"""
    executions: int = 1
    """of each instruction"""
    edges: int
    """at most"""
    trips: Sequence[int]
    inner_trips: Sequence[Any]
    passes: Sequence[int]
    """of a loop that an edge leads out of"""
    furthest: int
    """pass of a loop around both ends of an edge, where that is a number"""
    back: int
    """what is taken from twice the pass, where that is where an edge comes from"""
    relative: int
    """how often an edge comes from a pass some passes ago, for each time of these three"""


@st.composite
def graphs_of(draw: Any, sorts: Sorts) -> Idg:
    """Draw a graph whose flat form makes sense: nothing waits for itself, or for what comes later."""
    number = draw(st.integers(1, sorts.instructions))
    begin, inner, after, end = sorted(draw(st.lists(st.integers(0, number), min_size=4, max_size=4)))
    trips, inner_trips = draw(st.sampled_from(sorts.trips)), draw(st.sampled_from(sorts.inner_trips))
    loop = Loop("j", inner_trips, tuple(range(inner, after)))
    around = Loop("i", trips, (*range(begin, inner), loop, *range(after, end)))
    levels = [("i", "j") if inner <= p < after else ("i",) if begin <= p < end else () for p in range(number)]
    instructions = tuple(draw(_instructions(sorts, each)) for each in levels)
    drawn = [draw(_edges(sorts, levels)) for _ in range(draw(st.integers(0, sorts.edges)))]
    edges = tuple(edge for edge in drawn if edge.is_carried or edge.source < edge.target)
    body = (*range(begin), around, *range(end, number))
    try:
        graph = Idg(instructions, edges, body)
        graph.unrolled()
    except GraphError:
        return Idg(instructions, (), body)
    return graph


@st.composite
def _instructions(draw: Any, sorts: Sorts, loops: tuple[str, ...]) -> Instruction:
    subsystem = draw(st.sampled_from(sorts.subsystems))
    kind = "barrier" if subsystem == "barrier" else draw(st.sampled_from([subsystem, subsystem, "store"]))
    condition = draw(_conditions(sorts, loops))
    return Instruction(kind, subsystem=subsystem, executions=sorts.executions, condition=condition)


@st.composite
def _conditions(draw: Any, sorts: Sorts, loops: tuple[str, ...]) -> Any:
    if not loops or draw(st.integers(0, 3)):
        return None
    return parse(draw(st.sampled_from(sorts.of_outer if len(loops) == 1 else sorts.of_inner)))


@st.composite
def _edges(draw: Any, sorts: Sorts, levels: list[tuple[str, ...]]) -> Edge:
    source, target = draw(st.integers(0, len(levels) - 1)), draw(st.integers(0, len(levels) - 1))
    passes = [draw(_passes(sorts, name, name in levels[target])) for name in levels[source]]
    distance = tuple(away for away, _ in passes if away is not None)
    sources = tuple(Affine.around(at) for _, at in passes)
    return Edge(source, target, distance, sources, draw(_conditions(sorts, levels[target])))


@st.composite
def _passes(draw: Any, sorts: Sorts, name: str, is_shared: bool) -> tuple[int | None, Any]:
    """Draw by how many passes of loop *name* a definition is earlier, and in which it is."""
    if not is_shared:
        return None, draw(st.sampled_from(sorts.passes))
    away = draw(st.sampled_from([0, 0, 0, 1, 1, 2]))
    relative = parse(f"{name} - {away}") if away else parse(name)
    others = [draw(st.integers(0, sorts.furthest)), parse(f"{name} // 2"), parse(f"2*{name} - {sorts.back}")]
    return draw(st.sampled_from([(away, relative)] * sorts.relative + [(1, other) for other in others]))
