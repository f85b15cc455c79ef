"""Find changes that would make a kernel faster, by simulating each candidate change."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from loopyperf.compiler.machine_program import MachineLaunch, MachineProgram, compiled_program
from loopyperf.device.parts import Lanes
from loopyperf.errors import LoopyperfError
from loopyperf.explain import execution_candidates, memory_candidates
from loopyperf.explain.candidates import ChangeCandidate, ChangeClass, LaunchSeen, MachineChange
from loopyperf.explain.changes import in_more_groups, in_parts
from loopyperf.explain.in_loopy import ChangeRecipe, InLoopy
from loopyperf.explain.review import LaunchReview, of_local, utilization
from loopyperf.models.program_timing import program_timing
from loopyperf.models.timing import InstructionTimes
from loopyperf.pipeline.timed_program import TimedLaunch, TimedProgram
from loopyperf.stages.stages import Stages

SIMULATIONS = 8
"""maximum number of simulated changes"""
FULL = 0.8
"""utilization from which a resource is the bottleneck"""
SMALL = 0.02
"""share of the run time; a change with a smaller gain is not a finding"""
FINDERS: tuple[Callable[[LaunchSeen], Iterator[ChangeCandidate]], ...] = (
    memory_candidates.uncoalesced,
    memory_candidates.conflicting,
    memory_candidates.in_short_rows,
    execution_candidates.uneven,
    execution_candidates.crowded,
    execution_candidates.spilled,
    execution_candidates.synchronized,
    memory_candidates.repeated,
    memory_candidates.loaded_often,
    memory_candidates.of_tiles,
    execution_candidates.sparse,
    memory_candidates.narrow,
    execution_candidates.rolled,
)
"""candidate finders, the most promising first"""
OF_PROCESSORS = (memory_candidates.uncoalesced, memory_candidates.repeated)
"""candidate finders for CPUs, which execute work-items in loops, without banks, hardware barriers or warps"""
IN_STEPS = (ChangeClass.OCCUPANCY, ChangeClass.FEWER_VALUES)
"""changes that come in several sizes"""
Seconds = Callable[[TimedProgram], float]
"""returns the run time of a program in seconds"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A change of a kernel with its simulated gain."""

    launch: str
    """name of the changed device program"""
    kind: str
    """kind of change, a value of :class:`~loopyperf.explain.candidates.ChangeClass`"""
    change: str
    """the change, in the imperative"""
    evidence: str
    """the waste that the change avoids, with numbers"""
    lines: tuple[str, ...]
    """ids of the affected source instructions"""
    recipe: ChangeRecipe
    """how to make the change in Loopy"""
    seconds: float
    """run time of the whole kernel after the change"""
    gain: float
    """saved seconds"""
    then: str = ""
    """bottleneck of the launch after the change, as a clause; empty if no resource is saturated"""

    @property
    def speedup(self) -> float:
        """Return the speedup: the run time before the change over that after it."""
        return (self.seconds + self.gain) / self.seconds if self.seconds else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON-serializable values."""
        return {
            "launch": self.launch,
            "kind": str(self.kind),
            "change": self.change,
            "evidence": self.evidence,
            "lines": list(self.lines),
            "how": list(self.recipe.how),
            "seconds": self.seconds,
            "gain": self.gain,
            "then": self.then,
            "speedup": self.speedup,
        }


def findings_of(
    stages: Stages, reviews: Sequence[LaunchReview], seconds: float, time: Seconds, loopy: InLoopy
) -> tuple[Finding, ...]:
    """Return the changes that would make a kernel faster, largest gain first.

    *seconds* is the run time of the kernel, by the model *time*. At most :data:`SIMULATIONS` changed programs are
    timed; gains of less than 2 % are omitted.
    """
    found: list[Finding] = []
    for number, candidate in islice(_all_candidates(stages, reviews, loopy.rows), SIMULATIONS):
        launch = stages.timed.launches[number]
        try:
            changed = _changed(stages, number, candidate)
            after = time(changed)
        except LoopyperfError:  # the device does not support the change, e.g. for lack of local memory
            continue
        if seconds - after > SMALL * seconds:
            recipe = loopy.recipe(stages.machine.launches[number], candidate)
            found.append(
                Finding(
                    launch=launch.name,
                    kind=candidate.kind,
                    change=recipe.change,
                    evidence=candidate.evidence,
                    lines=candidate.lines,
                    recipe=recipe,
                    seconds=after,
                    gain=seconds - after,
                    then=_bound_then(changed.launches[number], reviews[number].seconds - (seconds - after), loopy),
                )
            )
    return tuple(_without_lesser(sorted(found, key=lambda each: each.seconds)))


def _bound_then(launch: TimedLaunch, seconds: float, loopy: InLoopy) -> str:
    """Return the bottleneck of a changed *launch*, as a clause; empty if no resource is saturated."""
    if seconds <= 0:
        return ""
    busy = utilization(launch, seconds * launch.device.needed("clock") / launch.times)
    busiest = next(iter(busy), "")
    pipeline = InstructionTimes(launch.device).pipeline_of("local")
    share = of_local(launch, pipeline) if busiest == pipeline else 0.0
    return f"then bound by {loopy.words.limit(busiest, share)}" if busy.get(busiest, 0.0) >= FULL else ""


def _all_candidates(
    stages: Stages, reviews: Sequence[LaunchReview], rows: Mapping[str, int]
) -> Iterator[tuple[int, ChangeCandidate]]:
    """Yield the candidates of all launches with the launch numbers, the longest launch first."""
    order = sorted(range(len(reviews)), key=lambda number: -reviews[number].seconds)
    for number in order:
        machine, launch = stages.machine.launches[number], stages.timed.launches[number]
        profile = next(each for each in stages.profile.launches if each.name == launch.name)
        seen = LaunchSeen(profile, machine, launch, reviews[number], rows)
        finders = OF_PROCESSORS if launch.device.lanes == Lanes.IN_TURN else FINDERS
        yield from ((number, each) for find in finders for each in find(seen))


def _changed(stages: Stages, number: int, candidate: ChangeCandidate) -> TimedProgram:
    """Return the timed program with the change of *candidate* in launch *number*."""
    after = candidate.after()
    launch = _remade(stages, number, after) if isinstance(after, MachineChange) else after
    launches = tuple(launch if place == number else each for place, each in enumerate(stages.timed.launches))
    return replace(stages.timed, launches=launches)


def _remade(stages: Stages, number: int, change: MachineChange) -> TimedLaunch:
    """Return launch *number* compiled or timed again after *change*."""
    machine: MachineProgram = stages.machine
    launch: MachineLaunch = machine.launches[number]
    if change.compiled is not None or change.parts > 1:
        compiled = None if change.compiled is None else {launch.name: change.compiled}
        source = next(each for each in stages.profile.launches if each.name == launch.name)
        profile = replace(stages.profile, launches=(in_parts(source, change.loop, change.parts),))
        launch = compiled_program(profile, stages.timed.device, machine.placement, compiled=compiled).launches[0]
    if change.concurrent_groups is not None:
        launch = replace(launch, execution=replace(launch.execution, concurrent_groups=change.concurrent_groups))
    alone = replace(machine, launches=(launch,))
    timed = program_timing(alone, stages.timed.device).launches[0]
    return timed if change.parts == 1 else in_more_groups(timed, change.parts, timed.warps_per_group)


def _without_lesser(found: Sequence[Finding]) -> Iterator[Finding]:
    """Yield *found* without smaller versions of a change, which gain less than the best one."""
    known: set[tuple[str, str]] = set()
    for each in found:
        key = each.launch, each.kind if each.kind in IN_STEPS else each.change
        if key not in known:
            known.add(key)
            yield each
