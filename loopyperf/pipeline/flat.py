"""A core and what it executes as flat lists of integers: what a hot loop works on, in Python or in machine code.

The loop has lists in Python, which are quickest there, and arrays of NumPy as machine code; neither knows which. Rows of
a table lie one after the other. *x* is the place of a warp on the core, of which there are as many as concurrent warps;
*slot* is the place of a group; *place* is an instruction, those of several graphs one after the other.
"""

from typing import Any, NamedTuple

Cells = list[int]

INSTRUCTION, ENTER, REPEAT, END = range(4)
"""steps of a program"""

VALVE, COUNTER, CURRENT, SINCE, BEGUN, SCHEDULED, FINISH, TRACED = range(8)
"""the registers of a core"""

AT_START, IN_ORDER, AT_BARRIER = range(3)
"""from when on a warp could issue: since its group began, since it last issued, since a barrier released it"""

COLUMNS = 9
WARP, PLACE, TIME, READY, REASON, RESULT, CULPRIT, FREE, OPEN = range(COLUMNS)
"""what is recorded of an issue: the warp, the instruction, when; from when on the warp could have issued, and why then;
when the last result that it waits for was complete, and of which instruction (-1 for none); from when on its subsystem
was free, and the issue limit allowed it"""


class Program(NamedTuple):
    """What a core executes: it does not change."""

    # {{{ steps, a program for each kind of warp

    steps: Cells
    arguments: Cells
    """an instruction, or the level of a loop"""
    jumps: Cells
    """where to go on: after a loop that has no pass, or at the start of its body"""
    expressions: Cells
    """the number of a loop's passes, the condition of an instruction; -1 for none"""
    kinds: Cells
    """for the warps of as many groups as are told apart: where the program begins"""

    # }}}

    # {{{ expressions

    code_begins: Cells
    operations: Cells
    first: Cells
    second: Cells

    # }}}

    # {{{ instructions

    subsystem: Cells
    issue: Cells
    """λ, in ticks"""
    completion: Cells
    """Λ"""
    is_barrier: Cells
    depth: Cells
    """the number of loops around"""
    edge_begins: Cells
    ring_begins: Cells
    """where among the results of a warp those of an instruction are kept"""

    # }}}

    # {{{ edges, those to an instruction one after the other

    sources: Cells
    conditions: Cells
    """-1 for none"""
    levels: Cells
    """where in *source_passes* the passes of the source begin"""
    source_passes: Cells
    """expressions, one for each loop around the source"""

    # }}}

    # {{{ the configuration

    warps_per_group: int
    total_groups: int
    warps: int
    """concurrent ones"""
    subsystems: int
    deepest: int
    results: int
    """of a warp, that are kept"""
    places: int
    gap: int
    """between two issues, by the issue limit; 0 for none"""
    goes_on: int
    """ticks for which the warp that issued last is asked first"""
    is_oldest_first: int
    is_traced: int

    # }}}


class State(NamedTuple):
    """A core at some moment."""

    registers: Cells
    free: Cells
    """from when on each subsystem is"""
    busy: Cells
    """for how long each subsystem was"""

    # {{{ warps

    number: Cells
    """of the warp, in the order in which they begin"""
    step: Cells
    """the instruction that it is to issue next is there"""
    passes: Cells
    trips: Cells
    stamp: Cells
    """when it last issued, or else began: in the order in which warps did"""
    rank: Cells
    """the lower, the sooner it is asked"""
    ready: Cells
    """when what it waits for is complete"""
    since: Cells
    """when it could have issued if it waited for no result"""
    reason: Cells
    culprit: Cells
    queue: Cells
    """that it is in: 2q, it is not ready for subsystem q; 2q + 1, it is; -1 for none"""
    is_held: Cells
    """by a barrier"""

    # }}}

    # {{{ queues of warps

    heap: Cells
    sizes: Cells
    at: Cells
    """where in its queue a warp is"""

    # }}}

    # {{{ results that may still be waited for

    result_time: Cells
    result_passes: Cells
    newest: Cells
    """of each instruction, for each warp"""

    # }}}

    # {{{ groups

    unfinished: Cells
    """warps that have not issued everything"""
    held: Cells
    """warps that wait at the barrier"""
    release: Cells
    """Λ of that barrier"""
    ends: Cells
    """when all that was issued is complete"""
    starts: Cells
    """when the next group begins"""
    start_heap: Cells
    start_size: Cells
    start_at: Cells

    # }}}

    # {{{ scratch

    stack: Cells
    wanted: Cells
    """the passes of a source"""
    trace: Cells

    # }}}


Flat = Any
"""a :class:`Program` or a :class:`State`, of lists or of arrays"""
