"""What each line of the source does on each pipeline and memory level: instructions, and the share of the peak."""

from collections.abc import Mapping
from dataclasses import dataclass

from loopyperf.device.vocabulary import ISSUE
from loopyperf.pipeline.timed_program import TimedLaunch


@dataclass(frozen=True, slots=True)
class LineWork:
    """What the instructions of a line of the source do on a pipeline or memory level."""

    line: str
    """of the source"""
    resource: str
    """the pipeline or memory level"""
    access: str
    """the direction and the array, e.g. ``"load b"``; empty for instructions that access no memory"""
    instructions: float
    """that all warps execute on it, in all executions of the launch"""
    share: float
    """of the device's peak; the shares of a resource add up to its utilization"""


def warps_of(launch: TimedLaunch) -> float:
    """Return how many warps execute *launch*, in all its executions."""
    return float(launch.all_groups * launch.warps_per_group * launch.times)


def work_of(launch: TimedLaunch, utilization: Mapping[str, float]) -> tuple[LineWork, ...]:
    """Return what each line of *launch* does on each resource; *utilization* is the share of its peak of each."""
    found: dict[tuple[str, str, str], tuple[float, float]] = {}
    for share, program in launch.shared():
        for each, times, request in zip(program.graph.instructions, program.times, program.requests, strict=True):
            executions = share * float(each.executions)
            busy = {time.pipeline: executions * float(time.issue) for time in times} | {ISSUE: executions}
            for resource, cycles in busy.items():
                key = each.label, resource, "" if request is None else f"{each.kind} {request.array}"
                number, before = found.get(key, (0.0, 0.0))
                found[key] = number + executions, before + cycles
    every: dict[str, float] = {}
    for (_, resource, _), (_, cycles) in found.items():
        every[resource] = every.get(resource, 0.0) + cycles
    warps = warps_of(launch)
    return tuple(
        LineWork(*key, number * warps, utilization.get(key[1], 0.0) * cycles / (every[key[1]] or 1.0))
        for key, (number, cycles) in found.items()
    )
