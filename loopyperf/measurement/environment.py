"""Where a measurement was taken: device, driver and the versions of what generated the code.

Neither host names nor paths are recorded: archives are published.
"""

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from importlib import metadata
from time import monotonic
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
