"""Environments, device limits and kernel configurations of measurements.

An :class:`Environment` records the device, the driver and the versions of the libraries that generated the code. It has
neither host names nor paths, because archives are published.

A kernel file defines ``NAME``, a docstring with the mathematics and the kernel's purpose, and
``configurations(limits) -> list[Configuration]``. Each :class:`Configuration` is one kernel to build, check and time.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from itertools import count, takewhile
from platform import machine, python_version, system
from types import MappingProxyType
from typing import Any, Literal, Self

import loopy as lp
import msgspec
import numpy as np
from numpy.typing import NDArray

from loopyperf.device.device_files import device_slug
from loopyperf.errors import KernelFileError

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
"""Packages whose versions are recorded if they are installed."""

TIMING_FIELDS = ("device", "vendor", "platform", "driver", "backend", "threads")
"""Fields of :class:`Environment` that affect run times; samples that differ in one are never combined."""

Threads = int | Literal["unset"] | None


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """Device, driver and software of a run."""

    backend: str
    """name of the backend, such as ``"opencl"``"""
    platform: str
    """name and version of the backend's platform"""
    vendor: str
    device: str
    """device name as reported by the driver"""
    driver: str
    """driver version"""
    threads: Threads = None
    """PoCL's number of threads; ``"unset"`` if not configured, when PoCL uses every core; None elsewhere"""
    versions: dict[str, str]
    """versions of Python and of :data:`PACKAGES`"""
    operating_system: str
    cpu_count: int

    @classmethod
    def here(
        cls, *, backend: str, platform: str, vendor: str, device: str, driver: str, threads: Threads = None
    ) -> Self:
        """Return the environment of a device of this machine."""
        return cls(
            backend=backend,
            platform=platform,
            vendor=vendor,
            device=device,
            driver=driver,
            threads=threads,
            versions=installed_versions(),
            operating_system=f"{system()} {machine()}",
            cpu_count=os.cpu_count() or 1,
        )

    @property
    def is_processor(self) -> bool:
        """Return whether the device is a processor, used through PoCL."""
        return self.threads is not None

    @property
    def slug(self) -> str:
        """Return the device's name in the form used for folders."""
        return device_slug(self.device)


def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of those of :data:`PACKAGES` that are installed."""
    versions = {"python": python_version()}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def incompatibilities(a: Environment, b: Environment) -> tuple[str, ...]:
    """Return the fields in which *a* and *b* differ and that prevent combining their run times."""
    return tuple(field for field in TIMING_FIELDS if getattr(a, field) != getattr(b, field))


Array = NDArray[Any]
Sizes = Mapping[str, int]
"""Values of a kernel's size parameters, by name."""
Arguments = dict[str, "Array | np.generic"]
"""Arrays and scalars by argument name, including written arrays with their initial contents."""
Group = tuple[int, int]
"""Extents of a 2-D work-group, in work-items, along l.0 and l.1."""
GroupSet = Literal["small", "medium", "large"]

