"""The hot loop: a core whose warps issue in the order of their programs (a scoreboard).

Each warp has one instruction to issue next, and from when its predecessors have issued it is known when it is ready. So
there are no events but issues, and groups that begin. The next issue is at the first moment when for some subsystem a
warp is ready, it is free, and the issue limit allows; who issues is then for the scheduler to say. A barrier holds the
warps of a group that have issued it until its Λ after the last of them has; warps that have issued everything are not
waited for.
"""

from loopyperf.pipeline.memory import (
    ABLE,
    ARGUMENTS,
    AT_BARRIER,
    AT_START,
    BEGUN,
    BUSY,
    BY_AGE,
    COLUMNS,
    COMPLETION,
    COUNTER,
    CULPRIT,
    CURRENT,
    ENDS,
    FINISH,
    FREE,
    GAP,
    GOES_ON,
    HELD,
    IN_ORDER,
    IS_BARRIER,
    IS_HELD,
    IS_TRACED,
    ISSUE,
    KINDS,
    NEVER,
    NEXT,
    NOW,
    NUMBER,
    NUMBER_OF_KINDS,
    OPENED,
    PAUSED,
    PLACE,
    QUEUE,
    QUEUES,
    RANK,
    READY,
    REASON,
    RELEASE,
    RESULT,
    SINCE,
    SLICE,
    SLOT,
    SOURCE,
    STAMP,
    STEP,
    STEPS,
    SUBSYSTEM,
    SUBSYSTEMS,
    TIME,
    TOTAL_GROUPS,
    TRACE,
    TRACED,
    UNFINISHED,
    VACANT,
    VACATED,
    VALVE,
    WARP,
    WARPS,
    WARPS_PER_GROUP,
    WATCHED,
    WHY,
    Memory,
    first_in,
    is_empty,
    push,
    remove,
)
from loopyperf.pipeline.warp_steps import remember, to_next, wait_for_results


def issue_in_order(m: Memory, limit: int) -> int:
    """Issue *limit* instructions, or all that are left, or up to a pause that is asked for; return how many."""
    issued = 0
    while issued < limit and m[PAUSED] == 0:
        time = next_issue(m)
        if not is_empty(m, 2 * m[SUBSYSTEMS]) and vacancy(m) <= time:
            begin_group(m, first_in(m, 2 * m[SUBSYSTEMS]) - m[WARPS])
        elif time == NEVER:
            break
        else:
            issue(m, chosen(m, time), time)
            issued += 1
    return issued


# {{{ who issues when


def vacancy(m: Memory) -> int:
    """Return when the first slot is vacant, where some are to be."""
    return m[m[VACANT] + first_in(m, 2 * m[SUBSYSTEMS]) - m[WARPS]]


def next_issue(m: Memory) -> int:
    """Return when the next instruction can issue."""
    time = NEVER
    if m[WARPS] == 1:
        q = m[m[QUEUE]] // 2
        return time if q < 0 else max(m[m[READY]], m[m[FREE] + q], m[VALVE])
    for q in range(m[SUBSYSTEMS]):
        free = max(m[m[FREE] + q], m[VALVE])
        if not is_empty(m, 2 * q + 1):
            time = min(time, free)
        elif not is_empty(m, 2 * q):
            time = min(time, max(free, m[m[READY] + first_in(m, 2 * q)]))
    return time


