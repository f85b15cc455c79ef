"""Kernels named on the command line as ``FILE.py:FUNCTION``."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from loopyperf.errors import KernelFileError


def load_program(source: str) -> Any:
    """Return what FUNCTION in FILE.py returns, or the module attribute of that name if it is no function.

    Raises :class:`KernelFileError` if there is no such file or attribute, or the function fails or needs arguments.
    """
    file, separator, name = source.rpartition(":")
    if not separator or not file:
        raise KernelFileError(f"a kernel is written FILE.py:FUNCTION, for example matmul.py:tiled; received {source!r}")
    module = _imported(Path(file))
    if not hasattr(module, name):
        functions = [
            key for key, value in vars(module).items() if callable(value) and value.__module__ == module.__name__
        ]
        raise KernelFileError(f"{file} has no {name!r}; it defines: {', '.join(functions) or 'no functions'}")
    built = getattr(module, name)
    if not callable(built) or hasattr(built, "entrypoints"):
        return built
    try:
        return built()
    except Exception as error:
        raise KernelFileError(f"{source}() failed with {type(error).__name__}: {error}") from error


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise KernelFileError(f"no Python file at {path}")
    module = importlib.util.module_from_spec(spec)
    # Loopy's disk cache pickles what a kernel refers to, so the module must be importable by its name.
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise KernelFileError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return module
