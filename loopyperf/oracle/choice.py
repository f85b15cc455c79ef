"""Which device is meant, and which fit answers for it."""

import os
import warnings

from loopyperf.calibration.fits import Fit
from loopyperf.calibration.library import find_fit, known_fits
from loopyperf.errors import BackendError, LoopyperfWarning, UnknownDeviceError
from loopyperf.measurement.backends import open_backend

DEVICE_VARIABLE = "LOOPYPERF_DEVICE"


def chosen_fit(model: str, device: str | None, path: str | os.PathLike[str] | None) -> Fit:
    """Return the fit at *path* if given, else the one of *model* for the device that is meant.

    The device is the argument, else the environment variable ``LOOPYPERF_DEVICE``, else the local OpenCL device if
    there is a fit for it. Raises :class:`UnknownDeviceError` where that leaves none, :class:`FitFileError` for a file
    that is none.
    """
    if path is not None:
        return find_fit("", model, path)
    return find_fit(device or os.environ.get(DEVICE_VARIABLE) or _fitted_local_device(), model)


def devices() -> tuple[str, ...]:
    """Return the short names of all devices that there is a fit for, in alphabetical order."""
    return tuple(sorted({fit.slug for fit in known_fits()}))


def _fitted_local_device() -> str:
    """Return the short name of this machine's OpenCL device, if there is a fit for it."""
    try:
        with warnings.catch_warnings():
            # Backends warn of settings that spoil measurements; nothing is measured here.
            warnings.simplefilter("ignore", LoopyperfWarning)
            local = open_backend("opencl").environment.slug
    except BackendError as error:
        raise UnknownDeviceError(f"no device was named and this machine has none ({error}); {_how()}") from error
    if local not in devices():
        raise UnknownDeviceError(f"no device was named and there is no fit for this machine's {local!r}; {_how()}")
    return local


def _how() -> str:
    return (
        f"name one of {', '.join(devices())} with device=... or in {DEVICE_VARIABLE}, "
        "or make a fit for this machine with `loopyperf calibrate`"
    )
