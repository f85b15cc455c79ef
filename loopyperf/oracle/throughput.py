"""At which size does another subsystem decide? Bounds of throughput, symbolic in the sizes of a kernel."""

from collections.abc import Mapping
from typing import Any

from loopyperf.counts.touched_cells import touched_cells
from loopyperf.counts.typical import Typical
from loopyperf.device.library import DeviceChoice
from loopyperf.models.throughput import Crossover, ThroughputBounds
from loopyperf.oracle.analysis import Program, count, prepared
from loopyperf.oracle.choice import chosen_device
from loopyperf.oracle.sizes import merged_sizes
from loopyperf.properties.unified import item_named


def throughput_bounds(
    program: Program, *, device: DeviceChoice | None = None, typical: Mapping[str, Any] | None = None
) -> ThroughputBounds:
    """Return for each subsystem of *device* how long *program* keeps it busy at least, as functions of its sizes.

    *typical* states what the source does not tell (see :func:`loopyperf.count`). Raises what that raises, and
    :class:`MissingNumberError` for a throughput that the device's description does not state.
    """
    described = chosen_device(device)
    counted = count(program, typical=typical, sub_group_size=described.warp_size)
    touched = touched_cells(prepared(program), Typical(typical or {}, item_named))
    return ThroughputBounds(counted, touched, described)


def crossover(
    program: Program,
    size: str,
    /,
    *,
    device: DeviceChoice | None = None,
    at_least: int = 1,
    at_most: int = 2**20,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, int] | None = None,
    **others: int,
) -> tuple[Crossover, ...]:
    """Return at which values of *size* another subsystem of *device* is busy longest, in ascending order.

    The other sizes of the kernel are *others*; one that is called like an option goes through *parameters*. Raises what
    :func:`throughput_bounds` raises, and :class:`ParameterError` for a size that the kernel does not have, and where it
    admits none from *at_least* to *at_most*.
    """
    bounds = throughput_bounds(program, device=device, typical=typical)
    return bounds.crossovers(size, at_least, at_most, merged_sizes(parameters, others))
