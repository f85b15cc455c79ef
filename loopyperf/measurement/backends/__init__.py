"""Where kernels run: devices, and recorded archives in their place.

The registry names modules instead of importing them: ``opencl`` needs pyopencl and ``cuda`` CuPy, optional
dependencies, which are imported when that backend is opened and not before.
"""

from collections.abc import Mapping
from importlib import import_module
from inspect import signature
from types import MappingProxyType
from typing import TypeVar

from loopyperf.errors import BackendError, ParameterError
from loopyperf.measurement.backends.backend import Backend

Open = TypeVar("Open")

BACKENDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "cuda": ("loopyperf.measurement.backends.cuda", "CudaBackend"),
        "opencl": ("loopyperf.measurement.backends.opencl", "OpenCLBackend"),
        "replay": ("loopyperf.measurement.backends.replay", "ReplayBackend"),
    }
)
"""Module and class of each backend."""
RUNNING = tuple(sorted(BACKENDS.keys() - {"replay"}))
"""those that run kernels"""
REPLAYED = "an archive is given by open_backend('replay', archive=PATH), and to commands by --from-archive PATH"


def open_backend(name: str, **options: object) -> Backend:
    """Return the backend called *name*, made with *options* (see the class that :data:`BACKENDS` names).

    Raises :class:`BackendError` for an unknown name, for options that it does not take, for a package that is not
    installed, and where there is no device.
    """
    if name not in BACKENDS:
        raise BackendError(
            f"no backend is called {name!r}; there are {', '.join(RUNNING)}, and replay for an archive: {REPLAYED}"
        )
    module, backend = BACKENDS[name]
    make = getattr(import_module(module), backend)
    try:
        signature(make).bind(**options)
    except TypeError as error:
        given = ", ".join(f"{option}={value!r}" for option, value in options.items()) or "nothing"
        remedy = f"; {REPLAYED}" if name == "replay" else ""
        raise BackendError(f"the backend {name!r} cannot be opened with {given}: {error}{remedy}") from error
    return make(**options)


def opened(backend: str | Open, device: object = None) -> Backend | Open:
    """Return *backend*, opened by its name if that is what it is, on the device in whose name *device* occurs.

    Raises :class:`ParameterError` for a device of an open backend, or one that is not a name; :class:`BackendError`
    without a device.
    """
    if not isinstance(backend, str):
        if device is not None:
            raise ParameterError("an open backend already has a device: leave device out")
        return backend
    if device is None:
        return open_backend(backend)
    if not isinstance(device, str):
        raise ParameterError(f"device is a part of the name of the device to run on; received {device!r}")
    return open_backend(backend, device=device)
