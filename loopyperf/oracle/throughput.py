"""At which size does another subsystem decide? Bounds of throughput, symbolic in the sizes of a kernel."""

from collections.abc import Mapping
from typing import Any

from loopyperf.counts.touched_cells import touched_cells
from loopyperf.counts.typical import Typical
from loopyperf.device.library import DeviceChoice
from loopyperf.device.substitutes import completed
from loopyperf.kernel import Program
from loopyperf.models.throughput import Crossover, ThroughputBounds
from loopyperf.oracle.analysis import count, prepared
from loopyperf.oracle.choice import chosen_device
from loopyperf.oracle.sizes import merged_sizes
from loopyperf.properties.unified import item_named


def throughput_bounds(
    program: Program, /, *, device: DeviceChoice | None = None, typical: Mapping[str, Any] | None = None
) -> ThroughputBounds:
    """Return subsystem -> the cycles that *program* keeps it busy at least, all cores together, by the kernel's sizes.

    They are exact functions of the sizes; :meth:`ThroughputBounds.seconds` turns them into seconds at one size or at
    arrays of sizes. *device* is a name, the path of a description, or a loaded one; by default what
    ``LOOPYPERF_DEVICE`` names, else this machine's OpenCL device. *typical* states what the source does not tell (see
    :func:`loopyperf.count`).

    Raises what :func:`loopyperf.count` raises, :class:`UnknownDeviceError` for a device that is not described, and
    :class:`MissingNumberError` for a throughput that its description does not state. Source: Lemeire, section 2.1.
    """
    described = completed(chosen_device(device))
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
    """Return the values of *size*, in ascending order, from which another subsystem of *device* is busy longest.

    There is a :class:`Crossover` for each such value, with the name of the subsystem ``before`` and ``after`` it. The
    tuple is empty where one subsystem is busy longest at all values from *at_least* to *at_most*. The other sizes of
    the kernel are *others*; one that is called like an option goes through *parameters*.

    Raises what :func:`throughput_bounds` raises, and :class:`ParameterError` for a size that the kernel does not have,
    and where it admits no value from *at_least* to *at_most*.
    """
    bounds = throughput_bounds(program, device=device, typical=typical)
    return bounds.crossovers(size, at_least, at_most, merged_sizes(parameters, others))
