"""A folder of kernel files as a package: its files can import each other, wherever the folder stands.

The package is the files as they were when it was made, and its name is a digest of them. After an edit, of a shared
file for instance, there is another package, and what the earlier one defined stays what it was, for pickles too.
Python's own loaders cannot promise that: they tell an edited file from its bytecode by whole seconds and length.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.abc import ExecutionLoader
from importlib.machinery import ModuleSpec
from importlib.util import decode_source, module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType


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
