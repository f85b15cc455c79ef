"""The memory of a simulated core, its clock and its queues: one list of integers, in Python or as machine code.

It begins with a header of :data:`HEADER` cells, each of which has a name below: a number, or the address of a table. So
``m[GAP]`` is a number, and ``m[m[FREE] + q]`` the entry of subsystem *q* in a table. Rows lie one after the other. *x*
is the place of a warp on the core, of which there are as many as concurrent warps; *slot* is the place of a group;
*place* is an instruction, those of several graphs one after the other. Times are ticks.

Lists are quickest in Python, and one array in machine code, where many of them would be counted at each call.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, lcm

from loopyperf.device.lambdas import Cycles
from loopyperf.errors import SimulationError

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


# {{{ time as whole numbers of ticks, so that two moments are equal exactly where they should be
#
# A tick is the largest part of a cycle of which all latencies are whole numbers: with λ = 0.375 and 1/IL = 0.25, an
# eighth of a cycle. A float stands for the decimal number that it is written as, 0.1 for a tenth. Where that part is so
# small that the run would not fit into 62 bits, as with latencies that were computed, the tick is the smallest power of
# two of a cycle that lets it fit, and latencies are rounded to it: for a run of a million cycles by 1e-13 cycles.


BITS = 60
"""of a moment: two less than would fit, since a sum of a moment and some latencies is to fit too"""
LAST = 1 << 61
"""ticks"""
NEVER = 1 << 62
"""ticks"""


@dataclass(frozen=True, slots=True)
class Clock:
    """The length of a tick."""

    ticks_per_cycle: int
    """so many that latencies are whole numbers of ticks, where the run fits"""

    def ticks(self, cycles: Cycles) -> int:
        """Return *cycles* to the nearest number of ticks, at least one unless they are none."""
        return max(1 if cycles else 0, round(rational(cycles) * self.ticks_per_cycle))

    def cycles(self, ticks: int) -> Fraction:
        """Return so many ticks in cycles."""
        return Fraction(ticks, self.ticks_per_cycle)


def clock_for(durations: Iterable[Cycles], horizon: Cycles) -> Clock:
    """Return the clock for a run of at most *horizon* cycles in which things take *durations*.

    Raises :class:`SimulationError` for a run that is too long to be told in ticks.
    """
    parts = lcm(*(rational(each).denominator for each in durations))
    longest = max(1, ceil(horizon))
    if parts * longest < 1 << BITS:
        return Clock(parts)
    if longest >= 1 << BITS:
        raise SimulationError(f"a run of up to {float(horizon):.3g} cycles is too long to be simulated")
    return Clock(1 << (BITS - longest.bit_length()))


@lru_cache(maxsize=1 << 10, typed=True)
def rational(cycles: Cycles) -> Fraction:
    """Return *cycles* as a fraction: a float as the shortest decimal number that is written for it."""
    return Fraction(repr(float(cycles))) if isinstance(cycles, float) else Fraction(cycles)


# }}}


# {{{ queues in the memory of a core
#
# Items in the order of a key, linked both ways, so that any can be taken out at once.
#
# An item comes in from the end whose key is nearer to its own: what becomes ready mostly does so after all others, or
# before most. Of two with the same key the lower number is first. Queue *q* is a ring that closes in an item of its
# own, ``m[QUEUES] + q``; *keys* is where in the memory the key of item 0 is.


def first_in(m: Memory, queue: int) -> int:
    """Return the first item of *queue*, its own if it is empty."""
    return m[m[NEXT] + m[QUEUES] + queue]


def is_empty(m: Memory, queue: int) -> bool:
    """Return whether nothing is in *queue*."""
    return m[m[NEXT] + m[QUEUES] + queue] == m[QUEUES] + queue


def push(m: Memory, keys: int, queue: int, item: int) -> None:
    """Put *item* into *queue*."""
    own = m[QUEUES] + queue
    before, after = m[m[PREVIOUS] + own], own
    if before != own:
        first = m[m[NEXT] + own]
        if m[keys + before] - m[keys + item] <= m[keys + item] - m[keys + first]:
            while before != own and is_before(m, keys, item, before):
                before, after = m[m[PREVIOUS] + before], before
        else:
            before, after = own, first
            while after != own and is_before(m, keys, after, item):
                before, after = after, m[m[NEXT] + after]
    m[m[NEXT] + before] = item
    m[m[PREVIOUS] + after] = item
    m[m[NEXT] + item] = after
    m[m[PREVIOUS] + item] = before


def remove(m: Memory, item: int) -> None:
    """Take *item* out of the queue that it is in."""
    before, after = m[m[PREVIOUS] + item], m[m[NEXT] + item]
    m[m[NEXT] + before] = after
    m[m[PREVIOUS] + after] = before


def is_before(m: Memory, keys: int, one: int, other: int) -> bool:
    """Return whether *one* is to be taken before *other*."""
    return m[keys + one] < m[keys + other] or (m[keys + one] == m[keys + other] and one < other)


# }}}
