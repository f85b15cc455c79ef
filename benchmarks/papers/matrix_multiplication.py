"""Cornelis and Lemeire, section IV.C: two matrix multiplications from Loopy source, with the latencies of Table III.

The kernels are the measurement kernel with groups of 8 × 8 and 16 × 16 work-items, which is their Listing 1, for
matrices of 1024 × 1024. The graph of the paper differs from the graph of the source:

- The loop over a tile is unrolled, multiplications and additions are contracted, and index arithmetic is free.
- "Only the loop and the writing of the result to global memory was included."
- The control of the outer loop is a single instruction, ``loop``.
- Instructions between two barriers are ordered by their dependences, as early as possible: "The unrolling of the inner
  loop introduces local memory level parallelism", which a warp that issues in source order would not have.

Loopy places the second barrier of an iteration at its start, Listing 1 at its end. Their Table III has no latencies of
stores to global memory, of which a warp executes one; we use those of loads, from Table II. Their simulator has no
issue limit, and ``loop`` and ``fmadd`` share a pipeline.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import loopy as lp

import loopyperf as lpp
from loopyperf.compiler import lowered
from loopyperf.device.device_library import load_device
from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.idg.copies import copied
from loopyperf.idg.program import Item, loops_in
from loopyperf.memory.kernel_profile import KernelIdg
from loopyperf.pipeline import Simulation, execution_on, simulate
from loopyperf.polyhedral.affine import Affine
from measurement_kernels.matrix_multiplication import bytes_of_tiles, matrix_multiplication
from papers.group_counts import concurrent_groups

SIDE = 1024
GPUS = {"Fermi": "nvidia-tesla-c2050", "Pascal": "nvidia-gtx-1060"}
"""Table I"""
GROUPS = {8: "8x8", 16: "16x16"}
TABLE_3 = {
    "Fermi": {
        "loop": Lambdas(4, 58),
        "local memory": Lambdas(2, 47),
        "matrix A 8x8": Lambdas(20, 162),
        "matrix B 8x8": Lambdas(45, 479),
        "matrix A 16x16": Lambdas(13, 244),
        "matrix B 16x16": Lambdas(17, 561),
        "barrier": Lambdas(3, 40),
        "fmadd": Lambdas(1, 18),
        "memory": Lambdas(23, 521),
        "conflicting local memory": Lambdas(16, 250),
    },
    "Pascal": {
        "loop": Lambdas(1.75, 29),
        "local memory": Lambdas(1, 30),
        "matrix A 8x8": Lambdas(7, 210),
        "matrix B 8x8": Lambdas(8, 409),
        "matrix A 16x16": Lambdas(6, 247),
        "matrix B 16x16": Lambdas(10, 444),
        "barrier": Lambdas(2, 70),
        "fmadd": Lambdas(0.25, 6),
        "memory": Lambdas(12, 378),
        "conflicting local memory": Lambdas(7, 100),
    },
}
"""Cornelis, Table III; ``memory`` is from Table II, and the latencies of conflicting accesses are from the text"""
LEFT_OUT = ("unrolling", "wide local loads", "loop guards", "loop control", "entry")
"""optimizations of nvcc that are disabled, because the paper's graph does not contain them"""

# {{{ the kernel


def kernel(side: int, has_conflicts: bool = False) -> lp.TranslationUnit:
    """Return the matrix product with groups of *side* × *side*.

    With conflicts, the tile of b is stored by columns, so that neighboring lanes read words that are *side* apart.
    """
    unit = matrix_multiplication((side, side))
    return lp.tag_array_axes(unit, "b_tile", "N0,N1") if has_conflicts else unit


def source_graph(side: int, has_conflicts: bool = False) -> KernelIdg:
    """Return the graph of the source."""
    return lpp.instruction_graph(kernel(side, has_conflicts), n=SIDE, m=SIDE, l=SIDE)


# }}}

# {{{ the graph of the paper


def paper_graph(side: int, is_early: bool = True, does_control_wait: bool = False) -> Idg:
    """Return the graph of one warp as in the paper.

    If *is_early* is false, instructions are in source order. If *does_control_wait* is true, the loop control waits for
    the last multiply-add of its iteration. Otherwise, warps that issue in dataflow order start iterations long before
    the previous ones end.
    """
    machine = lowered(source_graph(side), LEFT_OUT)
    written = copied(machine, {loop.number: side for loop in loops_in(machine.body) if loop.name == "k_inner"})
    (loop,) = (item for item in written.body if isinstance(item, Loop))
    stores = [item for item in written.body if isinstance(item, int) and written.instructions[item].kind == "store"]
    body = tuple(_early(written, loop.body)) if is_early else loop.body
    return _with_control(_restricted(written, replace(loop, body=body), stores), does_control_wait)


