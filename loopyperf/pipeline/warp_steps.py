"""A warp's way through a rolled program: from each instruction to the next, and which results that one waits for.

Loops are run through by counters. Of each instruction the latest results are kept, with the passes that they are of, as
many as may be incomplete while they can be asked for; an edge to any other result waits for nothing.
"""

from loopyperf.pipeline.expressions import CONSTANT, evaluate
from loopyperf.pipeline.memory import (
    ARGUMENTS,
    CODE_BEGINS,
    CONDITIONS,
    CULPRIT,
    DEEPEST,
    DEPTH,
    EDGE_BEGINS,
    END,
    ENTER,
    EXPRESSIONS,
    FIRST,
    INSTRUCTION,
    JUMPS,
    LEVELS,
    NEWEST,
    OPERATIONS,
    PASSES,
    PAUSED,
    PLACES,
    READY,
    REPEAT,
    RESULT_PASSES,
    RESULT_TIME,
    RESULTS,
    RING_BEGINS,
    SECOND,
    SOURCE_PASSES,
    SOURCES,
    STEP,
    STEPS,
    TRIPS,
    WANTED,
    WATCHED,
    WORTH,
    Memory,
)


def to_next(m: Memory, x: int, step: int) -> bool:
    """Lead warp *x* from *step* on to the next instruction that it executes; return whether there is one."""
    while True:
        kind = m[m[STEPS] + step]
        if kind == INSTRUCTION:
            if m[m[EXPRESSIONS] + step] < 0 or value(m, x, m[m[EXPRESSIONS] + step]):
                m[m[STEP] + x] = step
                return True
            step += 1
        elif kind == ENTER:
            level = x * m[DEEPEST] + m[m[ARGUMENTS] + step]
            trips = value(m, x, m[m[EXPRESSIONS] + step])
            m[m[PASSES] + level] = 0
            m[m[TRIPS] + level] = trips
            step = step + 1 if trips > 0 else m[m[JUMPS] + step]
        elif kind == REPEAT:
            level = x * m[DEEPEST] + m[m[ARGUMENTS] + step]
            m[m[PASSES] + level] += 1
            left = m[m[TRIPS] + level] - m[m[PASSES] + level]
            if m[WATCHED] == x + 1 and left >= m[m[WORTH] + step]:
                m[PAUSED] = step + 1
            step = m[m[JUMPS] + step] if left > 0 else step + 1
        else:
            assert kind == END
            m[m[STEP] + x] = step
            return False


def wait_for_results(m: Memory, x: int, place: int, since: int) -> None:
    """Set when the results are complete that warp *x*, which could issue *place* at *since*, waits for."""
    m[m[READY] + x] = since
    m[m[CULPRIT] + x] = -1
    for edge in range(m[m[EDGE_BEGINS] + place], m[m[EDGE_BEGINS] + place + 1]):
        # Most results are long complete: neither conditions nor passes are asked about for them.
        if latest(m, x, m[m[SOURCES] + edge]) <= m[m[READY] + x]:
            continue
        if m[m[CONDITIONS] + edge] >= 0 and not value(m, x, m[m[CONDITIONS] + edge]):
            continue
        time = completion_of(m, x, edge, since)
        if time > m[m[READY] + x]:
            m[m[READY] + x] = time
            m[m[CULPRIT] + x] = m[m[SOURCES] + edge]


def latest(m: Memory, x: int, source: int) -> int:
    """Return when the latest result of *source* is complete that is kept of warp *x*: none is complete later."""
    begin = m[m[RING_BEGINS] + source]
    if begin == m[m[RING_BEGINS] + source + 1]:
        return 0
    return m[m[RESULT_TIME] + x * m[RESULTS] + begin + m[m[NEWEST] + x * m[PLACES] + source]]


def completion_of(m: Memory, x: int, edge: int, since: int) -> int:
    """Return when the result is complete that warp *x* waits for by *edge*; 0 where it is complete at *since*."""
    source = m[m[SOURCES] + edge]
    begin, depth = m[m[RING_BEGINS] + source], m[m[DEPTH] + source]
    size = m[m[RING_BEGINS] + source + 1] - begin
    for level in range(depth):
        m[m[WANTED] + level] = value(m, x, m[m[SOURCE_PASSES] + m[m[LEVELS] + edge] + level])
    at = m[m[NEWEST] + x * m[PLACES] + source]
    for _ in range(size):
        result = x * m[RESULTS] + begin + at
        # Results of one instruction are complete one after the other, those of an earlier group before this one began.
        if m[m[RESULT_TIME] + result] <= since:
            return 0
        if has_passes(m, result, depth):
            return m[m[RESULT_TIME] + result]
        at = at - 1 if at > 0 else size - 1
    return 0


def has_passes(m: Memory, result: int, depth: int) -> bool:
    """Return whether *result* is of the passes that are wanted."""
    level = 0
    while level < depth and m[m[RESULT_PASSES] + result * m[DEEPEST] + level] == m[m[WANTED] + level]:
        level += 1
    return level == depth


def remember(m: Memory, x: int, place: int, time: int) -> None:
    """Keep that what warp *x* just issued, *place*, is complete at *time*."""
    begin = m[m[RING_BEGINS] + place]
    size = m[m[RING_BEGINS] + place + 1] - begin
    if size == 0:
        return
    at = m[m[NEWEST] + x * m[PLACES] + place] + 1
    if at == size:
        at = 0
    m[m[NEWEST] + x * m[PLACES] + place] = at
    result = x * m[RESULTS] + begin + at
    m[m[RESULT_TIME] + result] = time
    for level in range(m[m[DEPTH] + place]):
        m[m[RESULT_PASSES] + result * m[DEEPEST] + level] = m[m[PASSES] + x * m[DEEPEST] + level]


def value(m: Memory, x: int, expression: int) -> int:
    """Return the value of *expression* where warp *x* is."""
    at = m[m[CODE_BEGINS] + expression]
    if m[m[CODE_BEGINS] + expression + 1] == at + 1:
        # Nearly all are a constant, or a pass plus a constant.
        if m[m[OPERATIONS] + at] == CONSTANT:
            return m[m[FIRST] + at]
        return m[m[PASSES] + x * m[DEEPEST] + m[m[FIRST] + at]] + m[m[SECOND] + at]
    return evaluate(m, x, expression)
