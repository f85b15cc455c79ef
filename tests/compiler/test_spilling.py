"""Spills: cases computed by hand, and the same stored results with fewer registers."""

from dataclasses import replace

import numpy as np
import pytest
from pymbolic.mapper import UnsupportedExpressionError

from loopyperf.compiler import lowered
from loopyperf.compiler.folding import without_index_arithmetic, without_moves
from loopyperf.compiler.registers import KEPT_IN_ORDER, estimated_registers, with_few_registers
from loopyperf.compiler.spilling import with_spills
from loopyperf.compiler.value_numbering import without_common_subexpressions
from loopyperf.counts.sizes import Typical
from loopyperf.errors import UncountableError
from loopyperf.idg import Idg
from loopyperf.idg.live_values import Lives
from loopyperf.idg.program import loops_in
from tests.idg.construction.test_random_graphs import LONG
from tests.idg.machine_graphs import kinds, source
from tests.idg.patterns import flat
from tests.idg.random_graph_kernels import for_random_kernels, loaded
from tests.idg.stored_values import stored
from tests.profiles import source_profile
from tests.random_kernels import RandomKernel

LANES = "{[i]: 0<=i<32}"


def dot_products(rows: int, length: int) -> Idg:
    """Return the machine graph of the unrolled dot products of one row of a with each of several rows of b."""
    lines = [f"<> s{row} = sum(k{row}, a[{length}*i + k{row}]*b[{row * length} + k{row}])" for row in range(rows)]
    stores = [f"out[{32 * row} + i] = s{row}" for row in range(rows)]
    domain = [LANES, *(f"{{[k{row}]: 0<=k{row}<{length}}}" for row in range(rows))]
    return lowered(source(domain, "\n".join(lines + stores), flat("a"), flat("b"), flat("out")))


def chain(terms: int) -> Idg:
    """Return the machine graph of a chain: term q is the product of term q - 1 and x plus a multiple of term q // 2."""
    lines = [f"<> t{q} = t{q - 1}*x[i] + {q}.5*t{q // 2}" for q in range(1, terms)]
    arrays = flat("x", np.float64), flat("y", np.float64)
    return lowered(source(LANES, "\n".join(["<> t0 = x[i]", *lines, f"y[i] = t{terms - 1}"]), *arrays))


def loads(graph: Idg) -> int:
    return kinds(graph).count("load b32")


def spills(graph: Idg) -> list[str]:
    return [each.kind for each in graph.instructions if each.subsystem == "private"]


# {{{ straight-line code


def test_graph_is_unchanged_if_all_values_fit() -> None:
    graph = dot_products(4, 8)
    assert loads(graph) == 8 + 32
    assert with_spills(Lives(graph), Lives(graph).registers + 1) == (graph, 0)


@pytest.mark.parametrize("room", [6, 8, 10])
def test_value_with_the_farthest_use_is_reloaded(room: int) -> None:
    graph = dot_products(4, 8)
    assert Lives(graph).registers > room
    less, nbytes = with_spills(Lives(graph), room)
    assert Lives(less).registers <= room
    assert loads(graph) < loads(less) <= 2 * 32
    assert nbytes <= 4 * 4  # for the sums, which are stored at the end
    assert stored(less.unrolled()) == stored(graph.unrolled())


def test_more_registers_need_fewer_loads() -> None:
    graph = dot_products(6, 8)
    found = [loads(with_spills(Lives(graph), room)[0]) for room in range(4, 16)]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]


def test_values_of_a_modified_array_are_spilled_not_reloaded() -> None:
    graph = dot_products(4, 8)
    changed = tuple(
        replace(each, reference=replace(each.reference, array="a")) if each.kind == "store" else each
        for each in graph.instructions
    )
    less, nbytes = with_spills(Lives(replace(graph, instructions=changed)), 6)
    assert loads_of("a", less) == loads_of("a", graph)
    assert nbytes > 0
    assert Lives(less).registers <= 6


def loads_of(array: str, graph: Idg) -> int:
    return sum(1 for each in graph.instructions if each.kind == "load" and each.reference.array == array)


SPILLED = {500: 24, 600: 224, 800: 624}
"""bytes: "spill stores" and "spill loads" of chains in double precision, ptxas 13.0.88 for sm_75, sm_80 and sm_90"""


@pytest.mark.parametrize("terms", [500, *(pytest.param(each, marks=pytest.mark.slow) for each in (600, 800))])
def test_chain_spills_as_many_bytes_as_ptxas_reports(terms: int) -> None:
    """Each spilled value is stored once and loaded once; x stays in a register, as each term uses it."""
    graph = chain(terms)
    less, nbytes = with_spills(Lives(graph), estimated_registers(graph).room)
    assert abs(nbytes - SPILLED[terms]) <= 8
    assert spills(less).count("store") == spills(less).count("load") == nbytes // 8
    assert loads_of("x", less) == 1
    assert stored(less.unrolled()) == stored(graph.unrolled())


