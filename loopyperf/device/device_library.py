"""Lookup of device files by name: the user's own files take precedence over the bundled ones.

The file of a device is ``<folder>/<device slug>.toml``; its fits are in ``<folder>/<device slug>/``, see
:mod:`loopyperf.calibration.fit_library`.
"""

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from loopyperf.device.description import Device
from loopyperf.device.device_files import SUFFIX, device_slug, is_path, load_description
from loopyperf.errors import DeviceFileError, FitFileError, UnknownDeviceError, one_line
from loopyperf.files import (
    MAX_DOCUMENT_BYTES,
    below_home,
    file_names,
    file_state,
    is_folder,
    is_there,
    read_bytes,
    user_data,
    user_data_name,
)

BUNDLED = Path(__file__).parent / "catalog"
"""folder of the device files that come with loopyperf"""
PROCESSOR = Path(__file__).parent / "processor.toml"
Origin = Literal["user", "bundled"]
DeviceChoice = Device | str | os.PathLike[str]
"""a device, its name, or the path of a device file"""

NEAREST = 3
"""number of similar names in the error for an unknown device"""
BRANDS = frozenset({"nvidia", "amd", "geforce", "quadro", "tesla", "radeon", "instinct"})
"""parts of names that do not distinguish devices"""


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A device file or a fit that can be found by the device's name."""

    slug: str
    path: Path
    origin: Origin

    @property
    def model(self) -> str:
        """Return the model of a fit."""
        return self.path.name.partition(".")[0]


def known_descriptions() -> tuple[KnownFile, ...]:
    """Return the device files that can be found by name, one for each device, in alphabetical order."""
    folders: tuple[tuple[Path, Origin], ...] = ((BUNDLED, "bundled"), (user_data() / "devices", "user"))
    found = [
        KnownFile(device_slug(name.removesuffix(SUFFIX)), folder / name, origin)
        for folder, origin in folders
        for name in file_names(folder)
        if name.endswith(SUFFIX)
    ]
    return tuple(known for _, known in sorted({each.slug: each for each in found}.items()))


def user_fits() -> Path:
    """Return the folder of the user's own fits, where calibrations are stored; it may not exist."""
    return user_data() / "fits"


@cache
def bundled_fits() -> Path:
    """Return the folder of bundled fits: inside the installed package, or next to it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "fits"
    return inside if is_folder(inside) else package.parent / "fits"


def known_fits() -> tuple[KnownFile, ...]:
    """Return all fit files in the library by device and model, the user's own before bundled ones."""
    folders: tuple[tuple[Path, Origin], ...] = ((user_fits(), "user"), (bundled_fits(), "bundled"))
    found = [
        KnownFile(slug, folder / slug / name, origin)
        for folder, origin in folders
        for slug in file_names(folder)
        for name in file_names(folder / slug)
        if name.endswith(".json")
    ]
    return tuple(sorted(found, key=lambda known: (known.slug, known.model)))


class FitHead(msgspec.Struct):
    """The fields of a fit that identify it; to read all of them, :mod:`loopyperf.calibration.fits` needs the models."""

    device: str
    backend: str = ""


def head_of_fit(path: Path) -> FitHead:
    """Return the device and backend of the fit at *path*; raises :class:`FitFileError` if they cannot be read."""
    try:
        return _head(path, file_state(path))
    except (OSError, ValueError, RecursionError) as error:
        raise FitFileError(f"cannot read the fit file {path}: {one_line(error)}") from error


@lru_cache(maxsize=256)
def _head(path: Path, _: tuple[int, ...]) -> FitHead:
    return msgspec.json.decode(read_bytes(path, MAX_DOCUMENT_BYTES), type=FitHead)


