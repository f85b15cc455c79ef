"""What differs between two kernels? The public function :func:`diff`."""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, cast

from loopyperf.calibration.learning.learned import Learned
from loopyperf.device.description import Device
from loopyperf.device.library import DeviceChoice
from loopyperf.errors import ParameterError
from loopyperf.kernel import Program
from loopyperf.models.catalog import find_model
from loopyperf.oracle.difference.difference import Difference, difference_of
from loopyperf.oracle.difference.side import Side
from loopyperf.oracle.explanation.explain import explain
from loopyperf.oracle.explanation.explanation import Explanation
from loopyperf.predict.case import merged_sizes
from loopyperf.predict.choice import FitChoice
from loopyperf.predict.estimate import record_of
from loopyperf.predict.on_device import SIMULATED
from loopyperf.units import number_of

TWO = 2


def diff(
    before: Program | Explanation,
    after: Program | Explanation | None = None,
    /,
    *,
    device: DeviceChoice | Sequence[DeviceChoice] | None = None,
    model: str | None = None,
    fit: FitChoice | Learned | None = None,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Difference:
    """Return what differs between the run times of two programs, in seconds, and why.

    *after* is another variant; where it is left out, *before* is compared with itself at other sizes or on another
    device. What differs is a pair: ``n=(1024, 2048)``, ``device=["nvidia-v100", "nvidia-a100"]``; what is no pair holds
    for both. None in a pair of sizes is a size that this program does not have. The model is ``"pipeline"``, or that of
    *fit*; with one that knows no pipelines, how busy these are is by the simulator.

    Two explanations (:func:`loopyperf.explain`) can be compared as well, each on one device, or one on two devices.

    Raises :class:`ParameterError` where nothing differs or a pair has not two values, and what
    :func:`loopyperf.explain` raises.
    """
    named = merged_sizes(parameters, sizes)
    if isinstance(before, Explanation) or isinstance(after, Explanation):
        _check_only_explanations(before, after, {"device": device, "model": model, "fit": fit, "typical": typical})
        return _of_explanations(before, after, named)
    devices = _pair_of_devices(device)
    both = {name: _pair_of_sizes(name, value) for name, value in named.items()}
    if (
        after is None
        and devices[0] is devices[1]
        and not any(isinstance(each, list | tuple) for each in named.values())
    ):
        raise ParameterError("nothing differs: give a second kernel, two devices or two sizes, e.g. n=(1024, 2048)")
    name = find_model(model or (SIMULATED if fit is None else record_of(fit).model)).name
    sides: list[Side] = []
    for place, program in enumerate((before, before if after is None else after)):
        own = {size: pair[place] for size, pair in both.items() if pair[place] is not None}
        explanation = explain(
            program, device=devices[place], models=[name], fit=fit, findings=False, typical=typical, parameters=own
        )
        sides.append(Side(explanation, explanation.devices[0]))
    return difference_of(*sides)


def _pair_of_devices(device: DeviceChoice | Sequence[DeviceChoice] | None) -> Sequence[DeviceChoice | None]:
    if device is None or isinstance(device, str | PathLike | Device):
        return device, device
    found = list(device)
    if len(found) not in (1, TWO):
        raise ParameterError(f"device is one device or two, received {len(found)}")
    return found * (TWO // len(found))


def _pair_of_sizes(name: str, value: Any) -> tuple[Any, Any]:
    if not isinstance(value, list | tuple):
        return value, value
    pair = cast("Sequence[Any]", value)
    if len(pair) != TWO:
        raise ParameterError(f"{name} is one size or a pair of two, received {len(pair)} values")
    return pair[0], pair[1]


# {{{ two explanations


def _check_only_explanations(before: object, after: object, options: Mapping[str, object]) -> None:
    """Raise :class:`ParameterError` for options beside explanations, and for one beside a program."""
    if not (isinstance(before, Explanation) and isinstance(after, Explanation | None)):
        raise ParameterError("give two programs or two explanations, not one of each")
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ParameterError(f"explanations have their device, model and sizes; drop {', '.join(given)}")


def _of_explanations(before: object, after: object, sizes: Mapping[str, Any]) -> Difference:
    if sizes:
        raise ParameterError(f"explanations have their device, model and sizes; drop {', '.join(sizes)}")
    given = [cast("Explanation", each) for each in (before, after) if each is not None]
    sides = [Side(each, on) for each in given for on in each.devices]
    if len(sides) != TWO:
        raise ParameterError(
            f"a difference is between two: give two explanations of one device each, or one of two devices; received "
            f"{number_of(len(given), 'explanation')} of {number_of(len(sides), 'device')}"
        )
    return difference_of(*sides)


# }}}
