"""The device, driver and libraries that a run was measured with, and what is executed on it.

Where a measurement was taken: device, driver and the versions of what generated the code.

Neither host names nor paths are recorded: archives are published.

What a file of measurement or test kernels offers: configurations, each one kernel to build, check and time.

A kernel file holds ``NAME``, a docstring with the mathematics and why the kernel is there, and
``configurations(limits) -> list[Configuration]``.
"""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from itertools import count, takewhile
from time import monotonic
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


# {{{ the device's clock and temperature
#
# Where a program can read them; no measurement depends on that.
#
# NVIDIA's driver brings ``nvidia-smi``, which is asked at most once a second, as it takes some hundredths of one.
# OpenCL and PoCL tell neither.


PROGRAM = "nvidia-smi"
QUERY = ("--query-gpu=name,clocks.sm,temperature.gpu", "--format=csv,noheader,nounits")
LONGEST_ANSWER = 5.0
"""seconds that the program may take"""
STILL_VALID = 1.0
"""seconds for which a reading stands"""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the device's sensors say; None is what they do not."""

    clock: float | None = None
    """of the cores, in Hz"""
    temperature: float | None = None
    """in °C"""


NOTHING = Reading()


class Sensors:
    """Reads the sensors of the device of an environment, if it has any that can be read."""

    def __init__(self, environment: Environment) -> None:
        """Look for what reads the sensors of *environment*'s device."""
        self._device = environment.device
        self._program = shutil.which(PROGRAM) if "nvidia" in environment.vendor.casefold() else None
        self._read: tuple[float, Reading] | None = None

    def read(self) -> Reading:
        """Return what the sensors say now, or said within the last second; nothing where they cannot be read."""
        if self._program is None:
            return NOTHING
        if self._read is None or monotonic() - self._read[0] > STILL_VALID:
            answer = self._answer(self._program)
            self._read = monotonic(), NOTHING if answer is None else reading_of(self._device, answer)
        return self._read[1]

    def _answer(self, program: str) -> str | None:
        try:
            return subprocess.run(
                [program, *QUERY], capture_output=True, text=True, timeout=LONGEST_ANSWER, check=True
            ).stdout
        except (OSError, subprocess.SubprocessError):
            self._program = None  # what fails once is not asked again: it would cost time at every measurement
            return None


def reading_of(device: str, answer: str) -> Reading:
    """Return the reading of the GPU called *device* from what nvidia-smi answers, a line of three cells for each GPU.

    It is empty where there is no such GPU, or more than one: which of them was measured is not known then.
    """
    rows = [[cell.strip() for cell in line.rsplit(",", 2)] for line in answer.splitlines()]
    found = [row[1:] for row in rows if len(row) == 3 and row[0] == device]
    if len(found) != 1:
        return NOTHING
    clock, temperature = map(_number, found[0])
    return Reading(None if clock is None else clock * 1e6, temperature)


def _number(cell: str) -> float | None:
    """Return the number in *cell*, None for ``[N/A]`` and the like."""
    try:
        return float(cell)
    except ValueError:
        return None


# }}}


Array = NDArray[Any]
Sizes = Mapping[str, int]
"""The values of a kernel's size parameters, by name."""
Arguments = dict[str, "Array | np.generic"]
"""Arrays and scalars by argument name; arrays that the kernel writes are there too, with their initial contents."""
Group = tuple[int, int]
"""The extents of a 2-D work-group, in work-items: along l.0, along l.1."""
GroupSet = Literal["small", "medium", "large"]

