"""Choice of the fit or device parameters that predict for a device."""

import os
from math import inf

from loopyperf.calibration.fit_library import find_fit, known_fits, other_backends, without_fit
from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.device.description import Device
from loopyperf.device.device_files import is_path
from loopyperf.device.device_library import (
    PROCESSOR,
    DeviceChoice,
    a_processor,
    description_or_none,
    is_one_device,
    known_descriptions,
    listed_as,
    slug_of,
)
from loopyperf.device.parts import Lanes
from loopyperf.device.substitutes import lacking
from loopyperf.display import Note, NoteKind
from loopyperf.errors import FitFileError, UnknownDeviceError
from loopyperf.stages.device_choice import DEVICE_VARIABLE, chosen_device, local_device_among
from loopyperf.units import in_percent

WITHOUT_FIT = "pipeline"
"""default model for devices without a fit: the most detailed one that needs only device parameters"""

PUBLISHED = 0.22
"""error of this model with published parameters: geometric mean over the H200's calibration (docs/accuracy/h200.md)"""

FitChoice = Fit | str | os.PathLike[str]
"""a fit or the path of one"""


def chosen_fit(model: str | None, device: str | None, fit: FitChoice | None, backend: str | None = None) -> Fit:
    """Return *fit*, loaded if it is a path, or else the fit of *model* for *device*, by default the best one.

    The default device is the one that ``LOOPYPERF_DEVICE`` names, or the local OpenCL device if it has a fit. *backend*
    is the backend of the measurements, by default OpenCL if there are several. Raises :class:`UnknownDeviceError` if
    there is no such fit, and :class:`FitFileError` for an invalid file, and for a fit of another model, device or
    backend than requested.
    """
    if fit is None:
        return find_fit(_resolved(device), model, backend=backend)
    chosen = fit if isinstance(fit, Fit) else find_fit("", path=fit, model=model)
    _check_requested(chosen, model, device, backend)
    return chosen


def fit_with_notes(model: str | None, device: str | None, backend: str | None) -> tuple[Fit, tuple[str, ...]]:
    """Return the fit that :func:`chosen_fit` finds, and a note if other backends have fits too."""
    fit = chosen_fit(model, device, None, backend)
    others = () if backend is not None else other_backends(fit)
    if not others:
        return fit, ()
    named = " and ".join(map(repr, others))
    through = _backend_in_words(fit)
    return fit, (f"using the fit measured through {through}; another exists for {named} (backend=... selects it)",)


def usual_answer(device: DeviceChoice | None, backend: str | None = None) -> tuple[Fit | Device, tuple[str, ...]]:
    """Return the fit or device parameters that predict for *device* if no model is given, with notes.

    This is the only rule for the default of all functions and commands: the fit with the smallest error on held-out
    kernel classes, unless it exceeds :data:`PUBLISHED`; otherwise the parameters, which :data:`WITHOUT_FIT` uses. A fit
    without a cross-validation counts as good. If *backend* is given, the result is always a fit, as in
    :func:`chosen_fit`. Raises :class:`UnknownDeviceError` if there is neither.
    """
    found, notes = _fit_or_device(device, backend)
    if backend is not None or isinstance(found, Device) or not PUBLISHED < found.held_out_error < inf:
        return found, notes
    described = description_or_none(found.slug)
    if described is None or described.lanes == Lanes.IN_TURN or lacking(described):
        return found, notes
    return described, (
        f"the fit has an error of {in_percent(found.held_out_error)} on held-out kernel classes; using the "
        f"{WITHOUT_FIT!r} model with published device parameters (model={found.model!r} selects the fit)",
    )


def _fit_or_device(device: DeviceChoice | None, backend: str | None) -> tuple[Fit | Device, tuple[str, ...]]:
    requested = os.environ.get(DEVICE_VARIABLE) or None if device is None else device
    if requested is None or (isinstance(requested, str) and not is_path(requested)):
        return _usual_by_name(requested, backend)
    described = chosen_device(requested)
    found, notes = _usual_of(described, backend)
    if isinstance(found, Device):
        return found, notes
    return found, (*notes, f"using the fit for {found.slug!r}; model={WITHOUT_FIT!r} uses the given device parameters")


def _usual_by_name(name: str | None, backend: str | None) -> tuple[Fit | Device, tuple[str, ...]]:
    try:
        return fit_with_notes(None, name, backend)
    except UnknownDeviceError:
        described = None if backend is not None else _described(name)
        if described is None:
            raise
    return _usual_of(described, backend)


def _usual_of(device: Device, backend: str | None) -> tuple[Fit | Device, tuple[str, ...]]:
    """Return the fit or the parameters that predict for *device*; its fit may have another name of the device."""
    try:
        return fit_with_notes(None, device.slug, backend)
    except UnknownDeviceError:
        if backend is not None:
            raise
    sentence = (
        f"no fit for {device.slug!r}; using the {WITHOUT_FIT!r} model with published device parameters "
        "(model=... selects another)"
    )
    return device, (Note(NoteKind.NO_FIT, sentence),)


def _described(name: str | None) -> Device | None:
    try:
        return chosen_device(name)
    except UnknownDeviceError:
        return None


def _backend_in_words(fit: Fit) -> str:
    return repr(fit.backend) if fit.backend else "an unknown backend"


def devices() -> tuple[str, ...]:
    """Return the short names of all devices that have parameters or a fit.

    :func:`loopyperf.load_device` loads the parameters of a device.

    Returns
    -------
    tuple of str
        Short names in alphabetical order.

    Examples
    --------
    >>> import loopyperf
    >>> "nvidia-titan-v" in loopyperf.devices()
    True
    """
    return tuple(sorted({*fitted_devices(), *(known.slug for known in known_descriptions())}))


def fitted_devices() -> tuple[str, ...]:
    """Return the short names of all devices with a fit, in alphabetical order."""
    return tuple(sorted({listed_as(fit.slug) for fit in known_fits()}))


def _check_requested(fit: Fit, model: str | None, device: str | None, backend: str | None) -> None:
    if model is not None and fit.model != model:
        raise FitFileError(
            f"the fit is of model {fit.model!r}, but {model!r} was requested; request the fit's model, or pass a fit "
            f"of {model!r}"
        )
    if device is not None and not is_one_device(fit.slug, slug_of(device)):
        raise FitFileError(
            f"the fit is for device {fit.slug!r}, but {device!r} was requested; pass only the fit or only the device"
        )
    if backend is not None and backend != fit.backend:
        raise FitFileError(
            f"the fit was measured through {_backend_in_words(fit)}, but {backend!r} was requested; omit the "
            "backend, or pass another fit"
        )


def _resolved(device: str | None) -> str:
    if device is not None:
        return device
    return os.environ.get(DEVICE_VARIABLE) or _fitted_local_device()


def _fitted_local_device() -> str:
    """Return the short name of this machine's OpenCL device if it has a fit."""
    known = fitted_devices()
    how = (
        f"pass a device with a fit ({', '.join(known)}) or parameters (see `loopyperf devices`), or set "
        f"{DEVICE_VARIABLE}; or run `loopyperf calibrate` for this machine"
    )
    return local_device_among(known, "no fit for this machine's {!r}", how, without_fit)


def requested_device(origin: Provenance) -> Device | None:
    """Return the device parameters used by a fit or residual model; None if they do not exist now."""
    if origin.described_as == PROCESSOR.stem:
        return a_processor()
    return description_or_none(origin.described_as or origin.slug)
