"""Test which elements of constant memory nvcc loads, and which are operands of instructions."""

import loopy as lp
import numpy as np
import pytest
from parts.cubin import instruction_mix

from loopyperf.compiler import lowered
from loopyperf.compiler.resources import library
from loopyperf.counts.item import MemorySpace
from loopyperf.counts.sizes import Typical
from loopyperf.idg.program import Opcode
from loopyperf.kernel import load_kernel
from tests.kernels import integers, make_kernel
from tests.profiles import source_profile

from .cuda_source import cuda_source

SIZES = {"m": 16, "n": 96}
STATEMENTS = {
    "one element": "y[32*g + i] = c[3]*x[32*g + i]",
    "two elements": "y[32*g + i] = c[0]*x[32*g + i] + c[1]",
    "sixteen elements": "y[32*g + i] = sum(j, c[j]*x[32*g + i + j])",
    "a stored element": "y[32*g + i] = c[3]",
    "an element as index": "y[32*g + i] = x[which[2]]",
    "elements of a loop": "y[32*g + i] = sum(k, c[k]*x[32*g + i + k])",
    "an element for each lane": "y[32*g + i] = c[i]*x[32*g + i]",
    "an element for each group": "y[32*g + i] = c[g]*x[32*g + i]",
}


def kernel(statement: str) -> lp.TranslationUnit:
    """Return a kernel with a table of doubles and one of integers in constant memory."""

    def table(name: str, dtype: type) -> lp.TemporaryVariable:
        values = np.arange(32, dtype=dtype)
        return lp.TemporaryVariable(
            name, initializer=values, address_space=lp.AddressSpace.GLOBAL, read_only=True, shape=(32,)
        )

    unit = make_kernel(
        "{[g, i, j, k]: 0 <= g < n/32 and 0 <= i < 32 and 0 <= j < 16 and 0 <= k < m}",
        statement,
        *(table(name, dtype) for name, dtype in (("c", np.float64), ("which", np.int32)) if f"{name}[" in statement),
        lp.GlobalArg("x", np.float64, shape="n + 32"),
        lp.GlobalArg("y", np.float64, shape="n"),
        integers("m,n"),
        assumptions="n >= 32 and n mod 32 = 0 and 1 <= m < 32 and n <= 1024",
    )
    return lp.tag_inames(unit, "g:g.0, i:l.0")


@pytest.mark.skipif(library() is None, reason="NVRTC is not installed")
def test_loads_from_constant_memory_match_machine_code(subtests: pytest.Subtests) -> None:
    """Per double-precision instruction, since the loop over k is unrolled by different factors."""
    for name, statement in STATEMENTS.items():
        unit = kernel(statement)
        source, code = source_profile(load_kernel(unit), SIZES, Typical({})).graph, cuda_source(unit).code
        for capability in ((7, 0), (8, 0)):
            with subtests.test(name=name, capability=capability):
                graph = lowered(source, capability=capability)
                machine = instruction_mix(code, f"sm_{capability[0]}{capability[1]}")
                spaces = [each.subsystem for each in graph.instructions if each.kind == Opcode.LOAD]
                doubles = sum(each.dtype == "f64" and each.kind in ("fma", "mul") for each in graph.instructions) or 1
                arithmetic = sum(machine.get(each, 0) for each in ("DFMA", "DMUL")) or 1
                for space, opcodes in ((MemorySpace.CONSTANT, ("LDC",)), (MemorySpace.GLOBAL, ("LDG", "LDG.64"))):
                    executed = sum(machine.get(each, 0) for each in opcodes)
                    assert spaces.count(space) * arithmetic == executed * doubles, space
