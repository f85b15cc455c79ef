"""Fit files: one fit as JSON, the schema version first, written so that a change shows as few lines in a diff."""

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import msgspec

from loopyperf.calibration.documents import Document, read_document, write_document
from loopyperf.calibration.fits import SCHEMA, Fit
from loopyperf.errors import FitFileError, later_schema
from loopyperf.models.overlap import side


def _from_schema_1(document: Document) -> Document:
    """Return a document in which the errors of a cross-validation stand by candidate, of which there were two."""

    def by_candidate(errors: Document) -> Document:
        rest = {name: value for name, value in errors.items() if name not in ("plain", "non_negative")}
        return {**rest, "errors": {"linear, plain": errors["plain"], "linear, non-negative": errors["non_negative"]}}

    found = document.get("cross_validation")
    if not isinstance(found, dict):
        return document
    table = cast("Document", found)
    classes = [by_candidate(each) for each in cast("list[Document]", table["classes"])]
    return {**document, "cross_validation": {**by_candidate(table), "classes": classes}}


UPGRADES: Mapping[int, Callable[[Document], Document]] = {1: _from_schema_1}
"""For each older schema version, the function that makes its document one of the next."""

_RECALIBRATE = "give the path of a fit file, or make one with `loopyperf calibrate`"


def save_fit(fit: Fit, path: str | os.PathLike[str]) -> None:
    """Write *fit* to *path*, making its folder; whoever reads meanwhile finds the old file or the new one, whole.

    :raises FitFileError: a number in the fit is not finite, or the file cannot be written.
    """
    write_document(fit_document(fit), Path(path), "fit")


def fit_document(fit: Fit) -> Document:
    """Return what the file of *fit* holds, as plain values."""
    return {"schema": SCHEMA, **cast("Document", msgspec.to_builtins(fit, order="deterministic"))}


def path_of(fit: str | os.PathLike[str]) -> str:
    """Return where the file of *fit* is; raises :class:`FitFileError` for what is no path."""
    try:
        return os.fspath(fit)
    except TypeError as error:
        raise FitFileError(f"a fit, or the path of one, is needed, received {fit!r}") from error


def load_fit(path: str | os.PathLike[str]) -> Fit:
    """Return the fit in the file at *path*, brought up to the current schema.

    :raises FitFileError: there is no such file, it is corrupt or no fit, a later loopyperf wrote it, or the overlap
        model has no answer with its weights.
    """
    source = Path(path_of(path))
    document = read_document(source, "fit", _RECALIBRATE)
    current = _upgraded(document, source)
    current.pop("schema")
    try:
        fit = msgspec.convert(current, Fit)
    except msgspec.ValidationError as error:
        raise FitFileError(
            f"{source} does not hold a fit: {error!s:.300}; mend it by fits/README.md, or {_RECALIBRATE}"
        ) from error
    _check_overlap(fit, source)
    return fit


def _check_overlap(fit: Fit, source: Path) -> None:
    """Raise :class:`FitFileError` for weights or a sharpness of which the overlap model's smooth maximum is no time."""
    if fit.model != "overlap":
        return
    if not 1 <= fit.sharpness < math.inf:
        raise FitFileError(
            f"{source} states the sharpness {fit.sharpness:g}, but in the overlap model it is a number of at least 1, "
            f"where nothing overlaps; mend it by fits/README.md, or {_RECALIBRATE}"
        )
    negative = {name: weight for name, weight in fit.weights.items() if weight < 0 and side(name, fit.basis)}
    if negative:
        listed = ", ".join(f"{name!r} {weight:g}" for name, weight in negative.items())
        raise FitFileError(
            f"{source} has negative weights, {listed}, of what overlaps with the rest: a smooth maximum of times below "
            f"0 is no time. State weights of at least 0, make it a fit of the linear model, or {_RECALIBRATE}"
        )


def _upgraded(document: object, source: Path) -> Document:
    """Return a copy of *document* in the current schema."""
    version = cast("Document", document).get("schema") if isinstance(document, dict) else None
    if type(version) is not int or not (version >= SCHEMA or version in UPGRADES):
        raise FitFileError(
            f'{source} is no fit file: it must be a JSON object with "schema": {SCHEMA}, but has '
            f"{type(document).__name__ if not isinstance(document, dict) else f'schema {version!r}'}; {_RECALIBRATE}"
        )
    current = dict(cast("Document", document))
    if version > SCHEMA:
        versions = current.get("versions")
        writer = cast("Document", versions).get("loopyperf") if isinstance(versions, dict) else None
        raise FitFileError(later_schema(source, version, SCHEMA, writer))
    for step in range(version, SCHEMA):
        try:
            current = UPGRADES[step](current)
        except (KeyError, TypeError, AttributeError) as error:
            problem = f"{source} is no fit of schema {step}: {error!r:.300}; restore it, or {_RECALIBRATE}"
            raise FitFileError(problem) from error
    return current
