"""Fit files: where they are stored and which one is used. A path precedes the user's fits, which precede bundled fits.

The fit for a device is the file ``<folder>/<device slug>/<model>.json``. A GPU has several fits if it was measured
through several backends, whose compilers and launches differ: the first has this name, others are next to it in
``<model>.<backend>.json``, and each contains its backend. The default is OpenCL's, as everywhere else.
"""

import os
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path

from loopyperf.calibration.fits import Fit, load_fit, path_of, save_fit
from loopyperf.device.device_files import device_slug
from loopyperf.device.device_library import (
    NEAREST,
    KnownFile,
    head_of_fit,
    is_one_device,
    known_descriptions,
    known_fits,
    load_device,
    nearest_first,
    slug_of,
    unread,
    user_fits,
)
from loopyperf.device.substitutes import lacking
from loopyperf.errors import FitFileError, LoopyperfError, UnknownDeviceError
from loopyperf.files import file_state, is_there
from loopyperf.units import listed

FITTED_MODELS = ("linear", "overlap")
"""models that fits are made for, simplest first"""
BY_DESCRIPTION = "; model='pipeline' needs no fit"
"""end of the error for a missing fit if the device has parameters"""
PREFERRED = "opencl"
"""backend whose fit is used if there are several and none is requested"""


def own_path(fit: Fit) -> Path:
    """Return the path for *fit* among the user's own, without replacing one measured through another backend.

    An unreadable file is replaced.
    """
    plain = user_fits() / fit.slug / f"{fit.model}.json"
    beside = plain.with_name(f"{fit.model}.{device_slug(fit.backend)}.json")
    try:
        is_taken = is_there(beside) or load_fit(plain).backend != fit.backend
    except FitFileError:
        is_taken = False
    return beside if fit.backend and is_taken else plain


def save_fits(fits: Sequence[Fit], path: str | os.PathLike[str] | None = None) -> None:
    """Write the first of *fits* to *path*, or all of them to the library; raises :class:`FitFileError`."""
    for fit in fits if path is None else fits[:1]:
        save_fit(fit, own_path(fit) if path is None else path)


def find_fit(
    device: str,
    model: str | None = None,
    path: str | os.PathLike[str] | None = None,
    backend: str | None = None,
) -> Fit:
    """Return the fit at *path* if given, else the user's own fit of *model* for *device*, else the bundled one.

    Without a *model*, return the user's own fit for the device that generalizes best in its cross-validation, the
    linear one if none has a cross-validation, else the bundled one. *backend* is the backend of the measurements, by
    default :data:`PREFERRED`, or else the alphabetically first one.

    *device* is a slug, a name with that slug (:func:`loopyperf.device.device_files.device_slug`), the full name in a
    fit, another name of the same device, or the path of its parameters. A user's own fit that cannot be read is an
    error; a bundled one is not used instead.

    :raises UnknownDeviceError: the device has no fit; lists the known devices, the most similar first.
    :raises FitFileError: there is no fit of that model or backend, or the file cannot be read or is of another model.
    """
    if path is None:
        return _found(slug_of(device), model, backend)
    file = path_of(path)
    fit = _read(file)
    if model is not None and fit.model != model:
        raise FitFileError(
            f"{file} holds a fit of model {fit.model!r}, but {model!r} was requested; "
            f"request {fit.model!r}, or pass a fit of {model!r}"
        )
    return fit


def other_backends(fit: Fit) -> tuple[str, ...]:
    """Return the other backends with fits of the same model for the device of *fit*."""
    files = [each.path for each in known_fits() if (each.slug, each.model) == (fit.slug, fit.model)]
    return tuple(sorted({_read(file).backend for file in files} - {fit.backend, ""})) if len(files) > 1 else ()


def _read(file: str | os.PathLike[str]) -> Fit:
    """Return the fit in *file*, cached while the file is unchanged."""
    try:
        state = file_state(file)
    except (OSError, ValueError):
        return load_fit(file)
    return _loaded(os.fspath(file), state)


@lru_cache(maxsize=256)
def _loaded(file: str, _: tuple[int, ...]) -> Fit:
    return load_fit(file)


# {{{ finding


def _found(slug: str, model: str | None, backend: str | None) -> Fit:
    """Return the fit for a device from the first folder that has one, the user's own first."""
    wanted = FITTED_MODELS if model is None else (model,)
    known = [each for each in known_fits() if each.model in wanted]
    known.sort(key=lambda each: (each.origin != "user", each.slug != slug, wanted.index(each.model), each.path.name))
    seen: list[Fit] = []
    for _, some in groupby(known, key=lambda each: (each.origin, each.slug != slug)):
        fits = [_read(each.path) for each in some if _is_for(each, slug)]
        backends = sorted({fit.backend for fit in fits}, key=lambda each: (each != PREFERRED, each))
        fitting = [fit for fit in fits if fit.backend == (backends[0] if backend is None else backend)]
        if fitting:
            return fitting[0] if model else min(fitting, key=lambda fit: (not fit.is_better, fit.held_out_error))
        seen += fits
    if not seen:
        raise _no_fit(slug, model or FITTED_MODELS[0])
    through = ", ".join(sorted({repr(fit.backend) if fit.backend else "an unknown one" for fit in seen}))
    raise FitFileError(
        f"no fit for {slug!r} measured through backend {backend!r}, only through {through}; use one of these, or "
        f"run `loopyperf calibrate --backend {backend}` on the device"
    )


def _is_for(known: KnownFile, slug: str) -> bool:
    """Return whether a fit is for the device *slug*, by its folder or by the device in the file."""
    if is_one_device(known.slug, slug):
        return True
    try:
        return device_slug(head_of_fit(known.path).device) == slug
    except FitFileError:
        return False


def _no_fit(slug: str, model: str) -> LoopyperfError:
    known = known_fits()
    of_device = [fit for fit in known if _is_for(fit, slug)]
    if not of_device:
        return UnknownDeviceError(_no_such_device(slug, sorted({fit.slug for fit in known})))
    models = ", ".join(dict.fromkeys(fit.model for fit in of_device))
    return FitFileError(
        f"no fit of model {model!r} for {slug!r}, only of {models}; use one of these models, or run `loopyperf "
        "calibrate` on the device"
    )


def _no_such_device(slug: str, known: Sequence[str]) -> str:
    way_out = without_fit(slug)
    if not way_out:
        known = sorted({*known, *(known_file.slug for known_file in known_descriptions())})
    nearest = nearest_first(slug, known)
    if not way_out:
        return (
            f"no device called {slug!r}; nearest: {', '.join(nearest[:NEAREST]) or 'none'}; see `loopyperf devices`, "
            f"run `loopyperf calibrate` on the device, or pass the path of a fit{unread()}"
        )
    return (
        f"no fit for device {slug!r}; devices with a fit: {listed(nearest, NEAREST) or 'none'}; run `loopyperf "
        f"calibrate` on the device, or pass the path of a fit{way_out}"
    )


def without_fit(device: str) -> str:
    """Return how to estimate *device* without a fit, as the end of a sentence; empty if that is impossible."""
    try:
        described = load_device(device)
    except LoopyperfError:
        return ""
    return "" if lacking(described) else BY_DESCRIPTION


# }}}
