"""From the source graph to the machine graph: what nvcc does to a kernel, each rule a pass that can be left out.

The rules are those of docs/compiler.md, measured on executed machine code.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from loopyperf.compiler.accesses import (
    with_forwarded_stores,
    with_gathered_addresses,
    with_split_vectors,
    with_wide_loads,
)
from loopyperf.compiler.entry import HOPPER, Capability, with_entry
from loopyperf.compiler.folding import (
    with_constant_operands,
    with_conversions,
    with_tested_copies,
    without_index_arithmetic,
    without_moves,
    without_unused,
)
from loopyperf.compiler.functions import with_function_sequences, with_squares
from loopyperf.compiler.identities import (
    with_doubled_values,
    with_exact_reciprocals,
    with_fused_multiply_adds,
    without_identities,
)
from loopyperf.compiler.loop_control import copies, with_loop_control, with_loop_guards
from loopyperf.compiler.predication import with_predicated_iterations, with_predication
from loopyperf.compiler.private_arrays import with_indexed_loops_written_out
from loopyperf.compiler.private_memory import with_private_memory
from loopyperf.compiler.value_numbering import computed_once, without_common_subexpressions, without_invariants
from loopyperf.device.parts import Pipeline
from loopyperf.errors import ParameterError
from loopyperf.idg.copies import copied
from loopyperf.idg.graph import Idg, number_of_runs
from loopyperf.idg.program import (
    Edge,
    Instruction,
    Item,
    Iteration,
    Loop,
    Opcode,
    integer_if_whole,
    is_innermost,
    loops_in,
    placed,
)
from loopyperf.polyhedral.affine import Affine

# {{{ loops that lanes leave one after the other
#
# Each loop that nvcc makes of one runs for the lane that stays longest.
#
# A loop counted at run time becomes one of sixteen copies of its body, one of four and one of single passes, and a lane
# goes through each. So a warp makes up to fifteen passes more than the lane with the most (docs/compiler.md, section
# 2b).


STAGES = {1: (1,), 2: (2, 1), 4: (4, 1), 16: (16, 4, 1)}
"""copies of a body -> those of the loops that follow one another"""

PASS = {Opcode.INTEGER: 4, Opcode.BRANCH: 1}
"""of each pass of such a loop: counter, comparison, branch, and an index for each of two arrays"""


def with_divergent_exits(graph: Idg) -> Idg:
    """Return *graph* with as many passes of innermost loops as a warp makes whose lanes make different numbers."""
    parting = {loop.name for loop in loops_in(graph.body) if _may_diverge(graph, loop)}
    if not parting:
        return graph
    once = computed_once(graph)
    factors = {loop.name: copies(once, loop) for loop in loops_in(once.body) if loop.name in parting}
    return _DivergentExits(graph, factors).parted()


def _may_diverge(graph: Idg, loop: Loop) -> bool:
    inside = [graph.instructions[place] for place, _ in placed(loop.body)]
    is_plain = is_innermost(loop) and isinstance(loop.trips, int) and not loop.is_unrolled
    return is_plain and len(set(loop.lanes)) > 1 and all(each.condition is None for each in inside)


class _DivergentExits:
    def __init__(self, graph: Idg, factors: dict[str, int]) -> None:
        self.graph, self.factors = graph, factors
        self.instructions: list[Instruction] = list(graph.instructions)

    def parted(self) -> Idg:
        body = tuple(self._items(self.graph.body, ()))
        return Idg(tuple(self.instructions), tuple(map(self._from_last, self.graph.edges)), body)

    def _from_last(self, edge: Edge) -> Edge:
        """Return *edge* from the last pass of a loop, where it led from what was its last one."""
        depth = len(self.graph.loops_around[edge.source]) - 1
        loop = self.graph.loops_around[edge.source][-1] if depth >= 0 else None
        if loop is None or loop.name not in self.factors or edge.iterations[depth] != Affine((), loop.trips - 1):
            return edge
        last: Iteration = Affine((), warp_iterations(loop.lanes, self.factors[loop.name]) - 1)
        return replace(edge, iterations=(*edge.iterations[:depth], last))

    def _items(self, body: Sequence[Item], around: tuple[Loop, ...]) -> Iterator[Item]:
        for item in body:
            if not isinstance(item, Loop):
                yield item
            elif item.name in self.factors:
                yield self._with_all_iterations(item)
                yield from self._control(item, around)
            else:
                yield replace(item, body=tuple(self._items(item.body, (*around, item))))

    def _control(self, loop: Loop, around: tuple[Loop, ...]) -> Iterator[int]:
        """Yield what the passes of the loops after the first one end with; that of the first one is as for any loop."""
        later = sum(_stages(loop.lanes, self.factors[loop.name])[1:])
        passes = later * number_of_runs(None, around)
        for kind, number in PASS.items() if later else ():
            subsystem = Pipeline.CONTROL if kind == Opcode.BRANCH else Pipeline.ALU
            for _ in range(number):
                text = f"passes of {loop.name} left"
                self.instructions.append(Instruction(kind, "i32", subsystem, "", text, executions=passes))
                yield len(self.instructions) - 1

    def _with_all_iterations(self, loop: Loop) -> Loop:
        trips = warp_iterations(loop.lanes, self.factors[loop.name])
        for place, _ in placed(loop.body):
            each = self.instructions[place]
            number = Fraction(each.executions) * trips / loop.trips
            self.instructions[place] = replace(each, executions=integer_if_whole(number))
        return replace(loop, trips=trips)


def warp_iterations(lanes: Sequence[int], factor: int) -> int:
    """Return how many passes a warp makes whose lanes make so many, of a loop that nvcc writes out *factor*-fold."""
    return sum(number * each for number, each in zip(_stages(lanes, factor), STAGES[factor], strict=True))


def _stages(lanes: Sequence[int], factor: int) -> list[int]:
    """Return how many passes of each of the loops that follow one another a warp makes."""
    left, found = list(lanes), list[int]()
    for number in STAGES[factor]:
        found.append(max(passes // number for passes in left))
        left = [passes % number for passes in left]
    return found


# }}}


# {{{ compiler model


Pass = Callable[[Idg], Idg]


def with_unrolled_loops(graph: Idg) -> Idg:
    """Return *graph* with its loops written out as nvcc does, the innermost first; what copies have in common, once."""
    decided: set[str] = set()
    while True:
        innermost = [loop for loop in loops_in(graph.body) if is_innermost(loop) and loop.name not in decided]
        if not innermost:
            return graph
        once = computed_once(graph)
        names = {loop.name for loop in innermost}
        # A loop whose body is all invariant has no body left in `once`: it is not unrolled, and hoisting removes it.
        factors = dict.fromkeys(names, 1) | {
            loop.name: copies(once, loop) for loop in loops_in(once.body) if loop.name in names
        }
        decided |= {name for name, factor in factors.items() if factor == 1}
        decided |= {loop.name for loop in innermost if loop.trips != factors[loop.name] or loop.is_counted}
        graph = copied(graph, {loop.number: factors[loop.name] for loop in innermost})


PASSES: dict[str, Pass] = {
    "predication": with_predication,
    "tested passes": with_predicated_iterations,
    "private memory": with_private_memory,
    "indexed loops": with_indexed_loops_written_out,
    "address folding": without_index_arithmetic,
    "copy propagation": without_moves,
    "identities": without_identities,
    "conversions": with_conversions,
    "squares": with_squares,
    "exact reciprocals": with_exact_reciprocals,
    "tested copies": with_tested_copies,
    "parting lanes": with_divergent_exits,
    "unrolling": with_unrolled_loops,
    "folding of copies": without_index_arithmetic,
    "identities of copies": without_identities,
    "forwarded stores": with_forwarded_stores,
    "hoisting": without_invariants,
    "common subexpressions": without_common_subexpressions,
    "function sequences": with_function_sequences,
    "fused multiply-adds": with_fused_multiply_adds,
    "constant operands": with_constant_operands,
    "doubled values": with_doubled_values,
    "wide local loads": with_wide_loads,
    "split vectors": with_split_vectors,
    "dead code": without_unused,
    "gathered addresses": with_gathered_addresses,
    "loop guards": with_loop_guards,
    "loop control": with_loop_control,
    "entry": with_entry,
}
"""in the order in which they are applied"""
OF_GPUS = frozenset({"parting lanes", "function sequences", "doubled values", "wide local loads", "split vectors"})
"""what a compiler for a processor leaves out: it has instructions for divisions and roots, and calls other functions;
its registers are no pairs, and work-items that leave a loop wait for nobody"""
OF_CUDA = frozenset({"wide local loads"})
"""what NVIDIA's compiler of OpenCL C leaves out, by the times of products (docs/compiler/memory.md, 5.1)"""


def lowered(
    graph: Idg,
    leave_out: Collection[str] = (),
    capability: Capability = HOPPER,
    *,
    in_memory: Collection[str] | None = None,
    described: Collection[str] = (),
) -> Idg:
    """Return the machine graph of the source *graph*: all of :data:`PASSES` applied, save for those left out.

    *capability* is that of the device, e.g. ``(7, 0)``. *in_memory* names the private arrays that are no registers;
    without it, those are that surely or likely are none. *described* are functions and divisions that stay one
    instruction each, e.g. ``"div f64"``: the device's description tells how long they take. Raises
    :class:`ParameterError` for the name of no pass.
    """
    unknown = sorted(set(leave_out) - PASSES.keys())
    if unknown:
        raise ParameterError(f"unknown pass {', '.join(unknown)}; the passes are: {', '.join(PASSES)}")
    of_device: dict[str, Pass] = {
        "private memory": lambda graph: with_private_memory(graph, capability, arrays=in_memory),
        "function sequences": lambda graph: with_function_sequences(graph, capability, described),
        "entry": lambda graph: with_entry(graph, capability),
    }
    for name in (name for name in PASSES if name not in leave_out):
        graph = of_device.get(name, PASSES[name])(graph)
    return graph


# }}}