def chosen(m: Memory, time: int) -> int:
    """Return the warp that issues at *time*, when one can."""
    if m[WARPS] == 1:
        return 0
    for q in range(m[SUBSYSTEMS]):
        while m[m[FREE] + q] <= time and not is_empty(m, 2 * q) and m[m[READY] + first_in(m, 2 * q)] <= time:
            line_up(m, q, first_in(m, 2 * q))
    current = m[CURRENT]
    queue = -1 if current < 0 else m[m[QUEUE] + current]
    can_go_on = queue >= 0 and queue % 2 == 1 and m[m[FREE] + queue // 2] <= time
    if can_go_on and time - m[SLICE] < m[GOES_ON]:
        return current
    is_over = can_go_on and m[GOES_ON] > 0
    m[CURRENT] = longest_waiting(m, time) if is_over and m[BY_AGE] else first_in_rank(m, time)
    m[SLICE] = time
    return m[CURRENT]


def line_up(m: Memory, q: int, x: int) -> None:
    """Let warp *x*, which has become ready for subsystem *q*, wait for its turn."""
    remove(m, x)
    push(m, m[RANK], 2 * q + 1, x)
    m[m[QUEUE] + x] = 2 * q + 1


def first_in_rank(m: Memory, time: int) -> int:
    """Return the warp of the lowest rank of those that can issue at *time*."""
    best = -1
    for q in range(m[SUBSYSTEMS]):
        if m[m[FREE] + q] <= time and not is_empty(m, 2 * q + 1):
            x = first_in(m, 2 * q + 1)
            if best < 0 or m[m[RANK] + x] < m[m[RANK] + best]:
                best = x
    return best


def longest_waiting(m: Memory, time: int) -> int:
    """Return the warp that has waited longest of those that can issue at *time*."""
    best = -1
    for q in range(m[SUBSYSTEMS]):
        if m[m[FREE] + q] <= time:
            x = first_in(m, 2 * q + 1)
            while x < m[QUEUES]:
                if best < 0 or m[m[STAMP] + x] < m[m[STAMP] + best]:
                    best = x
                x = m[m[NEXT] + x]
    return best


# }}}

# {{{ what an issue changes


def issue(m: Memory, x: int, time: int) -> None:
    """Let warp *x* issue its next instruction at *time*."""
    place, slot = m[m[ARGUMENTS] + m[m[STEP] + x]], m[m[SLOT] + x]
    q = m[m[SUBSYSTEM] + place]
    remove(m, x)
    m[m[QUEUE] + x] = -1
    if m[IS_TRACED]:
        record(m, x, place, time)
    m[m[FREE] + q] = time + m[m[ISSUE] + place]
    m[m[BUSY] + q] += m[m[ISSUE] + place]
    m[VALVE] = time + m[GAP]
    m[NOW] = time
    stamped(m, x)
    if m[m[IS_BARRIER] + place]:
        m[m[IS_HELD] + x] = 1
        m[m[HELD] + slot] += 1
        m[m[RELEASE] + slot] = m[m[COMPLETION] + place]
    else:
        remember(m, x, place, time + m[m[COMPLETION] + place])
        m[m[ENDS] + slot] = max(m[m[ENDS] + slot], time + m[m[COMPLETION] + place])
        advance(m, x, m[m[STEP] + x] + 1, time, IN_ORDER)
    settle(m, slot, time)


def stamped(m: Memory, x: int) -> None:
    """Note that nobody has done anything later than warp *x*."""
    m[m[STAMP] + x] = m[COUNTER]
    m[COUNTER] += 1


def record(m: Memory, x: int, place: int, time: int) -> None:
    """Write a row of the trace."""
    row, q = m[TRACE] + m[TRACED] * COLUMNS, m[m[SUBSYSTEM] + place]
    m[row + WARP] = m[m[NUMBER] + x]
    m[row + PLACE] = place
    m[row + TIME] = time
    m[row + ABLE] = m[m[SINCE] + x]
    m[row + REASON] = m[m[WHY] + x]
    m[row + RESULT] = m[m[READY] + x]
    m[row + SOURCE] = m[m[CULPRIT] + x]
    m[row + VACATED] = m[m[FREE] + q]
    m[row + OPENED] = m[VALVE]
    m[TRACED] += 1


def advance(m: Memory, x: int, step: int, since: int, reason: int) -> None:
    """Lead warp *x* from *step* on to its next instruction, which it can issue at *since* unless it waits for more."""
    if not to_next(m, x, step):
        m[m[UNFINISHED] + m[m[SLOT] + x]] -= 1
        return
    place = m[m[ARGUMENTS] + m[m[STEP] + x]]
    wait_for_results(m, x, place, since)
    m[m[SINCE] + x] = since
    m[m[WHY] + x] = reason
    m[m[RANK] + x] = m[BY_AGE] * m[m[NUMBER] + x] if m[BY_AGE] else m[m[STAMP] + x]
    m[m[QUEUE] + x] = 2 * m[m[SUBSYSTEM] + place]
    push(m, m[READY], m[m[QUEUE] + x], x)


# }}}

# {{{ groups


def begin_group(m: Memory, slot: int) -> None:
    """Begin the next group at *slot*, which is vacant, if any is waiting."""
    time = m[m[VACANT] + slot]
    remove(m, m[WARPS] + slot)
    if m[BEGUN] == m[TOTAL_GROUPS]:
        return
    m[NOW] = time
    if slot == 0 and m[WATCHED]:
        m[PAUSED] = m[ARGUMENTS] - m[STEPS]
    first = m[BEGUN] * m[WARPS_PER_GROUP]
    m[BEGUN] += 1
    m[m[UNFINISHED] + slot] = m[WARPS_PER_GROUP]
    m[m[ENDS] + slot] = time
    if m[CURRENT] >= 0 and m[m[SLOT] + m[CURRENT]] == slot:
        m[CURRENT] = -1
    for warp in range(m[WARPS_PER_GROUP]):
        x = slot * m[WARPS_PER_GROUP] + warp
        m[m[NUMBER] + x] = first + warp
        stamped(m, x)
        advance(m, x, m[m[KINDS] + (first + warp) % m[NUMBER_OF_KINDS]], time, AT_START)
    settle(m, slot, time)


def settle(m: Memory, slot: int, time: int) -> None:
    """Release a group at *time* that is held as a whole, and note when one that has issued everything is complete."""
    if m[m[HELD] + slot] > 0 and m[m[HELD] + slot] == m[m[UNFINISHED] + slot]:
        release = time + m[m[RELEASE] + slot]
        m[m[ENDS] + slot] = max(m[m[ENDS] + slot], release)
        m[m[HELD] + slot] = 0
        for x in range(slot * m[WARPS_PER_GROUP], (slot + 1) * m[WARPS_PER_GROUP]):
            if m[m[IS_HELD] + x]:
                m[m[IS_HELD] + x] = 0
                advance(m, x, m[m[STEP] + x] + 1, release, AT_BARRIER)
    if m[m[UNFINISHED] + slot] == 0:
        m[FINISH] = max(m[FINISH], m[m[ENDS] + slot])
        m[m[VACANT] + slot] = m[m[ENDS] + slot]
        push(m, m[VACANT] - m[WARPS], 2 * m[SUBSYSTEMS], m[WARPS] + slot)


# }}}
