"""Random rolled graphs: a loop in a loop with instructions around, edges and conditions of every sort between them."""

from typing import Any

from hypothesis import strategies as st
from pymbolic import parse

from loopyperf.errors import GraphError
from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.idg.metrics import Lambdas

PIPELINES = ("alu", "sfu", "mem", "barrier")
OF_OUTER = ("i == 0", "i >= 1", "i % 2 == 0", "i >= 5 and i <= 20", "i % 3 == 1 or i == 7", "not (i // 4 == 2)")
OF_INNER = (*OF_OUTER, "j == 0", "j >= 1", "i + j >= 6", "j % 2 == 1", "i - j >= 0", "(i + j) % 4 == 3")
LATENCIES = (0, 0.25, 1, 2, 3.5, 6, 17, 60)

lambdas = st.fixed_dictionaries(
    {name: st.builds(Lambdas, st.sampled_from(LATENCIES), st.sampled_from(LATENCIES)) for name in PIPELINES}
)


@st.composite
def rolled_graphs(draw: Any) -> Idg:
    """Draw a graph whose flat form makes sense: nothing waits for itself, or for what comes later."""
    number = draw(st.integers(1, 7))
    begin, inner, after, end = sorted(draw(st.lists(st.integers(0, number), min_size=4, max_size=4)))
    trips = draw(st.sampled_from([1, 2, 3, 30, 47]))
    inner_trips = draw(st.sampled_from([1, 3, 25, parse("i + 1"), parse("i % 3")]))
    loop = Loop("j", inner_trips, tuple(range(inner, after)))
    around = Loop("i", trips, (*range(begin, inner), loop, *range(after, end)))
    levels = [("i", "j") if inner <= p < after else ("i",) if begin <= p < end else () for p in range(number)]
    instructions = tuple(draw(_instructions(each)) for each in levels)
    drawn = [draw(_edges(levels)) for _ in range(draw(st.integers(0, 8)))]
    edges = tuple(edge for edge in drawn if edge.is_carried or edge.source < edge.target)
    try:
        graph = Idg(instructions, edges, (*range(begin), around, *range(end, number)))
        graph.unrolled()
    except GraphError:
        return Idg(instructions, (), graph.body)
    return graph


@st.composite
def _instructions(draw: Any, loops: tuple[str, ...]) -> Instruction:
    subsystem = draw(st.sampled_from(PIPELINES))
    kind = "barrier" if subsystem == "barrier" else draw(st.sampled_from([subsystem, subsystem, "store"]))
    return Instruction(kind, subsystem=subsystem, condition=draw(_conditions(loops)))


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
        return None, draw(st.sampled_from([0, 2, 24]))
    away = draw(st.sampled_from([0, 0, 0, 1, 1, 2]))
    relative = parse(f"{name} - {away}") if away else parse(name)
    others = [draw(st.integers(0, 5)), parse(f"{name} // 2"), parse(f"2*{name} - 20")]
    return draw(st.sampled_from([(away, relative)] * 7 + [(1, other) for other in others]))
