"""Random rolled graphs: two nested loops with instructions around them, and edges and conditions of all kinds."""

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
    """The values and limits from which graphs are drawn."""

    subsystems: Sequence[str]
    of_outer: Sequence[str]
    """conditions in the outer loop"""
    of_inner: Sequence[str]
    """conditions in both loops"""
    instructions: int
    """maximum number"""
    executions: int = 1
    """of each instruction"""
    edges: int
    """maximum number"""
    trips: Sequence[int]
    inner_trips: Sequence[Any]
    passes: Sequence[int]
    """iterations of a loop that an edge leaves"""
    furthest: int
    """maximum constant iteration of the source of an edge, in a loop around both of its ends"""
    back: int
    """the number b of a source in iteration 2 i - b, with the target in iteration i"""
    relative: int
    """weight of sources a constant distance away, relative to each of three other kinds of sources"""
    away: Sequence[int] = (0, 0, 0, 1, 1, 2)
    """these constant distances, in iterations"""


@st.composite
def graphs_of(draw: Any, sorts: Sorts) -> Idg:
    """Draw a graph whose flat form is valid: no instruction waits for itself or for a later one."""
    number = draw(st.integers(1, sorts.instructions))
    start, inner, after, end = sorted(draw(st.lists(st.integers(0, number), min_size=4, max_size=4)))
    trips, inner_trips = draw(st.sampled_from(sorts.trips)), draw(st.sampled_from(sorts.inner_trips))
    loop = Loop("j", inner_trips, tuple(range(inner, after)))
    around = Loop("i", trips, (*range(start, inner), loop, *range(after, end)))
    levels = [("i", "j") if inner <= p < after else ("i",) if start <= p < end else () for p in range(number)]
    instructions = tuple(draw(_instructions(sorts, each)) for each in levels)
    drawn = [draw(_edges(sorts, levels)) for _ in range(draw(st.integers(0, sorts.edges)))]
    edges = tuple(edge for edge in drawn if edge.is_carried or edge.source < edge.target)
    body = (*range(start), around, *range(end, number))
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
    passes = [draw(_iterations(sorts, name, name in levels[target])) for name in levels[source]]
    distance = tuple(away for away, _ in passes if away is not None)
    sources = tuple(Affine.around(at) for _, at in passes)
    return Edge(source, target, distance, sources, draw(_conditions(sorts, levels[target])))


@st.composite
def _iterations(draw: Any, sorts: Sorts, name: str, is_shared: bool) -> tuple[int | None, Any]:
    """Draw the distance of a definition in iterations of loop *name*, and its iteration."""
    if not is_shared:
        return None, draw(st.sampled_from(sorts.passes))
    away = draw(st.sampled_from(sorts.away))
    relative = parse(f"{name} - {away}") if away else parse(name)
    others = [draw(st.integers(0, sorts.furthest)), parse(f"{name} // 2"), parse(f"2*{name} - {sorts.back}")]
    return draw(st.sampled_from([(away, relative)] * sorts.relative + [(1, other) for other in others]))
