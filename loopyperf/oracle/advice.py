"""Why is this kernel slow, and what would help? GPUPerf's advisor, as users ask for it."""

from collections.abc import Mapping
from typing import Any

from loopyperf.models.on_device.advice import Advice, advice_on
from loopyperf.models.on_device.timed_launch import TimedKernel
from loopyperf.oracle.analysis import Program
from loopyperf.oracle.choice import DeviceChoice, chosen_device
from loopyperf.oracle.instruction_graph import instruction_graph
from loopyperf.oracle.sizes import merged_sizes


def advise(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> tuple[Advice, ...]:
    """Return for each launch of *program* where its time goes, what may be gained, and what to try.

    The launches are in the order of the program. Options and sizes are those of :func:`loopyperf.estimate` with a model
    of a device, and so is what is refused. Source: Sim, section 3.
    """
    described = chosen_device(device)
    merged = merged_sizes(parameters, sizes)
    graphs = instruction_graph(program, warp_size=described.warp_size, typical=typical, parameters=merged)
    return tuple(advice_on(launch) for launch in TimedKernel(graphs, described).launches)
