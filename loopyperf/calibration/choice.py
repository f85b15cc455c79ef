"""Which device is meant, and who answers for it: a fit, or its description where there is none."""

import os
import warnings
from collections.abc import Callable, Sequence
from functools import cache

from loopyperf.calibration.fit_library import find_fit, known_fits, other_backends, without_fit
from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.device.description import Device
from loopyperf.device.device_files import device_slug, is_path
from loopyperf.device.device_library import (
    PROCESSOR,
    DeviceChoice,
    a_processor,
    description_or_none,
    is_one_device,
    known_descriptions,
    listed_as,
    load_device,
    slug_of,
)
from loopyperf.errors import BackendError, FitFileError, LoopyperfWarning, UnknownDeviceError
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.environment import Environment

DEVICE_VARIABLE = "LOOPYPERF_DEVICE"

WITHOUT_FIT = "pipeline"
"""the model that answers by the description of a device: of those that need no more, the one that sees most"""

FitChoice = Fit | str | os.PathLike[str]
"""a fit, or the path of one"""


def chosen_device(device: DeviceChoice | None) -> Device:
    """Return the description of *device*, else of the device that ``LOOPYPERF_DEVICE`` names, else of the local one.

    Raises :class:`UnknownDeviceError` if there is no such device, or it is not described.
    """
    if isinstance(device, Device):
        return device
    return load_device(os.environ.get(DEVICE_VARIABLE) or _described_local_device() if device is None else device)


def device_or_error(device: DeviceChoice | None) -> tuple[str, Device | UnknownDeviceError]:
    """Return the short name of the device that is meant, with its description, or the error that says why it has none.

    A device without a description may have fits of counts, which ask for none. Raises :class:`UnknownDeviceError` for a
    path, and where no device is meant.
    """
    try:
        found = chosen_device(device)
    except UnknownDeviceError as unknown:
        if isinstance(device, os.PathLike):
            raise
        return resolved_device() if device is None else device_slug(str(device)), unknown
    return found.slug, found


def chosen_fit(model: str | None, device: str | None, fit: FitChoice | None, backend: str | None = None) -> Fit:
    """Return *fit* (read, if it is a path), else the fit of *model* for the device that is meant, by default the best.

    The device is the argument, else the environment variable ``LOOPYPERF_DEVICE``, else the local OpenCL device if
    there is a fit for it. *backend* is what it was measured through, OpenCL's by default where there are several.
    Raises :class:`UnknownDeviceError` if there is no such fit, :class:`FitFileError` for a file that is not a fit, and
    for a fit of another model, device or backend than was asked for.
    """
    if fit is None:
        return find_fit(_resolved(device), model, backend=backend)
    chosen = fit if isinstance(fit, Fit) else find_fit("", path=fit, model=model)
    _check_requested(chosen, model, device, backend)
    return chosen


def fit_with_notes(model: str | None, device: str | None, backend: str | None) -> tuple[Fit, tuple[str, ...]]:
    """Return the fit that :func:`chosen_fit` finds, and which others there are, of other backends, in sentences."""
    fit = chosen_fit(model, device, None, backend)
    return fit, () if backend is not None else _choice_note(fit)


def usual_answer(device: DeviceChoice | None, backend: str | None = None) -> tuple[Fit | Device, tuple[str, ...]]:
    """Return the fit or the description that answers for *device* if no model is named, and what is to be said of it.

    It is the best fit for the device, else its description, by which :data:`WITHOUT_FIT` answers. If a *backend* is
    named, or no device, here or in ``LOOPYPERF_DEVICE``, it is always a fit; :func:`chosen_fit` says of which device.
    Raises :class:`UnknownDeviceError` if there is neither.
    """
    meant = os.environ.get(DEVICE_VARIABLE) or None if device is None else device
    if meant is None or (isinstance(meant, str) and not is_path(meant)):
        return _usual_by_name(meant, backend)
    described = chosen_device(meant)
    found, said = _usual_of(described, backend)
    if isinstance(found, Device):
        return found, said
    return found, (*said, f"by the fit for {found.slug!r}: model={WITHOUT_FIT!r} asks the description that was given")


def _usual_by_name(name: str | None, backend: str | None) -> tuple[Fit | Device, tuple[str, ...]]:
    try:
        return fit_with_notes(None, name, backend)
    except UnknownDeviceError:
        described = None if name is None or backend is not None else _described(name)
        if described is None:
            raise
    return _usual_of(described, backend)


def _usual_of(device: Device, backend: str | None) -> tuple[Fit | Device, tuple[str, ...]]:
    """Return the fit or the description that answers for *device*; its fit may know it by another name."""
    try:
        return fit_with_notes(None, device.slug, backend)
    except UnknownDeviceError:
        if backend is not None:
            raise
    return device, (
        f"no fit for {device.slug!r}; using the {WITHOUT_FIT!r} model with published device parameters "
        "(model=... selects another)",
    )


def _described(name: str) -> Device | None:
    try:
        return load_device(name)
    except UnknownDeviceError:
        return None


