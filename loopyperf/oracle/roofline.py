"""How near is a kernel to the roofs of a device? The roofline chart's data, as users ask for them."""

from collections.abc import Mapping
from typing import Any

from loopyperf.device.library import DeviceChoice
from loopyperf.kernel import Program
from loopyperf.models.on_device.roofs import Roofline, roofline_of
from loopyperf.predict.case import Case, merged_sizes
from loopyperf.predict.choice import chosen_device
from loopyperf.predict.stages import timed_kernel


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
    described, merged = chosen_device(device), merged_sizes(parameters, sizes)
    return roofline_of(timed_kernel(Case(program, merged, typical), described), merged, typical)
