"""The functions of Loopy's targets: each has a time on GPUs, or an error that names it and says what to pass."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import loopy as lp
import numpy as np
import pytest
from constantdict import constantdict

import loopyperf as lpp
from loopyperf.errors import LoopyperfError

TARGETS = {"OpenCL": lp.PyOpenCLTarget(), "CUDA": lp.CudaTarget(), "C": lp.ExecutableCTarget()}
DEVICES: Mapping[str, tuple[type, ...]] = {
    "nvidia-a100": (np.float32, np.float64, np.complex128),
    "nvidia-rtx-2070": (np.float64,),
    "amd-mi300x": (np.float64,),
}
TIMED = (
    *("acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "erf", "erfc", "exp", "fabs", "floor", "fmax", "fmin"),
    *("log", "log10", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "isnan", "pow"),
)
"""functions of a double that have a time on each device"""


class UnknownFunction(lp.ScalarCallable):
    """A function of one double that loopyperf does not know."""

    def with_types(self, arg_id_to_dtype: Any, clbl_inf_ctx: Any) -> tuple[Any, Any]:
        of = arg_id_to_dtype[0]
        return self.copy(name_in_target=self.name, arg_id_to_dtype=constantdict({0: of, -1: of})), clbl_inf_ctx


def applied(code: str, dtype: type, target: lp.TargetBase | None = None) -> lp.TranslationUnit:
    """Return the kernel that computes *code* of x, z and w for each i, in groups of 128."""
    kernel = lp.make_kernel(
        "{[i]: 0 <= i < n}", f"y[i] = {code}", lang_version=(2018, 2), target=target or TARGETS["OpenCL"]
    )
    kernel = lp.add_dtypes(kernel, {name: dtype for name in "xzw" if f"{name}[i]" in code})
    return lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")


def known_functions() -> list[tuple[str, lp.TargetBase]]:
    """Return the names of Loopy's functions of numbers, each with a target that supports it."""
    found: dict[str, lp.TargetBase] = {}
    for target in TARGETS.values():
        for name in target.get_device_ast_builder().known_callables:
            found.setdefault(str(name), target)
    return [(name, target) for name, target in found.items() if not name.startswith(("make_", "philox", "threefry"))]


def valid(name: str, target: lp.TargetBase, dtype: type) -> Iterator[lp.TranslationUnit]:
    """Yield the kernels that call the function *name* in a way that Loopy accepts."""
    for operands in ("x[i]", "x[i], z[i]"):
        with suppress(Exception):  # Loopy raises many kinds of errors
            yield lp.infer_unknown_types(lp.preprocess_program(applied(f"{name}({operands})", dtype, target)))


def error_message(kernel: lp.TranslationUnit, device: str) -> str:
    """Return the error message for *kernel*; empty if it has a time."""
    try:
        return "" if lpp.estimate(kernel, n=2**16, device=device, model="roofline").seconds > 0 else "no time"
    except LoopyperfError as error:
        return str(error)


def test_each_loopy_function_has_a_time_or_an_error_naming_it() -> None:
    timed: set[tuple[str, str]] = set()
    for name, target in known_functions():
        for device, dtype in ((device, dtype) for device, dtypes in DEVICES.items() for dtype in dtypes):
            messages = [error_message(kernel, device) for kernel in valid(name, target, dtype)]
            assert all(name in each and "typical={" in each for each in messages if each), messages
            timed |= {(name, device)} if "" in messages and dtype is np.float64 else set()
    assert {(name, device) for name in TIMED for device in DEVICES} <= timed


CODES = ("x[i]**z[i]", "x[i]**1.5", "x[i]**3", "2.0**x[i]", "x[i]/z[i]", "x[i]/3")
WHOLE = ("x[i]//z[i]", "x[i] % z[i]", "x[i]//7", "x[i] % 8", "x[i]**2", "x[i]**z[i]", "2**x[i]", "x[i]*z[i] + 1")


@pytest.mark.parametrize(
    ("dtype", "codes"), [(np.float32, CODES), (np.float64, CODES), (np.int32, WHOLE), (np.int64, WHOLE)]
)
def test_powers_and_divisions_of_all_types_have_a_time(dtype: type, codes: tuple[str, ...]) -> None:
    for code in codes:
        kernel = applied(code, dtype)
        for device in DEVICES:
            assert lpp.estimate(kernel, n=2**12, device=device, model="roofline").seconds > 0


def test_unknown_function_takes_the_time_given_by_typical() -> None:
    kernel = lp.make_kernel("{[i]: 0 <= i < n}", "y[i] = bessel(x[i])", lang_version=(2018, 2))
    kernel = lp.add_dtypes(lp.register_callable(kernel, "bessel", UnknownFunction("bessel")), {"x": np.float64})
    kernel = lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises(LoopyperfError, match=r"typical\['bessel'\]") as error:
        lpp.estimate(kernel, n=2**20, device="nvidia-a100", model="roofline")
    assert re.search("'bessel' of f64", str(error.value))
    times = [
        float(lpp.estimate(kernel, n=2**20, device="nvidia-a100", model="roofline", typical=operations).seconds)
        for operations in ({"bessel": {"f64 mul": each}} for each in (100, 1000))
    ]
    assert 8 < times[1] / times[0] < 12


def test_function_of_two_types_has_a_time_in_each() -> None:
    # Loopy calls one of the two floor_0.
    kernel = lp.make_kernel("{[i]: 0 <= i < n}", "y[i] = floor(x[i]) + floor(z[i])", lang_version=(2018, 2))
    kernel = lp.add_dtypes(kernel, {"x": np.float32, "z": np.float64})
    kernel = lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
    assert error_message(kernel, "nvidia-a100") == ""
    graph = lpp.instruction_graph(kernel, n=2**12)
    assert sorted(each.dtype for each in graph.instructions if each.function == "floor") == ["f32", "f64"]


def test_typical_replaces_the_count_of_a_function() -> None:
    kernel = applied("erf(x[i])", np.float64)
    assert str(lpp.count(kernel, typical={"erf": {"f64 add": 7}}).properties()["f64 add"]) == "7*n"
    assert str(lpp.count(kernel).properties()["f64 special"]) == "n"


def test_published_division_time_is_preferred_to_its_sequence() -> None:
    # RRZE measured 7.5 cycles for a division in double precision on the V100; a product takes 1 cycle.
    kernel, plain = applied(" + ".join(f"x[i]/(z[i] + {k})" for k in range(64)), np.float64), "nvidia-v100"
    seconds = float(lpp.estimate(kernel, n=2**20, device=plain, model="roofline").seconds)
    device = lpp.load_device(plain)
    least = 64 * 2**20 / device.warp_size * 7.5 / device.cores / device.clock
    assert least <= seconds < 1.3 * least
