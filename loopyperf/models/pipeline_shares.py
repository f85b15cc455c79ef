"""Busy times of a device's pipelines by instruction: the columns of fitted pipeline models.

A column is a pipeline of the core, a memory level, the issue limit (``"issue"``), the warps' latency divided by the
number of resident warps (``"latency"``), or the start of groups (``"start"``). Its amount is the seconds of the core
with most groups, by the device parameters. Pipelines that serve several memories have a column for each,
``"local: private"``. ``"launches"`` is 1: the cost of one launch that the host waits for. The host queues further
launches in the meantime; ``"further launches"`` is their time in seconds by the device parameters.
"""

from collections.abc import Callable, Iterable, Iterator

from loopyperf.device.parts import Lanes
from loopyperf.device.vocabulary import ISSUE
from loopyperf.idg.parallelism import executed_one_by_one, slowest_recurrence
from loopyperf.idg.program import Instruction
from loopyperf.models.demand import LaunchDemand, cached_for_launch, of_groups
from loopyperf.models.timing import is_of_device, pipeline_column
from loopyperf.models.workload import FURTHER_LAUNCHES, LATENCY, LAUNCHES, START, in_files
from loopyperf.pipeline.timed_program import Request, TimedLaunch, TimedProgram

# {{{ busy times of a CPU's ports
#
# The compiler makes loops over the work-items of a group. Where it can use vector instructions
# (:mod:`loopyperf.idg.parallelism`), a vector of work-items corresponds to a warp of a GPU, and has the same columns.
# Scalar code of a single work-item uses the same ports, one number at a time; it has separate columns
# ``"alu: one by one"`` beside ``"alu"``. A CPU executes out of order: the only visible latencies are those of
# loop-carried dependences in such loops, in columns ``"recurrences: add f32"``.


RECURRENCES = "recurrences"
ONE_BY_ONE = "one by one"


def cycles_of_work_items(launch: TimedLaunch, demand: LaunchDemand) -> Iterator[tuple[str, str, float]]:
    """Yield the columns of a warp on a core that loops over work-items, as (column, source, cycles)."""
    name = f"launch of {launch.name}"
    work_items = launch.work_items / launch.warps_per_group
    for share, program in launch.shared(demand.shares):
        graph, timed, requests = program.graph, program.times, program.requests
        alone = executed_one_by_one(graph)
        for index, (instruction, times) in enumerate(zip(graph.instructions, timed, strict=True)):
            executed = share * float(instruction.executions)
            source = instruction.label
            if index not in alone:
                yield ISSUE, name, executed / launch.device.needed("issue_limit")
                for time in times:
                    yield pipeline_column(time.pipeline, instruction, launch), source, executed * float(time.issue)
                continue
            numbers = executed * work_items * alone[index]
            yield f"{ISSUE}: {ONE_BY_ONE}", name, numbers / launch.device.needed("issue_limit")
            for time in times:
                if is_of_device(time.pipeline, launch):
                    yield time.pipeline, source, executed * float(time.issue)
                    continue
                issue = float(time.issue)
                if requests[index] is not None:  # an access of one work-item
                    issue = launch.device.issue_latency(f"{instruction.kind} global", "b32")
                yield f"{in_files(time.pipeline)}: {ONE_BY_ONE}", source, numbers * issue
        completions = [max(float(time.completion) for time in times) for times in timed]
        waited = slowest_recurrence(graph, completions, alone)
        for place, cycles in waited.items():
            each = graph.instructions[place]
            yield f"{RECURRENCES}: {_kind(each, requests[place])}", each.label, cycles * work_items * share
    if (start := launch.device.group_start) is not None:
        yield START, name, start / launch.warps_per_group


def _kind(instruction: Instruction, request: Request | None) -> str:
    if request is not None:
        return "memory"
    return f"{instruction.kind} {instruction.dtype}" if instruction.dtype.startswith("f") else "integers"


# }}}


# {{{ pipeline shares


Busy = dict[str, dict[str, float]]
"""Column -> source -> seconds; for launches, their number."""
QUEUED = 5e-6
"""Unit of the column of further launches: seconds between queued launches, the order of magnitude of drivers."""
OfWarp = Callable[[TimedLaunch, LaunchDemand], Iterator[tuple[str, str, float]]]
"""A function that yields the columns of a warp as (column, source, cycles)."""


def pipeline_shares(kernel: TimedProgram) -> Busy:
    """Return column -> source -> busy seconds of the core with most groups, over all launches.

    :raises MissingNumberError: if the device parameters lack a latency.
    """
    found: Busy = {}
    of_warp = cycles_of_warp if kernel.device.lanes == Lanes.TOGETHER else cycles_of_work_items
    for launch in kernel.launches:
        for column, source, busy in _of_core(launch, of_warp):
            sources = found.setdefault(column, {})
            sources[source] = sources.get(source, 0.0) + busy / kernel.device.needed("clock")
    return found | launching(kernel)


def launching(kernel: TimedProgram) -> Busy:
    """Return the launch columns, split between the launches: the host waits for one and queues the others."""
    launched = {f"launch of {name}": float(times) for name, times in kernel.launched}
    total = sum(launched.values())
    found = {LAUNCHES: {name: times / total for name, times in launched.items()}}
    if total > 1:
        each = QUEUED * (1 - 1 / total)
        found[FURTHER_LAUNCHES] = {name: times * each for name, times in launched.items()}
    return found


def busy_seconds(kernel: TimedProgram) -> dict[str, float]:
    """Return column -> seconds of all its sources (for launches, their number). Raises as :func:`pipeline_shares`."""
    return {column: sum(sources.values()) for column, sources in pipeline_shares(kernel).items()}


def cycles_of_warp(launch: TimedLaunch, demand: LaunchDemand) -> Iterator[tuple[str, str, float]]:
    """Yield the columns of a warp on a core that executes warps in lockstep, as (column, source, cycles)."""
    name = f"launch of {launch.name}"
    for executions, instruction, times in launch.executed(demand.shares):
        for time in times:
            column = pipeline_column(time.pipeline, instruction, launch)
            yield column, instruction.label, executions * float(time.issue)
    for column in (START, ISSUE):
        if column in demand.busy:
            yield column, name, demand.busy[column]
    yield LATENCY, name, demand.latency / min(launch.execution.concurrent_warps, launch.execution.total_warps)


def _of_core(launch: TimedLaunch, of_warp: OfWarp) -> Iterator[tuple[str, str, float]]:
    """Yield the columns of *launch*, each with a source and the cycles of the core with most of it.

    If groups differ, each column is distributed to cores on its own and grows with any work that is added to it.
    """
    rows = list(of_warp(launch, cached_for_launch(launch, LaunchDemand)))
    if launch.are_equal:
        yield from ((column, source, cycles * launch.warps_of_core) for column, source, cycles in rows)
        return
    means, most = _columns(rows), _most(launch, of_warp)
    for column, source, cycles in rows:
        yield column, source, cycles / means[column] * most[column] if means[column] else 0.0


def _most(launch: TimedLaunch, of_warp: OfWarp) -> dict[str, float]:
    """Return column -> cycles of the core with most of it, over all executions of a launch whose groups differ."""
    size, demands = launch.warps_per_group, cached_for_launch(launch, of_groups)
    groups = [_columns(of_warp(launch, demand)) for demand in demands]
    names = dict.fromkeys(name for group in groups for name in group)
    most = {
        name: size * launch.batches.most([group.get(name, 0.0) for group in groups], launch.device.needed("cores"))
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


# }}}
