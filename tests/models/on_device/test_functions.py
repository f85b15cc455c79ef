"""Each function that Loopy's targets know has a time on GPUs, or is refused by its name with what settles it."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import loopy as lp
import numpy as np
import pytest
from constantdict import constantdict

import loopyperf as lpp
from loopyperf.compiler.functions import function_name
from loopyperf.errors import LoopyperfError

TARGETS = {"OpenCL": lp.PyOpenCLTarget(), "CUDA": lp.CudaTarget(), "C": lp.ExecutableCTarget()}
DEVICES: Mapping[str, tuple[type, ...]] = {
    "nvidia-a100": (np.float32, np.float64, np.complex128),
    "nvidia-rtx-2070": (np.float64,),
    "amd-mi300x": (np.float64,),
}
PRICED = (
    *("acos", "asin", "atan", "atan2", "ceil", "cos", "cosh", "erf", "erfc", "exp", "fabs", "floor", "fmax", "fmin"),
    *("log", "log10", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "isnan", "pow"),
)
"""functions of a double that have a time on each device"""


class Foreign(lp.ScalarCallable):
    """A function of one double that nobody here knows."""

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
    """Return the names of Loopy's functions of numbers, each with a target that knows it."""
    found: dict[str, lp.TargetBase] = {}
    for target in TARGETS.values():
        for name in target.get_device_ast_builder().known_callables:
            found.setdefault(str(name), target)
    return [(name, target) for name, target in found.items() if not name.startswith(("make_", "philox", "threefry"))]


def valid(name: str, target: lp.TargetBase, dtype: type) -> Iterator[lp.TranslationUnit]:
    """Yield the kernels that call the function *name* in a way that Loopy takes."""
    for operands in ("x[i]", "x[i], z[i]"):
        with suppress(Exception):  # Loopy refuses in many ways
            yield lp.infer_unknown_types(lp.preprocess_program(applied(f"{name}({operands})", dtype, target)))


def answer(kernel: lp.TranslationUnit, device: str) -> str:
    """Return why *kernel* is refused; empty where it has a time."""
    try:
        return "" if lpp.estimate(kernel, n=2**16, device=device, model="roofline").seconds > 0 else "no time"
    except LoopyperfError as refusal:
        return str(refusal)


def test_each_function_of_loopy_is_priced_or_refused_by_name() -> None:
    priced: set[tuple[str, str]] = set()
    for name, target in known_functions():
        for device, dtype in ((device, dtype) for device, dtypes in DEVICES.items() for dtype in dtypes):
            refusals = [answer(kernel, device) for kernel in valid(name, target, dtype)]
            assert all(name in each and "typical={" in each for each in refusals if each), refusals
            priced |= {(name, device)} if "" in refusals and dtype is np.float64 else set()
    assert {(name, device) for name in PRICED for device in DEVICES} <= priced


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


def test_a_function_that_nobody_knows_is_settled_by_what_its_refusal_asks_for() -> None:
    kernel = lp.make_kernel("{[i]: 0 <= i < n}", "y[i] = bessel(x[i])", lang_version=(2018, 2))
    kernel = lp.add_dtypes(lp.register_callable(kernel, "bessel", Foreign("bessel")), {"x": np.float64})
    kernel = lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
    with pytest.raises(LoopyperfError, match=r"typical\['bessel'\]") as refusal:
        lpp.estimate(kernel, n=2**20, device="nvidia-a100", model="roofline")
    assert re.search("'bessel' of f64", str(refusal.value))
    times = [
        float(lpp.estimate(kernel, n=2**20, device="nvidia-a100", model="roofline", typical=stated).seconds)
        for stated in ({"bessel": {"f64 mul": each}} for each in (100, 1000))
    ]
    assert 8 < times[1] / times[0] < 12


def test_a_function_of_two_types_is_priced_in_each_by_its_own_name() -> None:
    # Loopy calls one of the two floor_0.
    kernel = lp.make_kernel("{[i]: 0 <= i < n}", "y[i] = floor(x[i]) + floor(z[i])", lang_version=(2018, 2))
    kernel = lp.add_dtypes(kernel, {"x": np.float32, "z": np.float64})
    kernel = lp.split_iname(kernel, "i", 128, outer_tag="g.0", inner_tag="l.0")
    assert answer(kernel, "nvidia-a100") == ""
    graph = lpp.instruction_graph(kernel, n=2**12)
    assert sorted(
        each.dtype for each in graph.instructions if function_name(each) == "floor" and each.kind == "special"
    ) == ["f32", "f64"]


def test_what_is_stated_of_a_function_is_taken_for_it() -> None:
    kernel = applied("erf(x[i])", np.float64)
    assert str(lpp.count(kernel, typical={"erf": {"f64 add": 7}}).properties()["f64 add"]) == "7*n"
    assert str(lpp.count(kernel).properties()["f64 special"]) == "n"


def test_a_published_division_is_preferred_to_its_sequence() -> None:
    # Of the V100, RRZE has measured a division in double precision: 7.5 cycles; a product takes 1 of them.
    kernel, plain = applied(" + ".join(f"x[i]/(z[i] + {k})" for k in range(64)), np.float64), "nvidia-v100"
    seconds = float(lpp.estimate(kernel, n=2**20, device=plain, model="roofline").seconds)
    device = lpp.load_device(plain)
    least = 64 * 2**20 / device.warp_size * 7.5 / device.cores / device.clock
    assert least <= seconds < 1.3 * least