GROUPS_1D: Mapping[GroupSet, tuple[int, ...]] = MappingProxyType(
    {"small": (192, 224, 256), "medium": (128, 256, 384), "large": (256, 384, 512)}
)
"""The 1-D group sizes of Stevens and Klöckner (section 4.1), in work-items."""
GROUPS_2D: Mapping[GroupSet, tuple[Group, ...]] = MappingProxyType(
    {
        "small": ((16, 12), (16, 14), (16, 16)),
        "medium": ((16, 12), (16, 16), (32, 16)),
        "large": ((16, 16), (24, 16), (32, 16)),
    }
)
"""The 2-D group sizes of Stevens and Klöckner (section 4.1)."""


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """What a device allows a kernel to use, and what else its driver reports of it."""

    group_size: int
    """most work-items in one work-group"""
    local_memory: int
    """bytes of local memory of one work-group"""
    global_memory: int
    """bytes that all arguments of one kernel may take together"""
    cores: int = 1
    """compute units, as OpenCL calls them"""
    warp_size: int = 1
    """work-items that are executed together; 1 where the driver states none, as on a processor"""
    clock: float | None = None
    """Hz, the highest; None where the driver states none, as in archives from before it was recorded"""
    memory: int | None = None
    """bytes of the device's global memory"""
    cache: int | None = None
    """bytes of the cache of global memory, whichever the driver means"""
    cache_line: int | None = None
    """bytes of its lines"""

    @property
    def group_set(self) -> GroupSet:
        """Which of the group-size sets of Stevens and Klöckner (section 4.1) the device gets."""
        if self.group_size < 384:
            return "small"
        return "medium" if self.group_size < 1024 else "large"

    def groups_1d(self, unless_small: GroupSet | None = None) -> tuple[int, ...]:
        """Return the 1-D group sizes of the device's set, in work-items, as far as it can hold them.

        *unless_small* is for a class that has one set in the paper on every device but those of the small set.
        """
        return tuple(size for size in GROUPS_1D[self._set(unless_small)] if size <= self.group_size)

    def groups_2d(self, unless_small: GroupSet | None = None) -> tuple[Group, ...]:
        """Return the 2-D group sizes of the device's set, as far as it can hold them.

        *unless_small* is for a class that has one set in the paper on every device but those of the small set.
        """
        return tuple((x, y) for x, y in GROUPS_2D[self._set(unless_small)] if x * y <= self.group_size)

    def _set(self, unless_small: GroupSet | None) -> GroupSet:
        return "small" if self.group_set == "small" else unless_small or self.group_set


@dataclass(frozen=True, slots=True)
class Configuration:
    """One kernel at a ladder of sizes.

    The harness times ``steps`` sizes of the ladder, ``stride`` apart, from the first one that runs long enough beside
    an empty kernel (the protocol's ``overhead_factor``; Stevens and Klöckner, section 4.2). It ends the ladder before
    the first size whose arrays take more than :attr:`Limits.global_memory`: a kernel file need not look at that.
    A kernel may have further ladders, on which another of its parameters has another value.
    """

    label: str
    """unique within the file, e.g. ``"n=m=l, group 16x16"``"""
    build: Callable[[], lp.TranslationUnit]
    """builds the kernel, fully transformed, with all types known"""
    sizes: tuple[Sizes, ...]
    """the ladder, smallest first"""
    arguments: Callable[[np.random.Generator, Sizes], Arguments]
    """makes the arguments for one of the sizes, the size parameters among them"""
    reference: Callable[[Arguments], dict[str, Array]]
    """the expected contents of every array that the kernel writes, computed by NumPy from the same arguments"""
    steps: int = 4
    stride: int = 1
    tolerance: float = 1e-4
    """largest relative error against the reference that is due to rounding alone"""
    further: tuple[tuple[Sizes, ...], ...] = ()
    """ladders that the kernel is measured on after ``sizes``, in the same way"""
    beyond: str = ""
    """what its time hangs on and the unified model has no property for, e.g. ``"bank conflicts"``: it is measured for
    models to come, and the linear model is not fitted to it"""

    check: Callable[[Mapping[str, Array]], None] | None = None
    """is called with what the kernel wrote, in place of a comparison with :attr:`reference`; raises
    :class:`MeasurementError` for what is wrong"""

    @property
    def ladders(self) -> tuple[tuple[Sizes, ...], ...]:
        """Return all ladders, ``sizes`` first."""
        return (self.sizes, *self.further)


def doubling(at_least: int, multiple_of: int, at_most: int) -> tuple[int, ...]:
    """Return the smallest multiple of *multiple_of* that is at least *at_least*, and its doubles up to *at_most*.

    On a ladder of them, groups of *multiple_of* work-items always divide the work, which at powers of two they do not.
    Raises :class:`KernelFileError` unless *at_least* and *multiple_of* are positive.
    """
    if at_least < 1 or multiple_of < 1:
        raise KernelFileError(
            f"a ladder that doubles begins at a positive size; received at_least={at_least}, multiple_of={multiple_of}"
        )
    smallest = -(-at_least // multiple_of) * multiple_of
    return tuple(takewhile(lambda size: size <= at_most, (smallest << step for step in count())))
