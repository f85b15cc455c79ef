"""A person's files: what the system refuses is a sentence, what is read is bounded, what is written is written whole.

The system refuses a path for many reasons: a folder that may not be searched, a name that is too long, a loop of links,
a byte that no name has. Python raises :class:`OSError` for some and :class:`ValueError` for others; here the first is
raised for all, and what only asks about a path gets an answer.

JSON documents on disk: written whole or not at all, and so that a change shows as few lines in a diff.

A document may come from anybody. What is read is bounded and strict: no more than :data:`MOST` bytes, UTF-8, each key
once, and numbers that sums and products of do not overflow. What its structure must be, say the classes that it is
converted to; what must hold between its fields, say their ``__post_init__``, so that an error names the place.
"""

import errno
import json
import os
import secrets
import stat
import warnings
from collections.abc import Generator, Hashable, Iterable, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from os import PathLike
from pathlib import Path
from time import time_ns
from typing import Annotated, NoReturn, cast

import msgspec
import platformdirs

from loopyperf.errors import FitFileError, LoopyperfError, LoopyperfWarning, ParameterError

SAVING = ".saving-"
"""with which the name of a file begins that is not whole yet"""
REFUSED_FOLDERS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY})
"""errors of a folder that takes no new file, in which a file may still be written over"""

STREAMS = ("/dev/", "/proc/")
"""with which paths begin that may stand for what this process has open, such as ``/dev/stdout``"""

# {{{ asking about a path


def is_there(path: str | PathLike[str]) -> bool:
    """Return whether there is something at *path*, as far as one may look."""
    return os.path.exists(path)  # noqa: PTH110 - that of Path raises


def is_folder(path: str | PathLike[str]) -> bool:
    """Return whether there is a folder at *path*, as far as one may look."""
    return os.path.isdir(path)  # noqa: PTH112 - that of Path raises


def is_file(path: str | PathLike[str]) -> bool:
    """Return whether there is a file at *path*, as far as one may look."""
    return os.path.isfile(path)  # noqa: PTH113 - that of Path raises


def os_reason(error: Exception) -> str:
    """Return what the system says of a path, without the path."""
    return getattr(error, "strerror", None) or str(error)


def why_no_file(path: str | PathLike[str]) -> str:
    """Return why there is no file at *path*, in brackets; empty where there simply is none."""
    try:
        return "" if stat.S_ISREG(os.stat(path).st_mode) else " (it is not a file)"  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError) as error:
        return f" ({os_reason(error)})"


@contextmanager
def _as_os_error() -> Generator[None]:
    """Raise :class:`OSError` for a path that the system is not even asked about."""
    try:
        yield
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error)) from error


# }}}


# {{{ reading


def read_bytes(path: str | PathLike[str], most: int) -> bytes:
    """Return what the file at *path* holds; raises :class:`OSError` for one of more than *most* bytes, too."""
    with _as_os_error(), open(path, "rb") as file:  # noqa: PTH123 - a string will do
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")
    return content


# }}}


# {{{ writing


def write_file(what: str, path: str | PathLike[str], text: str) -> Path:
    """Write *text*, *what* somebody asked for, to *path*, over what is there, and return that.

    Raises :class:`ParameterError` where it cannot be written: what was there is there still.
    """
    try:
        write_whole(path, text.encode(errors="replace"))  # names of files may be no text
    except OSError as error:
        raise ParameterError(f"{what} cannot be written to {path}: {os_reason(error)}; give another path") from error
    return Path(path)


def write_whole(
    path: str | PathLike[str],
    content: bytes,
    *,
    makes_folders: bool = False,
    prefix: str = SAVING,
    mode: int = 0o666,
    survives_power: bool = True,
) -> None:
    """Write *content* to *path*: who reads meanwhile, or after a failure, finds the old file or the new one, whole.

    A link stays one, and what is no file, as a pipe or a terminal, is written to; so is a file whose folder takes no
    new one. Until it is whole, it has a name that begins with *prefix*. A new file has *mode*, less what the process
    takes off. Where it need not survive that the power fails,
    it takes a tenth of the time. Raises :class:`OSError`.
    """
    with _as_os_error():
        target = os.path.realpath(path)
        if makes_folders:
            Path(target).parent.mkdir(parents=True, exist_ok=True)
        earlier = _mode(path)
        if (earlier is not None and not stat.S_ISREG(earlier)) or os.path.abspath(path).startswith(STREAMS):  # noqa: PTH100
            _write_over(path, content)
            return
        try:
            temporary = _new_file(target, prefix, mode)
        except OSError as error:
            if earlier is None or error.errno not in REFUSED_FOLDERS:
                raise
            _write_over(path, content)
            return
        _replace(temporary, target, content, earlier, survives_power)


