"""Resources that ptxas reports: from recorded reports, and from the compilers where they are installed."""

from pathlib import Path

import pytest
from parts.cubin import instruction_mix

from loopyperf.compiler import resources as module
from loopyperf.compiler.resources import Resources, compiled, library, machine_code, read_report
from loopyperf.errors import CompilerError

# nvcc 13.0.88, -use_fast_math -Xptxas -v, of the kernels 1301 for sm_80 and 976 for sm_90 of titan-v.pkl.xz.
REPORT = (
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'loopy_kernel' for 'sm_80'\n"
    "ptxas info    : Function properties for loopy_kernel\n"
    "    168 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 128 registers, used 1 barriers, 168 bytes cumulative stack size, 6912 bytes smem, "
    "420 bytes cmem[0]\n"
    "ptxas info    : Compile time = 91.681 ms\n"
)
SPILLING = (
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'loopy_kernel' for 'sm_90'\n"
    "ptxas info    : Function properties for loopy_kernel\n"
    "    720 bytes stack frame, 720 bytes spill stores, 2120 bytes spill loads\n"
    "ptxas info    : Used 255 registers, used 0 barriers, 720 bytes cumulative stack size\n"
    "ptxas info    : Compile time = 125.366 ms\n"
)
SOURCE = """\
extern "C" __global__ void __launch_bounds__(64) columns(double const *x, double *y, int n)
{
  double a[8];
  for (int i = 0; i < 8; ++i) a[i] = x[n*i + threadIdx.x];
  y[threadIdx.x] = a[n & 7];
}
"""
COPY = """\
extern "C" __global__ void __launch_bounds__(64) copy(float4 const *x, float2 *y)
{
  __shared__ float4 a[64];
  a[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  float4 const b = a[63 - threadIdx.x];
  y[threadIdx.x] = make_float2(b.x + b.y, b.z + b.w);
}
"""


def test_report_gives_registers_and_stack_frame() -> None:
    assert read_report(REPORT) == (Resources("loopy_kernel", 128, 168, 0, 0, local_memory=6912),)


def test_report_of_two_functions_lists_both_in_order() -> None:
    first = Resources("loopy_kernel", registers=255, stack_frame=720, spill_stores=720, spill_loads=2120)
    assert read_report(SPILLING + REPORT) == (first, *read_report(REPORT))


def test_report_without_functions_raises() -> None:
    with pytest.raises(CompilerError, match="lists no function"):
        read_report("ptxas info    : 0 bytes gmem\n")


def test_missing_compiler_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "library", lambda _: None)
    with pytest.raises(CompilerError, match=r"pip install .*cuda-compiler"):
        compiled(SOURCE)


@pytest.mark.skipif(library() is None, reason="the wheel nvidia-cuda-nvrtc is not installed")
def test_dynamically_indexed_array_is_on_the_stack() -> None:
    (found,) = compiled(SOURCE)
    assert (found.function, found.stack_frame, found.spill_loads) == ("columns", 8 * 8, 0)
    assert 8 < found.registers < 64


@pytest.mark.skipif(library() is None, reason="the wheel nvidia-cuda-nvrtc is not installed")
def test_nvrtc_error_message_is_passed_on() -> None:
    with pytest.raises(CompilerError, match=r'^NVRTC rejected the source: kernel\.cu\(1\): error: .*"nonsense" is \w+'):
        machine_code("__device__ int f() { return nonsense; }", "sm_80")


@pytest.mark.skipif(library() is None, reason="the wheel nvidia-cuda-nvrtc is not installed")
def test_compiled_copy_has_the_accesses_of_its_source() -> None:
    for architecture in ("sm_80", "sm_90"):
        (found,), mix = compiled(COPY, architecture), instruction_mix(COPY, architecture)
        assert (found.stack_frame, found.local_memory) == (0, 64 * 16)
        accesses = {name: number for name, number in mix.items() if name[:3] in ("LDG", "LDS", "STS", "STG")}
        assert accesses == {"LDG.128": 1, "STS.128": 1, "LDS.128": 1, "STG.64": 1}
        assert mix["BAR"] == 1
    for dtype, loaded in {"unsigned char": "U8", "signed char": "S8", "unsigned short": "U16", "short": "S16"}.items():
        narrow = f'extern "C" __global__ void f({dtype} const *x, int *y) {{ y[threadIdx.x] = x[threadIdx.x]; }}'
        mix = instruction_mix(narrow, "sm_80")
        assert (mix[f"LDG.{loaded}"], mix["STG"]) == (1, 1)


@pytest.mark.skipif(library() is None, reason="the wheel nvidia-cuda-nvrtc is not installed")
def test_unsupported_architecture_raises() -> None:
    with pytest.raises(CompilerError, match=r"^NVRTC does not compile for sm_35; .* to sm_121"):
        compiled(SOURCE, "sm_35")


def test_compiler_crash_or_timeout_raises(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "library_for", lambda _: tmp_path)
    monkeypatch.setattr(module, "PROGRAM", str(tmp_path / "program.py"))
    monkeypatch.setattr(module, "TIMEOUT", 2)
    for program, failure in (
        ("import os; os.abort()", "crashed"),
        ("import time; time.sleep(60)", "took more than 2 s"),
    ):
        (tmp_path / "program.py").write_text(program)
        with pytest.raises(CompilerError, match=f"^NVRTC {failure}"):
            machine_code(SOURCE, "sm_80")
