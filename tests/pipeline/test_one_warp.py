"""The time of one warp alone against the papers' numbers, hand computation and unrolled graphs."""

from collections.abc import Mapping
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from pymbolic import parse

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import GraphError, SimulationError
from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.pipeline import Execution, execution_profile, simulate, warp_latency
from loopyperf.polyhedral.affine import Affine
from tests.idg.published_graphs import CORNELIS, LEMEIRE, LEMEIRE_LAST_TWO, LOADED, TWO_PIPELINES
from tests.idg.reference_warp import busiest, cycles_alone, longest_chain
from tests.idg.rolled_graphs import lambdas, rolled_graphs
from tests.pipeline.random_scenarios import graphs
from tests.pipeline.random_scenarios import lambdas as positive_lambdas

FERMI = {"alu": Lambdas(1, 18), "global": Lambdas(23, 475)}
"""Lemeire, Table 5"""


Timing = Mapping[str, Lambdas]


def critical_path(graph: Idg, timing: Timing) -> list[tuple[int, str]]:
    """Return the instructions on the critical path of a warp, each with the latency, λ or Λ, until the next one."""
    issues = execution_profile(simulate(graph, timing, Execution(1, 1, 1))).issues
    found: list[tuple[int, str]] = []
    here, latency = max(range(len(issues)), key=lambda each: issues[each].complete, default=-1), "Λ"
    while here >= 0:
        found += [(here, latency)] if latency else []
        time, before = issues[here].time, range(here)
        sources = [edge.source for edge in graph.unrolled().definitions[here]]
        held = [each for each in before if each in sources or issues[each].instruction.kind == "barrier"]
        same = [each for each in before if issues[each].instruction.subsystem == issues[here].instruction.subsystem]
        results = [each for each in held if issues[each].complete == time]
        freed = [each for each in same if issues[each].free_again == time]
        here, latency = (results[-1], "Λ") if results else (freed[-1], "λ") if freed else (here - 1, "")
    return found[::-1]


# {{{ the papers


@pytest.mark.parametrize("graph", [LEMEIRE, LEMEIRE_LAST_TWO])
def test_example_kernel_takes_25_cycles(graph: Idg) -> None:
    # 3·4 + 1 + 2·6: one of the two independent computations contributes only λ (docs/errata.md, Volkov)
    assert warp_latency(graph, TWO_PIPELINES) == 25


def test_critical_path_is_equation_2_term_by_term() -> None:
    assert critical_path(LEMEIRE, TWO_PIPELINES) == [(0, "λ"), *((place, "Λ") for place in range(1, 6))]


@settings(max_examples=100)
@given(graphs(), positive_lambdas)
def test_equation_2_along_the_critical_path_equals_the_time(graph: Idg, timing: Timing) -> None:
    path, flat = critical_path(graph, timing), graph.unrolled().instructions
    terms = []
    for place, latency in path:
        lambdas = timing[flat[place].subsystem]
        terms.append(lambdas.issue if latency == "λ" or flat[place].kind == "store" else lambdas.completion)
    assert sum(map(Fraction, terms)) == warp_latency(graph, timing)


def test_saxpy_takes_the_time_that_cornelis_derives() -> None:
    # Λindex + Λmem + λmem + Λfmadd + λmem (Cornelis, section III.C): the warp ends when its store leaves the pipeline
    assert warp_latency(CORNELIS, FERMI) == 18 + 475 + 23 + 18 + 23


def test_latencies_of_dependent_instructions_and_barriers_add_up() -> None:
    # The kernel of Lemeire, Fig. 15: n times an instruction and a barrier, each dependent on the previous one
    graph = Idg.from_edges(["alu", "barrier"], [(0, 1), (1, 0, 1)], trips=1000)
    assert warp_latency(graph, {"alu": Lambdas(1, 18), "barrier": Lambdas(2, 40)}) == 1000 * (18 + 40)


# }}}

# {{{ by hand


def test_dependent_chain_takes_completion_latencies() -> None:
    graph = Idg.from_edges(["alu"], [(0, 0, 1)], trips=10**9)
    assert warp_latency(graph, {"alu": Lambdas(1, 18)}) == 18 * 10**9


