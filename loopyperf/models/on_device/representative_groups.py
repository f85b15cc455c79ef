"""Groups that stand for all groups of a launch whose warps do not execute alike."""

from collections.abc import Iterator, Sequence
from itertools import chain

from loopyperf.idg.program import Opcode
from loopyperf.memory.kernel_profile import LaunchProfile

MIXED = 8
"""groups that the kinds of warps are dealt out to"""
ORDER = (0, 4, 2, 6, 1, 5, 3, 7)
"""in which these execute: the first ones are to tell of all, too (van der Corput's sequence)"""


def dealt_out(launch: LaunchProfile) -> Iterator[int]:
    """Yield the kinds of the warps of some groups one after the other, each kind as often as it is among all warps.

    Kinds that meet barriers another number of times are in groups of their own.
    """
    if len(launch.classes) == 1:
        yield 0
        return
    together: dict[float, list[int]] = {}
    for number, kind in enumerate(launch.classes):
        barriers = sum(float(each.executions) for each in kind.graph.instructions if each.kind == Opcode.BARRIER)
        together.setdefault(barriers, []).append(number)
    warps = [[launch.classes[number].warps for number in kinds] for kinds in together.values()]
    size = launch.warps_per_group
    found: list[list[int]] = []
    for kinds, of_kinds, groups in zip(together.values(), warps, shared_out(MIXED, [*map(sum, warps)]), strict=True):
        numbers = shared_out(groups * size, of_kinds)
        inside = sorted(zip(kinds, numbers, strict=True), key=lambda each: launch.classes[each[0]].example.number)
        slots = [kind for kind, number in inside for _ in range(number)]
        found += [slots[group::groups] for group in range(groups)]
    yield from chain.from_iterable(found[place] for place in ORDER)


def shared_out(whole: int, weights: Sequence[int]) -> list[int]:
    """Return *whole* in parts that are to each other as *weights*, rounded by their largest remainders."""
    exact = [whole * weight / sum(weights) for weight in weights]
    parts = [int(each) for each in exact]
    nearest = sorted(range(len(weights)), key=lambda place: parts[place] - exact[place])
    for place in nearest[: whole - sum(parts)]:
        parts[place] += 1
    return parts
