"""Simulate one warp alone on a flat graph by the plain rules: no loops, no steady state, no integers."""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg


def cycles_alone(flat: Idg, lambdas: Mapping[str, Lambdas]) -> Fraction:
    """Return the time at which all instructions of *flat* are complete."""
    complete: list[Fraction] = []
    now, free = Fraction(0), dict.fromkeys(lambdas, Fraction(0))
    for place, instruction in enumerate(flat.instructions):
        issue, completion = map(Fraction, _latencies(lambdas, instruction.subsystem, instruction.kind))
        waits = [complete[edge.source] for edge in flat.definitions[place]]
        time = max([now, free[instruction.subsystem], *waits])
        free[instruction.subsystem] = time + issue
        complete.append(time + completion)
        now = time + completion if instruction.kind == "barrier" else time
    return max(complete, default=Fraction(0))


def stalls_alone(flat: Idg, memory: str, latency: Fraction) -> Counter[tuple[int, Fraction]]:
    """Return how often each stall follows each number of instructions, at one instruction per cycle."""
    arrives: dict[int, Fraction] = {}
    time, issued, found = Fraction(0), 0, Counter[tuple[int, Fraction]]()
    for place, instruction in enumerate(flat.instructions):
        waits = [arrives[edge.source] for edge in flat.definitions[place] if edge.source in arrives]
        if max(waits, default=time) > time:
            found[issued, max(waits) - time] += 1
            time, issued = max(waits), 0
        if instruction.subsystem == memory:
            arrives[place] = time + (0 if instruction.kind == "store" else latency)
        else:
            time, issued = time + 1, issued + 1
    last = max([time, *arrives.values()]) - time
    return found + Counter({(issued, last): 1} if issued or last else {})


def longest_chain(flat: Idg, lambdas: Mapping[str, Lambdas]) -> Fraction:
    """Return the latency of the longest chain of dependences."""
    ends: list[Fraction] = []
    for place, instruction in enumerate(flat.instructions):
        before = max((ends[edge.source] for edge in flat.definitions[place]), default=Fraction(0))
        ends.append(before + Fraction(_latencies(lambdas, instruction.subsystem, instruction.kind)[1]))
    return max(ends, default=Fraction(0))


def busiest(flat: Idg, lambdas: Mapping[str, Lambdas]) -> Fraction:
    """Return the earliest issue time of the last instruction of the busiest pipeline."""
    issues = {name: Fraction(each.issue) for name, each in lambdas.items()}
    numbers = Counter(instruction.subsystem for instruction in flat.instructions)
    return max((issues[name] * (number - 1) for name, number in numbers.items()), default=Fraction(0))


def _latencies(lambdas: Mapping[str, Lambdas], subsystem: str, kind: str) -> tuple[float | Fraction, float | Fraction]:
    each = lambdas[subsystem]
    return each.issue, each.issue if kind == "store" else each.completion
