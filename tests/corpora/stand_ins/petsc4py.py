"""A stub of petsc4py, with which PyOP2 and TSFC generate kernels: types, communicators, and classes that do nothing.

Building PETSc takes half an hour, and code generation needs only the widths of its types. Code that needs matrices
fails, but only after its kernel was recorded.
"""

import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np

FOLDER = Path(tempfile.mkdtemp())
MPI = import_module("mpi4py.MPI")
CLASSES = ("DM", "IS", "KSP", "LGMap", "Mat", "Options", "PC", "SF", "SNES", "Section", "Sys", "Vec", "Viewer")


def get_config() -> dict[str, str]:
    """Return the location of PETSc: a folder that contains only the names of compilers."""
    variables = FOLDER / "lib" / "petsc" / "conf" / "petscvariables"
    variables.parent.mkdir(parents=True, exist_ok=True)
    variables.write_text("CC = cc\nCXX = c++\nCC_FLAGS = \n")
    return {"PETSC_DIR": str(FOLDER), "PETSC_ARCH": ""}


class Comm:
    """A communicator."""

    def __init__(self, communicator: Any) -> None:
        self.communicator = communicator

    def tompi4py(self) -> Any:
        """Return the communicator of mpi4py."""
        return self.communicator


def unchanged(function: Any) -> Any:
    """Return *function*."""
    return function


def decorator(_: Any = None) -> Callable[[Any], Any]:
    """Return a decorator that changes nothing."""
    return unchanged


PETSc: Any = ModuleType("petsc4py.PETSc")
PETSc.IntType, PETSc.RealType, PETSc.ScalarType = np.int32, np.float64, np.float64
PETSc.Comm, PETSc.COMM_WORLD, PETSc.COMM_SELF = Comm, Comm(MPI.COMM_WORLD), Comm(MPI.COMM_SELF)
PETSc.Log = SimpleNamespace(
    EventDecorator=decorator, Event=nullcontext, Stage=nullcontext, isActive=bool, logFlops=unchanged
)
PETSc.Error = type("Error", (Exception,), {})
for name in CLASSES:
    setattr(PETSc, name, type(name, (MagicMock,), {}))
sys.modules["petsc4py.PETSc"] = PETSc
sys.modules["pyop2.sparsity"] = MagicMock()  # compiled with PETSc
