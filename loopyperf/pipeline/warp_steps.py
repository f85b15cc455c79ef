"""A warp's way through a rolled program: from each instruction to the next, and which results that one waits for.

Loops are run through by counters. Of each instruction the latest results are kept, with the passes that they are of, as
many as may be incomplete while they can be asked for; an edge to any other result waits for nothing.
"""

from loopyperf.pipeline.expressions import evaluate
from loopyperf.pipeline.flat import END, ENTER, INSTRUCTION, REPEAT, Flat


def to_next(p: Flat, s: Flat, x: int, step: int) -> bool:
    """Lead warp *x* from *step* on to the next instruction that it executes; return whether there is one."""
    while True:
        kind = p.steps[step]
        if kind == INSTRUCTION:
            if p.expressions[step] < 0 or value(p, s, x, p.expressions[step]):
                s.step[x] = step
                return True
            step += 1
        elif kind == ENTER:
            level = x * p.deepest + p.arguments[step]
            trips = value(p, s, x, p.expressions[step])
            s.passes[level] = 0
            s.trips[level] = trips
            step = step + 1 if trips > 0 else p.jumps[step]
        elif kind == REPEAT:
            level = x * p.deepest + p.arguments[step]
            s.passes[level] += 1
            step = p.jumps[step] if s.passes[level] < s.trips[level] else step + 1
        else:
            assert kind == END
            s.step[x] = step
            return False


def wait_for_results(p: Flat, s: Flat, x: int, place: int, since: int) -> None:
    """Set when the results are complete that warp *x*, which could issue *place* at *since*, waits for."""
    s.ready[x] = since
    s.culprit[x] = -1
    for edge in range(p.edge_begins[place], p.edge_begins[place + 1]):
        if p.conditions[edge] >= 0 and not value(p, s, x, p.conditions[edge]):
            continue
        time = completion_of(p, s, x, edge, since)
        if time > s.ready[x]:
            s.ready[x] = time
            s.culprit[x] = p.sources[edge]


def completion_of(p: Flat, s: Flat, x: int, edge: int, since: int) -> int:
    """Return when the result is complete that warp *x* waits for by *edge*; 0 where it is complete at *since*."""
    source = p.sources[edge]
    begin, depth = p.ring_begins[source], p.depth[source]
    size = p.ring_begins[source + 1] - begin
    for level in range(depth):
        s.wanted[level] = value(p, s, x, p.source_passes[p.levels[edge] + level])
    at = s.newest[x * p.places + source]
    for _ in range(size):
        result = x * p.results + begin + at
        # Results of one instruction are complete one after the other, those of an earlier group before this one began.
        if s.result_time[result] <= since:
            return 0
        if has_passes(p, s, result, depth):
            return s.result_time[result]
        at = at - 1 if at > 0 else size - 1
    return 0


def has_passes(p: Flat, s: Flat, result: int, depth: int) -> bool:
    """Return whether *result* is of the passes that are wanted."""
    for level in range(depth):
        if s.result_passes[result * p.deepest + level] != s.wanted[level]:
            return False
    return True


def remember(p: Flat, s: Flat, x: int, place: int, time: int) -> None:
    """Keep that what warp *x* just issued, *place*, is complete at *time*."""
    begin = p.ring_begins[place]
    size = p.ring_begins[place + 1] - begin
    if size == 0:
        return
    at = s.newest[x * p.places + place] + 1
    if at == size:
        at = 0
    s.newest[x * p.places + place] = at
    result = x * p.results + begin + at
    s.result_time[result] = time
    for level in range(p.depth[place]):
        s.result_passes[result * p.deepest + level] = s.passes[x * p.deepest + level]


def value(p: Flat, s: Flat, x: int, expression: int) -> int:
    """Return the value of *expression* where warp *x* is."""
    at = p.code_begins[expression]
    if p.code_begins[expression + 1] == at + 1:
        # Nearly all are a constant, or a pass plus a constant.
        return p.first[at] if p.operations[at] == 0 else s.passes[x * p.deepest + p.first[at]] + p.second[at]
    return evaluate(p.code_begins, p.operations, p.first, p.second, s.stack, s.passes, x * p.deepest, expression)