def _early(graph: Idg, body: Iterable[Item]) -> Iterator[int]:
    """Yield the instructions of *body*; between barriers, sort them by the length of their longest dependence chain."""
    level: dict[int, int] = {}
    for place in (item for item in body if isinstance(item, int)):
        if graph.instructions[place].kind == "barrier":
            yield from sorted(level, key=lambda each: (level[each], each))
            yield place
            level = {}
        else:
            sources = [edge.source for edge in graph.definitions[place] if not edge.is_carried]
            level[place] = 1 + max((level[source] for source in sources if source in level), default=0)
    yield from sorted(level, key=lambda each: (level[each], each))


def _restricted(graph: Idg, loop: Loop, after: Sequence[int]) -> Idg:
    """Return the subgraph of *loop* and the instructions *after* it, numbered in this order."""
    order = [*loop.body, *after]
    new = {place: number for number, place in enumerate(order)}
    kept = (edge for edge in graph.edges if edge.source in new and edge.target in new)
    edges = tuple(edge.between(new[edge.source], new[edge.target]) for edge in kept)
    inside = replace(loop, body=tuple(range(len(loop.body))))
    return Idg(tuple(graph.instructions[place] for place in order), edges, (inside, *range(len(loop.body), len(order))))


def _with_control(graph: Idg, does_wait: bool) -> Idg:
    """Return *graph* with a control instruction at the end of its loop, on which the whole next iteration depends."""
    (loop,) = (item for item in graph.body if isinstance(item, Loop))
    last = len(graph.instructions)
    control = Instruction("loop", subsystem="alu", text=f"next {loop.name}", executions=loop.trips)
    before = (Affine.variable(loop.name, -1),)
    edges = [Edge(last, target, (1,), before, through="control") for target in (*loop.body, last)]
    if does_wait:
        sums = (place for place in loop.body if graph.instructions[place].kind == "fma")
        edges.append(Edge.within(max(sums), last, [loop.name]))
    body = tuple(replace(item, body=(*item.body, last)) if item is loop else item for item in graph.body)
    return Idg((*graph.instructions, control), (*graph.edges, *edges), body)


# }}}

# {{{ latencies and performance


def latencies(gpu: str, side: int, has_conflicts: bool = False) -> Callable[[Instruction], Lambdas]:
    """Return a function that looks up latencies in Table III. With conflicts, loads of the inner loop are slower."""
    table = TABLE_3[gpu]

    def timing(instruction: Instruction) -> Lambdas:
        row = _row(instruction, GROUPS[side])
        is_slow = has_conflicts and row == "local memory" and instruction.kind == "load"
        return table["conflicting local memory" if is_slow else row]

    return timing


def _row(instruction: Instruction, group: str) -> str:
    if instruction.kind in ("loop", "barrier"):
        return instruction.kind
    if instruction.kind == "fma":
        return "fmadd"
    if instruction.subsystem == "local":
        return "local memory"
    if instruction.kind == "store":
        return "memory"
    return f"matrix {instruction.reference.array.upper()} {group}"


def conflict_degree(side: int, has_conflicts: bool = True) -> Fraction:
    """Return the number of additional accesses of a load of the tile of b due to bank conflicts (Lemeire, 6.3)."""
    source = source_graph(side, has_conflicts)
    loads = (n for n, each in enumerate(source.instructions) if each.kind == "load" and each.subsystem == "local")
    (load,) = (n for n in loads if source.instructions[n].reference.array == "b_tile")
    return source.launches[0].representative.access(load).mean("conflicts")


def simulations(gpu: str, side: int, has_conflicts: bool = False) -> Iterator[Simulation]:
    """Yield the simulation of a core for each possible number of concurrent groups, in ascending order."""
    device, graph, timing = load_device(GPUS[gpu]), paper_graph(side), latencies(gpu, side, has_conflicts)
    for resident in concurrent_groups(device, side * side, bytes_of_tiles((side, side))).values():
        yield simulate(graph, timing, execution_on(resident, groups=(SIDE // side) ** 2, cores=device.cores))


def gflops(gpu: str, simulation: Simulation) -> float:
    """Return the performance of the matrix product in Gflop/s, counting a multiply-add as two operations."""
    return 2 * SIDE**3 * load_device(GPUS[gpu]).clock * 1e-9 / simulation.cycles


# }}}