GROUPS_1D: Mapping[GroupSet, tuple[int, ...]] = MappingProxyType(
    {"small": (192, 224, 256), "medium": (128, 256, 384), "large": (256, 384, 512)}
)
"""1-D group sizes of Stevens and Klöckner (section 4.1), in work-items."""
GROUPS_2D: Mapping[GroupSet, tuple[Group, ...]] = MappingProxyType(
    {
        "small": ((16, 12), (16, 14), (16, 16)),
        "medium": ((16, 12), (16, 16), (32, 16)),
        "large": ((16, 16), (24, 16), (32, 16)),
    }
)
"""2-D group sizes of Stevens and Klöckner (section 4.1)."""


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """Resource limits and other properties of a device, as reported by its driver."""

    group_size: int
    """maximum work-items per work-group"""
    local_memory: int
    """bytes of local memory per work-group"""
    global_memory: int
    """maximum bytes of all arguments of a kernel together"""
    cores: int = 1
    """compute units (OpenCL's term)"""
    warp_size: int = 1
    """work-items executed together; 1 if the driver does not report it, as on processors"""
    clock: float | None = None
    """maximum clock in Hz; None if the driver does not report it or the archive predates the field"""
    memory: int | None = None
    """bytes of the device's global memory"""
    cache: int | None = None
    """bytes of the global-memory cache that the driver reports, at any level"""
    cache_line: int | None = None
    """bytes per line of that cache"""

    @property
    def group_set(self) -> GroupSet:
        """Return the device's set of group sizes, after Stevens and Klöckner (section 4.1)."""
        if self.group_size < 384:
            return "small"
        return "medium" if self.group_size < 1024 else "large"

    def groups_1d(self, unless_small: GroupSet | None = None) -> tuple[int, ...]:
        """Return the 1-D group sizes of the device's set that it supports, in work-items.

        *unless_small* is for kernel classes that the paper gives one set on all devices except those of the small set.
        """
        return tuple(size for size in GROUPS_1D[self._set(unless_small)] if size <= self.group_size)

    def groups_2d(self, unless_small: GroupSet | None = None) -> tuple[Group, ...]:
        """Return the 2-D group sizes of the device's set that it supports.

        *unless_small* is for kernel classes that the paper gives one set on all devices except those of the small set.
        """
        return tuple((x, y) for x, y in GROUPS_2D[self._set(unless_small)] if x * y <= self.group_size)

    def _set(self, unless_small: GroupSet | None) -> GroupSet:
        return "small" if self.group_set == "small" else unless_small or self.group_set


@dataclass(frozen=True, slots=True)
class Configuration:
    """A kernel with a schedule of sizes.

    A campaign times ``steps`` sizes of the schedule, ``stride`` apart, starting with the first that runs long enough
    compared with an empty kernel (the protocol's ``overhead_factor``; Stevens and Klöckner, section 4.2). It stops
    before the first size whose arrays exceed :attr:`DeviceLimits.global_memory`, so kernel files need not check that. A
    kernel may have further schedules, for other values of another parameter.
    """

    label: str
    """name, unique within the file, such as ``"n=m=l, group 16x16"``"""
    build: Callable[[], lp.TranslationUnit]
    """builds the kernel, fully transformed, with all types specified"""
    sizes: tuple[Sizes, ...]
    """size schedule, smallest first"""
    arguments: Callable[[np.random.Generator, Sizes], Arguments]
    """generates the arguments for one of the sizes, including the size parameters"""
    reference: Callable[[Arguments], dict[str, Array]]
    """expected contents of each array that the kernel writes, computed by NumPy from the same arguments"""
    steps: int = 4
    stride: int = 1
    tolerance: float = 1e-4
    """maximum relative error against the reference that rounding alone causes"""
    further: tuple[tuple[Sizes, ...], ...] = ()
    """further size schedules, measured in the same way after ``sizes``"""
    beyond: str = ""
    """what determines the time but is no property of the unified model, such as ``"bank conflicts"``; the kernel is
    measured for future models and excluded from fits of the linear model"""

    check: Callable[[Mapping[str, Array]], None] | None = None
    """called with the arrays that the kernel wrote, instead of a comparison with :attr:`reference`; raises
    :class:`MeasurementError` for wrong results"""

    @property
    def ladders(self) -> tuple[tuple[Sizes, ...], ...]:
        """Return all size schedules, ``sizes`` first."""
        return (self.sizes, *self.further)


def doubling(at_least: int, multiple_of: int, at_most: int) -> tuple[int, ...]:
    """Return the smallest multiple of *multiple_of* that is at least *at_least*, and its doubles up to *at_most*.

    Groups of *multiple_of* work-items divide each of these sizes evenly, unlike powers of two.
    Raises :class:`KernelFileError` unless *at_least* and *multiple_of* are positive.
    """
    if at_least < 1 or multiple_of < 1:
        raise KernelFileError(
            f"at_least and multiple_of must be positive; got at_least={at_least}, multiple_of={multiple_of}"
        )
    smallest = -(-at_least // multiple_of) * multiple_of
    return tuple(takewhile(lambda size: size <= at_most, (smallest << step for step in count())))
