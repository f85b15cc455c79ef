"""Find changes that would make a kernel faster, by predicting the kernel after each change.

A finding has a time if Loopy can make its change: the prediction for the changed kernel, from all stages. Other
findings are directions without a time.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import loopy as lp

from loopyperf.compiler.machine_program import MachineProgram
from loopyperf.device.description import Device
from loopyperf.device.parts import Lanes
from loopyperf.display import fields_of
from loopyperf.explain import execution_candidates, memory_candidates
from loopyperf.explain.candidates import ChangeCandidate, ChangeClass, LaunchSeen
from loopyperf.explain.in_loopy import ChangeRecipe, recipes_of
from loopyperf.explain.review import LaunchReview, of_local, utilization
from loopyperf.kernel import Program, as_translation_unit
from loopyperf.kernel.loopy_passes import without_dumps
from loopyperf.models.timing import InstructionTimes
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.stages.case import Case, prepared
from loopyperf.stages.timing import timed_program

PREDICTIONS = 8
"""maximum number of changed kernels that are predicted"""
FULL = 0.8
"""utilization from which a resource is the bottleneck"""
SMALL = 0.02
"""share of the run time; a change with a smaller gain is not a finding"""
LARGE_WASTE = 0.5
"""share from which a change remains to be made by hand although those that Loopy can make do not help"""
LIKELY = 0.25
"""share of the time, or of stall cycles, that a waste may cause, from which a change without a time is a finding"""
FINDERS: tuple[Callable[[LaunchSeen], Iterator[ChangeCandidate]], ...] = (
    memory_candidates.uncoalesced,
    memory_candidates.conflicting,
    memory_candidates.in_short_rows,
    memory_candidates.contended,
    execution_candidates.redundant,
    execution_candidates.double,
    execution_candidates.divergent,
    execution_candidates.uneven,
    execution_candidates.small,
    execution_candidates.crowded,
    execution_candidates.spilled,
    execution_candidates.synchronized,
    execution_candidates.chained,
    memory_candidates.repeated,
    memory_candidates.loaded_often,
    execution_candidates.rolled,
)
"""candidate finders, the most promising first"""
OF_PROCESSORS = (
    memory_candidates.uncoalesced,
    execution_candidates.redundant,
    execution_candidates.double,
    memory_candidates.repeated,
)
"""candidate finders for CPUs, which execute work-items in loops, without banks, hardware barriers or warps"""
IN_STEPS = (
    *(ChangeClass.FEWER_VALUES, ChangeClass.SEVERAL_RESULTS, ChangeClass.PARTIAL_SUMS, ChangeClass.CACHE_BLOCKS),
    *(ChangeClass.DIVERGENCE, ChangeClass.LOCAL_TILE, ChangeClass.LARGER_GROUPS),
    ChangeClass.FEWER_ATOMICS,
)
"""changes that come in several sizes or ways, of which the best is a finding"""
Seconds = Callable[[Case, TimedProgram], float]
"""returns the run time of a changed kernel, given at the first and at the last stage, in seconds"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A change that would make a kernel faster."""

    _OMITTED = ("recipe", "share")
    _DERIVED = ("speedup",)

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
    share: float
    """share of the time, or of stall cycles, that the waste may cause, from 0 to 1"""
    seconds: float | None = None
    """predicted run time of the whole kernel after the change; None if Loopy cannot make it by itself"""
    gain: float | None = None
    """saved seconds; None without a time"""
    then: str = ""
    """bottleneck of the launch after the change, as a clause; empty if no resource is saturated"""

    @property
    def speedup(self) -> float | None:
        """Return the speedup: the run time before the change over that after it; None without a time."""
        if self.seconds is None or self.gain is None:
            return None
        return (self.seconds + self.gain) / self.seconds if self.seconds else 1.0

    def apply(self, knl: Program) -> lp.TranslationUnit:
        """Return *knl* after the change, by the printed recipe; raises :class:`ValueError` without one."""
        if not self.recipe.calls:
            raise ValueError(f"Loopy cannot make this change by itself: {self.change}")
        return self.recipe.apply(knl)

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON-serializable values."""
        return {**fields_of(self), "how": list(self.recipe.how)}


def findings_of(
    case: Case,
    program: MachineProgram,
    timed: TimedProgram,
    reviews: Sequence[LaunchReview],
    seconds: float,
    overhead: float,
    time: Seconds,
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """Return the changes that would make a kernel faster, and those that were tried without a gain.

    Changes with a time come first, largest gain first, then the others.

    *seconds* is the run time of the kernel, by the model *time*, and *overhead* the share of launch overhead. At most
    :data:`PREDICTIONS` changed kernels are predicted; gains of less than 2 % are omitted.
    """
    changes = _Changes(case, timed.device, time)
    found: list[Finding] = []
    for seen, candidate in candidates_of(case, program, timed, reviews, overhead):
        recipe, after = changes.best(recipes_of(seen, candidate), candidate, seconds)
        if recipe is None or (after is None and candidate.share < LIKELY):
            continue
        finding = Finding(
            launch=seen.machine.name,
            kind=candidate.kind,
            change=recipe.change,
            evidence=candidate.evidence,
            lines=candidate.lines,
            recipe=recipe,
            share=candidate.share,
        )
        if after is not None:
            gain = seconds - after[0]
            then = _bound_then(after[1], seen, seen.review.seconds - gain)
            finding = replace(finding, seconds=after[0], gain=gain, then=then)
        found.append(finding)
    return tuple(sorted(found, key=lambda each: (-(each.gain or 0.0), -each.share))), tuple(changes.useless)


Predicted = tuple[float, TimedProgram]
Result = TypeVar("Result")


@dataclass
class _Changes:
    """Predicts changed kernels, at most :data:`PREDICTIONS`."""

    case: Case
    device: Device
    time: Seconds
    predicted: int = 0
    useless: list[str] = field(default_factory=list[str])
    """changes that do not help"""

    def best(
        self, recipes: Iterator[ChangeRecipe], candidate: ChangeCandidate, seconds: float
    ) -> tuple[ChangeRecipe | None, Predicted | None]:
        """Return the best of *recipes* with its prediction, or else the recipe for manual work, if one is left.

        A change that Loopy makes, but that does not help, leaves no recipe, unless the waste is most of the time.
        """
        best: tuple[ChangeRecipe | None, Predicted | None] = None, None
        is_tried = False
        for recipe in recipes:
            if not recipe.calls:
                return best if best[1] is not None or (is_tried and candidate.share < LARGE_WASTE) else (recipe, None)
            if best[1] is not None and candidate.kind not in IN_STEPS:
                return best
            after = self._after(recipe)
            is_tried |= after is not None
            least = seconds * (1 - SMALL) if best[1] is None else best[1][0]
            if after is not None and after[0] < least:
                code = _if_possible(lambda recipe=recipe: lp.generate_code_v2(recipe.apply(self.case.kernel)))
                best = best if code is None else (recipe, after)
            elif after is not None and best[1] is None:
                self.useless.append(recipe.change)
        return best

    def _after(self, recipe: ChangeRecipe) -> Predicted | None:
        """Return the prediction for the kernel after *recipe*; None if Loopy or the model refuses it."""
        if self.predicted >= PREDICTIONS:
            return None

        def predicted() -> Predicted:
            changed = replace(self.case, kernel=recipe.apply(self.case.kernel))
            timed = timed_program(changed, device=self.device)
            return self.time(changed, timed), timed

        after = _if_possible(predicted)
        self.predicted += after is not None
        return after


def _if_possible(change: Callable[[], Result]) -> Result | None:
    """Return the result of *change*; None if Loopy or the model refuses it."""
    try:
        with without_dumps(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return change()
    except Exception:  # Loopy propagates exceptions of isl, pymbolic and Python
        return None


def _bound_then(program: TimedProgram, seen: LaunchSeen, seconds: float) -> str:
    """Return the bottleneck of a changed launch, as a clause; empty if no resource is saturated."""
    launch = next((launch for launch in program.launches if launch.name == seen.machine.name), None)
    if seconds <= 0 or launch is None:
        return ""
    busy = utilization(launch, seconds * launch.device.needed("clock") / launch.times)
    busiest = next(iter(busy), "")
    pipeline = InstructionTimes(launch.device).pipeline_of("local")
    share = of_local(launch, pipeline) if busiest == pipeline else 0.0
    return f"then bound by {seen.words.limit(busiest, share)}" if busy.get(busiest, 0.0) >= FULL else ""


def candidates_of(
    case: Case, program: MachineProgram, timed: TimedProgram, reviews: Sequence[LaunchReview], overhead: float
) -> Iterator[tuple[LaunchSeen, ChangeCandidate]]:
    """Yield the candidates of all launches, the longest launch first, and for each those with the largest waste."""
    given, kernel = as_translation_unit(case.kernel).default_entrypoint, prepared(case.kernel, case.sizes)
    for index in sorted(range(len(reviews)), key=lambda number: -reviews[number].seconds):
        launch = timed.launches[index]
        seen = LaunchSeen(program.launches[index], launch, reviews[index], kernel, given, case.sizes, overhead)
        finders = OF_PROCESSORS if launch.device.lanes == Lanes.IN_TURN else FINDERS
        found = [*execution_candidates.launched(seen)] or [candidate for find in finders for candidate in find(seen)]
        yield from ((seen, candidate) for candidate in sorted(found, key=lambda each: -each.share))
