"""File access: bounded reads, atomic writes, and the folder of the user's data.

A path can be rejected for many reasons: a folder without search permission, a name that is too long, a loop of links, a
NUL byte. Python raises :class:`OSError` for some of these and :class:`ValueError` for others. The functions here always
raise :class:`OSError`; functions that only test a path never raise.

JSON documents are written atomically, and formatted so that a change touches few lines of a diff.

A document may come from an untrusted source, so reading is bounded and strict: at most :data:`MOST` bytes, UTF-8, no
duplicate keys, and numbers small enough that sums and products do not overflow. The classes that a document is
converted to define its structure; their ``__post_init__`` checks relations between fields, so that an error names the
place.
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
from collections.abc import Generator, Hashable, Iterable, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from os import PathLike
from pathlib import Path
from time import time_ns
from typing import Annotated, NoReturn, cast

import msgspec
import platformdirs

from loopyperf.errors import FitFileError, LoopyperfError, LoopyperfWarning, ParameterError, brief

PATH_FOLDERS = re.compile(r"(?<![\w/>.~])(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\'\"]+)+[/\\](?=[^\s/\\'\"])")
"""matches the folders of an absolute path, up to the file name"""
PROBED = 4096
"""bytes written to a cache folder to test whether it is writable"""
SAVING = ".saving-"
"""prefix of the name of a file that is not written completely yet"""
REFUSED_FOLDERS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY})
"""errors of a folder in which no file can be created, although existing files may be overwritten"""

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
    terminals are written directly, and so is an existing file in a folder in which no file can be created. A new file
    gets *mode*, less the umask. Without *survives_power*, the file is not synchronized to disk, which takes a tenth of
    the time, but a power failure may then lose it. Raises :class:`OSError`.
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
    """Return the file mode of *path*; None if nothing exists there."""
    try:
        return os.stat(path).st_mode  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return None


def _new_file(target: str, prefix: str, mode: int) -> tuple[int, str]:
    """Create a file in the folder of *target*; return its descriptor and its path.

    Renaming is atomic only within one file system, hence the same folder.
    """
    temporary = os.path.join(os.path.dirname(target), f"{prefix}{secrets.token_hex(4)}")  # noqa: PTH118, PTH120
    return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), temporary


def _replace(temporary: tuple[int, str], target: str, content: bytes, mode: int | None, is_synced: bool) -> None:
    descriptor, name = temporary
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                with suppress(OSError):  # the file system may not support modes
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

    The path is a file unless *is_folder* is set. With *makes_folders*, its parent folders need not exist.
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


def without_folders(sentence: str) -> str:
    """Return *sentence* with each path reduced to its file name, so that it may be published."""
    return PATH_FOLDERS.sub("", sentence.replace(user_data_name(), "<data folder>"))


@cache
def _usual_folder(*_: str | None) -> str:
    """Return the system's folder for user data; cached for each value of HOME and XDG_DATA_HOME, its arguments."""
    return platformdirs.user_data_dir("loopyperf")


def user_data_stamp() -> Hashable | None:
    """Return a value that changes when one of the user's fits, devices or residual models is added, edited or removed.

    None if a file changed so recently that its next change might get the same modification time.
    """
    found: list[object] = [user_data_name()]
    newest = 0
    for name in LOOKED_UP:
        for folder, _, files in os.walk(f"{found[0]}/{name}"):
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
MOST = 16 * 2**20
"""maximum size of a document in bytes; that of a thousand measurements has one MiB. Its values need up to 24 times the
memory"""
TEXT = 4000
"""maximum length of a string in a document, in bytes"""
LARGEST = 1e30
"""maximum magnitude of a number in a document, far beyond any measurement or count"""
DIGITS = 20
"""maximum length of an integer in a document, including its sign"""
_TOO_LONG = re.compile(rb'[\[{,:]\s*"(?:[^"\\\n]|\\.){%d}' % TEXT)

Number = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Whole = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


def write_document(document: Document, target: Path, what: str) -> None:
    """Write *document* to *target* atomically, creating its folder; errors call the file a *what* file.

    Raises :class:`FitFileError` if a number is not finite or exceeds :data:`LARGEST`, or if the file cannot be written.
    """
    # JSON cannot represent infinities and NaN; msgspec would write null.
    if not _finite(document):
        raise FitFileError(
            f"the {what} for {target} contains a number that is not finite or exceeds {LARGEST:g}; fit it again"
        )
    try:
        text = _text(document) + "\n"
        write_whole(target, text.encode(), makes_folders=True)
    except OSError as error:
        raise FitFileError(
            f"cannot write the {what} file {target}: {os_reason(error)}; choose a writable path"
        ) from error


def read_document(source: Path, what: str, remedy: str) -> object:
    """Return the contents of the JSON file *source*; errors call it a *what* file and end with *remedy*.

    Raises :class:`FitFileError` if the file is missing or corrupt.
    """
    try:
        return strictly_decoded(read_bytes(source, MOST))
    except OSError as error:
        raise FitFileError(f"cannot read the {what} file {source}: {os_reason(error)}; {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise FitFileError(f"the {what} file {source} is corrupt: {brief(error)}; restore it, or {remedy}") from error


def strictly_decoded(content: bytes) -> object:
    """Return the JSON value encoded in *content*.

    Raises :class:`ValueError` (of which msgspec's errors are subclasses) or :class:`RecursionError` for invalid JSON,
    for a string of more than :data:`TEXT` bytes, and for an object with a duplicate key, of which parsers keep
    different values.
    """
    if _TOO_LONG.search(content):
        raise ValueError(f"a string has more than {TEXT:,} bytes")
    json.loads(content, object_pairs_hook=_check_keys, parse_int=_check_digits, parse_constant=_check_constant)
    return msgspec.json.decode(content)


def _check_keys(pairs: Iterable[tuple[str, object]]) -> None:
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"the key {max(keys, key=keys.count)!r:.80} occurs twice in one object")


def _check_digits(text: str) -> None:
    if len(text) > DIGITS:
        raise ValueError(f"an integer has {len(text):,} digits ({text:.20}...), at most {DIGITS} are allowed")


def _check_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a valid number")


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


def _finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(_finite(item) for item in cast("Document", value).values())
    if isinstance(value, (list, tuple)):
        return all(_finite(item) for item in cast("Sequence[object]", value))
    return not isinstance(value, float) or abs(value) <= LARGEST


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