def load_device(name: str | os.PathLike[str]) -> Device:
    """Return the published parameters of a device, by name or from a device file.

    A name may be the short name (``"nvidia-titan-v"``), a name that converts to it (``"NVIDIA TITAN V"``), the full
    name, or one of the other names in the device file. Vendor and brand may be omitted (``"TITAN V"``). The user's own
    device files, in the folder ``devices`` of the user data, take precedence over the bundled ones.

    Parameters
    ----------
    name : str or path
        Name of the device, or path of its TOML file.

    Returns
    -------
    Device
        Parameters of the device, in base units (Hz, B, s).

    Raises
    ------
    UnknownDeviceError
        No device has this name; the message lists similar names.
    DeviceFileError
        The file at the path, or the file with this short name, is not a valid device file. Invalid files with other
        names are ignored.

    Examples
    --------
    >>> import loopyperf as lpp
    >>> device = lpp.load_device("nvidia-titan-v")
    >>> device.name, device.cores, device.clock
    ('NVIDIA TITAN V', 80, 1348000000.0)
    >>> lpp.load_device("TITAN V") == device
    True
    """
    try:
        words = os.fspath(name)
    except TypeError as error:
        raise UnknownDeviceError(f"a device must be a name or the path of a device file, got {name!r}") from error
    if isinstance(name, os.PathLike):
        return load_description(words)
    if is_path(words):
        if not words.endswith(SUFFIX):
            raise DeviceFileError(
                f"{words} is not a device file (*{SUFFIX}); pass the path of a device file, or a name that "
                "`loopyperf devices` lists"
            )
        return load_description(below_home(words))
    slug = device_slug(words)
    device = _called(slug)
    if device is None:
        nearest = ", ".join(nearest_first(slug, [each.slug for each in known_descriptions()])[:NEAREST]) or "none"
        raise UnknownDeviceError(
            f"no device called {slug!r}; nearest: {nearest}; see `loopyperf devices`, or write a device file "
            f"(docs/devices.md) and pass its path, or save it in {user_data() / 'devices'}{unread()}"
        )
    return device


def unread() -> str:
    """Return a note about device files that cannot be read, one of which may be the missing device."""
    found = (_read(known_file) for known_file in known_descriptions())
    return "".join(f". Skipped: {one_line(each)}" for each in found if isinstance(each, DeviceFileError))


def _called(slug: str) -> Device | None:
    """Return the device with that short name, else the first device (the user's own first) with it as another name.

    Raises :class:`DeviceFileError` if the file with that short name is invalid.
    """
    for folder in (f"{user_data_name()}/devices", str(BUNDLED)):
        path = f"{folder}/{slug}{SUFFIX}"
        if is_there(path):
            return load_description(path)
    name = without_brand(slug)
    for each in sorted(known_descriptions(), key=lambda known_file: known_file.origin != "user"):
        device = _read(each)
        if isinstance(device, Device) and name in names_without_brand(device):
            return device
    return None


def _read(known: KnownFile) -> Device | DeviceFileError:
    try:
        return load_description(known.path)
    except DeviceFileError as error:
        return error


def given_device(device: DeviceChoice) -> Device:
    """Return *device*, or load the device of that name; raises the errors of :func:`load_device`."""
    return device if isinstance(device, Device) else load_device(device)


def description_or_none(name: str) -> Device | None:
    """Return the device called *name*; None if there is no readable device file for it."""
    try:
        return _called(device_slug(name))
    except DeviceFileError:
        return None


def listed_as(slug: str) -> str:
    """Return the short name of the device file for *slug*; *slug* itself if there is none."""
    device = description_or_none(slug)
    return device.slug if device else slug


def is_one_device(one: str, other: str) -> bool:
    """Return whether two short names, such as a driver's and a device file's, denote the same device."""
    return one == other or listed_as(one) == listed_as(other)


def slug_of(name: str) -> str:
    """Return the short name of the device *name*, which may be the path of a device file.

    Raises :class:`DeviceFileError` if that file is invalid.
    """
    return load_device(name).slug if is_path(name) else device_slug(name)


@cache
def a_processor() -> Device:
    """Return the reference device for fits on any processor, whose parameters the fitted weights scale."""
    return load_description(PROCESSOR)


def names_without_brand(device: Device) -> set[str]:
    """Return all names of *device* as short names without vendor and brand."""
    return {without_brand(device_slug(name)) for name in (device.slug, device.name, *device.also_called)}


def without_brand(slug: str) -> str:
    """Return *slug* without vendor and brand, e.g. ``"rtx-2070"`` for ``"nvidia-geforce-rtx-2070"``."""
    return "-".join(word for word in slug.split("-") if word not in BRANDS)


def nearest_first(asked: str, known: Sequence[str]) -> list[str]:
    """Return the *known* short names, those most similar to *asked*, with and without brand, first."""

    def likeness(slug: str) -> float:
        names = ((asked, slug), (without_brand(asked), without_brand(slug)))
        return max(difflib.SequenceMatcher(None, one, other).ratio() for one, other in names)

    return sorted(known, key=lambda slug: -likeness(slug))
