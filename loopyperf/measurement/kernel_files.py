"""Loading the files of a folder of kernels, wherever it stands, and checking that they hold what they should."""

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
# Its files can import each other, wherever the folder stands.
#
# The package is the files as they were when it was made, and its name is a digest of them. After an edit, of a shared
# file for instance, there is another package, and what the earlier one defined stays what it was, for pickles too.
# Python's own loaders cannot promise that: they tell an edited file from its bytecode by whole seconds and length.


def kernel_package(folder: Path) -> str:
    """Return the name of a package whose modules are the Python files of *folder*, as they are now.

    It is the same name, and the same package, until one of them changes. Folders in *folder* are no part of it. Raises
    :class:`OSError` for a file that cannot be read.
    """
    folder = folder.resolve()
    sources = {path.stem: path.read_bytes() for path in sorted(folder.glob("*.py")) if not path.name.startswith(".")}
    name = f"loopyperf_{re.sub(r'[^A-Za-z0-9]', '_', folder.name)}_{_digest(folder, sources)}"
    if name not in sys.modules:
        # First, because Python's own finder would also find the files, in whatever state they are by then.
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
    """Finds and loads the modules of one package from their sources in memory."""

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


# {{{ tiles: what a work-group reads of an array
#
# Fetched into local memory by its work-items together.


def with_local_tile(
    unit: lp.TranslationUnit,
    array: str,
    *,
    swept: str,
    outer: str,
    axes: Mapping[str, str | None],
    name: str | None = None,
) -> lp.TranslationUnit:
    """Return *unit* with the tile that a group reads of *array* over the *swept* inames fetched into local memory.

    The tile is the smallest box around what is read, fetched anew in each iteration of the *outer* inames; both are
    lists with commas, as loopy takes them. It is called *name*, by default ``<array>_tile``. *array* may have a tag
    (``"x$far"``): then only accesses with this tag read the tile.

    *axes* names the inames of the fetch, one for each axis of the array, and says for each over which local axis
    (``"l.0"``) it is spread; None leaves it a loop. One that is longer than the group is along its axis is fetched in
    rounds: it is split, and ``<iname>_outer`` is the loop over the rounds.

    Raises :class:`MeasurementError` if the kernel has no inames on one of these local axes, or if the tile's length
    along it is not a constant.
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
        # Loopy makes no iname where the tile is one element long.
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
            f"no iname of kernel {kernel.name} is on local axis {axis!r}, so a tile cannot be spread over it; map the "
            "kernel's own loops to work-items first"
        )
    return max(_length(kernel, iname) for iname in on_axis)


def _length(kernel: LoopKernel, iname: str) -> int:
    try:
        return kernel.get_constant_iname_length(iname)
    except isl.Error as error:
        raise MeasurementError(
            f"the length of iname {iname!r} of kernel {kernel.name} is not a constant, so it cannot be spread over "
            "work-items; split the loops that a tile is read in, and sweep the inner ones"
        ) from error


# }}}


# {{{ kernel files


PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class KernelFile:
    """One class of kernels."""

    name: str
    """its ``NAME``"""
    path: Path
    doc: str
    """the mathematics, and why the kernel is there"""
    configurations: Callable[[DeviceLimits], list[Configuration]]


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


def configurations_of(file: KernelFile, limits: DeviceLimits) -> tuple[Configuration, ...]:
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
    return KernelFile(name, path, doc, cast("Callable[[DeviceLimits], list[Configuration]]", configurations))


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


# }}}
