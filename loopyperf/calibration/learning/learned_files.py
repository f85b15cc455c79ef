"""Files of learned models: the training table and what makes a regressor of it, as JSON, the schema version first."""

import os
from pathlib import Path
from typing import cast

import msgspec

from loopyperf.calibration.documents import Document, read_document, write_document
from loopyperf.calibration.fits import path_of
from loopyperf.calibration.learning.learned import Learned, Record
from loopyperf.calibration.library import PREFERRED
from loopyperf.device.device_files import device_slug
from loopyperf.device.library import is_one_device
from loopyperf.errors import FitFileError, later_schema
from loopyperf.files import names_in, user_data

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
        raise FitFileError(later_schema(source, version, SCHEMA))
    try:
        record = msgspec.convert(document, Record)
    except (msgspec.ValidationError, ValueError) as error:
        raise FitFileError(f"{source} does not hold a learned model: {error!s:.300}; {_TRAIN}") from error
    if version != SCHEMA or record.model != "learned":
        raise FitFileError(
            f"{source} does not hold a learned model, but schema {version!r} of {record.model!r:.80}; {_TRAIN}"
        )
    return Learned(record)


def own_learned(device: str, backend: str = "") -> Path:
    """Return where a person's own learned model of *device* is; it need not exist.

    *backend* is what was measured through; that of others than :data:`PREFERRED` is in the name of the file.
    """
    through = "" if backend in ("", PREFERRED) else f".{device_slug(backend)}"
    return user_data() / "learned" / f"{device_slug(device)}{through}.json"


def find_learned(device: str, backend: str = "") -> Learned:
    """Return a person's own learned model of *device*, of *backend* where there is one; else of the preferred one.

    It may lie under any name of the device. Raises :class:`FitFileError` where there is none.
    """
    slug = device_slug(device)
    folder = own_learned(slug).parent
    known = [folder / name for name in names_in(folder) if name.endswith(".json")]
    found = [each for each in known if is_one_device(each.name.partition(".")[0], slug)]
    best = [own_learned(slug, backend).name, own_learned(slug).name]
    if not found:
        raise FitFileError(f"there is no learned model of the device {slug!r}; {_TRAIN}")
    return load_learned(min(found, key=lambda each: best.index(each.name) if each.name in best else len(best)))
