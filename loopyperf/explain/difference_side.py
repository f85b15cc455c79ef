"""One of the two that are compared: a kernel at its sizes on a device, with what an explanation says of it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from loopyperf.device.vocabulary import ISSUE
from loopyperf.display import called
from loopyperf.explain.diagnosis import Diagnosis
from loopyperf.explain.explanation import Explanation, LineCost, OnDevice
from loopyperf.explain.review import LaunchReview
from loopyperf.explain.waiting import WAITS, Wait
from loopyperf.models.result import Estimate


@dataclass(frozen=True, slots=True)
class AccessSum:
    """All accesses of an array in one direction, in all launches."""

    requests: float
    """instructions of warps"""
    sectors: float
    """that a request asks for, on average; 0 of a group's memory"""
    wavefronts: float
    """passes through the banks for a request, on average"""
    is_local: bool
    """whether it is memory of a group"""
    reached: Mapping[str, float]
    """level of memory -> share of the sectors that are moved from there"""


@dataclass(frozen=True)
class Sums:
    """What a kernel does, from the reviews of its launches."""

    diagnosis: Diagnosis
    """at least one launch"""

    @cached_property
    def launches(self) -> tuple[LaunchReview, ...]:
        """Return the reviews of all launches."""
        return self.diagnosis.launches

    @cached_property
    def executing(self) -> float:
        """Return the seconds of all launches, without what launching costs."""
        return sum(each.seconds for each in self.launches)

    @cached_property
    def busy(self) -> dict[str, float]:
        """Return pipeline or memory level -> the seconds in which the device's peak would do its work, longest first.

        Where the device is less than full, that is its utilization times the time.
        """
        found: dict[str, float] = {}
        for each in self.launches:
            for resource, share in each.utilization.items():
                found[resource] = found.get(resource, 0.0) + share * each.seconds
        return {resource: found[resource] for resource in sorted(found, key=lambda name: -found[name])}

    @property
    def busiest(self) -> str:
        """Return the pipeline or memory level that is busy longest; empty where none is."""
        return next(iter(self.busy), "")

    def share(self, resource: str) -> float:
        """Return the share of its peak that *resource* takes while the launches execute."""
        return self.busy.get(resource, 0.0) / self.executing if self.executing else 0.0

    @cached_property
    def idle(self) -> float:
        """Return the seconds in which the mean core has no work."""
        return sum(each.seconds * (1 - each.balance) for each in self.launches)

    @cached_property
    def waits(self) -> dict[Wait, float]:
        """Return for what warps wait -> the share of all waiting; empty where that is not known for each launch."""
        if not self.executing or any(each.waiting is None for each in self.launches):
            return {}
        return {cause: self._mean(lambda each, cause=cause: each.waits_for(cause)) for cause in WAITS}

    def _mean(self, of: Callable[[LaunchReview], float]) -> float:
        """Return the mean of a number over the launches, each as important as it is long."""
        return sum(of(each) * each.seconds for each in self.launches) / self.executing

    @cached_property
    def moved(self) -> dict[str, float]:
        """Return memory level -> bytes that are moved by way of it."""
        levels = dict.fromkeys(level for each in self.launches for level in each.traffic.moved)
        return {level: sum(each.traffic.moved.get(level, 0.0) for each in self.launches) for level in levels}

    @cached_property
    def work(self) -> dict[str, dict[tuple[str, str], float]]:
        """Return resource -> line and access -> seconds that it keeps that busy; lines of accesses are together.

        The key of an access is an empty line and the access, that of other instructions the line and an empty access.
        """
        found: dict[str, dict[tuple[str, str], float]] = {}
        for launch in self.launches:
            for each in launch.work:
                parts = found.setdefault(each.resource, {})
                key = ("" if each.access else each.line, each.access)
                parts[key] = parts.get(key, 0.0) + each.share * launch.seconds
        return found

    def instructions(self, resource: str = ISSUE, line: str | None = None) -> float:
        """Return how many instructions all warps execute on *resource*: of a *line*, or of all lines."""
        return sum(
            each.instructions
            for launch in self.launches
            for each in launch.work
            if each.resource == resource and line in (None, each.line)
        )

    @property
    def lanes(self) -> float:
        """Return how many work-items a warp has, on average."""
        warps = sum(each.warps for each in self.launches)
        work_items = sum(each.work_items * each.groups * each.times for each in self.launches)
        return work_items / warps if warps else 1.0

    @cached_property
    def accesses(self) -> dict[str, AccessSum]:
        """Return direction and array, e.g. ``"load b"`` -> all its accesses, in the order of the reviews."""
        found: dict[str, list[tuple[float, float, float, bool, Mapping[str, float]]]] = {}
        for launch in self.launches:
            for each in launch.accesses:
                row = each.executions * launch.warps, each.sectors, each.wavefronts, not each.reached, each.reached
                found.setdefault(f"{each.kind} {each.array}", []).append(row)
        return {name: _access_sum(rows) for name, rows in found.items()}


def _access_sum(rows: Iterable[tuple[float, float, float, bool, Mapping[str, float]]]) -> AccessSum:
    every = list(rows)
    requests = sum(row[0] for row in every)
    asked = sum(row[0] * row[1] for row in every)
    wavefronts = sum(row[0] * row[2] for row in every)
    levels = dict.fromkeys(level for row in every for level in row[4])
    reached = {level: sum(row[0] * row[1] * row[4].get(level, 0.0) for row in every) for level in levels}
    return AccessSum(
        requests=requests,
        sectors=asked / requests if requests else 0.0,
        wavefronts=wavefronts / requests if requests else 0.0,
        is_local=all(row[3] for row in every),
        reached={level: sectors / asked if asked else 0.0 for level, sectors in reached.items()},
    )


@dataclass(frozen=True)
class Side:
    """A kernel at its sizes on one device."""

    explanation: Explanation
    on: OnDevice
    """one of the explanation's devices"""

    @property
    def kernel(self) -> str:
        """Return the name of the kernel."""
        return self.explanation.kernel

    @property
    def sizes(self) -> Mapping[str, Any]:
        """Return the values of the kernel's parameters."""
        return self.explanation.sizes

    @property
    def called(self) -> str:
        """Return the kernel with its sizes, e.g. ``"product(n=1024)"``."""
        return called(self.kernel, self.sizes, self.explanation.typical)

    @property
    def estimate(self) -> Estimate:
        """Return the estimate by the model that is shown."""
        return self.on.estimate

    @property
    def seconds(self) -> float:
        """Return the run time."""
        return float(self.estimate)

    @cached_property
    def lines(self) -> tuple[LineCost, ...]:
        """Return what each line of the source costs; they add up to the run time."""
        return self.explanation.lines(self.estimate)

    @cached_property
    def sums(self) -> Sums | None:
        """Return what the launches do; None where the device has no parameters, or the kernel executes nothing."""
        diagnosis = self.on.diagnosis
        return None if diagnosis is None or not diagnosis.launches else Sums(diagnosis)

    @property
    def launching(self) -> float:
        """Return the seconds that launching takes; 0 where the model of the run time knows no pipelines."""
        if self.sums is None or self.sums.diagnosis.model != self.on.first:
            return 0.0
        return max(0.0, self.seconds - self.sums.executing)
