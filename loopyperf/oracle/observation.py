"""What a fit is told of a measured kernel: its counts, and how long the pipelines of a described device are busy."""

from collections.abc import Callable, Mapping
from typing import Any

from loopyperf.calibration.problem import Observation
from loopyperf.counts.execution import Counting
from loopyperf.device.description import Device
from loopyperf.errors import MissingNumberError
from loopyperf.kernel import Program
from loopyperf.models.on_device.pipeline_shares import busy_seconds
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.predict.cache.recent import Kind, kind_of_json
from loopyperf.predict.case import Case, CountingOptions, count_at, found_once
from loopyperf.predict.stages import timed_kernel

BUSY: Kind[dict[str, float]] = kind_of_json("busy", 4096, dict[str, float])
"""pipeline -> seconds; a fit of the same kernels, made again, need not look at them again"""


def observe(
    program: Program,
    sizes: Mapping[str, Any],
    seconds: float,
    *,
    kernel_class: str,
    label: str,
    counting: Counting = "executed",
    device: Device | None = None,
    typical: Mapping[str, Any] | None = None,
) -> Observation:
    """Return *program* at *sizes*, which took so many *seconds*, as an observation.

    With a *device*, and executed counting, it is also told how long its pipelines are busy; not where the device's
    description lacks a number. Raises what :func:`loopyperf.count` and :func:`loopyperf.instruction_graph` raise.
    """
    counted = count_at(program, CountingOptions(counting, typical), sizes)
    properties = counted.properties()
    return Observation(
        kernel_class=kernel_class,
        label=label,
        sizes=dict(sizes),
        properties=dict(zip(properties, properties.totals.at(sizes), strict=True)),
        seconds=seconds,
        pipelines={} if device is None or counting != "executed" else _busy(program, sizes, device, typical),
    )


def _busy(
    program: Program, sizes: Mapping[str, Any], device: Device, typical: Mapping[str, Any] | None
) -> dict[str, float]:
    def busy() -> dict[str, float]:
        return busy_if_described(lambda: timed_kernel(Case(program, sizes, typical), device))

    return dict(found_once(BUSY, program, (device, typical, sizes), busy))


def busy_if_described(timed: Callable[[], TimedProgram | None]) -> dict[str, float]:
    """Return the seconds that pipelines are busy with a kernel; nothing where the description lacks a number of it."""
    try:
        kernel = timed()
        return {} if kernel is None else busy_seconds(kernel)
    except MissingNumberError:
        return {}
