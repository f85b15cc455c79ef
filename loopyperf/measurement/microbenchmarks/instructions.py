"""What an archive tells of instructions: the two latencies of each, or why it does not tell them."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot

from loopyperf.errors import MeasurementError
from loopyperf.measurement.archive import Recording
from loopyperf.measurement.microbenchmarks.boat_hull import BoatHull, boat_hull
from loopyperf.measurement.microbenchmarks.core import Core
from loopyperf.measurement.microbenchmarks.estimated import Estimated
from loopyperf.measurement.microbenchmarks.pace import Pace, paces
from loopyperf.measurement.microbenchmarks.straight_line import straight_line
from loopyperf.units import in_percent

CHAIN, LOCAL, BARRIER, LOOP = "dependent chain", "local memory", "barrier", "loop overhead"
"""names of the kernel files"""
LOCAL_LOAD, PASS = "load local b32", "loop"
"""instructions that are called otherwise than their kernel files"""


@dataclass(frozen=True, slots=True)
class Latencies:
    """λ and Λ of an instruction in cycles, each None where it was not found, and how they were measured."""

    name: str
    issue: Estimated | None
    completion: Estimated | None
    how: str
    at_most: bool = False
    """the completion latency is an upper bound: only the fewest warps, or none, left the pipeline idle"""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was not found, and why."""

    name: str
    reason: str

    def __str__(self) -> str:
        """Return both for a person."""
        return f"{self.name}: {self.reason}"


Found = Latencies | Refusal
Measure = Callable[[str, Sequence[Pace], Core], Latencies]


def instructions(recording: Recording, core: Core) -> tuple[Found, ...]:
    """Return what is known of each instruction that *recording* has microbenchmarks of.

    A chain's share of the cost of a loop's pass, one for each round, is not in its latencies, and that cost's error is
    in theirs. It is taken off also where it cannot be told from nothing: taken off only where it happens to be large,
    it would be too large, and otherwise missing from latency and error.
    """
    found = tuple(_all(recording, core))
    loop = next((each for each in found if isinstance(each, Latencies) and each.name == PASS), None)
    steps = {pace.kind: pace.sizes["steps"] for pace in paces(recording, CHAIN)}
    return tuple(_without_loop(each, loop, steps) if loop else each for each in found)


def _without_loop(found: Found, loop: Latencies, steps: Mapping[str, int]) -> Found:
    if found is loop:
        issue, completion = (each and each.credible for each in (loop.issue, loop.completion))
        return replace(loop, issue=issue, completion=completion)
    if isinstance(found, Refusal) or found.name not in steps:
        return found
    issue, completion = (
        _less(number, each, steps[found.name])
        for number, each in ((found.issue, loop.issue), (found.completion, loop.completion))
    )
    return replace(found, issue=issue, completion=completion)


def _less(number: Estimated | None, loop: Estimated | None, steps: int) -> Estimated | None:
    if number is None or loop is None:
        return number
    share = loop.times(1 / steps)
    less = Estimated(number.value - share.value, hypot(number.error, share.error))
    # Where nothing credible is left, the share stays in, as a part of the error alone.
    return less.credible or Estimated(number.value, hypot(less.error, share.value))


def _all(recording: Recording, core: Core) -> Iterator[Found]:
    for kind, taken in by_kind(paces(recording, CHAIN)).items():
        yield _found(kind, CHAIN, taken, core, _chain)
    measured = {measurement.kernel_class for measurement in recording.measurements}
    for name, kernel_class, measure in (
        (LOCAL_LOAD, LOCAL, _local),
        (BARRIER, BARRIER, _barrier),
        (PASS, LOOP, _loop),
    ):
        if kernel_class in measured:
            yield _found(name, kernel_class, paces(recording, kernel_class), core, measure)


def by_kind(taken: Iterable[Pace]) -> dict[str, list[Pace]]:
    """Return the paces by the kind of what was measured."""
    kinds: dict[str, list[Pace]] = defaultdict(list)
    for pace in taken:
        kinds[pace.kind].append(pace)
    return kinds


def _found(name: str, kernel_class: str, taken: Sequence[Pace], core: Core, measure: Measure) -> Found:
    if not taken:
        return Refusal(
            name, f"no two times of {kernel_class} differ by more than they scatter: it takes next to nothing"
        )
    try:
        return measure(name, taken, core)
    except MeasurementError as error:
        return Refusal(name, str(error))


# {{{ shapes of times


def _chain(name: str, taken: Sequence[Pace], core: Core) -> Latencies:
    return _hull(name, CHAIN, taken, core)


def _hull(name: str, how: str, taken: Sequence[Pace], core: Core) -> Latencies:
    hull = hull_of(taken, core)
    completion = hull.completion or hull.at_most
    return Latencies(name, hull.issue, completion, _described(how, hull), at_most=hull.completion is None)


def hull_of(taken: Sequence[Pace], core: Core) -> BoatHull:
    """Return the boat's hull of chains; raises :class:`MeasurementError` where the times have no such shape."""
    warps = [core.warps(pace) for pace in taken]
    return boat_hull(warps, [core.cycles(pace) for pace in taken], [pace.steps for pace in taken])


def _described(how: str, hull: BoatHull) -> str:
    warps, worst = f"{hull.warps[0]} to {hull.warps[-1]} warps", in_percent(hull.residual, 1)
    return f"{how} at {warps} on a core, worst residual {worst}"


def _local(name: str, taken: Sequence[Pace], core: Core) -> Latencies:
    plain = [pace for pace in taken if pace.sizes["degree"] == 1]
    return _hull(name, "dependent loads, with their index arithmetic,", plain, core)


def _barrier(name: str, taken: Sequence[Pace], core: Core) -> Latencies:
    """A barrier of W warps takes Λ + (W − 1)λ."""
    line = straight_line([core.warps_of_group(pace) for pace in taken], [core.cycles_each(pace) for pace in taken])
    error = (line.intercept.error**2 + line.slope.error**2) ** 0.5
    completion = Estimated(line.intercept.value + line.slope.value, error)
    how = f"barriers in a row, by warps of a group, worst residual {in_percent(line.residual, 1)}"
    return Latencies(name, line.slope.credible, completion.credible, how)


def _loop(name: str, taken: Sequence[Pace], core: Core) -> Latencies:
    """A pass of a loop takes c + s·steps: c of one warp is Λ, that of W warps on a core Wλ."""
    few, many = (
        straight_line([pace.sizes["steps"] for pace in part], [core.cycles(pace) / pace.rounds for pace in part])
        for part in _few_and_many(taken, core)
    )
    most = max(core.warps(pace) for pace in taken)
    how = f"loops around chains of {min(pace.sizes['steps'] for pace in taken)} and more, at 1 and {most} warps"
    return Latencies(name, many.intercept.times(1 / most), few.intercept, how)


def _few_and_many(taken: Sequence[Pace], core: Core) -> tuple[list[Pace], list[Pace]]:
    most = max(core.warps(pace) for pace in taken)
    return [pace for pace in taken if core.warps(pace) < most], [pace for pace in taken if core.warps(pace) == most]


# }}}
