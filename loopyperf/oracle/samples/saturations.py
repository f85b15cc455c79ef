"""How many groups a device runs at once, by its description: where the runtime may tell another number."""

from collections.abc import Mapping
from typing import Any

from loopyperf.device.library import description_or_none
from loopyperf.errors import LoopyperfError
from loopyperf.kernel import Program
from loopyperf.measurement.backends.parts import RunsParts
from loopyperf.measurement.configuration import Sizes
from loopyperf.oracle.instruction_graph import timed_kernel


def described_saturations(
    program: Program, backend: RunsParts, typical: Mapping[str, Any] | None, sizes: Sizes
) -> dict[str, int]:
    """Return device program -> Psat by the occupancy on the described device; none where that is not known."""
    device = description_or_none(backend.environment.slug)
    if device is None:
        return {}
    try:
        launches = timed_kernel(program, device, typical, sizes).launches
        return {each.launch.name: each.execution.concurrent_groups * device.cores for each in launches}
    except LoopyperfError:  # the runtime's answer will do
        return {}
