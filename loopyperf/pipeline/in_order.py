"""The hot loop: a core whose warps issue in the order of their programs (a scoreboard).

Each warp has one instruction to issue next, and from when its predecessors have issued it is known when it is ready. So
there are no events but issues, and groups that begin. The next issue is at the first moment when for some subsystem a
warp is ready, it is free, and the issue limit allows; who issues is then for the scheduler to say. A barrier holds the
warps of a group that have issued it until its Λ after the last of them has; warps that have issued everything are not
waited for.
"""

from loopyperf.pipeline.clock import NEVER
from loopyperf.pipeline.flat import (
    AT_BARRIER,
    AT_START,
    BEGUN,
    COLUMNS,
    COUNTER,
    CURRENT,
    FINISH,
    IN_ORDER,
    SCHEDULED,
    SINCE,
    TRACED,
    VALVE,
    Flat,
)
from loopyperf.pipeline.heaps import push, remove
from loopyperf.pipeline.warp_steps import remember, to_next, wait_for_results


def issue_in_order(p: Flat, s: Flat, limit: int) -> int:
    """Issue *limit* instructions, or all that are left; return how many."""
    issued = 0
    while issued < limit:
        time = next_issue(p, s)
        if s.start_size[0] > 0 and s.starts[s.start_heap[0]] <= time:
            begin_group(p, s, s.start_heap[0])
        elif time == NEVER:
            break
        else:
            issue(p, s, chosen(p, s, time), time)
            issued += 1
    return issued


# {{{ who issues when


def next_issue(p: Flat, s: Flat) -> int:
    """Return when the next instruction can issue."""
    time = NEVER
    for q in range(p.subsystems):
        free = max(s.free[q], s.registers[VALVE])
        if s.sizes[2 * q + 1] > 0:
            time = min(time, free)
        elif s.sizes[2 * q] > 0:
            time = min(time, max(free, s.ready[s.heap[2 * q * p.warps]]))
    return time


