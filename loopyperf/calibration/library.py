"""Where fits are kept, and which one is meant: an explicit path beats a person's own fits, which beat the bundled ones.

A fit for a device lies at ``<folder>/<device slug>/<model>.json``.
"""

import difflib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from loopyperf.calibration.fit_files import load_fit, path_of
from loopyperf.calibration.fits import Fit
from loopyperf.device.names import device_slug
from loopyperf.errors import FitFileError, LoopyperfError, UnknownDeviceError
from loopyperf.user_data import user_data, user_data_name

MODELS = ("linear", "overlap")
"""that fits are of, the simplest first"""


@dataclass(frozen=True, slots=True)
class KnownFit:
    """A fit file that can be found by its device and model."""

    slug: str
    model: str
    path: Path
    origin: Literal["user", "bundled"]


def user_fits() -> Path:
    """Return the folder of a person's own fits, where calibration puts them; it need not exist."""
    return user_data() / "fits"


@cache
def bundled_fits() -> Path:
    """Return the folder of the fits that come with loopyperf: inside the installed package, beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "fits"
    return inside if inside.is_dir() else package.parent / "fits"


def known_fits() -> tuple[KnownFit, ...]:
    """Return all fit files that can be found by name, by device and model, a person's own before a bundled one."""
    found = [*_listed(user_fits(), "user"), *_listed(bundled_fits(), "bundled")]
    return tuple(sorted(found, key=lambda known: (known.slug, known.model)))


def find_fit(device: str, model: str | None = None, path: str | os.PathLike[str] | None = None) -> Fit:
    """Return the fit at *path* if given, else a person's own fit of *model* for *device*, else the bundled one.

    Without a *model*, of a person's own fits for the device the one that generalises best by its own cross-validation,
    the linear one where none says so; else of the bundled ones.

    *device* is a slug, a name that becomes one (:func:`loopyperf.device.names.device_slug`), or the full
    name that a fit states. A person's own fit that cannot be read is an error; it is never passed over for a bundled
    one.

    :raises UnknownDeviceError: there is no fit for the device at all; lists the known ones, the most similar first.
    :raises FitFileError: there is none of that model, the file cannot be read, or it holds another model's fit.
    """
    if path is None and model is None:
        return _best(device_slug(device))
    file = _located(device_slug(device), model or "") if path is None else path_of(path)
    fit = _read(file)
    if model is not None and fit.model != model:
        raise FitFileError(
            f"{file} holds a fit of the model {fit.model!r}, but {model!r} was asked for; "
            f"ask for the model {fit.model!r}, or give a fit of {model!r}"
        )
    return fit


# {{{ reading, once for each state of a file

Stamp = tuple[int, ...]
"""what tells one state of a file from another"""

_SETTLING = 2_000_000_000
"""nanoseconds: two changes of a file that follow each other faster than the file system's clock have the same stamp"""

_known: dict[str, tuple[Stamp, Fit]] = {}


def _read(file: str) -> Fit:
    """Return the fit in *file* as it is now; an unchanged file is not read again, one that has just changed is."""
    try:
        status = os.stat(file)  # noqa: PTH116 - see _located
    except OSError:
        return load_fit(file)
    stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    known = _known.get(file)
    if known is not None and known[0] == stamp:
        return known[1]
    fit = load_fit(file)
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) > _SETTLING:
        _known[file] = (stamp, fit)
    return fit


# }}}


# {{{ finding


def _best(slug: str) -> Fit:
    """Return the fit for a device that is best by its own account."""
    for folder in (f"{user_data_name()}/fits", str(bundled_fits())):
        files = [file for model in MODELS if os.path.lexists(file := f"{folder}/{slug}/{model}.json")]
        fits = [_read(file) for file in files]
        if fits:
            return next((fit for fit in fits if fit.is_better), fits[0])
    named = [known.model for known in known_fits() if device_slug(_read(str(known.path)).device) == slug]
    return _read(_located(slug, named[0] if named else MODELS[0]))


def _listed(folder: Path, origin: Literal["user", "bundled"]) -> list[KnownFit]:
    return [KnownFit(path.parent.name, path.stem, path, origin) for path in folder.glob("*/*.json")]


def _located(slug: str, model: str) -> str:
    # Strings, because this is in the inner loop of searches and a Path takes as long to make as a file to find.
    for folder in (f"{user_data_name()}/fits", str(bundled_fits())):
        file = f"{folder}/{slug}/{model}.json"
        if os.path.lexists(file):
            return file
    named = [fit for fit in known_fits() if fit.model == model and device_slug(_read(str(fit.path)).device) == slug]
    if named:
        return str(named[0].path)
    raise _no_fit(slug, model)


def _no_fit(slug: str, model: str) -> LoopyperfError:
    known = known_fits()
    of_device = [fit for fit in known if fit.slug == slug]
    if not of_device:
        return UnknownDeviceError(_no_such_device(slug, sorted({fit.slug for fit in known})))
    models = ", ".join(dict.fromkeys(fit.model for fit in of_device))
    return FitFileError(
        f"there is no fit of the model {model!r} for {slug!r}, only of {models}; ask for one of these, "
        "or run `loopyperf calibrate` on the device"
    )


def _no_such_device(slug: str, known: Sequence[str]) -> str:
    nearest = sorted(known, key=lambda name: -difflib.SequenceMatcher(None, slug, name).ratio())
    return (
        f"there is no fit for the device {slug!r}; known devices, nearest first: {', '.join(nearest) or 'none'}. "
        "To make one, run `loopyperf calibrate` on the device, or give the path of a fit file"
    )


# }}}