def _choice_note(fit: Fit) -> tuple[str, ...]:
    """Return which backend *fit*, which was found without naming one, was measured through, if there are others."""
    others = " and ".join(map(repr, other_backends(fit)))
    if not others:
        return ()
    through = _backend_in_words(fit)
    return (
        f"by the fit that was measured through {through}; there is one through {others} too: backend=... names one",
    )


def _backend_in_words(fit: Fit) -> str:
    return repr(fit.backend) if fit.backend else "a backend that it does not state"


def devices() -> tuple[str, ...]:
    """Return the short names of all known devices in alphabetical order: those described, and those with a fit.

    :func:`loopyperf.load_device` gives the description of one.
    """
    return tuple(sorted({*fitted_devices(), *(known.slug for known in known_descriptions())}))


def fitted_devices() -> tuple[str, ...]:
    """Return the short names of all devices that there is a fit for, in alphabetical order."""
    return tuple(sorted({listed_as(fit.slug) for fit in known_fits()}))


def _check_requested(fit: Fit, model: str | None, device: str | None, backend: str | None) -> None:
    if model is not None and fit.model != model:
        raise FitFileError(
            f"the fit is of the model {fit.model!r}, but {model!r} was asked for; ask for the fit's model, or give "
            f"a fit of {model!r}"
        )
    if device is not None and not _is_of(fit, slug_of(device)):
        raise FitFileError(
            f"the fit is for the device {fit.slug!r}, but {device!r} was asked for; give the fit alone, or the "
            "device alone"
        )
    if backend is not None and backend != fit.backend:
        raise FitFileError(
            f"the fit was measured through {_backend_in_words(fit)}, but {backend!r} was asked for; leave the backend "
            "out, or give another fit"
        )


def _is_of(fit: Fit, slug: str) -> bool:
    return is_one_device(fit.slug, slug)


# {{{ which device


def resolved_device() -> str:
    """Return the name of the device that ``LOOPYPERF_DEVICE`` names, else that of this machine's OpenCL device.

    Raises :class:`UnknownDeviceError` where there is neither.
    """
    named = os.environ.get(DEVICE_VARIABLE)
    if named:
        return named
    try:
        return _local_device(os.environ.get("PYOPENCL_CTX"))
    except BackendError as error:
        raise UnknownDeviceError(
            f"no device was named and this machine has none ({error}); name one with device=... or in {DEVICE_VARIABLE}"
        ) from error


def _resolved(device: str | None) -> str:
    if device is not None:
        return device
    return os.environ.get(DEVICE_VARIABLE) or _fitted_local_device()


def _fitted_local_device() -> str:
    """Return the short name of this machine's OpenCL device, if there is a fit for it."""
    known = fitted_devices()
    how = (
        f"{_name_one(known)}, or one that is described, for the models that need no fit (`loopyperf devices` lists "
        "them); or make a fit for this machine with `loopyperf calibrate`"
    )
    return _local_device_among(known, "there is no fit for this machine's {!r}", how, without_fit)


def _described_local_device() -> str:
    """Return the short name of this machine's OpenCL device, if it is described."""
    known = tuple(each.slug for each in known_descriptions())
    how = (
        f"name one that is, with device=... or in {DEVICE_VARIABLE}: `loopyperf devices` lists them; or describe this "
        "machine's with `loopyperf microbenchmark`; or make a fit for it with `loopyperf calibrate`, for the models "
        "that need no description"
    )
    return _local_device_among(known, "this machine's {!r} is not described", how)


def _local_device_among(
    known: Sequence[str], otherwise: str, how: str, further: Callable[[str], str] = lambda local: ""
) -> str:
    """Return the short name of this machine's OpenCL device, if it is *known*; *otherwise* says what it lacks.

    *further* ends the error where it has more to say of that device.
    """
    try:
        local = _local_device(os.environ.get("PYOPENCL_CTX"))
    except BackendError as error:
        raise UnknownDeviceError(f"no device was named and this machine has none ({error}); {how}") from error
    if listed_as(local) not in known:
        raise UnknownDeviceError(f"no device was named and {otherwise.format(local)}; {how}{further(local)}")
    return local


def _name_one(known: Sequence[str]) -> str:
    return f"name one of {', '.join(known)} with device=... or in {DEVICE_VARIABLE}"


@cache
def _local_device(pyopencl_choice: str | None) -> str:
    """Return the short name of the device that pyopencl chooses; opening it takes longer than an estimate."""
    with warnings.catch_warnings():
        # Backends warn of settings that spoil measurements; nothing is measured here.
        warnings.simplefilter("ignore", LoopyperfWarning)
        return open_backend("opencl").environment.slug


# }}}


def requested_device(origin: Provenance) -> Device | None:
    """Return the description that a fit or a learned model was told of its device; None where there is none now."""
    if origin.described_as == PROCESSOR.stem:
        return a_processor()
    return description_or_none(origin.described_as or origin.slug)


def measured_device(environment: Environment) -> Device | None:
    """Return the parameters that fits for the device of *environment* use: its own, or those of all processors."""
    return description_or_none(environment.slug) or (a_processor() if environment.is_processor else None)