# }}}

# {{{ loops


def accumulators(sums: int) -> Idg:
    """Return the machine graph of *sums* sums over a loop whose trip count is a size."""
    lines = [f"<> s{n} = 0" for n in range(sums)]
    lines += ["for k", *(f"s{n} = s{n} + a[{n}*n + k]*b[{n + 1}*k + i]" for n in range(sums)), "end"]
    lines += [f"out[{32 * n} + i] = s{n}" for n in range(sums)]
    domain = "[n] -> {[i,k]: 0<=i<32 and 0<=k<n}"
    return lowered(source(domain, "\n".join(lines), flat("a"), flat("b"), flat("out"), sizes={"n": 12}))


@pytest.mark.parametrize("room", [12, 16, 20])
def test_sums_that_do_not_fit_are_spilled_in_each_iteration(room: int) -> None:
    graph = accumulators(24)
    less, nbytes = with_spills(Lives(graph), room)
    assert nbytes > 0
    assert {"load", "store"} == set(spills(less))
    assert Lives(less).registers < Lives(graph).registers
    assert stored(less.unrolled()) == stored(graph.unrolled())
    assert not less.backwards


def test_values_unused_in_a_loop_are_spilled_before_it() -> None:
    lines = [*(f"<> v{n} = a[{32 * n} + i]*a[{32 * n} + i]" for n in range(60))]
    lines += ["<> s = 0", "for k", "s = s + b[k]*a[k]", "end"]
    lines += [f"out[{32 * n} + i] = v{n}*s" for n in range(60)]
    domain = "[n] -> {[i,k]: 0<=i<32 and 0<=k<n}"
    graph = lowered(source(domain, "\n".join(lines), flat("a"), flat("b"), flat("out"), sizes={"n": 32}))
    less, nbytes = with_spills(Lives(graph), 60)
    assert nbytes > 0
    assert all(each.executions == 1 for each in less.instructions if each.subsystem == "private")
    assert stored(less.unrolled()) == stored(graph.unrolled())


@for_random_kernels
def test_spills_keep_the_stored_results(description: RandomKernel) -> None:
    kernel = loaded(description)
    try:
        graph = source_profile(kernel, description.sizes[len(description.sizes) // 3], Typical({})).graph
    except (UncountableError, UnsupportedExpressionError):
        return
    for change in (without_index_arithmetic, without_moves, without_common_subexpressions):
        graph = change(graph)
    # A loop that is skipped in some iterations of an outer one passes on what was stored before it; no edge shows that.
    if graph.executed <= LONG and all(isinstance(loop.trips, int) for loop in loops_in(graph.body)):
        before = stored(graph.unrolled())
        for room in (3, 6):
            less, _ = with_spills(Lives(graph), room)
            assert stored(less.unrolled()) == before
            assert not less.backwards


# }}}

# {{{ instruction orders


def windows(taps: int, sums: int) -> Idg:
    """Return the machine graph of sums of *taps* weighted neighbors each, one after the other, all unrolled."""
    code = f"out[{sums}*i + s] = sum(k, w[k]*a[{sums}*i + s + k])"
    domain = f"{{[i,s,k]: 0<=i<32 and 0<=s<{sums} and 0<=k<{taps}}}"
    tags = {"i": "l.0", "s": "unr", "k": "unr"}
    return lowered(source(domain, code, flat("w"), flat("a"), flat("out"), tags=tags))


def test_sums_over_the_same_window_are_interleaved() -> None:
    """In program order, all taps are live from the first sum on; interleaved, only the sums are."""
    graph = windows(100, 4)
    assert Lives(graph).registers > 100 > KEPT_IN_ORDER
    reordered = with_few_registers(Lives(graph)).graph
    assert Lives(reordered).registers <= 4 + 4 + 4
    assert sorted(kinds(reordered)) == sorted(kinds(graph))
    assert not reordered.backwards
    assert stored_anywhere(reordered) == stored_anywhere(graph)


def stored_anywhere(graph: Idg) -> list[str]:
    return sorted(stored(graph.unrolled()))


def test_live_ranges_after_reordering_equal_recomputed_ones() -> None:
    lives = Lives(windows(100, 4))
    reordered = with_few_registers(lives)
    recomputed = Lives(reordered.graph)
    assert (reordered.registers, reordered.web, reordered.defined) == (
        recomputed.registers,
        recomputed.web,
        recomputed.defined,
    )
    assert [reordered.pressure(each) for each in reordered.taken] == [
        recomputed.pressure(each) for each in recomputed.taken
    ]
    assert reordered.registers < lives.registers


def test_program_order_with_few_registers_is_kept() -> None:
    graph = windows(8, 2)
    assert with_few_registers(lives := Lives(graph)) is lives


# }}}
