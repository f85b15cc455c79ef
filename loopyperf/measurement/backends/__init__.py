"""Where kernels run: devices, and recorded archives in their place.

The registry names modules instead of importing them: ``opencl`` needs pyopencl, an optional dependency, which is
imported when that backend is opened and not before.
"""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from loopyperf.errors import BackendError
from loopyperf.measurement.backends.interface import Backend

BACKENDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "opencl": ("loopyperf.measurement.backends.opencl", "OpenCLBackend"),
        "replay": ("loopyperf.measurement.backends.replay", "ReplayBackend"),
    }
)
"""Module and class of each backend."""


def open_backend(name: str, **options: object) -> Backend:
    """Return the backend called *name*, made with *options* (see the class that :data:`BACKENDS` names).

    Raises :class:`BackendError` for an unknown name, for a package that is not installed, and where there is no device.
    """
    if name not in BACKENDS:
        raise BackendError(f"no backend is called {name!r}; there are {', '.join(sorted(BACKENDS))}")
    module, backend = BACKENDS[name]
    return getattr(import_module(module), backend)(**options)
