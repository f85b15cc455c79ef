"""GPUPerf's time of a launch: Texec = Wparallel + Wserial + T'mem, each told apart by the instructions that cost it."""

from collections.abc import Iterator

from loopyperf.idg.program import Opcode
from loopyperf.models.literature.gpuperf_inputs import SPECIAL, LaunchInputs
from loopyperf.models.on_device.demand import once
from loopyperf.models.result import Row
from loopyperf.pipeline.timed_program import TimedLaunch

Costs = dict[tuple[str, str], tuple[float, float]]
"""property and source -> how often a core executes it, and the cycles that it costs"""


def rows(launch: TimedLaunch) -> Iterator[Row]:
    """Yield what *launch* costs by GPUPerf, in seconds: computation, serialization, memory that nothing hides."""
    clock = launch.device.needed("clock")
    for (name, source), (number, cycles) in _costs(launch).items():
        seconds = float(cycles / clock)  # GPUPerf's are NumPy's
        yield Row(name, source, number, seconds / number, seconds)


def notes(launch: TimedLaunch) -> Iterator[str]:
    """Yield what GPUPerf assumes of *launch*."""
    if once(launch, LaunchInputs).inputs.sync_insts:
        yield "what warps wait for each other at barriers is left out of GPUPerf: see docs/models.md"


def _costs(launch: TimedLaunch) -> Costs:
    seen = once(launch, LaunchInputs)
    found = seen.analysis
    warps = launch.warps_of_core
    each_instruction = found.w_parallel / (seen.inputs.insts * warps)
    each_barrier = found.o_sync / (seen.inputs.sync_insts * warps) if seen.inputs.sync_insts else 0.0
    each_special = found.o_sfu / (seen.inputs.sfu_insts * warps) if seen.inputs.sfu_insts else 0.0
    visible = found.t_mem_visible / found.t_mem if seen.requests else 0.0
    costs: Costs = {}

    def add(name: str, source: str, executions: float, cycles: float) -> None:
        number, before = costs.get((name, source), (0.0, 0.0))
        costs[name, source] = (number + executions * warps, before + cycles * executions * warps)

    for each in seen.others:
        source = each.instruction.label
        if each.instruction.kind == SPECIAL:
            add("special functions", source, each.executions, each_special)
            continue
        add("instructions", source, each.executions, each_instruction)
        if each.instruction.kind == Opcode.BARRIER:
            add("synchronization", source, each.executions, each_barrier)
        if each.conflicts:
            add("bank conflicts", source, each.executions, each.conflicts)
    for each in seen.requests:
        source = each.instruction.label
        add("instructions", source, each.executions, each_instruction)
        add("memory", source, each.executions, visible * seen.latency(each) / found.itmlp)
    return {key: cost for key, cost in costs.items() if cost[0]}
