"""What would make a kernel faster: changes, each simulated by the model that is shown, the greatest gain first."""

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
"""of changed programs, at most"""
FULL = 0.8
"""of its peak: a resource that is busier is what bounds"""
SMALL = 0.02
"""of the time: what gains less is no finding"""
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
"""what finds changes, the likeliest to help first"""
OF_PROCESSORS = (memory_candidates.uncoalesced, memory_candidates.repeated)
"""those for processors, whose work-items are executed by loops: neither banks nor barriers nor warps hold these up"""
IN_STEPS = (ChangeClass.OCCUPANCY, ChangeClass.FEWER_VALUES)
"""changes that may go more or less far"""
Seconds = Callable[[TimedProgram], float]
"""how long a kernel takes by the model that is shown, in seconds"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A change of a kernel, and how long it takes then by the model that is shown."""

    launch: str
    """name of the device program that changes"""
    kind: str
    """a :class:`~loopyperf.explain.candidates.ChangeClass`"""
    change: str
    """what to do, as a command"""
    evidence: str
    """what is wasted without it, with its numbers"""
    lines: tuple[str, ...]
    """the instructions of the source that it concerns, by id"""
    recipe: ChangeRecipe
    """how to do it in Loopy"""
    seconds: float
    """of the whole kernel after the change"""
    gain: float
    """seconds that it saves"""
    then: str = ""
    """what bounds the launch after the change, in a clause; empty where nothing is full"""

    @property
    def speedup(self) -> float:
        """Return how many times as fast the kernel is then."""
        return (self.seconds + self.gain) / self.seconds if self.seconds else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as plain values that JSON can hold."""
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
    """Return what would make a kernel faster that takes so many *seconds* by *time*, the greatest gain first.

    At most :data:`SIMULATIONS` changed programs are timed; those that gain less than a hundredth or two are left out.
    """
    found: list[Finding] = []
    for number, candidate in islice(_all_candidates(stages, reviews, loopy.rows), SIMULATIONS):
        launch = stages.timed.launches[number]
        try:
            changed = _changed(stages, number, candidate)
            after = time(changed)
        except LoopyperfError:  # a change that the device cannot do, e.g. for lack of local memory
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
    """Return what bounds a changed *launch* that takes so many *seconds*; empty where nothing is full."""
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
    """Yield the changes of all launches, each with the number of its launch, those of the longest launches first."""
    order = sorted(range(len(reviews)), key=lambda number: -reviews[number].seconds)
    for number in order:
        machine, launch = stages.machine.launches[number], stages.timed.launches[number]
        profile = next(each for each in stages.profile.launches if each.name == launch.name)
        seen = LaunchSeen(profile, machine, launch, reviews[number], rows)
        finders = OF_PROCESSORS if launch.device.lanes == Lanes.IN_TURN else FINDERS
        yield from ((number, each) for find in finders for each in find(seen))


def _changed(stages: Stages, number: int, candidate: ChangeCandidate) -> TimedProgram:
    """Return the program of the kernel with the change of *candidate* in launch *number*."""
    after = candidate.after()
    launch = _remade(stages, number, after) if isinstance(after, MachineChange) else after
    launches = tuple(launch if place == number else each for place, each in enumerate(stages.timed.launches))
    return replace(stages.timed, launches=launches)


def _remade(stages: Stages, number: int, change: MachineChange) -> TimedLaunch:
    """Return launch *number* timed once more for what the compiler makes of it, or for how many groups reside."""
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
    """Yield *found* without steps to the same change that gain less than a further one."""
    known: set[tuple[str, str]] = set()
    for each in found:
        key = each.launch, each.kind if each.kind in IN_STEPS else each.change
        if key not in known:
            known.add(key)
            yield each
