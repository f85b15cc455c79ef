"""From the source graph to the machine graph: what nvcc does to a kernel, each rule a pass that can be left out.

The rules are those of docs/compiler.md, measured on executed machine code.
"""

from collections.abc import Callable, Collection

from loopyperf.compiler.contraction import with_fused_multiply_adds
from loopyperf.compiler.conversions import with_conversions
from loopyperf.compiler.doubling import with_doubled_values
from loopyperf.compiler.entry import HOPPER, Capability, with_entry
from loopyperf.compiler.folding import without_index_arithmetic, without_known_choices, without_moves, without_unused
from loopyperf.compiler.forwarding import with_forwarded_stores
from loopyperf.compiler.functions import with_function_sequences, with_squares
from loopyperf.compiler.gathers import with_gathered_addresses
from loopyperf.compiler.hoisting import without_invariants
from loopyperf.compiler.identities import without_identities
from loopyperf.compiler.indexed_loops import with_indexed_loops_written_out
from loopyperf.compiler.loop_control import with_loop_control
from loopyperf.compiler.loop_guards import with_loop_guards
from loopyperf.compiler.nvcc_unrolling import copies
from loopyperf.compiler.parting_lanes import with_parting_lanes
from loopyperf.compiler.predication import with_predication
from loopyperf.compiler.private_memory import with_private_memory
from loopyperf.compiler.reciprocals import with_exact_reciprocals
from loopyperf.compiler.tested_copies import with_tested_copies
from loopyperf.compiler.tested_passes import with_tested_passes
from loopyperf.compiler.value_numbering import without_common_subexpressions
from loopyperf.compiler.wide_loads import with_split_vectors, with_wide_loads
from loopyperf.errors import ParameterError
from loopyperf.idg.copies import copied
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import is_innermost, loops_in

Pass = Callable[[Idg], Idg]


def with_unrolled_loops(graph: Idg) -> Idg:
    """Return *graph* with its loops written out as nvcc does, the innermost first; what copies have in common, once."""
    decided: set[str] = set()
    while True:
        innermost = [loop for loop in loops_in(graph.body) if is_innermost(loop) and loop.name not in decided]
        if not innermost:
            return graph
        once = without_common_subexpressions(without_invariants(graph))
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
    "tested passes": with_tested_passes,
    "private memory": with_private_memory,
    "indexed loops": with_indexed_loops_written_out,
    "address folding": without_index_arithmetic,
    "copy propagation": without_moves,
    "identities": without_identities,
    "conversions": with_conversions,
    "squares": with_squares,
    "exact reciprocals": with_exact_reciprocals,
    "tested copies": with_tested_copies,
    "parting lanes": with_parting_lanes,
    "unrolling": with_unrolled_loops,
    "folding of copies": without_index_arithmetic,
    "known choices": without_known_choices,
    "identities of copies": without_identities,
    "forwarded stores": with_forwarded_stores,
    "hoisting": without_invariants,
    "common subexpressions": without_common_subexpressions,
    "function sequences": with_function_sequences,
    "fused multiply-adds": with_fused_multiply_adds,
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