def test_independent_instructions_take_issue_latencies() -> None:
    # The last one issues at (10⁹ - 1)·0.25 and completes 9 cycles later
    graph = Idg.from_edges(["alu"], [], trips=10**9)
    assert warp_latency(graph, {"alu": Lambdas(0.25, 9)}) == (10**9 - 1) * Fraction(1, 4) + 9


def test_sum_of_elements_waits_for_each_load() -> None:
    # Warps issue in order: each addition waits for its load, and the next load issues no earlier than the addition:
    # 100·6, and 4 at the end
    assert warp_latency(LOADED, TWO_PIPELINES) == 100 * 6 + 4


def test_load_one_iteration_ahead_overlaps_with_the_iteration() -> None:
    # Each iteration loads an element and adds the one loaded in the previous iteration to the sum. The second addition
    # issues at 6, with the third load. From then on, the 4 cycles of an addition exceed the remaining latency of a
    # load: 99 additions in sequence.
    ahead = Idg.from_edges(["mem", "comp"], [(0, 1, 1), (1, 1, 1)], trips=100)
    assert warp_latency(ahead, TWO_PIPELINES) == 6 + 99 * 4
    assert warp_latency(ahead, TWO_PIPELINES) < warp_latency(LOADED, TWO_PIPELINES)


def test_warp_issues_nothing_before_a_barrier_is_complete() -> None:
    graph = Idg.from_edges(["barrier", "alu"], [])
    assert warp_latency(graph, {"alu": Lambdas(1, 18), "barrier": Lambdas(2, 40)}) == 40 + 18


def test_latencies_may_be_a_function_of_the_instruction() -> None:
    graph = Idg.from_edges(["alu", "alu"], [(0, 1)])
    assert warp_latency(graph, lambda instruction: Lambdas(1, 7)) == 14


def test_trip_count_may_depend_on_the_enclosing_loop() -> None:
    # for i < 4000: for j <= i: a chain of 1 + ... + 4000 additions
    within = Edge(0, 0, (0, 1), (Affine.variable("i"), Affine.variable("j", -1)))
    across = Edge(0, 0, (1,), (Affine.variable("i", -1), Affine.variable("i", -1)), condition=parse("j == 0"))
    graph = Idg((Instruction("alu", subsystem="alu"),), (within, across), _triangle(4000))
    assert warp_latency(graph, FERMI) == 18 * 8_002_000


def test_graph_without_instructions_takes_no_time() -> None:
    assert warp_latency(Idg((), (), ()), {}) == 0


def _triangle(rows: int) -> tuple[Loop, ...]:
    return (Loop("i", rows, (Loop("j", parse("i + 1"), (0,)),)),)


# }}}

# {{{ laws


@settings(max_examples=300)
@given(rolled_graphs(), lambdas)
def test_rolled_graph_takes_as_long_as_the_unrolled_one(graph: Idg, timing: dict[str, Lambdas]) -> None:
    found = warp_latency(graph, timing)
    assert cycles_alone(graph.unrolled(), timing) == found


@settings(max_examples=100)
@given(rolled_graphs(), lambdas)
def test_warp_takes_at_least_its_longest_chain_and_busiest_pipeline(graph: Idg, timing: dict[str, Lambdas]) -> None:
    flat, cycles = graph.unrolled(), warp_latency(graph, timing)
    assert cycles >= longest_chain(flat, timing)
    assert cycles >= busiest(flat, timing)


@settings(max_examples=100)
@given(rolled_graphs(), lambdas)
def test_scaling_all_latencies_scales_the_time(graph: Idg, timing: dict[str, Lambdas]) -> None:
    slower = {name: Lambdas(3 * each.issue, 3 * each.completion) for name, each in timing.items()}
    assert warp_latency(graph, slower) == 3 * warp_latency(graph, timing)


