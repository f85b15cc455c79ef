"""Features of a kernel on a described device: what its graphs tell, and what a core makes of them.

The numbers are those of Dao's Table 1 that need no run, with symbolic counts in place of hardware counters:

    residence      warps and groups that reside on a core, the share of its slots, runs one after the other, and how
                   full the last of them is
    registers      of a work-item, and those that it needs beyond
    latency        Λapp, and what of it an instruction has on average
    accesses       the share of them that each level serves, and that waits for it; conflicts of local memory's banks
    pipelines      how long each is busy, over the busiest

and those of the graphs (:mod:`loopyperf.models.on_device.graph_features`). Of several launches each counts by its share
of the time.
"""

from collections.abc import Iterator, Mapping
from math import ceil, log1p

from loopyperf.counts.item import MemorySpace
from loopyperf.device.lambdas import global_levels
from loopyperf.models.features import TICK, Features
from loopyperf.models.literature.gpuperf_inputs import LaunchInputs
from loopyperf.models.on_device.demand import LaunchDemand, once
from loopyperf.models.on_device.graph_features import LaunchPrograms, graph_features
from loopyperf.models.on_device.pipeline_shares import busy_seconds
from loopyperf.models.pipeline_names import LATENCY, LAUNCHES
from loopyperf.pipeline.timed_program import TimedLaunch, TimedProgram


def static_features(kernel: TimedProgram) -> Features:
    """Return the features of *kernel*: nothing where it launches nothing.

    Raises :class:`MissingNumberError` where latencies are not described.
    """
    busy = [max(once(launch, LaunchDemand).busy.values()) * launch.warps_of_core for launch in kernel.launches]
    told: dict[str, float] = {}
    for launch, cycles in zip(kernel.launches, busy, strict=True):
        for name, value in _of_launch(launch):
            told[name] = told.get(name, 0.0) + value * cycles / sum(busy)
    return (
        graph_features(map(LaunchPrograms.timed, kernel.launches))
        | Features(told)
        | busy_features(busy_seconds(kernel))
    )


def _of_launch(launch: TimedLaunch) -> Iterator[tuple[str, float]]:
    yield from _residence(launch)
    yield from _accesses(launch)
    latency = once(launch, LaunchDemand).latency
    instructions = sum(executions for executions, _, _ in launch.executed())
    yield "latency of a warp", log1p(latency)
    yield "latency of an instruction", log1p(latency / instructions)


def _residence(launch: TimedLaunch) -> Iterator[tuple[str, float]]:
    execution = launch.execution
    runs = execution.total_groups / execution.concurrent_groups
    yield "warps at once", log1p(execution.concurrent_warps)
    yield "groups at once", log1p(min(execution.concurrent_groups, execution.total_groups))
    yield "occupancy", execution.concurrent_warps / launch.device.limits.needed("warps")
    yield "runs", log1p(runs)
    yield "last run", 1 + runs - ceil(runs)
    yield "share of cores", launch.balance
    yield "registers", log1p(launch.registers)
    yield "registers spilled", log1p(launch.spilled)


def _accesses(launch: TimedLaunch) -> Iterator[tuple[str, float]]:
    inputs = once(launch, LaunchInputs)
    requests = sum(each.executions for each in inputs.requests)
    sectors = sum(each.executions * each.sectors for each in inputs.requests)
    for level in global_levels(launch.device)[1:]:
        moved = sum(each.executions * each.sectors * each.served.asked.get(level.name, 0.0) for each in inputs.requests)
        waiting = sum(each.executions * each.served.waited.get(level.name, 0.0) for each in inputs.requests)
        yield f"moved from {level.name}", moved / sectors if sectors else 0.0
        yield f"waited for {level.name}", waiting / requests if requests else 0.0
    local = sum(
        each.executions * each.issue for each in inputs.others if each.instruction.subsystem == MemorySpace.LOCAL
    )
    conflicts = sum(each.executions * each.conflicts for each in inputs.others)
    yield "bank conflicts", log1p(conflicts / local) if local else 0.0


def busy_features(busy: Mapping[str, float]) -> Features:
    """Return what a kernel tells by how long it keeps each pipeline *busy*, in seconds; nothing where it keeps none."""
    columns = {column: seconds for column, seconds in busy.items() if column != LAUNCHES}
    if not columns:
        return Features({})
    order = sorted(columns.values())
    rest = max((seconds for column, seconds in columns.items() if column != LATENCY), default=0.0)
    told = {
        LAUNCHES: log1p(busy.get(LAUNCHES, 0.0)),
        "busiest pipeline": log1p(order[-1] / TICK),
        "second pipeline": order[-2] / order[-1] if len(order) > 1 else 0.0,
        "latency over the rest": log1p(columns.get(LATENCY, 0.0) / rest) if rest else 0.0,
    }
    return Features(told, {f"{column} over the busiest": seconds / order[-1] for column, seconds in columns.items()})
