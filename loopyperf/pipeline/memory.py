"""The memory of a simulated core: one list of integers, which the hot loop works on in Python or as machine code.

It begins with a header of :data:`HEADER` cells, each of which has a name below: a number, or the address of a table. So
``m[GAP]`` is a number, and ``m[m[FREE] + q]`` the entry of subsystem *q* in a table. Rows lie one after the other. *x*
is the place of a warp on the core, of which there are as many as concurrent warps; *slot* is the place of a group;
*place* is an instruction, those of several graphs one after the other. Times are ticks.

Lists are quickest in Python, and one array in machine code, where many of them would be counted at each call.
"""

from collections.abc import Mapping

Memory = list[int]
"""or an array of NumPy"""

INSTRUCTION, ENTER, REPEAT, END = range(4)
"""kinds of steps of a program"""

AT_START, IN_ORDER, AT_BARRIER = range(3)
"""from when on a warp could issue: since its group began, since it last issued, since a barrier released it"""

COLUMNS = 9
WARP, PLACE, TIME, ABLE, REASON, RESULT, SOURCE, VACATED, OPENED = range(COLUMNS)
"""what is recorded of an issue: the warp, the instruction, when; from when on the warp was able to issue but for
results, and why then; when the last result that it waits for was complete, and of which instruction (-1 for none); from
when on the subsystem was free, and the issue limit allowed it"""

# {{{ the header: what does not change

WARPS_PER_GROUP, TOTAL_GROUPS, WARPS, SUBSYSTEMS, DEEPEST, RESULTS, PLACES, NUMBER_OF_KINDS = range(8)
"""concurrent warps; the deepest nest of loops; results of a warp that are kept; instructions; programs of warps"""
GAP, GOES_ON, BY_AGE, IS_TRACED = range(8, 12)
"""ticks between two issues by the issue limit, 0 for no limit; ticks for which the warp that issued last is asked
first; 1 where the oldest of the others is asked first, -1 where the youngest is, 0 where age does not count"""
STEPS, ARGUMENTS, JUMPS, EXPRESSIONS, KINDS = range(12, 17)
"""programs: kinds of steps; an instruction, or the level of a loop; where to go on, after a loop without passes or at
the start of its body; the number of passes, or the condition (-1 for none); where the program of each warp begins"""
CODE_BEGINS, OPERATIONS, FIRST, SECOND = range(17, 21)
"""expressions: see :class:`loopyperf.pipeline.expressions.ExpressionCode`"""
SUBSYSTEM, ISSUE, COMPLETION, IS_BARRIER, DEPTH, EDGE_BEGINS, RING_BEGINS = range(21, 28)
"""instructions: λ, Λ; the number of loops around; where its edges begin, and its results among those of a warp"""
SOURCES, CONDITIONS, LEVELS, SOURCE_PASSES = range(28, 32)
"""edges: -1 for no condition; where in the next table the passes of the source begin, an expression for each loop"""

# }}}

# {{{ the header: what does

VALVE, COUNTER, CURRENT, SLICE, BEGUN, FINISH, TRACED = range(32, 39)
"""from when on the issue limit allows an issue; what has been done; the warp that is asked first, and since when;
groups that have begun; when all is complete; rows of the trace"""
FREE, BUSY = range(39, 41)
"""subsystems: from when on it is free; for how long it was not"""
NUMBER, STEP, PASSES, TRIPS, STAMP, RANK, READY, SINCE, WHY, CULPRIT, QUEUE, IS_HELD, SLOT = range(41, 54)
"""warps: its number, as they begin; the step of its next instruction; loops' passes; when it last did something, in the
order in which they did; the lower, the sooner it is asked; when what it waits for is complete; from when on it could
issue but for results, and why then; the source of the last result; the queue that it is in (2q: it is not ready for
subsystem q, 2q + 1: it is, -1: none); whether a barrier holds it; the place of its group"""
NEXT, PREVIOUS, QUEUES = range(54, 57)
"""queues: those of warps, and a last one of slots by when they are vacant, in which items are ``m[WARPS] + slot``; the
items after and before each, and the number of the item in which the first queue closes"""
RESULT_TIME, RESULT_PASSES, NEWEST = range(57, 60)
"""results that may still be waited for: when they are complete, of which passes; the latest one of each instruction"""
UNFINISHED, HELD, RELEASE, ENDS, VACANT = range(60, 65)
"""groups: warps that have not issued everything; that a barrier holds, and its Λ; when all that was issued is complete;
when the slot is vacant"""
STACK, WANTED, TRACE = range(65, 68)
"""scratch, and at last the trace"""

NOW, WATCHED, PAUSED, WORTH = range(68, 72)
"""when something was done last; the warp, plus 1, at whose next iteration of a loop, if that is not the last one, the
hot loop is to pause, as it does where the first group on the core begins, or 0; why it does: the step that ends the
loop, plus 1, or the number of steps; of each such step how many iterations must be left for a pause"""

HEADER = 72

# }}}


def laid_out(numbers: Mapping[int, int], tables: Mapping[int, list[int]]) -> Memory:
    """Return the memory with these *numbers* in its header and these *tables* behind it, in their order."""
    memory = [0] * HEADER
    for name, number in numbers.items():
        memory[name] = number
    for name, table in tables.items():
        memory[name] = len(memory)
        memory += table
    return memory
