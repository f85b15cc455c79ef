"""Loads made once more for want of registers: by hand, and what is stored stays what it was."""

from dataclasses import replace

import pytest
from idg.machine_graphs import kinds, source
from idg.meaning import stored
from idg.patterns import flat

from loopyperf.idg import Idg, Loop
from loopyperf.idg.lowering import lowered
from loopyperf.idg.lowering.reloading import with_reloads
from loopyperf.idg.metrics.live_values import live_registers

LANES = "{[i]: 0<=i<32}"


def dot_products(rows: int, length: int) -> Idg:
    """Return the machine graph of the sums of products of the same elements of a with several rows of b, unrolled."""
    lines = [f"<> s{row} = sum(k{row}, a[{length}*i + k{row}]*b[{row * length} + k{row}])" for row in range(rows)]
    stores = [f"out[{32 * row} + i] = s{row}" for row in range(rows)]
    domain = [LANES, *(f"{{[k{row}]: 0<=k{row}<{length}}}" for row in range(rows))]
    return lowered(source(domain, "\n".join(lines + stores), flat("a"), flat("b"), flat("out")))


def loads(graph: Idg) -> int:
    return kinds(graph).count("load b32")


def test_with_room_for_all_nothing_changes() -> None:
    graph = dot_products(4, 8)
    assert loads(graph) == 8 + 32
    assert kinds(with_reloads(graph, live_registers(graph) + 1)) == kinds(graph)


@pytest.mark.parametrize("room", [6, 8, 10])
def test_what_is_used_latest_is_loaded_again(room: int) -> None:
    graph = dot_products(4, 8)
    assert live_registers(graph) > room
    less = with_reloads(graph, room)
    assert live_registers(less) <= room
    assert loads(graph) < loads(less) <= 2 * 32
    assert stored(less.unrolled()) == stored(graph.unrolled())


def test_the_more_room_the_fewer_loads() -> None:
    graph = dot_products(6, 8)
    found = [loads(with_reloads(graph, room)) for room in range(4, 16)]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]


def test_what_is_stored_to_is_not_loaded_again() -> None:
    graph = dot_products(4, 8)
    assert loads_of("a", with_reloads(graph, 6)) > loads_of("a", graph)
    changed = tuple(
        replace(each, reference=replace(each.reference, array="a")) if each.kind == "store" else each
        for each in graph.instructions
    )
    stored_to = replace(graph, instructions=changed)
    assert loads_of("a", with_reloads(stored_to, 6)) == loads_of("a", graph)


def loads_of(array: str, graph: Idg) -> int:
    return sum(1 for each in graph.instructions if each.kind == "load" and each.reference.array == array)


def test_a_loop_is_left_as_it_is() -> None:
    code = "for k\n out[32*k + i] = a[i]*b[k] + a[i + 32]*b[k + n]\n end"
    arrays = flat("a"), flat("b"), flat("out")
    graph = lowered(source("[n] -> {[i,k]: 0<=i<32 and 0<=k<n}", code, *arrays, sizes={"n": 48}))
    before, after = ([item for item in each.body if isinstance(item, Loop)] for each in (graph, with_reloads(graph, 1)))
    assert before
    assert before == after
