"""Several models asked about one case on one device: what each predicts, or why it does not."""

from collections.abc import Iterable
from typing import cast

from loopyperf.calibration.fits import Fit
from loopyperf.calibration.learning.learned import Learned
from loopyperf.device.description import Device
from loopyperf.device.library import DeviceChoice, is_one_device
from loopyperf.errors import FitFileError, LoopyperfError, ParameterError, UnknownDeviceError
from loopyperf.models.catalog import DEVICE_MODELS, MODELS, find_model
from loopyperf.models.result import Estimate
from loopyperf.predict.case import Case
from loopyperf.predict.choice import FitChoice, device_or_error
from loopyperf.predict.estimate import predictor, record_of

Record = Fit | Learned


def models_named(models: object) -> list[str]:
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


def record_among(fit: FitChoice | Learned | None, models: Iterable[str]) -> Record | None:
    """Return *fit*, read if it is a path; raises :class:`ParameterError` unless its model is among the *models*."""
    if fit is None:
        return None
    record, named = record_of(fit), list(models)
    if record.model not in named:
        raise ParameterError(
            f"the fit is of the model {record.model!r}, but only {', '.join(named)} are asked; ask it too, or "
            "leave the fit out"
        )
    return record


def answers_by(record: Record | None, model: str, slug: str) -> bool:
    """Return whether *model* answers by *record* on the device of that short name."""
    return record is not None and record.model == model and is_one_device(slug, record.slug)


def device_for(device: DeviceChoice | None, record: Record | None) -> tuple[str, Device | UnknownDeviceError]:
    """Return short name and parameters of *device*, by default that of *record*; the error where it has none."""
    return device_or_error(record.slug if record is not None and device is None else device)


def check_is_asked(record: Record | None, slugs: Iterable[str]) -> None:
    """Raise :class:`FitFileError` where none of the devices called *slugs* is that of *record*."""
    if record is None:
        return
    asked = list(slugs)
    if not any(is_one_device(slug, record.slug) for slug in asked):
        raise FitFileError(
            f"the fit is for the device {record.slug!r}, but {', '.join(map(repr, asked))} was asked for; "
            "name its device too, or leave the fit out"
        )


def predictions(
    models: Iterable[str], case: Case, slug: str, device: Device | UnknownDeviceError, record: Record | None
) -> tuple[dict[str, Estimate], dict[str, str]]:
    """Return model -> what it predicts of *case* on a device, and model -> why it has no answer.

    By *record* the model that it is of answers, where it is of this device.
    """
    estimates: dict[str, Estimate] = {}
    refusals: dict[str, str] = {}
    for name in models:
        try:
            if answers_by(record, name, slug):
                asked = predictor(model=name, fit=record)
            else:
                asked = predictor(model=name, device=_or_raised(device) if name in DEVICE_MODELS else slug)
            estimates[name] = asked.predict(case)
        except LoopyperfError as error:
            refusals[name] = str(error)
    return estimates, refusals


def _or_raised(device: Device | UnknownDeviceError) -> Device:
    if isinstance(device, UnknownDeviceError):
        raise device
    return device
