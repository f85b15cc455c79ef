"""Asking several models about one kernel at one size on one device: what each says, or why it says nothing."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import numpy as np

from loopyperf.calibration.library import BY_DESCRIPTION
from loopyperf.errors import LoopyperfError, ParameterError
from loopyperf.models import MODELS, find_model
from loopyperf.models.interface import DeviceModel, SampledModel
from loopyperf.models.on_device.timed_launch import TimedKernel
from loopyperf.models.result import Estimate
from loopyperf.oracle.estimating.alternatives import with_alternatives
from loopyperf.oracle.estimating.by_device import by_description, device_estimate
from loopyperf.oracle.sizes import merged_sizes


def asked_models(models: object) -> list[str]:
    """Return the names of the models that are asked, all of them for None.

    Raises :class:`UnknownModelError` for one that there is not, and :class:`ParameterError` where none is named.
    """
    if models is None:
        return list(MODELS)
    if isinstance(models, str) or not isinstance(models, Iterable):
        raise ParameterError(f"models is a list of names of models; received {models!r}")
    found = [find_model(str(name)).name for name in cast("Iterable[object]", models)]
    if not found:
        raise ParameterError("models is an empty list: give the name of a model or more, or leave it out for all")
    return found


def one_size(parameters: Mapping[str, Any] | None, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes given as keywords and in *parameters*; raises :class:`ParameterError` for an array."""
    merged = dict(merged_sizes(parameters, sizes))
    arrays = [name for name, size in merged.items() if isinstance(size, np.ndarray)]
    if arrays:
        raise ParameterError(
            f"models are asked about one size at a time: {arrays[0]} is an array; estimate takes arrays"
        )
    return merged


def there(kernel: TimedKernel | LoopyperfError) -> TimedKernel:
    """Return *kernel*; raises the error that stands in its place where there is none."""
    if isinstance(kernel, LoopyperfError):
        raise kernel
    return kernel


def on_device(
    kernel: TimedKernel, model: DeviceModel, sizes: Mapping[str, Any], typical: Mapping[str, Any] | None
) -> Estimate:
    """Return what *model* says of *kernel*, the times that it takes if unsure arrays live elsewhere included."""
    answer = with_alternatives(kernel, by_description(model))
    return device_estimate(kernel.graphs.kernel, model.name, kernel.device.slug, sizes, answer, typical)


def answers(
    names: Iterable[str], on_device: Callable[[DeviceModel], Estimate], by_fit: Callable[[str], Estimate]
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Return the estimates of the models called *names*, and why others have none: models of a device, and fitted."""
    estimates: dict[str, Estimate] = {}
    refusals: dict[str, str] = {}
    for name in names:
        model = find_model(name)
        if isinstance(model, SampledModel):
            refusals[name] = (
                "it runs a part of the kernel, and nothing is run here; "
                f"`loopyperf estimate --model {name} --backend opencl` does"
            )
            continue
        try:
            estimates[name] = on_device(model) if isinstance(model, DeviceModel) else by_fit(name)
        except LoopyperfError as error:
            # Who asks several models knows what those say that need no fit.
            refusals[name] = str(error).removesuffix(BY_DESCRIPTION)
    return estimates, refusals
