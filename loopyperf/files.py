"""File access: bounded reads, atomic writes, and the folder of the user's data.

A path can be rejected for many reasons: a folder without search permission, a name that is too long, a loop of links, a
NUL byte. Python raises :class:`OSError` for some of these and :class:`ValueError` for others. The functions here always
raise :class:`OSError`; functions that only test a path never raise.

JSON documents are written atomically, and formatted so that a change touches few lines of a diff.

A document may come from an untrusted source, so at most :data:`MAX_DOCUMENT_BYTES` bytes are read, and numbers must be
small enough that sums and products do not overflow. The classes that a document is converted to define its structure;
their ``__post_init__`` checks relations between fields, so that an error names the place.
"""

import atexit
import errno
import json
import os
import re
import secrets
import stat
import tempfile
import warnings
from collections.abc import Generator, Hashable, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from os import PathLike
from pathlib import Path
from time import time_ns
from typing import Annotated, cast

import msgspec
import platformdirs

from loopyperf.errors import FitFileError, LoopyperfError, LoopyperfWarning, ParameterError, brief, later_schema

PATH_FOLDERS = re.compile(r"(?<![\w/>.~])(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\'\"]+)+[/\\](?=[^\s/\\'\"])")
"""matches the folders of an absolute path, up to the file name"""
PROBED = 4096
"""bytes written to a cache folder to test whether it is writable"""
SAVING = ".saving-"
"""prefix of the name of a file that is not written completely yet"""
STREAMS = ("/dev/", "/proc/")
"""prefixes of paths that may denote open files of this process, such as ``/dev/stdout``"""

# {{{ testing paths


def is_there(path: str | PathLike[str]) -> bool:
    """Return whether *path* exists; False if that cannot be determined."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises


def is_folder(path: str | PathLike[str]) -> bool:
    """Return whether *path* is a folder; False if that cannot be determined."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises


def is_file(path: str | PathLike[str]) -> bool:
    """Return whether *path* is a file; False if that cannot be determined."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises


def os_reason(error: Exception) -> str:
    """Return the system's message without the path."""
    return getattr(error, "strerror", None) or str(error)


def why_no_file(path: str | PathLike[str]) -> str:
    """Return why *path* is not a file, in parentheses; empty if nothing exists there."""
    try:
        return "" if stat.S_ISREG(os.stat(path).st_mode) else " (it is not a file)"  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, ValueError) as error:
        return f" ({os_reason(error)})"


@contextmanager
def _as_os_error() -> Generator[None]:
    """Convert the :class:`ValueError` that Python raises for a malformed path to :class:`OSError`."""
    try:
        yield
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error)) from error


# }}}


# {{{ reading


def read_bytes(path: str | PathLike[str], most: int) -> bytes:
    """Return the contents of the file at *path*.

    Raises :class:`OSError` if it cannot be read, or has more than *most* bytes.
    """
    with _as_os_error(), open(path, "rb") as file:  # noqa: PTH123 - no need for a Path
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")
    return content


# }}}


# {{{ writing


