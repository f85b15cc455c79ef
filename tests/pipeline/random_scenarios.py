"""Random graphs and configurations, small enough for :mod:`reference_core`."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from pymbolic import parse

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import GraphError
from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.pipeline import SCHEDULERS, Execution

SUBSYSTEMS = ("alu", "sfu", "mem", "barrier")
POLICIES = tuple(SCHEDULERS)
ISSUE = (0.25, Fraction(1, 3), 1, 2, 3.5)
COMPLETION = (3.5, 4, 6, 17, 60)
OF_OUTER = ("i == 0", "i >= 1", "i % 2 == 0", "not (i // 2 == 1)", "i != 2 or i > 3")
OF_INNER = (*OF_OUTER, "j == 0", "i + j <= 2", "i - j >= 0 and j < 2", "(i + j) % 3 == 1")
LIMITS = (None, Fraction(1), Fraction(2), Fraction(1, 2), Fraction(3, 2))

lambdas = st.fixed_dictionaries(
    {name: st.builds(Lambdas, st.sampled_from(ISSUE), st.sampled_from(COMPLETION)) for name in SUBSYSTEMS}
)
"""completion latencies are no shorter than issue latencies, as on hardware: the bounds hold for such only"""
executions = st.builds(Execution, st.integers(1, 4), st.integers(1, 3), st.integers(1, 5))
policies = st.sampled_from(POLICIES)
limits = st.sampled_from(LIMITS)
orders = st.sampled_from(["in_order", "dataflow"])


@st.composite
def graphs(draw: Any) -> Idg:
    """Draw a graph of up to 6 instructions, a loop in a loop, with edges and conditions of every sort."""
    number = draw(st.integers(1, 6))
    begin, inner, after, end = sorted(draw(st.lists(st.integers(0, number), min_size=4, max_size=4)))
    loop = Loop("j", draw(st.sampled_from([1, 2, 3, parse("i + 1"), parse("i % 2")])), tuple(range(inner, after)))
    outer = Loop("i", draw(st.sampled_from([0, 1, 2, 4])), (*range(begin, inner), loop, *range(after, end)))
    levels = [("i", "j") if inner <= p < after else ("i",) if begin <= p < end else () for p in range(number)]
    instructions = tuple(draw(_instructions(each)) for each in levels)
    drawn = [draw(_edges(levels)) for _ in range(draw(st.integers(0, 9)))]
    edges = tuple(edge for edge in drawn if edge.is_carried or edge.source < edge.target)
    try:
        graph = Idg(instructions, edges, (*range(begin), outer, *range(end, number)))
        graph.unrolled()
    except GraphError:
        return Idg(instructions, (), (*range(begin), outer, *range(end, number)))
    return graph


@st.composite
def _instructions(draw: Any, loops: tuple[str, ...]) -> Instruction:
    subsystem = draw(st.sampled_from(SUBSYSTEMS))
    kind = "barrier" if subsystem == "barrier" else draw(st.sampled_from([subsystem, subsystem, "store"]))
    return Instruction(kind, subsystem=subsystem, executions=20, condition=draw(_conditions(loops)))


@st.composite
def _conditions(draw: Any, loops: tuple[str, ...]) -> Any:
    if not loops or draw(st.integers(0, 3)):
        return None
    return parse(draw(st.sampled_from(OF_OUTER if len(loops) == 1 else OF_INNER)))


@st.composite
def _edges(draw: Any, levels: list[tuple[str, ...]]) -> Edge:
    source, target = draw(st.integers(0, len(levels) - 1)), draw(st.integers(0, len(levels) - 1))
    passes = [draw(_passes(name, name in levels[target])) for name in levels[source]]
    distance = tuple(away for away, _ in passes if away is not None)
    return Edge(source, target, distance, tuple(at for _, at in passes), draw(_conditions(levels[target])))


@st.composite
def _passes(draw: Any, name: str, is_shared: bool) -> tuple[int | None, Any]:
    """Draw by how many passes of loop *name* a definition is earlier, and in which it is."""
    if not is_shared:
        return None, draw(st.sampled_from([0, 1, 2]))
    away = draw(st.sampled_from([0, 0, 0, 1, 1, 2]))
    relative = parse(f"{name} - {away}") if away else parse(name)
    others = [draw(st.integers(0, 3)), parse(f"{name} // 2"), parse(f"2*{name} - 3")]
    return draw(st.sampled_from([(away, relative)] * 5 + [(1, other) for other in others]))


@st.composite
def long_graphs(draw: Any) -> Idg:
    """Draw a graph whose outermost loop runs for longer."""
    graph = draw(graphs())
    trips = draw(st.sampled_from([30, 150]))
    body = tuple(replace(item, trips=trips) if isinstance(item, Loop) else item for item in graph.body)
    inner = [item for item in body if isinstance(item, Loop) for item in item.body if isinstance(item, Loop)]
    if any(not isinstance(loop.trips, int) and "i + 1" in str(loop.trips) for loop in inner):
        return graph
    found = Idg(tuple(replace(each, executions=400) for each in graph.instructions), graph.edges, body)
    try:
        found.unrolled()
    except GraphError:
        return graph
    return found
