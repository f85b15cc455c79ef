"""Tests that CuPy, if it is installed, has the declared interface; no GPU is needed."""

import inspect
from types import ModuleType
from typing import Any, get_type_hints

import pytest

from loopyperf.measurement.backends import cupy_interface as declared


@pytest.fixture(scope="module")
def cupy() -> ModuleType:
    return pytest.importorskip("cupy")


def names_of(protocol: type) -> list[str]:
    methods = [name for name, _ in inspect.getmembers(protocol, callable) if not name.startswith("_")]
    properties = [name for name, _ in inspect.getmembers(protocol, lambda member: isinstance(member, property))]
    return sorted({*methods, *properties, *get_type_hints(protocol)})


def cupy_objects(cupy: Any) -> dict[type, Any]:
    return {
        declared.CuPy: cupy,
        declared.CupyMemory: cupy.ndarray,
        declared.CupyKernel: cupy.RawKernel,
        declared.Module: cupy.RawModule,
        declared.Cuda: cupy.cuda,
        declared.CudaDevice: cupy.cuda.Device,
        declared.CudaEvent: cupy.cuda.Event,
        declared.CupyStream: cupy.cuda.Stream,
        declared.Runtime: cupy.cuda.runtime,
        declared.Driver: cupy.cuda.driver,
        declared.Compiler: cupy.cuda.compiler,
        declared.Nvrtc: cupy.cuda.nvrtc,
        declared.MemoryModule: cupy.cuda.memory,
    }


def test_cupy_has_every_declared_name(cupy: ModuleType) -> None:
    for protocol, real in cupy_objects(cupy).items():
        missing = [name for name in names_of(protocol) if not hasattr(real, name) and name != "id"]
        assert not missing, f"{protocol.__name__} lacks {missing}"


def test_every_protocol_is_compared(cupy: ModuleType) -> None:
    protocols = {
        each for _, each in inspect.getmembers(declared, inspect.isclass) if getattr(each, "_is_protocol", False)
    }
    assert {each for each in protocols if each.__module__ == declared.__name__} == cupy_objects(cupy).keys()


def test_a_kernel_takes_dynamic_local_memory(cupy: ModuleType) -> None:
    assert "shared_mem=0" in (cupy.RawKernel.__call__.__doc__ or "")
    assert "tuple options=()" in (cupy.RawModule.__doc__ or "")
