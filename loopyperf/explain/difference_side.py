"""One side of a comparison: a kernel at its sizes on a device, with sums over the launches of its explanation."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from loopyperf.device.vocabulary import ISSUE
from loopyperf.display import called
from loopyperf.explain.diagnosis import Diagnosis
from loopyperf.explain.explanation import Explanation, LineCost, OnDevice
from loopyperf.explain.review import LaunchReview
from loopyperf.explain.waiting import STALLS, StallReason
from loopyperf.models.result import Estimate


@dataclass(frozen=True, slots=True)
class AccessSum:
    """Totals of all loads, or all stores, of an array in all launches."""

    requests: float
    """warp instructions"""
    sectors: float
    """mean number of sectors per request; 0 for local memory"""
    wavefronts: float
    """mean number of wavefronts (bank passes) per request"""
    is_local: bool
    """whether the array is in local memory"""
    reached: Mapping[str, float]
    """memory level -> share of the sectors that reach it"""


@dataclass(frozen=True)
class Sums:
    """Totals of a kernel over the reviews of its launches."""

    diagnosis: Diagnosis
    """diagnosis with at least one launch"""

    @cached_property
    def launches(self) -> tuple[LaunchReview, ...]:
        """Return the reviews of all launches."""
        return self.diagnosis.launches

    @cached_property
    def executing(self) -> float:
        """Return the seconds of all launches, without launch overhead."""
        return sum(each.seconds for each in self.launches)

    @cached_property
    def busy(self) -> dict[str, float]:
        """Return the busy time of each pipeline or memory level: its utilization times the time, longest first."""
        found: dict[str, float] = {}
        for each in self.launches:
            for resource, share in each.utilization.items():
                found[resource] = found.get(resource, 0.0) + share * each.seconds
        return {resource: found[resource] for resource in sorted(found, key=lambda name: -found[name])}

    @property
    def busiest(self) -> str:
        """Return the pipeline or memory level with the longest busy time; empty if there is none."""
        return next(iter(self.busy), "")

    def share(self, resource: str) -> float:
        """Return the utilization of *resource* while the launches execute, from 0 to 1."""
        return self.busy.get(resource, 0.0) / self.executing if self.executing else 0.0

    @cached_property
    def idle(self) -> float:
        """Return the seconds for which the mean core is idle."""
        return sum(each.seconds * (1 - each.balance) for each in self.launches)

    @cached_property
    def waits(self) -> dict[StallReason, float]:
        """Return each stall reason with its share of stall cycles; empty if unknown for a launch."""
        if not self.executing or any(each.waiting is None for each in self.launches):
            return {}
        return {cause: self._mean(lambda each, cause=cause: each.waits_for(cause)) for cause in STALLS}

    def _mean(self, of: Callable[[LaunchReview], float]) -> float:
        """Return the mean over the launches, weighted by their run times."""
        return sum(of(each) * each.seconds for each in self.launches) / self.executing

    @cached_property
    def moved(self) -> dict[str, float]:
        """Return the bytes moved through each memory level."""
        levels = dict.fromkeys(level for each in self.launches for level in each.traffic.moved)
        return {level: sum(each.traffic.moved.get(level, 0.0) for each in self.launches) for level in levels}

    @cached_property
    def work(self) -> dict[str, dict[tuple[str, str], float]]:
        """Return resource -> (line, access) -> busy seconds.

        All lines with the same access share the key ("", access); other instructions have the key (line, "").
        """
        found: dict[str, dict[tuple[str, str], float]] = {}
        for launch in self.launches:
            for each in launch.work:
                parts = found.setdefault(each.resource, {})
                key = ("" if each.access else each.line, each.access)
                parts[key] = parts.get(key, 0.0) + each.share * launch.seconds
        return found

    def instructions(self, resource: str = ISSUE, line: str | None = None) -> float:
        """Return the warp instructions executed on *resource*, by one *line* or by all lines."""
        return sum(
            each.instructions
            for launch in self.launches
            for each in launch.work
            if each.resource == resource and line in (None, each.line)
        )

    @property
    def lanes(self) -> float:
        """Return the mean number of work-items per warp."""
        warps = sum(each.warps for each in self.launches)
        work_items = sum(each.work_items * each.groups * each.times for each in self.launches)
        return work_items / warps if warps else 1.0

    @cached_property
    def accesses(self) -> dict[str, AccessSum]:
        """Return the totals by direction and array, e.g. ``"load b"``, in the order of the reviews."""
        found: dict[str, list[tuple[float, float, float, bool, Mapping[str, float]]]] = {}
        for launch in self.launches:
            for each in launch.accesses:
                row = each.executions * launch.warps, each.sectors, each.wavefronts, not each.reached, each.reached
                found.setdefault(f"{each.kind} {each.array}", []).append(row)
        return {name: _access_sum(rows) for name, rows in found.items()}


def _access_sum(rows: Iterable[tuple[float, float, float, bool, Mapping[str, float]]]) -> AccessSum:
    every = list(rows)
    requests = sum(row[0] for row in every)
    requested = sum(row[0] * row[1] for row in every)
    wavefronts = sum(row[0] * row[2] for row in every)
    levels = dict.fromkeys(level for row in every for level in row[4])
    reached = {level: sum(row[0] * row[1] * row[4].get(level, 0.0) for row in every) for level in levels}
    return AccessSum(
        requests=requests,
        sectors=requested / requests if requests else 0.0,
        wavefronts=wavefronts / requests if requests else 0.0,
        is_local=all(row[3] for row in every),
        reached={level: sectors / requested if requested else 0.0 for level, sectors in reached.items()},
    )


@dataclass(frozen=True)
class Side:
    """A kernel at its sizes on one device: one side of a comparison."""

    explanation: Explanation
    on: OnDevice
    """one of the explanation's devices, with its estimates"""

    @property
    def kernel(self) -> str:
        """Return the name of the kernel."""
        return self.explanation.kernel

    @property
    def sizes(self) -> Mapping[str, Any]:
        """Return the parameter values by name."""
        return self.explanation.sizes

    @property
    def called(self) -> str:
        """Return the kernel with its sizes, e.g. ``"product(n=1024)"``."""
        return called(self.kernel, self.sizes, self.explanation.typical)

    @property
    def estimate(self) -> Estimate:
        """Return the estimate of the compared model."""
        return self.on.estimate

    @property
    def seconds(self) -> float:
        """Return the run time in seconds."""
        return float(self.estimate)

    @cached_property
    def lines(self) -> tuple[LineCost, ...]:
        """Return the cost of each source line; the costs add up to the run time."""
        return self.explanation.lines(self.on)

    @cached_property
    def sums(self) -> Sums | None:
        """Return the totals; None if the device has no parameters or the kernel executes nothing."""
        diagnosis = self.on.diagnosis
        return None if diagnosis is None or not diagnosis.launches else Sums(diagnosis)

    @property
    def launching(self) -> float:
        """Return the launch overhead in seconds; 0 without a diagnosis."""
        return 0.0 if self.sums is None else max(0.0, self.seconds - self.sums.executing)
