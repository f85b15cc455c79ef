"""Random graphs and configurations, small enough for :mod:`reference_core`."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st
from pymbolic import parse

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import GraphError
from loopyperf.idg import Idg, Loop
from loopyperf.pipeline import SCHEDULERS, Execution
from tests.random_rolled_graphs import Sorts, graphs_of

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
"""completion latencies are at least the issue latencies, as on hardware; the bounds assume this"""
executions = st.builds(Execution, st.integers(1, 4), st.integers(1, 3), st.integers(1, 5))
"""warps per group, resident groups, groups"""
policies = st.sampled_from(POLICIES)
limits = st.sampled_from(LIMITS)


SORTS = Sorts(
    subsystems=SUBSYSTEMS,
    of_outer=OF_OUTER,
    of_inner=OF_INNER,
    instructions=6,
    executions=20,
    edges=9,
    trips=[0, 1, 2, 4],
    inner_trips=[1, 2, 3, parse("i + 1"), parse("i % 2")],
    passes=[0, 1, 2],
    furthest=3,
    back=3,
    relative=5,
)
FAR = replace(SORTS, instructions=6, edges=12, trips=[4, 5, 6], inner_trips=[1, 2], relative=40, away=(0, 2, 3, 4))
"""many results are kept, since they are used several iterations later"""


def graphs(sorts: Sorts = SORTS) -> st.SearchStrategy[Idg]:
    """Return graphs of up to 6 instructions with nested loops and with edges and conditions of all kinds."""
    return graphs_of(sorts)


@st.composite
def warp_graphs(draw: Any, warps: int) -> tuple[Idg, ...]:
    """Draw graphs for groups of *warps* warps: one for all groups, or as often unlike ones for consecutive groups.

    Unlike groups execute programs with other numbers of instructions, loops and kept results in the same slots.
    """
    if draw(st.booleans()):
        return tuple(draw(graphs()) for _ in range(draw(st.sampled_from([1, warps]))))
    sorts = draw(st.permutations([FAR, SORTS, replace(SORTS, instructions=2)]))
    return tuple(draw(graphs(each)) for each in sorts[: draw(st.integers(2, 3))] for _ in range(warps))


@st.composite
def long_graphs(draw: Any) -> Idg:
    """Draw a graph with a long outer loop, a long inner loop, or both."""
    graph = draw(graphs())
    trips, inner_trips = draw(st.sampled_from([(30, None), (150, None), (4, 40), (2, parse("30*i + 9")), (16, 12)]))
    body = tuple(_longer(item, trips, inner_trips) if isinstance(item, Loop) else item for item in graph.body)
    inner = [item for item in body if isinstance(item, Loop) for item in item.body if isinstance(item, Loop)]
    if inner_trips is None and any(not isinstance(loop.trips, int) and "i + 1" in str(loop.trips) for loop in inner):
        return graph
    found = Idg(tuple(replace(each, executions=400) for each in graph.instructions), graph.edges, body)
    try:
        found.unrolled()
    except GraphError:
        return graph
    return found


def _longer(loop: Loop, trips: int, inner_trips: Any) -> Loop:
    body = (
        replace(item, trips=item.trips if inner_trips is None else inner_trips) if isinstance(item, Loop) else item
        for item in loop.body
    )
    return replace(loop, trips=trips, body=tuple(body))