def chosen(p: Flat, s: Flat, time: int) -> int:
    """Return the warp that issues at *time*, when one can."""
    for q in range(p.subsystems):
        while s.free[q] <= time and s.sizes[2 * q] > 0 and s.ready[s.heap[2 * q * p.warps]] <= time:
            line_up(p, s, q, s.heap[2 * q * p.warps])
    current, registers = s.registers[CURRENT], s.registers
    queue = -1 if current < 0 else s.queue[current]
    can_go_on = queue >= 0 and queue % 2 == 1 and s.free[queue // 2] <= time
    if can_go_on and time - registers[SINCE] < p.goes_on:
        return current
    is_over = can_go_on and p.goes_on > 0
    registers[CURRENT] = longest_waiting(p, s, time) if is_over and p.is_oldest_first else first_in_rank(p, s, time)
    registers[SINCE] = time
    return registers[CURRENT]


def line_up(p: Flat, s: Flat, q: int, x: int) -> None:
    """Let warp *x*, which has become ready for subsystem *q*, wait for its turn."""
    remove(s.heap, s.sizes, s.at, s.ready, p.warps, 2 * q, x)
    push(s.heap, s.sizes, s.at, s.rank, p.warps, 2 * q + 1, x)
    s.queue[x] = 2 * q + 1


def first_in_rank(p: Flat, s: Flat, time: int) -> int:
    """Return the warp of the lowest rank of those that can issue at *time*."""
    best = -1
    for q in range(p.subsystems):
        if s.free[q] <= time and s.sizes[2 * q + 1] > 0:
            x = s.heap[(2 * q + 1) * p.warps]
            if best < 0 or s.rank[x] < s.rank[best]:
                best = x
    return best


def longest_waiting(p: Flat, s: Flat, time: int) -> int:
    """Return the warp that has waited longest of those that can issue at *time*."""
    best = -1
    for q in range(p.subsystems):
        if s.free[q] <= time:
            queue = (2 * q + 1) * p.warps
            for at in range(queue, queue + s.sizes[2 * q + 1]):
                x = s.heap[at]
                if best < 0 or s.stamp[x] < s.stamp[best]:
                    best = x
    return best


# }}}

# {{{ what an issue changes


def issue(p: Flat, s: Flat, x: int, time: int) -> None:
    """Let warp *x* issue its next instruction at *time*."""
    place, slot = p.arguments[s.step[x]], x // p.warps_per_group
    q = p.subsystem[place]
    remove(s.heap, s.sizes, s.at, s.rank, p.warps, 2 * q + 1, x)
    s.queue[x] = -1
    if p.is_traced:
        record(p, s, x, place, time)
    s.free[q] = time + p.issue[place]
    s.busy[q] += p.issue[place]
    s.registers[VALVE] = time + p.gap
    stamped(s, x)
    if p.is_barrier[place]:
        s.is_held[x] = 1
        s.held[slot] += 1
        s.release[slot] = p.completion[place]
    else:
        remember(p, s, x, place, time + p.completion[place])
        s.ends[slot] = max(s.ends[slot], time + p.completion[place])
        advance(p, s, x, s.step[x] + 1, time, IN_ORDER)
    settle(p, s, slot, time)


def stamped(s: Flat, x: int) -> None:
    """Note that nobody has done anything later than warp *x*."""
    s.stamp[x] = s.registers[COUNTER]
    s.registers[COUNTER] += 1


def record(p: Flat, s: Flat, x: int, place: int, time: int) -> None:
    """Write a row of the trace."""
    row = s.registers[TRACED] * COLUMNS
    q = p.subsystem[place]
    s.trace[row] = s.number[x]
    s.trace[row + 1] = place
    s.trace[row + 2] = time
    s.trace[row + 3] = s.since[x]
    s.trace[row + 4] = s.reason[x]
    s.trace[row + 5] = s.ready[x]
    s.trace[row + 6] = s.culprit[x]
    s.trace[row + 7] = s.free[q]
    s.trace[row + 8] = s.registers[VALVE]
    s.registers[TRACED] += 1


def advance(p: Flat, s: Flat, x: int, step: int, since: int, reason: int) -> None:
    """Lead warp *x* from *step* on to its next instruction, which it can issue at *since* unless it waits for more."""
    if not to_next(p, s, x, step):
        s.unfinished[x // p.warps_per_group] -= 1
        return
    place = p.arguments[s.step[x]]
    wait_for_results(p, s, x, place, since)
    s.since[x] = since
    s.reason[x] = reason
    s.rank[x] = s.number[x] if p.is_oldest_first else s.stamp[x]
    s.queue[x] = 2 * p.subsystem[place]
    push(s.heap, s.sizes, s.at, s.ready, p.warps, s.queue[x], x)


# }}}

# {{{ groups


def begin_group(p: Flat, s: Flat, slot: int) -> None:
    """Begin the next waiting group at *slot*."""
    time = s.starts[slot]
    remove(s.start_heap, s.start_size, s.start_at, s.starts, 0, 0, slot)
    first = s.registers[BEGUN] * p.warps_per_group
    s.registers[BEGUN] += 1
    s.unfinished[slot] = p.warps_per_group
    s.ends[slot] = time
    if s.registers[CURRENT] // p.warps_per_group == slot:
        s.registers[CURRENT] = -1
    for warp in range(p.warps_per_group):
        x = slot * p.warps_per_group + warp
        s.number[x] = first + warp
        stamped(s, x)
        advance(p, s, x, p.kinds[(first + warp) % len(p.kinds)], time, AT_START)
    settle(p, s, slot, time)


def settle(p: Flat, s: Flat, slot: int, time: int) -> None:
    """Release a group at *time* that is held as a whole, and let the next one follow one that has issued everything."""
    if s.held[slot] > 0 and s.held[slot] == s.unfinished[slot]:
        release = time + s.release[slot]
        s.ends[slot] = max(s.ends[slot], release)
        s.held[slot] = 0
        for x in range(slot * p.warps_per_group, (slot + 1) * p.warps_per_group):
            if s.is_held[x]:
                s.is_held[x] = 0
                advance(p, s, x, s.step[x] + 1, release, AT_BARRIER)
    if s.unfinished[slot] == 0:
        s.registers[FINISH] = max(s.registers[FINISH], s.ends[slot])
        if s.registers[SCHEDULED] < p.total_groups:
            s.registers[SCHEDULED] += 1
            s.starts[slot] = s.ends[slot]
            push(s.start_heap, s.start_size, s.start_at, s.starts, 0, 0, slot)


# }}}
