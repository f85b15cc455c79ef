"""At which size does another subsystem decide? Bounds of throughput, symbolic in the sizes of a kernel."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pymbolic.primitives as prim
from loopy.symbolic import IdentityMapper

from loopyperf.counts.kernel_counts import KernelTallies
from loopyperf.counts.touched_cells import touched_cells
from loopyperf.counts.typical import Typical
from loopyperf.device.description import Device
from loopyperf.device.library import DeviceChoice
from loopyperf.device.substitutes import completed
from loopyperf.kernel import Kernel, Program
from loopyperf.models.result import Breakdown, Estimate, ModelTime, Row
from loopyperf.models.throughput import Crossover, ThroughputBounds
from loopyperf.predict.case import Case, CountingOptions, count, merged_sizes, prepared
from loopyperf.predict.choice import chosen_device
from loopyperf.predict.on_device import device_estimate
from loopyperf.predict.predictor import Predictor
from loopyperf.properties.unified import item_named

THROUGHPUT = "throughput"
"""the bound that only counts"""


@dataclass(frozen=True, eq=False)
class ThroughputPredictor(Predictor):
    """The time that a kernel takes at least by its counts alone, whatever the compiler makes of it."""

    parameters: Device = field(kw_only=True)
    """of the device"""

    def predict(self, case: Case) -> Estimate:
        """Return the least time of *case*, in seconds; see :meth:`ThroughputBounds.at_least`."""
        bounds = throughput_bounds(case.kernel, device=self.parameters, typical=case.typical)
        seconds = bounds.at_least(**case.sizes)
        answer = ModelTime(seconds, Breakdown((Row(THROUGHPUT, "", 1, seconds, seconds),)), left_out=())
        return device_estimate(self, case, prepared(case.kernel).name, answer)


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
    kernel = prepared(program)
    changed = _without_ones(kernel)
    if changed is kernel:
        counted: KernelTallies = count(program, typical=typical, sub_group_size=described.needed("warp_size"))
    else:
        counted = CountingOptions(typical=typical, sub_group_size=described.needed("warp_size")).count(changed)
    touched = touched_cells(kernel, Typical(typical or {}, item_named))
    return ThroughputBounds(counted, touched, described)


class _WithoutOnes(IdentityMapper[[]]):
    """Drops factors of 1, as of ``1*x``, which ``loopy.make_einsum`` writes and no compiler multiplies by."""

    def map_product(self, expr: prim.Product) -> Any:
        factors: list[Any] = [self.rec(each) for each in expr.children if not (isinstance(each, int) and each == 1)]
        return prim.Product(tuple(factors)) if len(factors) > 1 else factors[0] if factors else 1


def _without_ones(kernel: Kernel) -> Kernel:
    """Return *kernel* without factors of 1; itself, if it has none."""
    drop = _WithoutOnes()
    launches = tuple(
        replace(launch, instructions=tuple(each.with_transformed_expressions(drop) for each in launch.instructions))
        for launch in kernel.launches
    )
    return kernel if launches == kernel.launches else replace(kernel, launches=launches)


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
