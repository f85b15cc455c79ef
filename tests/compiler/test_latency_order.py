"""The minimum-latency instruction order, and the registers of values and addresses in it."""

from itertools import pairwise

import pytest

from loopyperf.compiler import lowered
from loopyperf.compiler.registers import (
    ARITHMETIC,
    BEYOND_FEW_VALUES,
    BEYOND_WITHOUT_WAITING,
    GLOBAL,
    LOCAL,
    RegisterFile,
    estimated_registers,
    in_order_of_latency,
    registers_without_waiting,
    with_addresses,
)
from loopyperf.idg import Idg
from loopyperf.idg.program import Edge, Instruction, placed
from tests.idg.machine_graphs import source
from tests.idg.patterns import flat as array
from tests.idg.stored_values import stored


def sums(number: int) -> Idg:
    """Return a program of independent additions, each followed by its store before the next load."""
    lines = [f"out[{32 * row} + i] = a[{32 * row} + i] + 1" for row in range(number)]
    return lowered(source("{[i]: 0<=i<32}", "\n".join(lines), array("a"), array("out")))


def chain(length: int, space: str) -> Idg:
    """Return a chain of *length* dependent additions, each of a term that is loaded from *space* right before it."""
    instructions = [
        each for _ in range(length) for each in (Instruction("load", "b32", space), Instruction("add", "f32"))
    ]
    terms = [Edge(2 * term, 2 * term + 1, operand=1) for term in range(length)]
    sums = [Edge(one, other, operand=0) for one, other in pairwise(range(1, 2 * length, 2))]
    return Idg(tuple(instructions), (*terms, *sums), tuple(range(2 * length)))


def kinds(graph: Idg) -> list[str]:
    return [graph.instructions[place].kind for place, _ in placed(graph.body)]


def most_loads_in_flight(graph: Idg) -> int:
    """Return the maximum number of loads that have been issued but not yet used by an addition."""
    most = now = 0
    for kind in kinds(graph):
        now += {"load": 1, "add": -1}.get(kind, 0)
        most = max(most, now)
    return most


def test_independent_loads_are_all_in_flight_at_once() -> None:
    graph = in_order_of_latency(sums(12))
    assert most_loads_in_flight(graph) == 12
    assert registers_without_waiting(sums(12)) >= 12
    assert stored(graph.unrolled()) == stored(sums(12).unrolled())


@pytest.mark.parametrize(("space", "latency"), [("local", LOCAL), ("global", GLOBAL)])
def test_loads_in_flight_of_a_chain_follow_littles_law(space: str, latency: int) -> None:
    """An addition uses a term every ``ARITHMETIC`` cycles, and a load takes its latency."""
    found = most_loads_in_flight(in_order_of_latency(chain(200, space)))
    assert abs(found - latency / ARITHMETIC) <= 2


def test_latency_order_is_four_times_faster_than_program_order() -> None:
    graph = chain(40, "local")
    assert duration(in_order_of_latency(graph)) < duration(graph) / 4


def duration(graph: Idg) -> int:
    """Return the cycles until *graph* completes, in order, with at most one instruction issued per cycle."""
    done: dict[int, int] = {}
    cycle = -1
    for place, _ in placed(graph.body):
        cycle = max(cycle + 1, *(done[edge.source] for edge in graph.definitions[place]), 0)
        done[place] = cycle + (LOCAL if graph.instructions[place].kind == "load" else ARITHMETIC)
    return max(done.values())


def test_arrays_share_an_index_but_have_separate_addresses() -> None:
    def addresses(code: str, *names: str) -> list[str]:
        graph = with_addresses(lowered(source("{[i]: 0<=i<32}", code, *map(array, names))))
        return sorted(each.dtype for each in graph.instructions if each.text == "address")

    assert addresses("out[i] = a[i] + a[i + 1]", "a", "out") == ["i32", "i64", "i64"]
    assert addresses("out[i] = a[i] + a[2*i]", "a", "out") == ["i32", "i32", "i64", "i64", "i64"]


def test_loads_use_registers_only_up_to_the_next_occupancy_step() -> None:
    few, many = (estimated_registers(graph, file=RegisterFile(steps=(24, 40, 96))) for graph in (sums(2), sums(60)))
    assert few.allocated == max(few.live + BEYOND_FEW_VALUES, few.wanted) < 24
    assert many.wanted == registers_without_waiting(sums(60)) + BEYOND_WITHOUT_WAITING > 60
    assert (many.needed, many.allocated) == (few.needed, 24)
    assert estimated_registers(sums(60), file=RegisterFile(steps=(8, 40, 96))).allocated == 40
