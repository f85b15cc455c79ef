"""Test graphs of random kernels against counting, and against a replay of the program."""

from collections.abc import Mapping
from itertools import cycle

import pytest
from hypothesis import note, reject

from loopyperf.compiler.accesses import with_indirect_addresses
from loopyperf.compiler.entry import with_entry
from loopyperf.compiler.folding import with_guarded_copies, without_index_arithmetic, without_moves, without_unused
from loopyperf.compiler.identities import with_fused_multiply_adds
from loopyperf.compiler.loop_control import with_loop_control, with_loop_guards
from loopyperf.compiler.value_numbering import without_common_subexpressions, without_invariants
from loopyperf.counts.sizes import Typical
from loopyperf.errors import UncountableError
from loopyperf.idg import Edge, Idg
from loopyperf.idg.copies import copied
from loopyperf.idg.executions import LaunchExecutions, WarpExecutions
from loopyperf.idg.launch_program import ExecutedLaunch, LaunchProgram, classes_of_warps
from loopyperf.idg.program import loops_in
from loopyperf.idg.warp_graph import warp_graph
from loopyperf.kernel import Kernel
from loopyperf.memory.source_launch import source_pattern
from tests.idg.graph_counts import counted, executed
from tests.idg.random_graph_kernels import for_random_kernels, loaded
from tests.idg.replay import Replay
from tests.idg.stored_values import stored
from tests.profiles import source_profile
from tests.random_kernels import RandomKernel

pytestmark = pytest.mark.usefixtures("fresh_kernels")

WARP = 32
PASSES = (
    without_index_arithmetic,
    without_moves,
    without_invariants,
    without_common_subexpressions,
    with_fused_multiply_adds,
    without_unused,
    with_guarded_copies,
    with_indirect_addresses,
    with_loop_guards,
    with_loop_control,
    with_entry,
)
LONG = 3000
"""maximum number of executions of a warp for which it is replayed"""


@for_random_kernels
def test_graphs_match_counts_and_replay(description: RandomKernel) -> None:
    note(repr(description))
    kernel = loaded(description)
    for sizes in description.sizes[3::9][:3]:
        try:
            expected = counted(kernel, sizes, WARP)
        except UncountableError:
            reject()
        assert expected == executed(source_profile(kernel, sizes, Typical({}), WARP).graph), sizes
    _check_flat_graphs(kernel, description.sizes[len(description.sizes) // 3])


def _check_flat_graphs(kernel: Kernel, sizes: Mapping[str, int]) -> None:
    for launch in kernel.launches:
        program = LaunchProgram(kernel, launch, Typical({}))
        executions = LaunchExecutions(program.counter, launch, sizes, WARP)
        for kind in classes_of_warps(program, executions):
            executed_by_warp = ExecutedLaunch(program, executions, kind)
            graph = warp_graph(executed_by_warp)
            if kind.is_uniform:
                _check_accesses(executed_by_warp, graph)
            if kind.is_uniform and graph.executed <= LONG:
                flat, replay = graph.unrolled(), Replay(program, WarpExecutions(executions, kind.example))
                drafts = [program.drafts[place].text for place, _ in replay.executions]
                assert drafts == [instruction.text for instruction in flat.instructions]
                assert replay.edges == {(edge.source, edge.target) for edge in flat.edges}
                _check_copies(graph, flat)
                _check_passes(graph, flat)


def _check_accesses(executed_by_warp: ExecutedLaunch, graph: Idg) -> None:
    """Check that the iterations of each access add up to the executions of its instruction."""
    for instruction in graph.instructions:
        if instruction.origin is not None:
            warp_iterations = source_pattern(executed_by_warp, instruction.origin).iterations
            assert sum(each.iterations.number for each in warp_iterations.activities) == instruction.executions


def _check_copies(graph: Idg, flat: Idg) -> None:
    """Check that partially and fully unrolled loops have the same flat graph and number of executions."""
    factors = cycle((2, 3, None, 1))
    in_full = ((loop.number, loop.trips if isinstance(loop.trips, int) else 1) for loop in loops_in(graph.body))
    written = copied(graph, {number: next(factors) or trips for number, trips in in_full})
    again = written.unrolled()
    assert written.executed == graph.executed
    assert [each.text for each in again.instructions] == [each.text for each in flat.instructions]
    assert set(map(_ends, again.edges)) == set(map(_ends, flat.edges))


def _check_passes(graph: Idg, flat: Idg) -> None:
    """Check that passes keep the stored values, and that no dependence points backward."""
    expected = stored(flat)
    for change in PASSES:
        graph = change(graph)
        assert stored(graph.unrolled()) == expected, change.__name__
        assert not graph.backwards, change.__name__


def _ends(edge: Edge) -> tuple[int, int, int | None, str]:
    return edge.source, edge.target, edge.operand, edge.through
