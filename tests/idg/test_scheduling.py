"""Loads of global memory are moved up: in which order, and that nothing else changes."""

from hypothesis import given
from hypothesis import strategies as st

from loopyperf.idg.graph import Idg
from loopyperf.idg.lowering.scheduling import with_early_loads
from loopyperf.idg.program import Edge, Instruction, Loop

SUBSYSTEMS = {"load": "global", "store": "global", "add": "alu", "barrier": "barrier", "shared": "local"}


def program(kinds: str, edges: list[tuple[int, int]]) -> Idg:
    """Return a straight program; ``shared`` is a load of local memory."""
    names = kinds.split()
    instructions = tuple(
        Instruction("load" if name == "shared" else name, subsystem=SUBSYSTEMS[name]) for name in names
    )
    return Idg(instructions, tuple(Edge(s, t) for s, t in edges), tuple(range(len(names))))


def test_loads_come_before_what_waits_for_another_load() -> None:
    # load 0, its sum 1, load 2, its sum 3: both loads first.
    graph = program("load add load add", [(0, 1), (2, 3), (1, 3)])
    assert with_early_loads(graph, 8).body == (0, 2, 1, 3)


def test_a_load_waits_for_its_address() -> None:
    # Load 2 needs the sum 1 of load 0: nothing moves.
    graph = program("load add load add", [(0, 1), (1, 2), (2, 3)])
    assert with_early_loads(graph, 8).body == (0, 1, 2, 3)


def test_no_more_results_wait_than_are_allowed() -> None:
    graph = program("load add load add load add", [(0, 1), (2, 3), (4, 5)])
    assert with_early_loads(graph, 1).body == (0, 1, 2, 3, 4, 5)
    assert with_early_loads(graph, 2).body == (0, 2, 1, 4, 3, 5)


def test_barriers_loops_and_local_loads_stay() -> None:
    graph = program("load add barrier load", [(0, 1)])
    assert with_early_loads(graph, 8).body == (0, 1, 2, 3)
    assert with_early_loads(program("add shared", []), 8).body == (0, 1)
    instructions = program("add load add load", []).instructions
    looped = Idg(instructions, (), (0, Loop("k", 3, (2, 3)), 1))
    moved = with_early_loads(looped, 8)
    assert (moved.body[0], moved.body[2]) == (0, 1)
    assert isinstance(moved.body[1], Loop)
    assert moved.body[1].body == (3, 2)


@st.composite
def programs(draw: st.DrawFn) -> Idg:
    names = draw(st.lists(st.sampled_from(sorted(SUBSYSTEMS)), min_size=1, max_size=12))
    pairs = [(source, target) for target in range(len(names)) for source in range(target)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=14)) if pairs else []
    return program(" ".join(names), edges)


@given(programs(), st.integers(1, 5))
def test_the_order_is_one_of_the_graphs(graph: Idg, waiting: int) -> None:
    moved = with_early_loads(graph, waiting)
    assert sorted(item for item in moved.body if isinstance(item, int)) == list(range(len(graph.instructions)))
    assert not moved.backwards
    assert (moved.instructions, moved.edges) == (graph.instructions, graph.edges)
