"""How long a kernel keeps the pipelines of a device busy, instruction by instruction: the columns of fitted models.

A column is a pipeline of the core, a level of memory, the limit of issues (``"issue"``), the warps' latency over how
many of them reside at once (``"latency"``), or the begin of groups (``"start"``): seconds of the core with most groups,
by the device's description. Pipelines that serve the accesses of several memories have a column for each of them,
``"local: private"``. ``"launches"`` are as many as there are.
"""

from collections.abc import Iterator

from loopyperf.models.on_device.columns import column_of
from loopyperf.models.on_device.demand import LaunchDemand
from loopyperf.models.on_device.processor_shares import cycles_of_work_items
from loopyperf.models.on_device.timed_launch import TimedKernel, TimedLaunch
from loopyperf.models.pipeline_names import ISSUE, LATENCY, LAUNCHES, START

Busy = dict[str, dict[str, float]]
"""column -> source -> seconds; of launches, their number"""


def pipeline_shares(kernel: TimedKernel) -> Busy:
    """Return column -> source -> the seconds that the core with most groups is busy, over all launches.

    Raises :class:`MissingNumberError` and :class:`OccupancyError` as :attr:`TimedKernel.launches` does.
    """
    found: Busy = {}
    cycles = cycles_of_warps if kernel.device.lanes == "together" else cycles_of_work_items
    for launch in kernel.launches:
        for column, source, busy in cycles(launch):
            sources = found.setdefault(column, {})
            sources[source] = sources.get(source, 0.0) + busy / kernel.device.clock
    found[LAUNCHES] = {f"launch of {each.name}": float(each.times) for each in kernel.graphs.launches}
    return found


def busy_seconds(kernel: TimedKernel) -> dict[str, float]:
    """Return column -> the seconds of all its sources; of launches their number. Raises as :func:`pipeline_shares`."""
    return {column: sum(sources.values()) for column, sources in pipeline_shares(kernel).items()}


def cycles_of_warps(launch: TimedLaunch) -> Iterator[tuple[str, str, float]]:
    """Yield the columns of *launch* on a core whose warps execute together, each with a source and its cycles."""
    demand, warps, name = launch.once(LaunchDemand), launch.warps_of_core, f"launch of {launch.launch.name}"
    for executions, instruction, times in launch.executed():
        for time in times:
            column = column_of(time.pipeline, instruction, launch)
            yield column, instruction.label, executions * float(time.issue) * warps
    for column in (START, ISSUE):
        if column in demand.busy:
            yield column, name, demand.busy[column] * warps
    at_once = min(launch.execution.concurrent_warps, launch.execution.total_warps)
    yield LATENCY, name, demand.latency * warps / at_once
