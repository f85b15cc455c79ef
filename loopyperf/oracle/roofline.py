"""How near is a kernel to the roofs of a device? The roofline chart's data, as users ask for them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from loopyperf.device.description import Device
from loopyperf.device.library import DeviceChoice
from loopyperf.kernel import Program
from loopyperf.models.on_device.roofs import Roofline, roofline_of
from loopyperf.predict.cache.recent import Kind, kind_of_json
from loopyperf.predict.case import Case, merged_sizes
from loopyperf.predict.choice import chosen_device
from loopyperf.predict.stages import found_on_device

ROOFLINE: Kind[Roofline] = kind_of_json("roofline", 256, Roofline)
"""without sizes and typical values, which are those of who asks"""


def roofline(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Roofline:
    """Return the roofs of *device*, in flop/s and B/s, and the flop and bytes of each launch of *program* at one size.

    :func:`loopyperf.plots.plot_roofline` draws it. The bytes are found from the kernel's addresses, as for all models
    of a device. Sizes are single integers; *device*, *typical* and *parameters* are those of
    :func:`loopyperf.estimate` with a model of a device.

    Raises :class:`KernelError`, :class:`UncountableError`, :class:`ParameterError`, :class:`UnknownDeviceError`,
    :class:`MissingNumberError` and :class:`OccupancyError` as :func:`loopyperf.estimate` does. Source: Williams et al.,
    2009; Yang et al., 2020.
    """
    return roofline_at(Case(program, merged_sizes(parameters, sizes), typical), chosen_device(device))


def roofline_at(case: Case, device: Device) -> Roofline:
    """Return *case* under the roofs of *device*; see :func:`roofline`."""
    found = found_on_device(ROOFLINE, case, device, lambda kernel: roofline_of(kernel, {}))
    return replace(found, sizes=dict(case.sizes), typical=dict(case.typical or {}))
