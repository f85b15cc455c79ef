"""Tests of the choice of a CUDA device and of its recorded environment."""

from pathlib import Path

import pytest

from loopyperf.errors import BackendError
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.backends.cuda import choose_cuda_device, cuda_environment, module_version

from .fake_cupy import MEMORY, CUDARuntimeError, FakeCuPy

MODULE = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (builder@machine)\n"
    "GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"
)


def test_a_device_is_found_by_part_of_its_name(machine: FakeCuPy) -> None:
    assert [choose_cuda_device(machine, name).id for name in (None, "a100", "H100 80GB")] == [0, 0, 1]


def test_error_for_a_missing_device_lists_the_available_ones(machine: FakeCuPy) -> None:
    with pytest.raises(BackendError, match="'Voodoo 2'; available: NVIDIA A100-SXM4-80GB; NVIDIA H100 80GB HBM3"):
        open_backend("cuda", device="Voodoo 2")


def test_machine_without_devices_raises(machine: FakeCuPy) -> None:
    machine.names = ()
    with pytest.raises(BackendError, match="CUDA found no device; check nvidia-smi"):
        open_backend("cuda")


def test_driver_error_is_reported(machine: FakeCuPy) -> None:
    def refused() -> int:
        raise CUDARuntimeError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")

    machine.cuda.runtime.getDeviceCount = refused
    with pytest.raises(BackendError, match=r"cudaErrorInsufficientDriver.*; check nvidia-smi"):
        open_backend("cuda")


def test_missing_compiler_is_reported(machine: FakeCuPy) -> None:
    machine.refusal = "CuPy failed to load libnvrtc.so.13"
    with pytest.raises(BackendError, match=r"CuPy failed to load libnvrtc\.so\.13.*; install .* NVRTC: pip install"):
        open_backend("cuda")


def test_limits_are_those_of_the_device(machine: FakeCuPy) -> None:
    limits = open_backend("cuda", device="H100").limits
    assert (limits.group_size, limits.local_memory, limits.warp_size) == (1024, 48 * 1024, 32)
    assert (limits.cores, limits.clock, limits.cache, limits.cache_line) == (132, 1.98e9, 50 * 2**20, None)
    assert (limits.memory, limits.global_memory) == (MEMORY, MEMORY // 4)
    assert limits.group_set == "large"


def test_the_environment_names_runtime_compiler_and_driver(machine: FakeCuPy, tmp_path: Path) -> None:
    file = tmp_path / "version"
    file.write_text(MODULE)
    environment = cuda_environment(machine, choose_cuda_device(machine, "H100"), file)
    assert environment.backend == "cuda"
    assert (environment.device, environment.slug) == ("NVIDIA H100 80GB HBM3", "nvidia-h100-80gb-hbm3")
    assert environment.platform == "CUDA 13.2, NVRTC 13.2"
    assert environment.driver == "580.65.06, CUDA 13.0"


def test_driver_without_module_version_is_its_cuda_version(machine: FakeCuPy, tmp_path: Path) -> None:
    environment = cuda_environment(machine, choose_cuda_device(machine), tmp_path / "none")
    assert environment.driver == "CUDA 13.0"
    (tmp_path / "empty").write_text("")
    assert module_version(tmp_path / "empty") is None
