"""Backends that run kernels on a device or replay a recorded archive.

The registry holds module names: ``opencl`` needs pyopencl and ``cuda`` needs CuPy, optional dependencies that are
imported only when the backend is opened.
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
        "replay": ("loopyperf.measurement.archive", "ReplayBackend"),
    }
)
"""Module and class of each backend."""
RUNNING = tuple(sorted(BACKENDS.keys() - {"replay"}))
"""names of the backends that run kernels"""
REPLAYED = "to replay an archive, use open_backend('replay', archive=PATH), or --from-archive PATH in commands"


def open_backend(name: str, **options: object) -> Backend:
    """Open the backend *name* with *options*, the arguments of its class in :data:`BACKENDS`.

    Raises :class:`BackendError` for an unknown name, invalid options, a package that is not installed, and a missing
    device.
    """
    if name not in BACKENDS:
        raise BackendError(f"unknown backend {name!r}; choose from {', '.join(RUNNING)} and replay; {REPLAYED}")
    module, backend = BACKENDS[name]
    make = getattr(import_module(module), backend)
    try:
        signature(make).bind(**options)
    except TypeError as error:
        given = ", ".join(f"{option}={value!r}" for option, value in options.items()) or "nothing"
        remedy = f"; {REPLAYED}" if name == "replay" else ""
        raise BackendError(f"cannot open backend {name!r} with {given}: {error}{remedy}") from error
    return make(**options)


def opened(backend: str | Open, device: object = None) -> Backend | Open:
    """Return *backend*, or open it if it is a name, on the first device whose name contains *device*.

    Raises :class:`ParameterError` if *device* is not a string or *backend* is already open on a device, and
    :class:`BackendError` if there is no such device.
    """
    if not isinstance(backend, str):
        if device is not None:
            raise ParameterError("device cannot be given for an open backend, which already has a device")
        return backend
    if device is None:
        return open_backend(backend)
    if not isinstance(device, str):
        raise ParameterError(f"device must be a part of the name of the device to run on; got {device!r}")
    return open_backend(backend, device=device)