def test_few_iterations_are_simulated_for_any_trip_count() -> None:
    kinds, edges = ["comp", "mem", "comp"], [(0, 1), (1, 2), (2, 2, 1), (1, 0, 2)]
    trips = [10**3, 10**6, 10**12]
    # The limit applies to simulated instructions: each further pair of iterations takes as long as the previous pair.
    cycles = [warp_latency(Idg.from_edges(kinds, edges, each), TWO_PIPELINES, limit=60) for each in trips]
    per_iteration = [(b - a) / (n - m) for (a, b), (m, n) in zip(pairwise(cycles), pairwise(trips), strict=True)]
    assert per_iteration[0] == per_iteration[1] > 0


def test_few_iterations_are_simulated_around_a_changing_condition() -> None:
    # 500 000 iterations of one instruction, then as many of two
    late = Instruction("sfu", subsystem="sfu", condition=parse("i >= 500000"))
    chain = tuple(Edge(s, t, (d,), (Affine.variable("i", -d),)) for s, t, d in [(0, 0, 1), (0, 1, 0), (1, 0, 1)])
    graph = Idg((Instruction("alu", subsystem="alu"), late), chain, (Loop("i", 10**6, (0, 1)),))
    timing = {"alu": Lambdas(1, 18), "sfu": Lambdas(2, 40)}
    assert warp_latency(graph, timing, limit=100) == 10**6 * 18 + 500_000 * 40


@pytest.mark.parametrize("number", range(8))
def test_few_iterations_are_simulated_around_a_differing_one(number: int) -> None:
    # A chain, and in one iteration an instruction that uses its result and has no uses itself
    once = Instruction("sfu", subsystem="sfu", condition=parse(f"i == {number}"))
    edges = (Edge(0, 0, (1,), (Affine.variable("i", -1),)), Edge(0, 1, (0,), (Affine.variable("i"),)))
    graph = Idg((Instruction("alu", subsystem="alu"), once), edges, (Loop("i", 10**6, (0, 1)),))
    timing = {"alu": Lambdas(1, 18), "sfu": Lambdas(1, 1)}
    assert warp_latency(graph, timing, limit=100) == 10**6 * 18


def test_dependence_with_a_shrinking_distance_is_kept(subtests: pytest.Subtests) -> None:
    for completion in range(2, 30):
        with subtests.test(completion=completion):
            edges = (Edge(0, 1, (1,), (Affine.around(parse("2*i - 20")),), parse("i < 20")),)
            instructions = tuple(Instruction(name, subsystem=name) for name in ("mem", "alu"))
            graph = Idg(instructions, edges, (Loop("i", 40, (0, 1)),))
            timing = {"mem": Lambdas(1, completion), "alu": Lambdas(1, 1)}
            assert cycles_alone(graph.unrolled(), timing) == warp_latency(graph, timing)


# }}}

# {{{ invalid input


def test_error_of_missing_latency_lists_the_known_subsystems() -> None:
    with pytest.raises(GraphError, match=r"no latencies for 'mem', which executes 'mem' \(known: 'alu', 'sfu'\)"):
        warp_latency(Idg.from_edges(["mem"], []), {"alu": Lambdas(1, 4), "sfu": Lambdas(1, 4)})


@pytest.mark.parametrize("cycles", [-1, float("nan"), float("inf")])
def test_invalid_completion_latency_is_refused(cycles: float) -> None:
    with pytest.raises(GraphError, match="the completion latency must be >= 0"):
        Lambdas(1, cycles)


def test_too_long_run_is_refused() -> None:
    with pytest.raises(SimulationError, match="too long to simulate"):
        warp_latency(Idg.from_edges(["alu"], [(0, 0, 1)], trips=10**18), {"alu": Lambdas(1, 4)})


def test_error_of_missing_steady_state_names_the_keyword() -> None:
    # One of two chains is slower by a thousandth, so many iterations pass until the other one no longer matters
    graph = Idg.from_edges(["alu", "sfu"], [(0, 0, 1), (1, 1, 1)], trips=10**9)
    timing = {"alu": Lambdas(1, 4), "sfu": Lambdas(1, 4 + 2**-10)}
    with pytest.raises(GraphError, match=r"no steady state within 1,000 executed instructions; raise limit="):
        warp_latency(graph, timing, limit=1000)


# }}}
