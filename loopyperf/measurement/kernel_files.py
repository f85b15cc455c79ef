"""Load folders of kernel files and check their contents."""

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from importlib.abc import ExecutionLoader
from importlib.machinery import ModuleSpec
from importlib.util import decode_source, module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import cast

import islpy as isl
import loopy as lp
from loopy.kernel import LoopKernel

from loopyperf.errors import KernelFileError, MeasurementError
from loopyperf.files import is_folder
from loopyperf.measurement.environment import Configuration, DeviceLimits

# {{{ a folder of kernel files as a package
#
# The files can import each other, wherever the folder is.
#
# The package holds the files' contents at its creation, and its name is a digest of them. An edit, for instance of a
# shared file, gives another package, and the definitions of the earlier one stay valid, for pickles too. Python's own
# loaders cannot guarantee that: they detect an edited file only by its size and its time in whole seconds.


def kernel_package(folder: Path) -> str:
    """Return the name of a package whose modules are the Python files of *folder* in their current state.

    Name and package stay the same until a file changes. Subfolders are not included. Raises :class:`OSError` for a file
    that cannot be read.
    """
    folder = folder.resolve()
    sources = {path.stem: path.read_bytes() for path in sorted(folder.glob("*.py")) if not path.name.startswith(".")}
    name = f"loopyperf_{re.sub(r'[^A-Za-z0-9]', '_', folder.name)}_{_digest(folder, sources)}"
    if name not in sys.modules:
        # First, because Python's own finder would also find the files, and load their later contents.
        sys.meta_path.insert(0, _SourceLoader(name, folder, sources))
        package = ModuleSpec(name, loader=None, is_package=True)
        package.submodule_search_locations = [str(folder)]
        sys.modules[name] = module_from_spec(package)
    return name


def _digest(folder: Path, sources: Mapping[str, bytes]) -> str:
    digest = sha256(bytes(folder))
    for module, source in sources.items():
        digest.update(sha256(module.encode()).digest() + sha256(source).digest())
    return digest.hexdigest()[:16]


class _SourceLoader(ExecutionLoader):
    """Finder and loader of one package's modules, from sources in memory."""

    def __init__(self, package: str, folder: Path, sources: Mapping[str, bytes]) -> None:
        self._package = package
        self._folder = folder
        self._sources = sources

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, module = fullname.rpartition(".")
        known = package == self._package and module in self._sources
        return spec_from_loader(fullname, self) if known else None

    def get_filename(self, fullname: str) -> str:
        return str(self._folder / f"{_module(fullname)}.py")

    def get_source(self, fullname: str) -> str:
        return decode_source(self._sources[_module(fullname)])

    def is_package(self, fullname: str) -> bool:
        return False


def _module(fullname: str) -> str:
    return fullname.rpartition(".")[2]


# }}}


# {{{ tiles: the part of an array that a work-group reads, fetched into local memory by its work-items together


def with_local_tile(
    unit: lp.TranslationUnit,
    array: str,
    *,
    swept: str,
    outer: str,
    axes: Mapping[str, str | None],
    name: str | None = None,
) -> lp.TranslationUnit:
    """Return *unit* with the tile of *array* that a group reads over the *swept* inames fetched into local memory.

    The tile is the smallest box around the accessed elements. It is fetched in each iteration of the *outer* inames.
    *swept* and *outer* are comma-separated lists, as in Loopy. The tile is called *name*, by default ``<array>_tile``.
    *array* may have a tag (``"x$far"``): then only accesses with this tag read the tile.

    *axes* names the inames of the fetch, one for each axis of the array, and maps each to the local axis (``"l.0"``)
    that executes it in parallel; None leaves it a sequential loop. An axis that is longer than the group is fetched in
    rounds: its iname is split, and ``<iname>_outer`` is the loop over the rounds.

    Raises :class:`MeasurementError` if the kernel has no inames on one of these local axes, or if the tile's length
    along it is not constant.
    """
    unit = lp.add_prefetch(
        unit,
        array,
        swept,
        dim_arg_names=list(axes),
        default_tag=None,
        temporary_name=name or f"{array.partition('$')[0]}_tile",
        temporary_address_space=lp.AddressSpace.LOCAL,
        fetch_outer_inames=outer,
        fetch_bounding_box=True,
    )
    for iname, axis in axes.items():
        # Loopy creates no iname where the tile is one element long.
        if axis is not None and iname in unit.default_entrypoint.inames:
            unit = _spread(unit, iname, axis)
    return unit


def _spread(unit: lp.TranslationUnit, iname: str, axis: str) -> lp.TranslationUnit:
    lanes = _extent(unit.default_entrypoint, axis)
    if _length(unit.default_entrypoint, iname) <= lanes:
        return lp.tag_inames(unit, {iname: axis})
    return lp.split_iname(unit, iname, lanes, inner_tag=axis)


def _extent(kernel: LoopKernel, axis: str) -> int:
    on_axis = [iname for iname in kernel.inames if axis in map(str, kernel.iname_tags(iname))]
    if not on_axis:
        raise MeasurementError(
            f"cannot distribute a tile over local axis {axis!r}: kernel {kernel.name} has no iname on it; tag the "
            "kernel's own inames first"
        )
    return max(_length(kernel, iname) for iname in on_axis)


