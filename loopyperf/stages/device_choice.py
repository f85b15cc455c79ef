"""Choice of the device that a prediction is for, by default the one that a variable names or this machine's."""

import os
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from loopyperf.device.description import Device
from loopyperf.device.device_files import device_slug
from loopyperf.device.device_library import DeviceChoice, known_descriptions, listed_as, load_device
from loopyperf.errors import BackendError, LoopyperfWarning, UnknownDeviceError

DEVICE_VARIABLE = "LOOPYPERF_DEVICE"


def chosen_device(device: DeviceChoice | None) -> Device:
    """Return the parameters of *device*, by default of the device that ``LOOPYPERF_DEVICE`` names or the local device.

    Raises :class:`UnknownDeviceError` if the device is unknown or has no parameters.
    """
    if isinstance(device, Device):
        return device
    return load_device(os.environ.get(DEVICE_VARIABLE) or _described_local_device() if device is None else device)


def device_or_error(device: DeviceChoice | None) -> tuple[str, Device | UnknownDeviceError]:
    """Return the short name of the chosen device, with its parameters or the error that explains their absence.

    A device without parameters may have fits of counts, which need none. Raises :class:`UnknownDeviceError` for a path,
    and if no device is given and there is no default.
    """
    try:
        found = chosen_device(device)
    except UnknownDeviceError as unknown:
        if isinstance(device, os.PathLike):
            raise
        return resolved_device() if device is None else device_slug(str(device)), unknown
    return found.slug, found


def backends() -> Any:
    """Return the module of the backends, imported only here, since a prediction for a named device needs none."""
    return import_module("loopyperf.measurement.backends")


def open_backend(name: str) -> Any:
    """Return the open backend *name*; see :func:`loopyperf.measurement.backends.open_backend`."""
    return backends().open_backend(name)


def resolved_device() -> str:
    """Return the name of the device that ``LOOPYPERF_DEVICE`` names, or of this machine's OpenCL device.

    Raises :class:`UnknownDeviceError` if there is neither.
    """
    named = os.environ.get(DEVICE_VARIABLE)
    if named:
        return named
    try:
        return _local_device(os.environ.get("PYOPENCL_CTX"))
    except BackendError as error:
        raise UnknownDeviceError(
            f"no device given, and this machine has none ({error}); pass a device, or set {DEVICE_VARIABLE}"
        ) from error


def _described_local_device() -> str:
    """Return the short name of this machine's OpenCL device if it has parameters."""
    known = tuple(known_file.slug for known_file in known_descriptions())
    how = (
        f"pass a device with parameters (see `loopyperf devices`), or set {DEVICE_VARIABLE}; or run "
        "`loopyperf microbenchmark` on this machine, or `loopyperf calibrate` for models that need no parameters"
    )
    return local_device_among(known, "the parameters of this machine's {!r} are unknown", how)


def local_device_among(
    known: Sequence[str], otherwise: str, how: str, further: Callable[[str], str] = lambda local: ""
) -> str:
    """Return the short name of this machine's OpenCL device if it is *known*; *otherwise* describes what is missing.

    *further* returns an additional remark on the device for the error.
    """
    try:
        local = _local_device(os.environ.get("PYOPENCL_CTX"))
    except BackendError as error:
        raise UnknownDeviceError(f"no device given, and this machine has none ({error}); {how}") from error
    if listed_as(local) not in known:
        raise UnknownDeviceError(f"no device given, and {otherwise.format(local)}; {how}{further(local)}")
    return local


@cache
def _local_device(pyopencl_choice: str | None) -> str:
    """Return the short name of pyopencl's default device; cached, because opening it is slower than an estimate."""
    with warnings.catch_warnings():
        # Backends warn of settings that disturb measurements, but nothing is measured here.
        warnings.simplefilter("ignore", LoopyperfWarning)
        return open_backend("opencl").environment.slug
