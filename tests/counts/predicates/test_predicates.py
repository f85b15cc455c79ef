"""Test that predicates are evaluated as in the generated code; those on data hold with probability 1/3."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import loopy as lp
import numpy as np
import pytest

from loopyperf.kernel import load_kernel
from tests.brute_force import COUNTINGS, brute_force
from tests.counts.small_kernels import array, kernel, lanes, sizes
from tests.counts_with_share import settled

THIRD = Fraction(1, 3)
FLAT = "{[i]: 0<=i<n}"
NESTED = "{[i,j,k]: 0<=i<n and 0<=j,k<4}"
LOADS = "global load 32-bit stride 1"


def conditional(domain: str, code: str) -> lp.TranslationUnit:
    """Return a kernel with conditions on the integer arrays m and q."""
    arrays = (array("a,x,y,z", "n"), array("b,d", "n,4"), array("m,q", "n", np.int32))
    named = [lp.GlobalArg(name, arg.dtype, shape=arg.shape) for arg in arrays for name in arg.name.split(",")]
    return kernel(domain, code, *(arg for arg in named if f"{arg.name}[" in code), sizes("n"))


CONDITIONS = {
    "shared by neighbours": (FLAT, "if m[i] > 0\nx[i] = 2*a[i]\ny[i] = 3*a[i]\nend"),
    "inside of another": (FLAT, "if m[i] > 0\nx[i] = 2*a[i]\nif q[i] > 1\ny[i] = 3*a[i]\nend\nend"),
    "right inside of another": (FLAT, "if m[i] > 0\nif q[i] > 1\ny[i] = 3*a[i]\nend\nend"),
    "inside of an affine one": (FLAT, "if i < 7\nif m[i] > 0\nx[i] = 2*a[i]\nend\nend"),
    "with an else": (FLAT, "if m[i] > 0\nx[i] = 2*a[i]\nelse\nx[i] = 3*a[i]\nend"),
    "inside and after another": (
        FLAT,
        "if m[i] > 0\nx[i] = 2*a[i]\nif q[i] > 1\ny[i] = 3*a[i]\nend\nend\nif q[i] > 1\nz[i] = a[i]/3\nend",
    ),
    "of several parts": (FLAT, "if i < 7 and m[i] > 0 or q[i] > 1 and not (i < 3)\nx[i] = 2*a[i]\nend"),
    "in an expression": (FLAT, "x[i] = if(m[i] > 0 or i < 5, 2*a[i], if(q[i] > 1, a[i]/3, 1))"),
    "around a reduction": (NESTED, "if m[i] > 0\nx[i] = sum(j, a[i]*j)\nend"),
    "around a loop": (NESTED, "if m[i] > 0\nx[i] = 1\nfor j\nb[i,j] = 2*a[i]\nend\nend"),
    "around two loops": (NESTED, "if m[i] > 0\nfor j\nb[i,j] = 2*a[i]\nend\nfor k\nd[i,k] = 1\nend\nend"),
    "in a part of a loop": (NESTED, "for j\nif m[i] > 0\nb[i,j] = 2*a[i]\nend\nd[i,j] = 1\nend"),
}


def conditional_kernels() -> Iterator[Any]:
    """Yield each condition in a sequential loop and in lanes, with inner loops also unrolled and interleaved."""
    for name, (domain, code) in CONDITIONS.items():
        unit = conditional(domain, code)
        yield name, unit
        yield f"{name}, in lanes", lanes(unit)
        for tag in ("ilp", "unr") if "for j" in code else ():
            yield f"{name}, {tag}", lp.tag_inames(lanes(unit), {"j": tag})


def test_symbolic_counts_equal_enumeration(subtests: pytest.Subtests) -> None:
    for name, unit in conditional_kernels():
        with subtests.test(name):
            loaded = load_kernel(unit)
            for n in (0, 1, 27):
                enumerated = brute_force(loaded, {"n": n}, {"n": 320}, share=THIRD)
                for counting in COUNTINGS:
                    counts = settled(loaded, counting, THIRD).properties().evaluate(n=n)
                    assert enumerated[counting] == {name: count for name, count in counts.items() if count}, (
                        counting,
                        n,
                    )


def test_nested_condition_is_evaluated_where_the_outer_one_holds() -> None:
    # m is loaded 27 times and holds 9 times, where a and q are loaded; q holds 3 times, where a is loaded again.
    unit = lanes(conditional(*CONDITIONS["inside of another"]))
    counts = settled(load_kernel(unit), "executed", THIRD).properties().evaluate(n=27)
    assert counts[LOADS] == 27 + 9 + 9 + 3


def test_condition_nested_only_once_is_evaluated_again() -> None:
    # As before; then q is loaded 27 times, and a where it holds.
    unit = lanes(conditional(*CONDITIONS["inside and after another"]))
    counts = settled(load_kernel(unit), "executed", THIRD).properties().evaluate(n=27)
    assert counts[LOADS] == 27 + 9 + 9 + 3 + 27 + 9


def test_barrier_separates_code_that_shares_a_condition() -> None:
    # Before and after it, the 16 work-items of each of 6 groups load m; a third fill c, and load and store.
    code = "if m[g] > 0\n<float32> c[l] = a[g]\nw[g,l] = c[15-l]\nend"
    arrays = (array("a", "n"), array("m", "n", np.int32), array("w", "n,16"), sizes("n"))
    unit = kernel("{[g,l]: 0<=g<n and 0<=l<16}", code, *arrays)
    unit = lp.tag_inames(lp.set_temporary_address_space(unit, "c", "local"), {"g": "g.0", "l": "l.0"})
    counts = settled(load_kernel(unit), "executed", THIRD).properties().evaluate(n=6)
    assert counts["global load 32-bit stride 0"] == 2 * 96 + 32
    assert counts["local load 32-bit"] == 32
