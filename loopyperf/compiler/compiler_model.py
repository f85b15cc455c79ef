"""From the source graph to the machine graph: what nvcc does to a kernel. Each rule is a pass that can be disabled.

The rules are measured on executed machine code (docs/compiler.md).
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from loopyperf.compiler.accesses import (
    with_forwarded_stores,
    with_indirect_addresses,
    with_split_vectors,
    with_wide_loads,
)
from loopyperf.compiler.entry import HOPPER, Capability, with_entry
from loopyperf.compiler.folding import (
    with_constant_memory,
    with_constant_operands,
    with_conversions,
    with_guarded_copies,
    without_index_arithmetic,
    without_moves,
    without_unused,
)
from loopyperf.compiler.functions import with_function_sequences, with_squares
from loopyperf.compiler.identities import with_exact_reciprocals, with_fused_multiply_adds, without_identities
from loopyperf.compiler.loop_control import copies, with_loop_control, with_loop_guards
from loopyperf.compiler.predication import with_predicated_iterations, with_predication
from loopyperf.compiler.private_arrays import with_indexed_loops_written_out
from loopyperf.compiler.rewriting import Rewriting
from loopyperf.compiler.stack_memory import with_stack_memory
from loopyperf.compiler.value_numbering import computed_once, without_common_subexpressions, without_invariants
from loopyperf.errors import ParameterError
from loopyperf.idg.copies import copied
from loopyperf.idg.graph import Idg, number_of_runs
from loopyperf.idg.program import Edge, Item, Iteration, Loop, Opcode, integer_if_whole, is_innermost, loops_in, placed
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.expressions import names_of

# {{{ divergent loop exits
#
# If lanes make different numbers of iterations, each machine loop runs until the lane with the most iterations is done.
#
# A loop whose trip count is known only at run time becomes a loop over sixteen copies of its body, one over four, and
# one over single iterations. Each lane executes all of them in turn, so a warp makes up to fifteen iterations more than
# its longest lane (docs/compiler.md, section 2b).


STAGES = {1: (1,), 2: (2, 1), 4: (4, 1), 16: (16, 4, 1)}
"""unroll factor -> copies of the body in each of the successive loops"""

OF_ITERATION = {Opcode.INTEGER: 4, Opcode.BRANCH: 1}
"""instructions per iteration of the later loops: counter, comparison, branch, and an index for each of two arrays"""


def with_divergent_exits(graph: Idg) -> Idg:
    """Return *graph* with innermost loops of divergent trip counts lengthened to the iterations of the warp."""
    divergent = {loop.name for loop in loops_in(graph.body) if _may_diverge(graph, loop)}
    if not divergent:
        return graph
    once = computed_once(graph)
    factors = {loop.name: copies(once, loop) for loop in loops_in(once.body) if loop.name in divergent}
    exits = _DivergentExits(graph, factors)
    body = list(exits.items(graph.body, ()))
    exits.edges = list(map(exits.from_last, graph.edges))
    return exits.rebuilt(body)


def _may_diverge(graph: Idg, loop: Loop) -> bool:
    inside = [graph.instructions[place] for place, _ in placed(loop.body)]
    is_plain = is_innermost(loop) and isinstance(loop.trips, int) and not loop.is_unrolled
    return is_plain and len(set(loop.lanes)) > 1 and all(each.condition is None for each in inside)


class _DivergentExits(Rewriting):
    def __init__(self, graph: Idg, factors: dict[str, int]) -> None:
        super().__init__(graph)
        self.factors = factors

    def from_last(self, edge: Edge) -> Edge:
        """Return *edge* from the new last iteration of a loop, if it came from the old last iteration."""
        depth = len(self.graph.loops_around[edge.source]) - 1
        loop = self.graph.loops_around[edge.source][-1] if depth >= 0 else None
        if loop is None or loop.name not in self.factors or edge.iterations[depth] != Affine((), loop.trips - 1):
            return edge
        last: Iteration = Affine((), warp_iterations(loop.lanes, self.factors[loop.name]) - 1)
        return replace(edge, iterations=(*edge.iterations[:depth], last))

    def items(self, body: Sequence[Item], around: tuple[Loop, ...]) -> Iterator[Item]:
        """Yield *body* with all iterations of its divergent loops."""
        for item in body:
            if not isinstance(item, Loop):
                yield item
            elif item.name in self.factors:
                yield self._with_all_iterations(item)
                yield from self._control(item, around)
            else:
                yield replace(item, body=tuple(self.items(item.body, (*around, item))))

    def _control(self, loop: Loop, around: tuple[Loop, ...]) -> Iterator[int]:
        """Yield the loop control of the successive loops after the first; the first has that of any loop."""
        later = sum(_stages(loop.lanes, self.factors[loop.name])[1:])
        iterations = later * number_of_runs(None, around)
        for kind, number in OF_ITERATION.items() if later else ():
            yield from self.add(kind, f"iterations of {loop.name} left", number, iterations)

    def _with_all_iterations(self, loop: Loop) -> Loop:
        trips = warp_iterations(loop.lanes, self.factors[loop.name])
        for place, _ in placed(loop.body):
            each = self.instructions[place]
            number = Fraction(each.executions) * trips / loop.trips
            self.instructions[place] = replace(each, executions=integer_if_whole(number))
        return replace(loop, trips=trips)


def warp_iterations(lanes: Sequence[int], factor: int) -> int:
    """Return the iterations of a warp whose lanes have these trip counts, in a loop unrolled *factor* times."""
    return sum(number * each for number, each in zip(_stages(lanes, factor), STAGES[factor], strict=True))


def _stages(lanes: Sequence[int], factor: int) -> list[int]:
    """Return how many iterations of each of the successive loops a warp makes."""
    left, found = list(lanes), list[int]()
    for number in STAGES[factor]:
        found.append(max(trips // number for trips in left))
        left = [trips % number for trips in left]
    return found


# }}}


# {{{ compiler model


Pass = Callable[[Idg], Idg]


def with_unrolled_loops(graph: Idg) -> Idg:
    """Return *graph* with its loops unrolled as nvcc does, innermost first; work that copies share is counted once."""
    graph, decided = _written_by_loopy(graph), set[str]()
    while True:
        innermost = [loop for loop in loops_in(graph.body) if is_innermost(loop) and loop.name not in decided]
        if not innermost:
            return graph
        once = computed_once(graph)
        names = {loop.name for loop in innermost}
        # A loop whose body is all invariant has no body left in `once`: it is not unrolled, and code motion removes it.
        # Copies of a loop may have different trip counts.
        found = {(loop.name, loop.trips): copies(once, loop) for loop in loops_in(once.body) if loop.name in names}
        factors = {loop.number: found.get((loop.name, loop.trips), 1) for loop in innermost}
        decided |= {loop.name for loop in innermost if factors[loop.number] != loop.trips or loop.is_counted}
        graph = copied(graph, factors)


def _written_by_loopy(graph: Idg) -> Idg:
    """Return *graph* with the loops that Loopy unrolls written out if the trip count of a loop inside depends on them.

    Each copy of the inner loop then has a trip count of its own.
    """
    loops = [loop for loop in loops_in(graph.body) if loop.is_unrolled and isinstance(loop.trips, int)]
    inside = {loop.number: names_of([each.trips for each in loops_in(loop.body)]) for loop in loops}
    return copied(graph, {loop.number: loop.trips for loop in loops if loop.name in inside[loop.number]})


PASSES: dict[str, Pass] = {
    "constant memory": with_constant_memory,
    "predication": with_predication,
    "predicated iterations": with_predicated_iterations,
    "stack memory": with_stack_memory,
    "indexed loops": with_indexed_loops_written_out,
    "address folding": without_index_arithmetic,
    "copy propagation": without_moves,
    "identities": without_identities,
    "conversions": with_conversions,
    "squares": with_squares,
    "exact reciprocals": with_exact_reciprocals,
    "guarded copies": with_guarded_copies,
    "divergent loop exits": with_divergent_exits,
    "unrolling": with_unrolled_loops,
    "folding of copies": without_index_arithmetic,
    "identities of copies": without_identities,
    "forwarded stores": with_forwarded_stores,
    "loop-invariant code motion": without_invariants,
    "common subexpressions": without_common_subexpressions,
    "function sequences": with_function_sequences,
    "fused multiply-adds": with_fused_multiply_adds,
    "constant operands": with_constant_operands,
    "wide local loads": with_wide_loads,
    "split vectors": with_split_vectors,
    "dead code": without_unused,
    "indirect addresses": with_indirect_addresses,
    "loop guards": with_loop_guards,
    "loop control": with_loop_control,
    "entry": with_entry,
}
"""name -> pass, in the order of application"""
OF_GPUS = frozenset({"divergent loop exits", "function sequences", "wide local loads", "split vectors"})
"""passes that a compiler for a CPU skips: it has instructions for divisions and roots, calls other functions, does not
pair registers, and its work-items do not wait for each other at loop exits"""
OF_NVIDIA = frozenset({"constant memory", "constant operands"})
"""passes for NVIDIA's constant cache"""
OF_CUDA = frozenset({"wide local loads"})
"""passes that NVIDIA's OpenCL C compiler skips, judging by times of matrix products (docs/compiler/memory.md, 5.1)"""


