"""How near is a kernel to the roofs of a device? The roofline chart's data, as users ask for them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from loopyperf.device.description import Device
from loopyperf.device.library import DeviceChoice
from loopyperf.errors import ParameterError
from loopyperf.kernel import Program
from loopyperf.models.interface import LAUNCH_COST
from loopyperf.models.on_device.roofs import LaunchPredictor, PredictedLaunch, Roofline, roofline_of
from loopyperf.models.result import NO_INTERVAL
from loopyperf.pipeline.timed_program import TimedLaunch, TimedProgram
from loopyperf.predict.cache.recent import Kind, kind_of_json
from loopyperf.predict.case import Case, found_once, merged_sizes
from loopyperf.predict.choice import chosen_device
from loopyperf.predict.estimate import given_or_named
from loopyperf.predict.on_device import SIMULATED, DevicePredictor
from loopyperf.predict.predictor import Predictor

ROOFLINE: Kind[Roofline] = kind_of_json("roofline", 256, Roofline)
"""without sizes and typical values, which are those of who asks"""


def roofline(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    predictor: Predictor | None = None,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Roofline:
    """Return the roofs of *device*, in flop/s and B/s, and the flop and bytes of each launch of *program* at one size.

    :func:`loopyperf.plots.plot_roofline` draws it. The bytes are found from the kernel's addresses, as for all models
    of a device. Of each launch there are the seconds that the model ``"pipeline"`` predicts, and those that it takes at
    least by the model ``"roofline"``, both without what launching costs. *predictor*, of another model of a device or a
    fit of its pipelines, takes the place of *device* and of that model (see :func:`loopyperf.predictor`). A launch of
    which the model has no answer lies on its roof, and the ``notes`` say why. Sizes are single integers; *device*,
    *typical* and *parameters* are those of :func:`loopyperf.estimate` with a model of a device.

    Raises :class:`ParameterError` for a predictor that is of no device; and it, :class:`KernelError`,
    :class:`UncountableError`, :class:`UnknownDeviceError`, :class:`MissingNumberError` and :class:`OccupancyError` as
    :func:`loopyperf.estimate` does. Source: Williams et al., 2009; Yang et al., 2020.
    """
    case = Case(program, merged_sizes(parameters, sizes), typical)
    if predictor is None:
        return roofline_at(case, chosen_device(device))
    given = _of_device(given_or_named(predictor, device=device))
    return roofline_at(case, given.parameters, given)


def roofline_at(case: Case, device: Device, predictor: Predictor | None = None) -> Roofline:
    """Return *case* under the roofs of *device*, or of that of *predictor*, which predicts then; see :func:`roofline`.

    Raises :class:`ParameterError` for a predictor that is not of a model of a device.
    """
    by = DevicePredictor(SIMULATED, device.slug, parameters=device) if predictor is None else _of_device(predictor)
    asked = (by.parameters, case.typical, case.sizes, *by.depends_on)

    def find() -> Roofline:
        kernel, notes = by.timed(case)
        found = roofline_of(kernel, by.model, _without_launching(by, kernel))
        return replace(found, notes=tuple(dict.fromkeys([*found.notes, *by.notes, *notes])))

    found = found_once(ROOFLINE, case.kernel, asked, find)
    return replace(found, sizes=dict(case.sizes), typical=dict(case.typical or {}))


def _of_device(given: Predictor) -> DevicePredictor:
    if isinstance(given, DevicePredictor):
        return given
    raise ParameterError(
        f"a roofline needs the time of each launch: give a predictor of a model of a device, such as {SIMULATED!r}, or "
        f"of a fit of pipelines; received one of {given.model!r}"
    )


def _without_launching(by: DevicePredictor, kernel: TimedProgram) -> LaunchPredictor:
    """Return what predicts a launch of *kernel* alone, without what launching it costs."""

    def predict(launch: TimedLaunch) -> PredictedLaunch:
        answer = by.time(kernel.alone(launch))
        notes = (note for note in answer.notes if not note.startswith((NO_INTERVAL, LAUNCH_COST)))
        return answer.executing, tuple(notes)

    return predict
