"""How long a kernel keeps the pipelines of a device busy, instruction by instruction: the columns of fitted models.

A column is a pipeline of the core, a level of memory, the limit of issues (``"issue"``), the warps' latency over how
many of them reside at once (``"latency"``), or the begin of groups (``"start"``): seconds of the core with most groups,
by the device's description. Pipelines that serve the accesses of several memories have a column for each of them,
``"local: private"``. ``"launches"`` are as many as there are.
"""

from collections.abc import Callable, Iterable, Iterator

from loopyperf.device.parts import Lanes
from loopyperf.models.on_device.columns import column_of
from loopyperf.models.on_device.demand import LaunchDemand, of_groups, once
from loopyperf.models.on_device.processor_shares import cycles_of_work_items
from loopyperf.models.pipeline_names import ISSUE, LATENCY, LAUNCHES, START
from loopyperf.pipeline.timed_program import TimedLaunch, TimedProgram

Busy = dict[str, dict[str, float]]
"""column -> source -> seconds; of launches, their number"""
OfWarp = Callable[[TimedLaunch, LaunchDemand], Iterator[tuple[str, str, float]]]
"""columns of a warp, each with a source and its cycles"""


def pipeline_shares(kernel: TimedProgram) -> Busy:
    """Return column -> source -> the seconds that the core with most groups is busy, over all launches.

    Raises :class:`MissingNumberError` for a latency that the description of the device lacks.
    """
    found: Busy = {}
    of_warp = cycles_of_warp if kernel.device.lanes == Lanes.TOGETHER else cycles_of_work_items
    for launch in kernel.launches:
        for column, source, busy in _of_core(launch, of_warp):
            sources = found.setdefault(column, {})
            sources[source] = sources.get(source, 0.0) + busy / kernel.device.needed("clock")
    found[LAUNCHES] = {f"launch of {name}": float(times) for name, times in kernel.launched}
    return found


def busy_seconds(kernel: TimedProgram) -> dict[str, float]:
    """Return column -> the seconds of all its sources; of launches their number. Raises as :func:`pipeline_shares`."""
    return {column: sum(sources.values()) for column, sources in pipeline_shares(kernel).items()}


def cycles_of_warp(launch: TimedLaunch, demand: LaunchDemand) -> Iterator[tuple[str, str, float]]:
    """Yield the columns of a warp on a core whose warps execute together, each with a source and its cycles."""
    name = f"launch of {launch.name}"
    for executions, instruction, times in launch.executed(demand.shares):
        for time in times:
            column = column_of(time.pipeline, instruction, launch)
            yield column, instruction.label, executions * float(time.issue)
    for column in (START, ISSUE):
        if column in demand.busy:
            yield column, name, demand.busy[column]
    yield LATENCY, name, demand.latency / min(launch.execution.concurrent_warps, launch.execution.total_warps)


def _of_core(launch: TimedLaunch, of_warp: OfWarp) -> Iterator[tuple[str, str, float]]:
    """Yield the columns of *launch*, each with a source and the cycles of the core that has most of it.

    Where groups differ, each column is dealt to cores on its own, and grows with any work that is added to it.
    """
    rows = list(of_warp(launch, once(launch, LaunchDemand)))
    if launch.are_alike:
        yield from ((column, source, cycles * launch.warps_of_core) for column, source, cycles in rows)
        return
    means, most = _columns(rows), _most(launch, of_warp)
    for column, source, cycles in rows:
        yield column, source, cycles / means[column] * most[column] if means[column] else 0.0


def _most(launch: TimedLaunch, of_warp: OfWarp) -> dict[str, float]:
    """Return column -> the cycles of the core with most of it, in all executions of a launch whose groups differ."""
    size, demands = launch.warps_per_group, once(launch, of_groups)
    groups = [_columns(of_warp(launch, demand)) for demand in demands]
    names = dict.fromkeys(name for each in groups for name in each)
    most = {
        name: size * launch.batches.most([each.get(name, 0.0) for each in groups], launch.device.needed("cores"))
        for name in names
    }
    if LATENCY in most:
        latency = [demand.latency for demand in demands]
        most[LATENCY] = max(most[LATENCY], *(batch.most(latency) for _, batch in launch.batches.every))
    return {name: cycles * launch.times for name, cycles in most.items()}


def _columns(rows: Iterable[tuple[str, str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for column, _, cycles in rows:
        found[column] = found.get(column, 0.0) + cycles
    return found
