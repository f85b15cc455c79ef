"""From the cycles of each launch to the time of the kernel, with the rows that it is the sum of."""

from collections.abc import Callable, Iterable, Iterator

from loopyperf.models.exact_sum import adding_up
from loopyperf.models.on_device.last_core import executed_by_core
from loopyperf.models.on_device.timed_launch import TimedKernel, TimedLaunch
from loopyperf.models.pipeline_names import LATENCY, LAUNCHES, START
from loopyperf.models.result import Breakdown, ModelTime, Row

Rows = Callable[[TimedLaunch], Iterable[Row]]
"""what all executions of a launch cost, in seconds"""
Notes = Callable[[TimedLaunch], Iterable[str]]
"""what a model assumes of a launch, in sentences"""


def kernel_time(kernel: TimedKernel, rows_of: Rows, notes_of: Notes) -> ModelTime:
    """Return how long *kernel* takes, in seconds, given the rows of each launch: launches add up, and cost something.

    *notes_of* tells what the rows of a launch assume, beyond what is in its own notes.

    Raises :class:`MissingNumberError` and :class:`OccupancyError` as :attr:`TimedKernel.launches` does.
    """
    device = kernel.device
    rows: list[Row] = []
    notes: dict[str, None] = {}
    for launch in kernel.launches:
        rows += rows_of(launch)
        notes.update(dict.fromkeys(launch.notes))
        notes.update(dict.fromkeys(notes_of(launch)))
    if device.stated("launch_overhead"):
        for launch in kernel.graphs.launches:
            cost = launch.times * device.launch_overhead
            rows.append(Row(LAUNCHES, f"launch of {launch.name}", launch.times, device.launch_overhead, cost))
    else:
        notes[f"what a launch costs on {device.slug} is not described: taken as nothing"] = None
    seconds, costs = adding_up([row.seconds for row in rows])
    exact = (Row(row.property, row.source, row.count, row.weight, cost) for row, cost in zip(rows, costs, strict=True))
    return ModelTime(seconds, Breakdown(tuple(exact)), notes=tuple(notes), columns="core")


def no_notes(_: TimedLaunch) -> Iterable[str]:
    """Return no notes: for a model that assumes nothing of its own."""
    return ()


def busiest_and_rest(launch: TimedLaunch, cycles: float) -> Iterator[Row]:
    """Yield what a launch of so many *cycles* costs: each instruction on the busiest pipeline, and the rest.

    The rest is the time in which results are waited for.
    """
    clock, times, name = launch.device.clock, launch.launch.times, launch.launch.name
    seconds = times * cycles / clock
    busy = busy_cycles(launch)
    totals = {pipeline: sum(each * number for (_, each), number in costs.items()) for pipeline, costs in busy.items()}
    busiest = max(totals, key=lambda pipeline: totals[pipeline])
    # What is extrapolated from some groups to all may be less, by a little; and some models see less than throughput.
    scale = min(1.0, seconds * clock / totals[busiest])
    for (source, each), number in busy[busiest].items():
        yield Row(busiest, source, number, each / clock, scale * each * number / clock)
    rest = seconds - totals[busiest] / clock
    if rest > 0:
        yield Row(LATENCY, f"launch of {name}", times, rest / times, rest)


def busy_cycles(launch: TimedLaunch) -> dict[str, dict[tuple[str, float], float]]:
    """Return pipeline -> source and its λ, in cycles -> how often the core that ends last executes it."""
    busy: dict[str, dict[tuple[str, float], float]] = {}
    shares, warps = executed_by_core(launch)
    for executions, instruction, times in launch.executed(shares):
        for time in times:
            costs = busy.setdefault(time.pipeline, {})
            key = (instruction.label, float(time.issue))
            costs[key] = costs.get(key, 0.0) + executions * warps
    if launch.start is not None:
        busy[START] = {("the begin of a group", float(launch.start.issue)): warps}
    return busy
