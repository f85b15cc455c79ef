"""Rates of conversions between types, against the CUDA C++ Programming Guide's tables and NVRTC."""

import loopy as lp
import numpy as np
import pytest
from parts.cubin import instruction_mix

import loopyperf as lpp
from loopyperf.compiler.resources import library
from loopyperf.models.timing import InstructionTimes

# results per cycle and core: of conversions from and to 64-bit types, of the other ones
PUBLISHED = {
    "nvidia-tesla-c2050": (16, 16),
    "nvidia-tesla-k40": (32, 32),
    "nvidia-gtx-titan-x": (4, 32),
    "nvidia-gtx-1060": (4, 32),
    "nvidia-v100": (16, 16),
    "nvidia-rtx-2080-ti": (2, 16),
    "nvidia-a100": (16, 16),
    "nvidia-rtx-3090": (2, 16),
    "nvidia-rtx-4090": (2, 16),
    "nvidia-h200": (16, 16),
}


def converted(given: type, wanted: type, target: lp.TargetBase | None = None) -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "y[i] = x[i]",
        [lp.GlobalArg("x", given, shape="n"), lp.GlobalArg("y", wanted, shape="n"), lp.ValueArg("n", np.int32)],
        target=target or lp.PyOpenCLTarget(),
        assumptions="n >= 128 and n mod 128 = 0",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")


def rate(device: str, given: type, wanted: type) -> float:
    """Return conversions per cycle of a core."""
    (launch,) = lpp.machine_program(converted(given, wanted), n=128, device=device).launches
    (conversion,) = (each for each in launch.representative.graph.instructions if each.kind == "convert")
    return 32 / InstructionTimes(lpp.load_device(device)).arithmetic(conversion).issue


@pytest.mark.parametrize("device", PUBLISHED)
def test_conversions_have_the_published_rates(device: str) -> None:
    wide, other = PUBLISHED[device]
    assert rate(device, np.float32, np.float64) == wide
    assert rate(device, np.float64, np.float32) == wide
    assert rate(device, np.float32, np.int32) == other


@pytest.mark.skipif(library() is None, reason="NVRTC is not installed (the extra cuda-compiler)")
def test_integer_lanes_convert_to_f32_where_nvrtc_says_so() -> None:
    code = lp.generate_code_v2(converted(np.int32, np.float32, lp.CudaTarget())).device_code()
    for architecture, device in (("sm_70", "v100"), ("sm_80", "a100"), ("sm_86", "rtx-3090"), ("sm_90", "h200")):
        is_packed = "I2FP" in instruction_mix(code, architecture)
        assert rate(f"nvidia-{device}", np.int32, np.float32) == (64 if is_packed else 16)
