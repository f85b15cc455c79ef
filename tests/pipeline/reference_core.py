"""A core that follows the rules of docs/errata.md literally: no queues, no ticks, no extrapolation of loops.

Each step computes for each remaining instruction of each warp when it could issue. The earliest one issues; the policy
breaks ties. Times are fractions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg
from loopyperf.idg.graph import executions
from loopyperf.pipeline import Execution

Issued = tuple[int, int, Fraction]
"""warp, place in the rolled graph, time"""


@dataclass(eq=False)
class Warp:
    number: int
    group: int
    start: Fraction
    flat: Idg
    places: list[int]
    last: int
    """order of the warp's last action among the actions of all warps"""
    times: dict[int, Fraction] = field(default_factory=dict)
    complete: dict[int, Fraction] = field(default_factory=dict)

    @property
    def left(self) -> list[int]:
        return [place for place in range(len(self.places)) if place not in self.times]

    @property
    def unreleased(self) -> list[int]:
        return [place for place in self.times if place not in self.complete]


class ReferenceCore:
    def __init__(
        self,
        graphs: Sequence[Idg],
        timing: Mapping[str, Lambdas],
        execution: Execution,
        policy: str = "round-robin",
        issue_limit: Fraction | None = None,
        issue_order: str = "in_order",
        quantum: Fraction = Fraction(32),
    ) -> None:
        self.warp_graphs = [(g.unrolled(), [place for place, _ in executions(g.instructions, g.body)]) for g in graphs]
        self.timing, self.execution, self.policy, self.quantum = timing, execution, policy, quantum
        self.gap = Fraction(0) if issue_limit is None else 1 / issue_limit
        self.in_order = issue_order == "in_order"
        self.warps: list[Warp] = []
        self.resident: set[int] = set()
        self.done = 0
        self.valve = Fraction(0)
        self.free: dict[str, Fraction] = {}
        self.issued: list[Issued] = []
        self.current: tuple[Warp, Fraction] | None = None
        self.ends: list[Fraction] = []
        for _ in range(min(execution.concurrent_groups, execution.total_groups)):
            self.start(Fraction(0))

    @property
    def cycles(self) -> Fraction:
        return max(self.ends)

    def run(self) -> "ReferenceCore":
        while True:
            times = {(warp, place): self.when(warp, place) for warp in self.warps for place in self.candidates(warp)}
            possible = {key: time for key, time in times.items() if time is not None}
            now = min(possible.values(), default=None)
            ended = sorted((self.end(group), group) for group in self.resident if self.is_over(group))
            if ended and (now is None or ended[0][0] <= now):
                self.replace(*ended[0])
            elif now is None:
                return self
            else:
                self.issue_one([key for key, time in possible.items() if time == now], now)

    # {{{ when an instruction could issue

    def candidates(self, warp: Warp) -> list[int]:
        return warp.left[:1] if self.in_order else warp.left

    def when(self, warp: Warp, place: int) -> Fraction | None:
        """Return when *place* could issue; None if that is not known yet."""
        waits = [warp.start, self.valve, self.free.get(warp.flat.instructions[place].subsystem, Fraction(0))]
        before = [edge.source for edge in warp.flat.definitions[place]]
        if self.in_order:
            if warp.unreleased:
                return None
            waits += warp.times.values()
            before += [each for each in warp.times if self.is_barrier(warp, each)]
        elif self.is_barrier(warp, place):
            before += [each for each in range(place) if self.is_barrier(warp, each)]
        if any(each not in warp.complete for each in before):
            return None
        return max([*waits, *(warp.complete[each] for each in before)])

    def is_barrier(self, warp: Warp, place: int) -> bool:
        return warp.flat.instructions[place].kind == "barrier"

    # }}}

    # {{{ choice of the warp

    def issue_one(self, able: list[tuple[Warp, int]], now: Fraction) -> None:
        warp = self.chosen(list(dict.fromkeys(warp for warp, _ in able)), now)
        place = min(place for each, place in able if each is warp)
        instruction = warp.flat.instructions[place]
        lambdas = self.timing[instruction.subsystem]
        warp.times[place] = now
        self.issued.append((warp.number, warp.places[place], now))
        self.free[instruction.subsystem] = now + Fraction(lambdas.issue)
        self.valve = now + self.gap
        warp.last = self.done = self.done + 1
        if instruction.kind == "store":
            warp.complete[place] = now + Fraction(lambdas.issue)
        elif instruction.kind != "barrier":
            warp.complete[place] = now + Fraction(lambdas.completion)
        group = [each for each in self.warps if each.group == warp.group]
        if all(each.unreleased or not each.left for each in group):
            for each in group:
                for barrier in each.unreleased:
                    # These tests have a single barrier subsystem, so all barriers have the same Λ.
                    each.complete[barrier] = now + Fraction(self.timing["barrier"].completion)

    def chosen(self, able: list[Warp], now: Fraction) -> Warp:
        oldest = min(able, key=lambda warp: warp.number)
        longest = min(able, key=lambda warp: warp.last)
        if self.policy == "round-robin":
            return longest
        if self.policy == "oldest-first":
            return oldest
        warp, since = self.current or (None, now)
        if warp in able and (self.policy.startswith("greedy") or now - since < self.quantum):
            assert warp is not None
            return warp
        last = max(able, key=lambda warp: warp.number)
        self.current = (last if self.policy == "greedy-then-youngest" else longest if warp in able else oldest, now)
        return self.current[0]

    # }}}

    # {{{ groups

    def start(self, time: Fraction) -> None:
        size = self.execution.warps_per_group
        group = len(self.warps) // size
        self.resident.add(group)
        for number in range(group * size, (group + 1) * size):
            flat, places = self.warp_graphs[number % len(self.warp_graphs)]
            self.done += 1
            self.warps.append(Warp(number, group, time, flat, places, self.done))

    def is_over(self, group: int) -> bool:
        return all(not warp.left and not warp.unreleased for warp in self.warps if warp.group == group)

    def end(self, group: int) -> Fraction:
        return max(time for warp in self.warps if warp.group == group for time in [warp.start, *warp.complete.values()])

    def replace(self, end: Fraction, group: int) -> None:
        self.resident.remove(group)
        self.ends.append(end)
        if len(self.warps) < self.execution.total_warps:
            self.start(end)

    # }}}
