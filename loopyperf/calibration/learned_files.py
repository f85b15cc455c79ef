"""Files of learned models: the training table and what makes a regressor of it, as JSON, the schema version first."""

import os
from importlib import metadata
from pathlib import Path
from typing import cast

import msgspec

from loopyperf.calibration.documents import Document, read_document, write_document
from loopyperf.calibration.fit_files import path_of
from loopyperf.calibration.learned import Learned, Record
from loopyperf.device.names import device_slug
from loopyperf.errors import FitFileError
from loopyperf.user_data import user_data

SCHEMA = 1
"""Version of the files of learned models that this loopyperf writes and reads."""
_TRAIN = "give the path of a learned model, or train one with `loopyperf train`"


def save_learned(learned: Learned, path: str | os.PathLike[str]) -> None:
    """Write *learned* to *path*, making its folder; whoever reads meanwhile finds the old file or the new one, whole.

    Raises :class:`FitFileError` for a number in it that is not finite, and for a file that cannot be written.
    """
    write_document(learned_document(learned), Path(path), "learned model")


def learned_document(learned: Learned) -> Document:
    """Return what the file of *learned* holds, as plain values."""
    return {"schema": SCHEMA, **cast("Document", msgspec.to_builtins(learned.record, order="deterministic"))}


def load_learned(path: str | os.PathLike[str]) -> Learned:
    """Return the learned model in the file at *path*, which is taught anew when it is first asked.

    Raises :class:`FitFileError` for a file that is missing, corrupt, none of a learned model, or of a later loopyperf.
    """
    source = Path(path_of(path))
    found = read_document(source, "learned model", _TRAIN)
    document = dict(cast("Document", found)) if isinstance(found, dict) else Document()
    version = document.pop("schema", None)
    if type(version) is int and version > SCHEMA:
        raise FitFileError(
            f"{source} has schema {version}, but loopyperf {metadata.version('loopyperf')} reads learned models of "
            f"schemas up to {SCHEMA}; install a later one: pip install --upgrade loopyperf"
        )
    try:
        record = msgspec.convert(document, Record)
    except (msgspec.ValidationError, ValueError) as error:
        raise FitFileError(f"{source} does not hold a learned model: {error}; {_TRAIN}") from error
    if version != SCHEMA or record.model != "learned":
        raise FitFileError(
            f"{source} does not hold a learned model, but schema {version!r} of {record.model!r}; {_TRAIN}"
        )
    return Learned(record)


def own_learned(device: str) -> Path:
    """Return where a person's own learned model of *device* is; it need not exist."""
    return user_data() / "learned" / f"{device_slug(device)}.json"


def find_learned(device: str) -> Learned:
    """Return a person's own learned model of *device*; raises :class:`FitFileError` where there is none."""
    path = own_learned(device)
    if not path.exists():
        raise FitFileError(f"there is no learned model of the device {device_slug(device)!r}; {_TRAIN}")
    return load_learned(path)
