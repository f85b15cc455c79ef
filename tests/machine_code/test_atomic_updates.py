"""Atomic updates in machine code: reductions, loops, and the addition of integers in a warp before the update."""

from typing import Any

import loopy as lp
import numpy as np
import pytest
from parts.cubin import instruction_mix

import loopyperf as lpp
from loopyperf.compiler.resources import library
from loopyperf.idg.program import Opcode

REDUCTIONS = ("0x18e", "0x1a6")
"""RED, and REDG of floating-point numbers from sm_90 on"""
COMPARE_EXCHANGE = "0x1a9"
ADDS_UP = ("SHFL", "0x1c4")
"""shuffles up to sm_75, then REDUX"""
LOADS = ("LDG", "LDG.64")

pytestmark = pytest.mark.skipif(library() is None, reason="NVRTC is not installed")


def updated(statement: str, dtype: Any) -> lp.TranslationUnit:
    """Return a kernel that executes the atomic *statement* for each of n work-items."""
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        f"{statement} {{atomic}}",
        [
            lp.GlobalArg("x", dtype, shape="n"),
            lp.GlobalArg("k", np.int32, shape="n"),
            lp.GlobalArg("out", dtype, shape="16", for_atomic=True),
            lp.ValueArg("n", np.int32),
        ],
        assumptions="n >= 256 and n mod 256 = 0",
        target=lp.CudaTarget(),
        silenced_warnings=["write_race*"],
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90"])
def test_updates_are_the_instructions_of_the_model(architecture: str, subtests: pytest.Subtests) -> None:
    for statement in (
        "out[0] = out[0] + x[i]",
        "out[k[i]] = out[k[i]] + x[i]",
        "out[0] = out[0] - x[i]",
        "out[0] = out[0]*x[i]",
    ):
        for dtype in (np.float32, np.float64, np.int32):
            if "*" in statement and dtype == np.float64:
                continue  # Loopy's code does not compile: atomicCAS has no overload for its argument
            with subtests.test(statement=statement, dtype=dtype.__name__):
                kernel = updated(statement, dtype)
                code = lp.generate_code_v2(kernel).device_code()
                found = instruction_mix(code, architecture)
                (launch,) = lpp.machine_program(kernel, n=2**16, device="nvidia-v100").launches
                graph = launch.representative.graph
                (update,) = (each.reference.update for each in graph.instructions if each.kind == Opcode.STORE)
                assert update.is_loop == (COMPARE_EXCHANGE in found)
                assert update.is_loop != any(each in found for each in REDUCTIONS)
                assert update.is_combined == any(each in found for each in ADDS_UP)
                loads = sum(each.kind == Opcode.LOAD for each in graph.instructions)
                assert loads == sum(found.get(each, 0) for each in LOADS)