def write_file(what: str, path: str | PathLike[str], text: str) -> Path:
    """Write *text* to *path*, replacing an existing file, and return the path; errors call the contents *what*.

    Raises :class:`ParameterError` if it cannot be written; an existing file is then unchanged.
    """
    try:
        write_whole(path, text.encode(errors="replace"))  # file names may not be valid text
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
    """Write *content* to *path* atomically: readers see the old file or the new one, even after a failure.

    The content first goes to a temporary file whose name begins with *prefix*. Symbolic links are followed. Pipes and
    terminals are written directly. A new file gets *mode*, less the umask. Without *survives_power*, the file is not
    synchronized to disk, which takes a tenth of the time, but a power failure may then lose it.

    Raises :class:`OSError`.
    """
    with _as_os_error():
        target = Path(os.path.realpath(path))
        if makes_folders:
            target.parent.mkdir(parents=True, exist_ok=True)
        earlier = _mode(path)
        if (earlier is not None and not stat.S_ISREG(earlier)) or os.path.abspath(path).startswith(STREAMS):  # noqa: PTH100
            Path(path).write_bytes(content)
            return
        # Renaming is atomic only within one file system, hence the same folder.
        temporary = target.with_name(f"{prefix}{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
                if earlier is not None:
                    with suppress(OSError):  # the file system may not support modes
                        os.fchmod(file.fileno(), stat.S_IMODE(earlier))
                file.write(content)
                file.flush()
                if survives_power:
                    os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


def _mode(path: str | PathLike[str]) -> int | None:
    """Return the file mode of *path*; None if nothing exists there."""
    try:
        return os.stat(path).st_mode  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None


def why_unwritable(path: Path, is_folder: bool = False, makes_folders: bool = False) -> str:
    """Return why *path* cannot be written, empty if it probably can; nothing is written to find out.

    The path is a file unless *is_folder* is set. With *makes_folders*, its parent folders need not exist.
    """
    try:
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
    except (OSError, ValueError) as error:
        return os_reason(error)


# }}}


# {{{ the folder of the user's data: fits, residual models, device files


DATA_VARIABLE = "LOOPYPERF_DATA"
"""environment variable that sets another folder for the user's data, for tests and clusters"""

LOOKED_UP = ("devices", "fits", "learned")
"""folders whose files are found by name"""
SETTLED = 100_000_000
"""nanoseconds after which another change of a file is certain to get another modification time"""


def user_data() -> Path:
    """Return the folder of the user's data; it may not exist."""
    return Path(user_data_name())


def user_data_name() -> str:
    """Return :func:`user_data` as a string, which is faster than constructing a path.

    Raises :class:`LoopyperfError` if ``LOOPYPERF_DATA`` is set to something other than a folder.
    """
    named = os.environ.get(DATA_VARIABLE)
    if not named:
        return _usual_folder(os.environ.get("HOME"), os.environ.get("XDG_DATA_HOME"))
    if not is_folder(named) and is_there(named):
        raise LoopyperfError(
            f"{DATA_VARIABLE} is set to {named}, which is not a folder; set it to a folder, or unset it"
        )
    return named


@cache
def _usual_folder(*_: str | None) -> str:
    """Return the system's folder for user data for HOME and XDG_DATA_HOME; an estimate looks it up each time."""
    return platformdirs.user_data_dir("loopyperf")


def without_folders(sentence: str) -> str:
    """Return *sentence* with each path reduced to its file name, so that it may be published."""
    return PATH_FOLDERS.sub("", sentence.replace(user_data_name(), "<data folder>"))


def file_state(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """Return numbers that change when the file at *path* does; raises :class:`OSError` or :class:`ValueError`."""
    status = os.stat(path)  # noqa: PTH116 - also of a malformed path
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def user_data_stamp() -> Hashable | None:
    """Return a value that changes when one of the user's fits, devices or residual models is added, edited or removed.

    None if a file changed so recently that its next change might get the same modification time.
    """
    own = user_data_name()
    if not os.path.exists(own):  # noqa: PTH110 - no need for a Path
        return own
    found: list[object] = [own]
    newest = 0
    for name in LOOKED_UP:
        for folder, _, files in os.walk(f"{own}/{name}"):
            for path in (folder, *(f"{folder}/{file}" for file in files)):
                try:
                    state = os.stat(path)  # noqa: PTH116 - no need for a Path
                except OSError:
                    return None
                newest = max(newest, state.st_mtime_ns, state.st_ctime_ns)
                found.append((path, state.st_mtime_ns, state.st_size, state.st_ino))
    return tuple(found) if time_ns() - newest > SETTLED else None


def file_names(folder: str | os.PathLike[str]) -> list[str]:
    """Return the sorted names of the entries of *folder*; empty if it does not exist.

    A folder that cannot be read gives one warning and counts as empty.
    """
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - no need for a Path
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        own = user_data_name()
        _warn(own if os.fspath(folder).startswith(own) else os.fspath(folder), os_reason(error))
        return []


@cache
def _warn(folder: str, reason: str) -> None:
    warnings.warn(
        f"{folder:.200} cannot be read: {reason}; its files are ignored. Set {DATA_VARIABLE} to use another folder",
        LoopyperfWarning,
        stacklevel=2,
    )


def below_home(path: str | os.PathLike[str]) -> Path:
    """Return *path* with a leading ``~`` or ``~name`` expanded; unchanged if there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


# }}}


Document = dict[str, object]
"""contents of a JSON object"""
_LINE_LENGTH = 120
MAX_DOCUMENT_BYTES = 16 * 2**20
"""maximum size of a document in bytes; that of a thousand measurements has one MiB. Its values need up to 24 times the
memory"""
LARGEST = 1e30
"""maximum magnitude of a number in a document, far beyond any measurement or count"""

Number = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


def write_document(document: Document, target: Path, what: str) -> None:
    """Write *document* to *target* atomically, creating its folder; errors call the file a *what* file.

    Raises :class:`FitFileError` if a number is not finite, or if the file cannot be written.
    """
    try:
        json.dumps(document, allow_nan=False)  # msgspec would write null for NaN and infinities
        write_whole(target, f"{_text(document)}\n".encode(), makes_folders=True)
    except ValueError as error:
        raise FitFileError(f"the {what} for {target} contains a number that is not finite; fit it again") from error
    except OSError as error:
        raise FitFileError(
            f"cannot write the {what} file {target}: {os_reason(error)}; choose a writable path"
        ) from error


def read_document(source: Path, what: str, remedy: str) -> object:
    """Return the contents of the JSON file *source*; errors call it a *what* file and end with *remedy*.

    Raises :class:`FitFileError` if the file is missing or corrupt.
    """
    try:
        return msgspec.json.decode(read_bytes(source, MAX_DOCUMENT_BYTES))
    except OSError as error:
        raise FitFileError(f"cannot read the {what} file {source}: {os_reason(error)}; {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise FitFileError(f"the {what} file {source} is corrupt: {brief(error)}; restore it, or {remedy}") from error


def without_schema(document: object, source: Path, what: str, remedy: str, schema: int) -> Document:
    """Return a copy of *document* without its schema version; errors call it a *what* file and end with *remedy*.

    Raises :class:`FitFileError` if it is not a JSON object, or has another version than *schema*.
    """
    current = dict(cast("Document", document)) if isinstance(document, dict) else Document()
    version = current.pop("schema", None)
    if type(version) is not int or version < schema:
        received = f"schema {version!r:.40}" if isinstance(document, dict) else type(document).__name__
        raise FitFileError(
            f'{source} is not a {what} file: it must be a JSON object with "schema": {schema}, got {received}; {remedy}'
        )
    if version > schema:
        versions = current.get("versions")
        writer = cast("Document", versions).get("loopyperf") if isinstance(versions, dict) else None
        raise FitFileError(later_schema(source, version, schema, writer))
    return current


def _text(value: object, indent: int = 0) -> str:
    """Return *value* as JSON: one line per entry of the two outer levels, and deeper values on a line if they fit."""
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


@cache
def caches_apart() -> str:
    """Use a temporary cache folder if the usual one is not writable; return the reason, empty if it is writable.

    Later calls return the same. Call this before importing Loopy, whose import fails without a writable cache folder.
    """
    folder = Path(platformdirs.user_cache_dir("pytools", "pytools"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(PROBED))
        return ""
    except OSError as error:
        temporary = tempfile.TemporaryDirectory(prefix="loopyperf-", ignore_cleanup_errors=True)
        atexit.register(temporary.cleanup)
        os.environ["XDG_CACHE_HOME"] = temporary.name
        return (
            f"cannot write caches to {folder}: {os_reason(error)}; using a temporary folder for this command. Set "
            "XDG_CACHE_HOME to a writable folder"
        )