def _mode(path: str | PathLike[str]) -> int | None:
    """Return what is at *path*, as the system tells it; None where there is nothing."""
    try:
        return os.stat(path).st_mode  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None


def _new_file(target: str, prefix: str, mode: int) -> tuple[int, str]:
    """Return a new file in the folder of *target*, open, and its path. Renaming is atomic within a file system."""
    temporary = os.path.join(os.path.dirname(target), f"{prefix}{secrets.token_hex(4)}")  # noqa: PTH118, PTH120
    return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), temporary


def _replace(temporary: tuple[int, str], target: str, content: bytes, mode: int | None, is_synced: bool) -> None:
    descriptor, name = temporary
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                with suppress(OSError):  # of a file system that has no modes
                    os.fchmod(descriptor, stat.S_IMODE(mode))
            file.write(content)
            file.flush()
            if is_synced:
                os.fsync(descriptor)
        os.replace(name, target)  # noqa: PTH105
    except BaseException:
        with suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise


def _write_over(path: str | PathLike[str], content: bytes) -> None:
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(content)


def why_unwritable(path: Path, is_folder: bool = False, makes_folders: bool = False) -> str:
    """Return why *path* cannot be written, empty if it probably can; nothing is written to find out.

    It is a file unless *is_folder*; with *makes_folders*, those that it is in need not exist.
    """
    try:
        return _why_unwritable(path, is_folder, makes_folders)
    except (OSError, ValueError) as error:
        return os_reason(error)


def _why_unwritable(path: Path, is_folder: bool, makes_folders: bool) -> str:
    if _mode(path) is not None:
        if path.is_dir() != is_folder:
            return "it is a folder" if path.is_dir() else "it is not a folder"
        return "" if os.access(path, os.W_OK) else "it is not writable"
    folder = path.absolute().parent
    while makes_folders and not folder.exists():
        folder = folder.parent
    if not folder.is_dir():
        return f"{folder} is not a folder" if folder.exists() else f"there is no folder {folder}"
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"the folder {folder} is not writable"


# }}}


# {{{ where a person's own data lie: fits, measurement archives, device descriptions


DATA_VARIABLE = "LOOPYPERF_DATA"
"""Environment variable that names another folder for a person's own data, for tests and clusters."""

LOOKED_UP = ("devices", "fits", "learned")
"""folders of what is found by name"""
SETTLED = 100_000_000
"""nanoseconds after which a file that is written again surely has another time of its last change"""


def user_data() -> Path:
    """Return the folder of a person's own data; it need not exist."""
    return Path(user_data_name())


def user_data_name() -> str:
    """Return :func:`user_data` as a string, which takes less time to make than a path.

    Raises :class:`LoopyperfError` where ``LOOPYPERF_DATA`` names what is there and is no folder.
    """
    named = os.environ.get(DATA_VARIABLE)
    if not named:
        return _usual_folder(os.environ.get("HOME"), os.environ.get("XDG_DATA_HOME"))
    if not is_folder(named) and is_there(named):
        raise LoopyperfError(
            f"{DATA_VARIABLE} names {named}, which is no folder; let it name one, or unset it for the usual one"
        )
    return named


@cache
def _usual_folder(*_: str | None) -> str:
    """Return where the system has such data; asked for once for each value of the variables that name a home."""
    return platformdirs.user_data_dir("loopyperf")


def user_data_stamp() -> Hashable | None:
    """Return what differs once a file is added, edited or removed where a person's fits, devices and models lie.

    None where one has changed so recently that its next change may have the same time.
    """
    found: list[object] = [user_data_name()]
    newest = 0
    for name in LOOKED_UP:
        for folder, _, files in os.walk(f"{found[0]}/{name}"):
            for path in (folder, *(f"{folder}/{file}" for file in files)):
                try:
                    state = os.stat(path)  # noqa: PTH116 - a string will do
                except OSError:
                    return None
                newest = max(newest, state.st_mtime_ns, state.st_ctime_ns)
                found.append((path, state.st_mtime_ns, state.st_size, state.st_ino))
    return tuple(found) if time_ns() - newest > SETTLED else None


