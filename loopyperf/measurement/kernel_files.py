"""Loading the files of a folder of kernels, wherever it stands, and checking that they hold what they should."""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import cast

from loopyperf.errors import KernelFileError
from loopyperf.files import is_folder
from loopyperf.measurement.configuration import Configuration, Limits
from loopyperf.measurement.kernel_package import kernel_package

PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class KernelFile:
    """One class of kernels."""

    name: str
    """its ``NAME``"""
    path: Path
    doc: str
    """the mathematics, and why the kernel is there"""
    configurations: Callable[[Limits], list[Configuration]]


def bundled_folder(name: str) -> Path:
    """Return the folder of kernels called *name* that comes with loopyperf, e.g. ``"measurement_kernels"``.

    It is inside an installed package, and beside the package in a checkout. Raises :class:`KernelFileError` if it is
    in neither place.
    """
    candidates = (PACKAGE / name, PACKAGE.parent / name)
    for folder in candidates:
        if is_folder(folder):
            return folder
    places = " and ".join(str(folder) for folder in candidates)
    raise KernelFileError(f"no folder {name!r} comes with this loopyperf (looked at {places}); reinstall loopyperf")


def measurement_kernels(folder: str | os.PathLike[str] | None = None) -> tuple[KernelFile, ...]:
    """Return the kernel files of *folder*, by default those that fits are made from; raises as loading them does."""
    return load_kernel_files(bundled_folder("measurement_kernels") if folder is None else folder)


def unseen_kernels(folder: str | os.PathLike[str] | None = None) -> tuple[KernelFile, ...]:
    """Return the kernel files of *folder*, by default the test kernels, which no fit has seen; raises likewise."""
    return load_kernel_files(bundled_folder("test_kernels") if folder is None else folder)


def load_kernel_files(folder: str | os.PathLike[str]) -> tuple[KernelFile, ...]:
    """Return the kernel files of *folder*, sorted by file name.

    Files whose names start with ``_`` are no kernel files but what these share: ``from ._stencil import laplacian``.

    Raises :class:`KernelFileError` naming the file and what is wrong with it: it cannot be imported, lacks ``NAME``,
    ``configurations`` or a docstring, or has the ``NAME`` of another.
    """
    folder = Path(folder)
    if not is_folder(folder):
        raise KernelFileError(f"{folder} is not a folder; give the folder that holds the kernel files")
    paths = [path for path in sorted(folder.glob("*.py")) if not path.name.startswith(("_", "."))]
    if not paths:
        raise KernelFileError(f"{folder} holds no kernel files (*.py); give the folder that does")
    package = _package(folder)
    files = [_load(path, package) for path in paths]
    _check_distinct_names(files)
    return tuple(files)


def configurations_of(file: KernelFile, limits: Limits) -> tuple[Configuration, ...]:
    """Return the configurations of *file* for a device with *limits*.

    Raises :class:`KernelFileError` if two have the same label, or one has no sizes, and where *file* raises anything.
    """
    try:
        configurations = tuple(file.configurations(limits))
    except (Exception, SystemExit) as error:
        raise KernelFileError(f"{file.path}: configurations failed with {type(error).__name__}: {error}") from error
    labels = Counter(configuration.label for configuration in configurations)
    repeated = [label for label, count in labels.items() if count > 1]
    if repeated:
        raise KernelFileError(f"{file.path}: several configurations are labelled {repeated[0]!r}; labels must differ")
    for configuration in configurations:
        lengths = [len(ladder) for ladder in configuration.ladders]
        if not all(lengths) or configuration.steps < 1 or configuration.stride < 1:
            raise KernelFileError(
                f"{file.path}: configuration {configuration.label!r} needs sizes, steps >= 1 and stride >= 1; "
                f"received {', '.join(map(str, lengths))}, {configuration.steps} and {configuration.stride}"
            )
    return configurations


# {{{ one file


def _package(folder: Path) -> str:
    try:
        return kernel_package(folder)
    except (OSError, RuntimeError, ValueError) as error:
        raise KernelFileError(f"a file in {folder} cannot be read: {error}") from error


def _load(path: Path, package: str) -> KernelFile:
    module = _import(path, package)
    name: object = getattr(module, "NAME", None)
    configurations: object = getattr(module, "configurations", None)
    doc = (module.__doc__ or "").strip()
    if not isinstance(name, str) or not name:
        raise KernelFileError(f'{path} has no NAME; give the kernel class a name: NAME = "..."')
    if not callable(configurations):
        raise KernelFileError(f"{path} has no function configurations(limits) that returns a list of Configuration")
    if not doc:
        raise KernelFileError(f"{path} has no docstring; say what the kernel computes and why it is there")
    return KernelFile(name, path, doc, cast("Callable[[Limits], list[Configuration]]", configurations))


def _import(path: Path, package: str) -> ModuleType:
    if "." in path.stem:
        raise KernelFileError(f"{path} cannot be imported: a module's name has no dot; rename the file")
    try:
        return import_module(f"{package}.{path.stem}")
    except (Exception, SystemExit) as error:  # a file is the user's, and may raise anything
        raise KernelFileError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error


def _check_distinct_names(files: list[KernelFile]) -> None:
    first: dict[str, KernelFile] = {}
    for file in files:
        other = first.setdefault(file.name, file)
        if other is not file:
            raise KernelFileError(f"{file.path} and {other.path} both have NAME = {file.name!r}; names must differ")


# }}}