def _length(kernel: LoopKernel, iname: str) -> int:
    try:
        return kernel.get_constant_iname_length(iname)
    except isl.Error as error:
        raise MeasurementError(
            f"cannot distribute iname {iname!r} of kernel {kernel.name} over work-items: its length is not constant; "
            "split the loops that read the tile, and sweep the inner ones"
        ) from error


# }}}


# {{{ kernel files


PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class KernelFile:
    """A file that defines one class of kernels."""

    name: str
    """the file's ``NAME``"""
    path: Path
    doc: str
    """the file's docstring: the mathematics and the kernel's purpose"""
    configurations: Callable[[DeviceLimits], list[Configuration]]


def bundled_folder(name: str) -> Path:
    """Return the folder *name* of kernels bundled with loopyperf, such as ``"measurement_kernels"``.

    It is inside an installed package, and next to the package in a checkout. Raises :class:`KernelFileError` if it is
    in neither place.
    """
    candidates = (PACKAGE / name, PACKAGE.parent / name)
    for folder in candidates:
        if is_folder(folder):
            return folder
    places = " and ".join(str(folder) for folder in candidates)
    raise KernelFileError(f"kernel folder {name!r} is missing (searched {places}); reinstall loopyperf")


def measurement_kernels(folder: str | os.PathLike[str] | None = None) -> tuple[KernelFile, ...]:
    """Load the kernel files of *folder*, by default those that fits use; raises as :func:`load_kernel_files`."""
    return load_kernel_files(bundled_folder("measurement_kernels") if folder is None else folder)


def unseen_kernels(folder: str | os.PathLike[str] | None = None) -> tuple[KernelFile, ...]:
    """Load the kernel files of *folder*, by default the test kernels, which no fit uses; raises likewise."""
    return load_kernel_files(bundled_folder("test_kernels") if folder is None else folder)


def load_kernel_files(folder: str | os.PathLike[str]) -> tuple[KernelFile, ...]:
    """Load the kernel files of *folder*, sorted by file name.

    Files whose names start with ``_`` hold shared code, not kernels: ``from ._stencil import laplacian``.

    Raises :class:`KernelFileError` with the file and the reason: it cannot be imported, lacks ``NAME``,
    ``configurations`` or a docstring, or has the ``NAME`` of another file.
    """
    folder = Path(folder)
    if not is_folder(folder):
        raise KernelFileError(f"{folder} is not a folder; pass the folder of the kernel files")
    paths = [path for path in sorted(folder.glob("*.py")) if not path.name.startswith(("_", "."))]
    if not paths:
        raise KernelFileError(f"{folder} has no kernel files (*.py); pass a folder of kernel files")
    package = _package(folder)
    files = [_load(path, package) for path in paths]
    _check_distinct_names(files)
    return tuple(files)


def configurations_of(file: KernelFile, limits: DeviceLimits) -> tuple[Configuration, ...]:
    """Return the configurations of *file* for a device with *limits*.

    Raises :class:`KernelFileError` for equal labels, a configuration without sizes, and any exception in *file*.
    """
    try:
        configurations = tuple(file.configurations(limits))
    except (Exception, SystemExit) as error:
        raise KernelFileError(f"{file.path}: configurations() raised {type(error).__name__}: {error}") from error
    labels = Counter(configuration.label for configuration in configurations)
    repeated = [label for label, count in labels.items() if count > 1]
    if repeated:
        raise KernelFileError(f"{file.path}: more than one configuration has the label {repeated[0]!r}")
    for configuration in configurations:
        lengths = [len(schedule) for schedule in configuration.ladders]
        if not all(lengths) or configuration.steps < 1 or configuration.stride < 1:
            raise KernelFileError(
                f"{file.path}: configuration {configuration.label!r} needs sizes, steps >= 1 and stride >= 1; "
                f"got {', '.join(map(str, lengths))}, {configuration.steps} and {configuration.stride}"
            )
    return configurations


# {{{ one file


def _package(folder: Path) -> str:
    try:
        return kernel_package(folder)
    except (OSError, RuntimeError, ValueError) as error:
        raise KernelFileError(f"cannot read a file in {folder}: {error}") from error


def _load(path: Path, package: str) -> KernelFile:
    module = _import(path, package)
    name: object = getattr(module, "NAME", None)
    configurations: object = getattr(module, "configurations", None)
    doc = (module.__doc__ or "").strip()
    if not isinstance(name, str) or not name:
        raise KernelFileError(f'{path} has no NAME; add the name of the kernel class: NAME = "..."')
    if not callable(configurations):
        raise KernelFileError(f"{path} has no function configurations(limits) that returns a list of Configuration")
    if not doc:
        raise KernelFileError(f"{path} has no docstring; describe what the kernel computes and its purpose")
    return KernelFile(name, path, doc, cast("Callable[[DeviceLimits], list[Configuration]]", configurations))


def _import(path: Path, package: str) -> ModuleType:
    if "." in path.stem:
        raise KernelFileError(f"cannot import {path}: a module name cannot have a dot; rename the file")
    try:
        return import_module(f"{package}.{path.stem}")
    except (Exception, SystemExit) as error:  # user code may raise anything
        raise KernelFileError(f"cannot import {path}: {type(error).__name__}: {error}") from error


def _check_distinct_names(files: list[KernelFile]) -> None:
    first: dict[str, KernelFile] = {}
    for file in files:
        other = first.setdefault(file.name, file)
        if other is not file:
            raise KernelFileError(f"{file.path} and {other.path} both have NAME = {file.name!r}; names must differ")


# }}}


# }}}
