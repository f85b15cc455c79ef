"""From the cycles of each launch to the time of the kernel, with the rows that it is the sum of."""

from collections.abc import Callable, Iterable, Iterator

from loopyperf.models.exact_sum import adding_up
from loopyperf.models.on_device.timed_launch import TimedKernel, TimedLaunch
from loopyperf.models.result import Breakdown, ModelTime, Row

Cycles = Callable[[TimedLaunch], float]
"""how many cycles the core with most groups takes for a launch"""
Rows = Callable[[TimedLaunch], Iterable[Row]]
"""what all executions of a launch cost, in seconds"""


def kernel_time(kernel: TimedKernel, rows_of: Rows) -> ModelTime:
    """Return how long *kernel* takes, in seconds, given the rows of each launch: launches add up, and cost something.

    Raises :class:`MissingNumberError` and :class:`OccupancyError` as :attr:`TimedKernel.launches` does.
    """
    device = kernel.device
    rows: list[Row] = []
    notes: dict[str, None] = {}
    for launch in kernel.launches:
        rows += rows_of(launch)
        notes.update(launch.notes)
    if device.stated("launch_overhead"):
        for launch in kernel.graphs.launches:
            cost = launch.times * device.launch_overhead
            rows.append(Row("launches", f"launch of {launch.name}", launch.times, device.launch_overhead, cost))
    else:
        notes[f"what a launch costs on {device.slug} is not described: taken as nothing"] = None
    seconds, costs = adding_up([row.seconds for row in rows])
    exact = (Row(row.property, row.source, row.count, row.weight, cost) for row, cost in zip(rows, costs, strict=True))
    return ModelTime(seconds, Breakdown(tuple(exact)), notes=tuple(notes))


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
    rest = max(0.0, seconds - totals[busiest] / clock)
    yield Row("latency", f"launch of {name}", times, rest / times, rest)


def busy_cycles(launch: TimedLaunch) -> dict[str, dict[tuple[str, float], float]]:
    """Return pipeline -> source and its λ, in cycles -> how often the core with most groups executes it."""
    busy: dict[str, dict[tuple[str, float], float]] = {}
    for kind, share in launch.shares.items():
        for instruction, lambdas in launch.graphs[kind].issued:
            costs = busy.setdefault(instruction.subsystem, {})
            key = (instruction.source or instruction.kind, float(lambdas.issue))
            executed = float(instruction.executions) * share * launch.warps_of_core
            costs[key] = costs.get(key, 0.0) + executed
    return busy