def file_names(folder: str | os.PathLike[str]) -> list[str]:
    """Return the names of what is in *folder*, sorted; none where there is no such folder.

    Where it may not be read, that is warned of once, and answers rest on what else there is.
    """
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - a string will do
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        own = user_data_name()
        _warn(own if os.fspath(folder).startswith(own) else os.fspath(folder), os_reason(error))
        return []


@cache
def _warn(folder: str, reason: str) -> None:
    warnings.warn(
        f"{folder:.200} cannot be read: {reason}; what is in it is not used. {DATA_VARIABLE} names another folder for "
        "your own data",
        LoopyperfWarning,
        stacklevel=2,
    )


def below_home(path: str | os.PathLike[str]) -> Path:
    """Return *path* with a ``~`` or ``~name`` at its beginning as that folder; as it is where nobody is called so."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


# }}}


Document = dict[str, object]
"""A file's contents, as JSON has them."""
_LINE_LENGTH = 120
MOST = 64 * 2**20
"""bytes of a document: that of a thousand measurements has one of them"""
LARGEST = 1e30
"""magnitude of a number in a document, far beyond what is measured or counted"""
DIGITS = 20
"""of an integer in a document, with its sign"""

Number = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


def write_document(document: Document, target: Path, what: str) -> None:
    """Write *document* to *target*, making its folder; *what* it holds is said in errors.

    Concurrent readers see the old file or the new one, whole. Raises :class:`FitFileError` for a number in it
    that is not finite, or beyond :data:`LARGEST`, and for a file that cannot be written.
    """
    # JSON has no such numbers, and msgspec would write null for them.
    if not _finite(document):
        raise FitFileError(
            f"the {what} for {target} holds a number that is not finite, or beyond {LARGEST:g}, which no file may; fit "
            "it again"
        )
    try:
        text = _text(document) + "\n"
        write_whole(target, text.encode(), makes_folders=True)
    except OSError as error:
        raise FitFileError(
            f"cannot write the {what} file {target}: {os_reason(error)}; choose a path that can be written"
        ) from error


def read_document(source: Path, what: str, remedy: str) -> object:
    """Return what the JSON file *source* holds.

    Raises :class:`FitFileError` for one that is missing or corrupt, with the *remedy*; *what* it should hold is said.
    """
    try:
        return strictly_decoded(read_bytes(source, MOST))
    except OSError as error:
        raise FitFileError(f"cannot read the {what} file {source}: {os_reason(error)}; {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise FitFileError(f"the {what} file {source} is corrupt: {error!s:.300}; restore it, or {remedy}") from error


def strictly_decoded(content: bytes) -> object:
    """Return the JSON value that *content* is.

    Raises :class:`ValueError`, of which msgspec's errors are, and :class:`RecursionError` for anything else, and for an
    object with a key twice, of which each reader takes another.
    """
    value = msgspec.json.decode(content)
    json.loads(content, object_pairs_hook=_check_keys, parse_int=_check_digits, parse_constant=_check_constant)
    return value


def _check_keys(pairs: Iterable[tuple[str, object]]) -> None:
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"the key {max(keys, key=keys.count)!r:.80} stands twice in one object")


def _check_digits(text: str) -> None:
    if len(text) > DIGITS:
        raise ValueError(f"an integer of {len(text):,} digits, {text:.20}..., is no count of anything")


def _check_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _text(value: object, indent: int = 0) -> str:
    """Return *value* as JSON: each entry of the file's own objects and arrays on one line, deeper ones if they fit."""
    line = msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
    if isinstance(value, dict):
        entries = [f"{_text(key)}: {_text(item, indent + 2)}" for key, item in cast("Document", value).items()]
    elif isinstance(value, (list, tuple)):
        entries = [_text(item, indent + 2) for item in cast("Sequence[object]", value)]
    else:
        return line
    if not entries or (indent > 2 and indent + len(line) <= _LINE_LENGTH):
        return line
    margin = "\n" + " " * indent
    return line[0] + f"{margin}  " + f",{margin}  ".join(entries) + margin + line[-1]


def _finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(_finite(item) for item in cast("Document", value).values())
    if isinstance(value, (list, tuple)):
        return all(_finite(item) for item in cast("Sequence[object]", value))
    return not isinstance(value, float) or abs(value) <= LARGEST