def lowered(
    graph: Idg,
    leave_out: Collection[str] = (),
    capability: Capability = HOPPER,
    *,
    in_memory: Collection[str] | None = None,
    described: Collection[str] = (),
) -> Idg:
    """Return the machine graph of the source *graph*: all :data:`PASSES` applied except those in *leave_out*.

    *capability* is the compute capability of the device, e.g. ``(7, 0)``. *in_memory* names the private arrays that
    live in local (stack) memory; by default those that surely or likely do. Functions and divisions in *described*,
    e.g. ``"div f64"``, stay one instruction each because the device parameters state their latencies. Raises
    :class:`ParameterError` for an unknown pass.
    """
    unknown = sorted(set(leave_out) - PASSES.keys())
    if unknown:
        raise ParameterError(f"unknown pass {', '.join(unknown)}; passes are: {', '.join(PASSES)}")
    of_device: dict[str, Pass] = {
        "stack memory": lambda graph: with_stack_memory(graph, capability, arrays=in_memory),
        "function sequences": lambda graph: with_function_sequences(graph, capability, described),
        "constant operands": lambda graph: with_constant_operands(graph, capability),
        "entry": lambda graph: with_entry(graph, capability),
    }
    for name in (name for name in PASSES if name not in leave_out):
        graph = of_device.get(name, PASSES[name])(graph)
    return graph


# }}}
