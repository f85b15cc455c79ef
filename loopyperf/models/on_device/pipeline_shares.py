"""How long a kernel keeps the pipelines of a device busy, instruction by instruction: the columns of fitted models.

A column is a pipeline of the core, a level of memory, the limit of issues (``"issue"``), the warps' latency over how
many of them reside at once (``"latency"``), or the begin of groups (``"start"``): seconds of the core with most groups,
by the device's description. Pipelines that serve the accesses of several memories have a column for each of them,
``"local: private"``. ``"launches"`` are as many as there are.
"""

from collections.abc import Iterator

from loopyperf.errors import MissingNumberError
from loopyperf.idg.program import Instruction
from loopyperf.models.on_device.demand import LaunchDemand
from loopyperf.models.on_device.timed_graph import START
from loopyperf.models.on_device.timed_launch import TimedKernel, TimedLaunch
from loopyperf.models.workload import ISSUE

LATENCY, LAUNCHES = "latency", "launches"
CORE_MEMORIES = ("global", "private", "local")
"""subsystems of a machine graph whose accesses a pipeline of the core may have in common"""

Busy = dict[str, dict[str, float]]
"""column -> source -> seconds; of launches, their number"""


def pipeline_shares(kernel: TimedKernel) -> Busy:
    """Return column -> source -> the seconds that the core with most groups is busy, over all launches.

    Raises :class:`MissingNumberError` and :class:`OccupancyError` as :attr:`TimedKernel.launches` does.
    """
    found: Busy = {}
    for launch in kernel.launches:
        for column, source, cycles in _cycles(launch):
            sources = found.setdefault(column, {})
            sources[source] = sources.get(source, 0.0) + cycles / kernel.device.clock
    found[LAUNCHES] = {f"launch of {each.name}": float(each.times) for each in kernel.graphs.launches}
    return found


def _cycles(launch: TimedLaunch) -> Iterator[tuple[str, str, float]]:
    demand, warps, name = launch.once(LaunchDemand), launch.warps_of_core, f"launch of {launch.launch.name}"
    for executions, instruction, times in launch.executed():
        for time in times:
            column = _column(time.pipeline, instruction, launch)
            yield column, instruction.source or instruction.kind, executions * float(time.lambdas.issue) * warps
    for column in (START, ISSUE):
        if column in demand.busy:
            yield column, name, demand.busy[column] * warps
    at_once = min(launch.execution.concurrent_warps, launch.execution.total_warps)
    yield LATENCY, name, demand.latency * warps / at_once


def _column(pipeline: str, instruction: Instruction, launch: TimedLaunch) -> str:
    if instruction.subsystem not in CORE_MEMORIES or _is_of_device(pipeline, launch):
        return pipeline
    return f"{pipeline}: {instruction.subsystem}"


def _is_of_device(pipeline: str, launch: TimedLaunch) -> bool:
    try:
        return launch.device.level(pipeline).per == "device"
    except MissingNumberError:
        return False
