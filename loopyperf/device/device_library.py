"""Which devices are described, and where: a person's own descriptions beat the bundled ones.

The description of a device lies at ``<folder>/<device slug>.toml``.
"""

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from loopyperf.device.description import Device
from loopyperf.device.device_files import SUFFIX, device_slug, is_path, load_description
from loopyperf.errors import DeviceFileError, UnknownDeviceError, one_line
from loopyperf.files import below_home, file_names, is_there, user_data, user_data_name
from loopyperf.units import listed

BUNDLED = Path(__file__).parent / "catalog"
"""the folder of the descriptions that come with loopyperf"""
PROCESSOR = Path(__file__).parent / "processor.toml"
DeviceChoice = Device | str | os.PathLike[str]
"""a description of a device, its name, or the path of one"""

NEAREST = 3
"""names that are told to who asks for a device that there is not"""
BRANDS = frozenset({"nvidia", "amd", "geforce", "quadro", "tesla", "radeon", "instinct"})
"""words of names that tell no device from another"""


@dataclass(frozen=True, slots=True)
class KnownDescription:
    """A description that can be found by the device's name."""

    slug: str
    path: Path
    origin: Literal["user", "bundled"]


def user_descriptions() -> Path:
    """Return the folder of a person's own descriptions; it need not exist."""
    return user_data() / "devices"


def known_descriptions() -> tuple[KnownDescription, ...]:
    """Return the descriptions that can be found by name, one for each device, in alphabetical order."""
    found = {known.slug: known for known in (*_listed(BUNDLED, "bundled"), *_listed(user_descriptions(), "user"))}
    return tuple(known for _, known in sorted(found.items()))


def load_device(name: str | os.PathLike[str]) -> Device:
    """Return the device called *name*, or described by the TOML file at the path *name*.

    A name is a short one (``"nvidia-titan-v"``), one that becomes it (``"NVIDIA TITAN V"``), the full name, or one that
    the description says the device is called too; vendor and brand may be left out (``"TITAN V"``). A person's own
    description, in the folder ``devices`` of the user data, beats the bundled one. Raises :class:`UnknownDeviceError`,
    which names those that are called alike, and :class:`DeviceFileError` for a file of that short name, or at that
    path, that is not a description; one of another name is passed over.
    """
    try:
        words = os.fspath(name)
    except TypeError as error:
        raise UnknownDeviceError(
            f"the name of a device or the path of its description is needed, received {name!r}"
        ) from error
    if isinstance(name, os.PathLike):
        return load_description(words)
    if is_path(words):
        return load_description(_of_description(words))
    slug = device_slug(words)
    device = _called(slug)
    if device is None:
        raise UnknownDeviceError(_no_such_device(slug, [each.slug for each in known_descriptions()]) + unread())
    return device


def unread() -> str:
    """Return which descriptions, any of which may be of a device that is not found, cannot be read, as a sentence."""
    found = (_read(each) for each in known_descriptions())
    return "".join(f". Not looked at: {one_line(each)}" for each in found if isinstance(each, DeviceFileError))


def _called(slug: str) -> Device | None:
    """Return the description of that short name, else the first, of a person's own first, that has it among its names.

    Raises :class:`DeviceFileError` for a file of that short name that is not a description.
    """
    for folder in (f"{user_data_name()}/devices", str(BUNDLED)):
        path = f"{folder}/{slug}{SUFFIX}"
        if is_there(path):
            return load_description(path)
    name = without_brand(slug)
    for each in sorted(known_descriptions(), key=lambda each: each.origin != "user"):
        device = _read(each)
        if isinstance(device, Device) and name in names_without_brand(device):
            return device
    return None


def _read(known: KnownDescription) -> Device | DeviceFileError:
    try:
        return load_description(known.path)
    except DeviceFileError as error:
        return error


def given_device(device: DeviceChoice) -> Device:
    """Return *device*, or the one of that name; raises what :func:`load_device` raises."""
    return device if isinstance(device, Device) else load_device(device)


def description_or_none(name: str) -> Device | None:
    """Return the description of the device called *name*; None where there is none that can be read."""
    try:
        return _called(device_slug(name))
    except DeviceFileError:
        return None


def listed_as(slug: str) -> str:
    """Return the short name of the description of the device that is called *slug*, else *slug*."""
    device = description_or_none(slug)
    return device.slug if device else slug


def is_one_device(one: str, other: str) -> bool:
    """Return whether two short names are of one device: what a driver calls it, and what its description does."""
    return one == other or listed_as(one) == listed_as(other)


def slug_of(name: str) -> str:
    """Return the short name of the device called *name*, or described by the file at that path.

    Raises :class:`DeviceFileError` if that file is not a description.
    """
    return load_device(name).slug if is_path(name) else device_slug(name)


def _of_description(path: str) -> Path:
    """Return *path*; raises :class:`DeviceFileError` where it is one of something else."""
    if not path.endswith(SUFFIX):
        raise DeviceFileError(
            f"{path} is not a device description, whose name must end with {SUFFIX}: give the path of one, or the "
            "short name of a device, as `loopyperf devices` lists them"
        )
    return below_home(path)


@cache
def a_processor() -> Device:
    """Return what fits are made of for processors, whatever the processor: the units that weights are multiples of."""
    return load_description(PROCESSOR)


def _listed(folder: Path, origin: Literal["user", "bundled"]) -> list[KnownDescription]:
    paths = [folder / name for name in file_names(folder) if name.endswith(SUFFIX)]
    return [KnownDescription(device_slug(path.stem), path, origin) for path in paths]


def names_without_brand(device: Device) -> set[str]:
    """Return what *device* is called, each name as a short one without vendor and brand."""
    return {without_brand(device_slug(name)) for name in (device.slug, device.name, *device.also_called)}


def without_brand(slug: str) -> str:
    """Return *slug* without vendor and brand, e.g. ``"rtx-2070"`` for ``"nvidia-geforce-rtx-2070"``."""
    return "-".join(word for word in slug.split("-") if word not in BRANDS)


def nearest_to(asked: str, known: Sequence[str]) -> str:
    """Return those of the *known* short names that are most like what was *asked* for, whatever brand is left out."""

    def likeness(slug: str) -> float:
        names = ((asked, slug), (without_brand(asked), without_brand(slug)))
        return max(difflib.SequenceMatcher(None, one, other).ratio() for one, other in names)

    return listed(sorted(known, key=lambda slug: -likeness(slug)), NEAREST) or "none"


def _no_such_device(slug: str, known: Sequence[str]) -> str:
    return (
        f"no device called {slug!r} is described; nearest to it: {nearest_to(slug, known)}. "
        "`loopyperf devices` lists all; to add one, write a description (docs/devices.md) and give its path, or put it "
        f"into the folder {user_descriptions()}"
    )
