"""How long a kernel keeps the ports of a processor busy, whose compiler makes loops over the work-items of a group.

Where the compiler can use vector instructions (:mod:`loopyperf.idg.metrics.work_item_loops`), a vector of work-items is
what a warp is to a GPU, and the columns are those of one. What each work-item does by itself takes the same ports, one
number at a time: of each there is a column ``"alu: one by one"`` beside ``"alu"``. A processor executes out of order:
of latencies only those are left that passes of such loops wait for, in columns ``"recurrences: add f32"``.
"""

from collections.abc import Iterator

from loopyperf.idg.metrics import executed_one_by_one, slowest_recurrence
from loopyperf.idg.program import Instruction
from loopyperf.models.on_device.columns import column_of, is_of_device
from loopyperf.models.on_device.demand import LaunchDemand
from loopyperf.models.pipeline_names import ISSUE, START, in_files
from loopyperf.pipeline.timed_graph import Timed
from loopyperf.pipeline.timed_program import Request, TimedLaunch

RECURRENCES = "recurrences"
ONE_BY_ONE = "one by one"


def cycles_of_work_items(launch: TimedLaunch, demand: LaunchDemand) -> Iterator[tuple[str, str, float]]:
    """Yield the columns of a warp on a core that loops over work-items, each with a source and its cycles."""
    name = f"launch of {launch.name}"
    work_items = launch.work_items / launch.warps_per_group
    for share, program in launch.shared(demand.shares):
        graph, timed, requests = program.graph, program.times, program.requests
        alone = executed_one_by_one(graph)
        for place, (instruction, times) in enumerate(zip(graph.instructions, timed, strict=True)):
            executed = share * float(instruction.executions)
            source = instruction.label
            if place not in alone:
                yield ISSUE, name, executed / launch.device.needed("issue_limit")
                for time in times:
                    yield column_of(time.pipeline, instruction, launch), source, executed * float(time.issue)
                continue
            numbers = executed * work_items * alone[place]
            yield f"{ISSUE}: {ONE_BY_ONE}", name, numbers / launch.device.needed("issue_limit")
            for time in times:
                if is_of_device(time.pipeline, launch):
                    yield time.pipeline, source, executed * float(time.issue)
                else:
                    yield (
                        f"{in_files(time.pipeline)}: {ONE_BY_ONE}",
                        source,
                        numbers * (float(time.issue) if requests[place] is None else _of_one(launch, instruction)),
                    )
        waited = slowest_recurrence(graph, [_completion(times) for times in timed], alone)
        for place, cycles in waited.items():
            each = graph.instructions[place]
            yield f"{RECURRENCES}: {_kind(each, requests[place])}", each.label, cycles * work_items * share
    if (start := launch.device.group_start) is not None:
        yield START, name, start / launch.warps_per_group


def _of_one(launch: TimedLaunch, instruction: Instruction) -> float:
    """Return the cycles of a port that an access takes for one work-item."""
    return launch.device.issue_latency(f"{instruction.kind} global", "b32")


def _kind(instruction: Instruction, request: Request | None) -> str:
    if request is not None:
        return "memory"
    return f"{instruction.kind} {instruction.dtype}" if instruction.dtype.startswith("f") else "integers"


def _completion(times: tuple[Timed, ...]) -> float:
    return max(float(time.completion) for time in times)
