"""What loads and stores of a graph ask of memory, as the example of a kind of warps executes them."""

from itertools import chain

from loopyperf.counts.execution import Site
from loopyperf.counts.item import MemorySpace
from loopyperf.counts.memory import ask_length, scaled_by_data
from loopyperf.counts.stride_classes import STRIDE_CLASSES
from loopyperf.errors import UncountableError
from loopyperf.idg.construction.drafts import Draft
from loopyperf.idg.construction.executed import Executed
from loopyperf.idg.construction.launch_program import LaunchProgram
from loopyperf.idg.graph import Idg
from loopyperf.idg.warps.passes import passes_of
from loopyperf.memory import AccessPattern, access_pattern, pattern_of_copy
from loopyperf.memory.gathers import lane_axes_of_data


def source_pattern(executed: Executed, origin: int) -> AccessPattern:
    """Return how the warp executes the access at place *origin* of the program, in all its passes."""
    draft = executed.draft(origin)
    assert draft.reference is not None
    site = Site(executed.program.launch, draft.statement.inames, draft.conditions, draft.statement.name)
    warp = executed.warp
    passes = passes_of(executed.program.counter, site, warp.warp, warp.sizes, warp.host)
    return access_pattern(draft.reference, passes, stated_stride(executed.program, draft))


def stated_stride(program: LaunchProgram, draft: Draft) -> str | None:
    """Return the stride class that is stated of the access that *draft* is, if data tells its lanes apart."""
    ref, kernel = draft.reference, program.kernel
    if ref is None or ref.space != MemorySpace.GLOBAL:
        return None
    ask_length(kernel, program.typical, ref)
    if not lane_axes_of_data(kernel, ref.index, program.counter.loops(draft.statement.inames).starts):
        return None
    factors = chain(*scaled_by_data(kernel, ref.index).values())
    return program.typical.stride(ref.array, STRIDE_CLASSES, factors)


def copied_pattern(executed: Executed, source: Idg, graph: Idg, number: int) -> AccessPattern:
    """Return how the warp executes instruction *number* of *graph*, which lowering made of *source*.

    It may be one of the copies of an unrolled loop, and move more than one element for a lane. Raises
    :class:`UncountableError` where its passes cannot be told from those of the other copies.
    """
    instruction = graph.instructions[number]
    assert instruction.origin is not None
    pattern = source_pattern(executed, instruction.origin)
    before = source.instructions[executed.numbers[instruction.origin]]
    if (before.dtype, before.executions) == (instruction.dtype, instruction.executions):
        return pattern
    trips = {loop.name: loop.trips for loop in graph.loops_around[number]}
    numbers = {name: each for name, each in trips.items() if isinstance(each, int)}
    if instruction.address is None or instruction.condition is not None or len(numbers) < len(trips):
        raise UncountableError(
            f"instruction {number}, {instruction.text}, is one of several copies of an access, of which addresses or "
            "passes are no functions of the loops around: ask for the instruction of the source graph, which is all of "
            "them"
        )
    return pattern_of_copy(pattern, instruction.address.expression, numbers, instruction.bits)
