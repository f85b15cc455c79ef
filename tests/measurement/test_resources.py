"""What ptxas reports of device functions, read from recorded reports; by the compilers where they are installed."""

import pytest

from loopyperf.errors import CompilerError
from loopyperf.measurement import resources as module
from loopyperf.measurement.resources import Resources, compilation_log, library, nvcc, read_report, resources

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


def test_a_report_tells_registers_and_stack() -> None:
    assert read_report(REPORT) == (Resources("loopy_kernel", 128, 168, 0, 0),)


def test_a_report_of_two_functions_tells_both_in_their_order() -> None:
    first = Resources("loopy_kernel", registers=255, stack_frame=720, spill_stores=720, spill_loads=2120)
    assert read_report(SPILLING + REPORT) == (first, *read_report(REPORT))


def test_a_report_without_functions_is_refused() -> None:
    with pytest.raises(CompilerError, match="names no function"):
        read_report("ptxas info    : 0 bytes gmem\n")


def test_without_a_compiler_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "nvcc", lambda: None)
    monkeypatch.setattr(module, "library", lambda: None)
    with pytest.raises(CompilerError, match="pip install nvidia-cuda-nvrtc"):
        resources(SOURCE)


def test_without_nvcc_the_library_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, tuple[str, ...]]] = []

    def recorded(source: str, options: list[str]) -> str:
        asked.append((source, tuple(options)))
        return REPORT

    monkeypatch.setattr(module, "nvcc", lambda: None)
    monkeypatch.setattr(module, "library", lambda: "libnvrtc.so")
    monkeypatch.setattr(module, "compilation_log", recorded)
    assert resources(SOURCE, "sm_90", ["-use_fast_math"]) == read_report(REPORT)
    assert asked == [(SOURCE, ("-arch=sm_90", "-Xptxas=-v", "-use_fast_math"))]


@pytest.mark.skipif(nvcc() is None, reason="nvcc is not on the path")
def test_nvcc_puts_an_array_that_is_indexed_at_run_time_on_the_stack() -> None:
    (found,) = resources(SOURCE)
    assert (found.function, found.stack_frame, found.spill_loads) == ("columns", 8 * 8, 0)
    assert 8 < found.registers < 64


@pytest.mark.skipif(nvcc() is None, reason="nvcc is not on the path")
def test_what_nvcc_refuses_is_said_in_its_words() -> None:
    with pytest.raises(CompilerError, match=r"(?s)nvcc refuses the source: .*nonsense"):
        resources("nonsense")


@pytest.mark.skipif(library() is None, reason="the wheel nvidia-cuda-nvrtc is not installed")
def test_the_library_reports_the_same_as_nvcc() -> None:
    (found,) = read_report(compilation_log(SOURCE, ["-arch=sm_80", "-Xptxas=-v"]))
    assert (found.function, found.stack_frame) == ("columns", 8 * 8)


@pytest.mark.skipif(library() is None, reason="the wheel nvidia-cuda-nvrtc is not installed")
def test_what_the_library_refuses_is_said_in_its_words() -> None:
    with pytest.raises(CompilerError, match="NVRTC refuses the source"):
        compilation_log("nonsense", ["-arch=sm_80"])
