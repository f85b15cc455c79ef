"""Where a measurement was taken: device, driver and the versions of what generated the code.

Neither host names nor paths are recorded: archives are published.
"""

import os
import platform
from importlib import metadata
from typing import Literal, Self

import msgspec

from loopyperf.device.device_files import device_slug

PACKAGES = (
    "loopyperf",
    "loopy",
    "islpy",
    "islpy-barvinok",
    "pyopencl",
    "cupy",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "numpy",
    "scikit-learn",
)
"""The installed packages whose versions are recorded; absent ones are left out."""

TIMING_FIELDS = ("device", "vendor", "platform", "driver", "backend", "threads")
"""Fields of :class:`Environment` that run times depend on: samples that differ in one are never treated as one set."""

Threads = int | Literal["unset"] | None


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The surroundings of a run."""

    backend: str
    """name of the backend, e.g. ``"opencl"``"""
    platform: str
    """the backend's platform with its version"""
    vendor: str
    device: str
    """the device's name as the driver gives it"""
    driver: str
    """version of the driver"""
    threads: Threads = None
    """threads that PoCL was asked for; ``"unset"`` if it was not told, so that it takes every core; None elsewhere"""
    versions: dict[str, str]
    """versions of Python and of :data:`PACKAGES`"""
    operating_system: str
    cpu_count: int

    @classmethod
    def here(
        cls, *, backend: str, platform: str, vendor: str, device: str, driver: str, threads: Threads = None
    ) -> Self:
        """Return the environment of the given device on this machine."""
        return cls(
            backend=backend,
            platform=platform,
            vendor=vendor,
            device=device,
            driver=driver,
            threads=threads,
            versions=installed_versions(),
            operating_system=_operating_system(),
            cpu_count=os.cpu_count() or 1,
        )

    @property
    def is_processor(self) -> bool:
        """Return whether the device is the machine's processor, by way of PoCL."""
        return self.threads is not None

    @property
    def slug(self) -> str:
        """Return the device's name as a folder name."""
        return device_slug(self.device)


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of those of :data:`PACKAGES` that are installed."""
    versions = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def incompatibilities(a: Environment, b: Environment) -> tuple[str, ...]:
    """Return the names of the fields in which *a* and *b* differ so that their run times must not be mixed."""
    return tuple(field for field in TIMING_FIELDS if getattr(a, field) != getattr(b, field))


def _operating_system() -> str:
    return f"{platform.system()} {platform.machine()}"
