"""Test that operations are counted with their types in the generated code; each case has the generated line."""

import re
from typing import Any

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
import pytest
from loopy.symbolic import TypeCast
from loopy.types import NumpyType

from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.kernel import load_kernel
from tests.brute_force import COUNTINGS, brute_force
from tests.kernels import floats, integers, make_kernel

N = 100
TYPES = {
    **dict.fromkeys("abc", np.float32),
    **dict.fromkeys("de", np.float64),
    **dict.fromkeys("qr", np.int32),
    "s": np.int64,
    "u": np.uint64,
    **dict.fromkeys("wz", np.complex64),
    **dict.fromkeys("xy", np.complex128),
}
TARGETS = (lp.PyOpenCLTarget(), lp.OpenCLTarget(), lp.CudaTarget(), lp.CTarget())
Operations = dict[str, int]


def over_n(code: Any, domain: str = "0<=i<n", target: Any = TARGETS[0]) -> lp.TranslationUnit:
    """Return a kernel that executes *code* for each i, on arrays with the types of TYPES."""
    names = sorted(set(re.findall(r"\b[a-eqrsuwxyz]\b", code if isinstance(code, str) else str(*code))))
    arrays = [lp.GlobalArg(name, TYPES[name], shape=("n + 1",)) for name in names]
    return make_kernel(f"{{[i]: {domain}}}", code, *arrays, integers("n"), ..., target=target, seq_dependencies=True)


def operations(unit: lp.TranslationUnit, **options: Any) -> Operations:
    """Return the number of floating-point operations that *unit* executes for each i."""
    counts = count_kernel(load_kernel(unit), **options).properties().evaluate(n=N)
    return {name: int(number) // N for name, number in counts.items() if name.startswith("f") and number}


def generated(unit: lp.TranslationUnit) -> str:
    """Return the device code that Loopy generates."""
    return lp.generate_code_v2(unit).device_code()


def enumerated(unit: lp.TranslationUnit) -> Operations:
    """Return the operations found by enumeration of the generated code."""
    (counts, other) = (brute_force(load_kernel(unit), {"n": N})[counting] for counting in COUNTINGS)
    assert counts == other
    return {name: number // N for name, number in counts.items() if name.startswith("f")}


LITERALS = (
    # A literal has the type of the assignee.
    ("b[i] = 0.1*a[i] + 0.2*c[i]", "b[i] = (float) (0.1f * a[i] + 0.2f * c[i]);", {"f32 mul": 2, "f32 add": 1}),
    ("d[i] = 2*a[i]", "d[i] = (double) (2.0 * a[i]);", {"f64 mul": 1}),
    ("d[i] = a[i] + 1", "d[i] = (double) (a[i] + 1.0);", {"f64 add": 1}),
    ("d[i] = a[i]/3", "d[i] = (double) (a[i] / 3.0);", {"f64 div": 1}),
    ("d[i] = a[i]*2.5", "d[i] = (double) (a[i] * 2.5);", {"f64 mul": 1}),
    ("d[i] = a[i] + b[i]", "d[i] = (double) (a[i] + b[i]);", {"f32 add": 1}),
    ("q[i] = 0.5*a[i]", "q[i] = (int) (0 * a[i]);", {"f32 mul": 1}),
    ("<float32> t = 0.1*a[i]\nb[i] = t", "t = (float) (0.1f * a[i]);", {"f32 mul": 1}),
    ("<> t = 0.1*a[i]\nb[i] = t", "t = 0.1 * a[i];", {"f64 mul": 1}),
    # The -1 of a difference is also a literal: it makes the difference double, or float.
    ("d[i] = a[i] - b[i]", "d[i] = (double) (a[i] + -1.0 * b[i]);", {"f64 add": 1}),
    ("b[i] = q[i] - r[i]", "b[i] = (float) (q[i] + -1.0f * r[i]);", {"f32 add": 1}),
    ("b[i] = q[i] + r[i]", "b[i] = (float) (q[i] + r[i]);", {}),
    # In a call, the literal has the type of the parameter: that of 0.1*a[i], which Loopy infers to be double.
    ("b[i] = sin(0.1*a[i])", "b[i] = (float) (sin(0.1 * a[i]));", {"f64 mul": 1, "f64 special": 1}),
    ("b[i] = sin(0.25*a[i])", "b[i] = sin(0.25f * a[i]);", {"f32 mul": 1, "f32 special": 1}),
    # In NumPy, the product of a float and a 64-bit integer is double; in C, it is float. OpenCL has sin for both.
    ("b[i] = sin(a[i]*s[i])", "b[i] = (float) (sin(a[i] * s[i]));", {"f32 mul": 1, "f32 special": 1}),
)
INTEGERS = (
    # Integers are converted before they are divided.
    ("b[i] = (1/3)*a[i]", "b[i] = (float) (((float) (1.0f) / (float) (3.0f)) * a[i]);", {"f32 div": 1, "f32 mul": 1}),
    ("b[i] = q[i]/3", "b[i] = (float) ((float) (q[i]) / (float) (3.0f));", {"f32 div": 1}),
    ("d[i] = q[i]/3", "d[i] = (double) (q[i]) / (double) (3.0);", {"f64 div": 1}),
    ("b[i] = a[i]*(i/7)", "b[i] = (float) (a[i] * ((float) (i) / (float) (7.0f)));", {"f32 div": 1, "f32 mul": 1}),
    ("b[i] = a[i]*(i//7)", "b[i] = a[i] * (i / 7);", {"f32 mul": 1}),
    # In NumPy, the product of a signed and an unsigned 64-bit integer is double; in C, it is an integer.
    ("e[i] = s[i]*u[i] + a[i]", "e[i] = s[i] * u[i] + a[i];", {"f32 add": 1}),
)
CHAINS = (
    # Products of products have no parentheses: C multiplies from left to right.
    ("e[i] = d[i]*a[i]*b[i]", "e[i] = d[i] * a[i] * b[i];", {"f64 mul": 2}),
    ("e[i] = d[i]*(a[i]*b[i])", "e[i] = d[i] * a[i] * b[i];", {"f64 mul": 2}),
    ("e[i] = a[i]*b[i]*d[i]", "e[i] = a[i] * b[i] * d[i];", {"f32 mul": 1, "f64 mul": 1}),
    ("e[i] = d[i]*(a[i]/b[i])", "e[i] = d[i] * (a[i] / b[i]);", {"f32 div": 1, "f64 mul": 1}),
    ("b[i] = q[i]*r[i]*a[i]", "b[i] = q[i] * r[i] * a[i];", {"f32 mul": 1}),
    ("b[i] = a[i]*q[i]*r[i]", "b[i] = a[i] * q[i] * r[i];", {"f32 mul": 2}),
    ("b[i] = i*i*a[i]", "b[i] = i * i * a[i];", {"f32 mul": 1}),
    ("e[i] = d[i] + (a[i] + b[i])", "e[i] = d[i] + a[i] + b[i];", {"f64 add": 2}),
    ("e[i] = a[i] + b[i] + d[i]", "e[i] = a[i] + b[i] + d[i];", {"f32 add": 1, "f64 add": 1}),
    ("b[i] = a[i] + (i + 1)", "b[i] = a[i] + i + 1.0f;", {"f32 add": 2}),
    ("d[i] = -(a[i]*c[i])", "d[i] = (double) (-1.0 * a[i] * c[i]);", {"f64 mul": 1}),
)
POWERS = (
    # A square is generated as a product, as part of its chain; by convention, it counts as one pow.
    ("e[i] = a[i]**2", "e[i] = (double) (a[i] * a[i]);", {"f32 pow": 1}),
    ("e[i] = d[i]*a[i]**2", "e[i] = d[i] * a[i] * a[i];", {"f64 mul": 1, "f64 pow": 1}),
    ("e[i] = a[i]**2*d[i]", "e[i] = a[i] * a[i] * d[i];", {"f32 pow": 1, "f64 mul": 1}),
    # Other powers are calls of the function that Loopy infers.
    ("e[i] = a[i]**3", "e[i] = (double) (loopy_pow_float32_int32(a[i], 3.0));", {"f32 pow": 1}),
    ("b[i] = a[i]**0.1", "b[i] = (float) (powf64(a[i], 0.1f));", {"f64 pow": 1}),
    ("b[i] = a[i]**0.5", "b[i] = powf32(a[i], 0.5f);", {"f32 pow": 1}),
    ("b[i] = 2*a[i]**1 + a[i]**0", "b[i] = 2.0f * a[i] + 1;", {"f32 mul": 1, "f32 add": 1}),
)
COMPLEX = (
    # A complex product is four products and two sums; a product with a real number is two products. The type is the
    # function's.
    ("z[i] = w[i]**2", "z[i] = cfloat_cast(cfloat_mul(w[i], w[i]));", {"f32 mul": 4, "f32 add": 2}),
    ("z[i] = 0.1*w[i]", "z[i] = cfloat_cast(cdouble_rmul(0.1f, cdouble_cast(w[i])));", {"f64 mul": 2}),
    ("z[i] = 2*w[i]", "z[i] = cfloat_rmul(2.0f, w[i]);", {"f32 mul": 2}),
    ("z[i] = w[i]**5", "z[i] = cfloat_cast(cdouble_powr(cdouble_cast(w[i]), 5.0f));", {"f64 special": 6, "f64 mul": 4}),
    ("x[i] = a[i] + y[i] + b[i]", "x[i] = cdouble_radd(b[i], cdouble_radd(a[i], y[i]));", {"f64 add": 2}),
    ("x[i] = w[i]*a[i]*b[i]", "x[i] = cdouble_cast(cfloat_rmul(a[i] * b[i], w[i]));", {"f32 mul": 3}),
)


def test_operation_has_the_type_of_the_generated_code(subtests: pytest.Subtests) -> None:
    for code, line, expected in [*LITERALS, *INTEGERS, *CHAINS, *POWERS, *COMPLEX]:
        with subtests.test(code=code, line=line, expected=expected):
            unit = over_n(code)
            assert line in generated(unit)
            assert expected == operations(unit)
            assert expected == enumerated(unit)


def test_all_targets_generate_the_same_literals_and_chains(subtests: pytest.Subtests) -> None:
    for target in TARGETS:
        for code, line, expected in [
            LITERALS[0],
            LITERALS[1],
            LITERALS[9],
            INTEGERS[0],
            INTEGERS[1],
            *CHAINS,
            *POWERS[:3],
        ]:
            with subtests.test(target=str(target), code=code, line=line, expected=expected):
                unit = over_n(code, target=target)
                assert line in generated(unit)
                assert expected == operations(unit)
                assert expected == enumerated(unit)


@pytest.mark.parametrize(
    ("target", "function", "expected"),
    [(TARGETS[1], "powf64", "f64 pow"), (TARGETS[2], "pow", "f32 pow"), (TARGETS[3], "pow", "f64 pow")],
)
def test_power_has_the_type_of_the_target_function(target: Any, function: str, expected: str) -> None:
    # b[i] = (float) (pow(a[i], 0.1f)); pow takes doubles in C; it is overloaded in C++, and so in CUDA.
    unit = over_n("b[i] = a[i]**0.1", target=target)
    assert f"b[i] = (float) ({function}(a[i], 0.1f));" in generated(unit)
    assert operations(unit) == enumerated(unit) == {expected: 1}


def test_complex_functions_of_the_c_target_have_its_types() -> None:
    unit = over_n("x[i] = conj(y[i])*y[i]", target=TARGETS[3])
    assert "x[i] = conj(y[i]) * y[i];" in generated(unit)
    assert operations(unit) == enumerated(unit) == {"f64 mul": 4, "f64 add": 2}


def test_condition_has_the_type_of_its_operands() -> None:
    # if (a[i] * 0.1 > 0.3)
    #   b[i] = (float) (a[i] * 0.1f);
    unit = over_n("if a[i]*0.1 > 0.3\nb[i] = a[i]*0.1 {id=half}\nend")
    assert "if (a[i] * 0.1 > 0.3)" in generated(unit)
    assert operations(unit, typical={"half": 1}) == {"f64 mul": 1, "f32 mul": 1}


def test_branches_of_a_conditional_expression_have_a_common_type() -> None:
    # One branch is double, so the conditional expression and its product are double. The first branch executes for
    # 3n/4, the other for n/4.
    unit = over_n("b[i] = c[i]*if(i < 75, 0.1*a[i], a[i])")
    assert "b[i] = (float) (c[i] * ((-75 + i < 0) ? 0.1f * a[i] : (double) (a[i])));" in generated(
        unit
    ) or "b[i] = (float) (c[i] * ((i < 75) ? 0.1f * a[i] : (double) (a[i])));" in generated(unit)
    counts = count_kernel(load_kernel(unit)).properties().evaluate(n=N)
    assert (counts["f32 mul"], counts["f64 mul"]) == (75, 100)


def assigned(expression: Any, name: str = "d") -> lp.TranslationUnit:
    """Return a kernel that assigns *expression* to each element of an array."""
    return over_n([lp.Assignment(loaded(name), expression, within_inames=frozenset("i"))])


def loaded(name: str) -> Any:
    return prim.Variable(name)[prim.Variable("i")]


def test_conversion_to_the_same_type_is_not_generated() -> None:
    same, other = (TypeCast(NumpyType(np.dtype(dtype)), loaded("a") * loaded("c")) for dtype in ("f4", "f8"))
    assert operations(assigned(loaded("e") * same)) == {"f64 mul": 2}
    assert "d[i] = e[i] * a[i] * c[i];" in generated(assigned(loaded("e") * same))
    assert operations(assigned(loaded("e") * other)) == {"f64 mul": 1, "f32 mul": 1}
    assert "d[i] = e[i] * (double) (a[i] * c[i]);" in generated(assigned(loaded("e") * other))


@pytest.mark.parametrize(
    ("may_reorder", "written", "expected"),
    [
        (True, "x[i] = cdouble_rmul(a[i] * b[i], y[i]);", {"f32 mul": 1, "f64 mul": 2}),
        (False, "x[i] = cdouble_mulr(cdouble_mulr(y[i], a[i]), b[i]);", {"f64 mul": 4}),
    ],
)
def test_real_factors_come_first_if_reordering_is_allowed(
    may_reorder: bool, written: str, expected: Operations
) -> None:
    unit = assigned(prim.Product((loaded("y"), loaded("a"), loaded("b"))), "x")
    unit = lp.set_options(unit, allow_fp_reordering=may_reorder)
    assert written in generated(unit)
    assert operations(unit) == enumerated(unit) == expected


@pytest.mark.parametrize(
    ("literal", "written", "expected"),
    [(np.float32(0.5), "0.5f", "f32 mul"), (np.float64(0.5), "0.5", "f64 mul"), (np.int64(3), "3l", "f32 mul")],
)
def test_numpy_literal_has_its_own_type(literal: Any, written: str, expected: str) -> None:
    unit = assigned(prim.Product((literal, loaded("a"))))
    assert f"{written} * a[i]" in generated(unit)
    assert operations(unit) == enumerated(unit) == {expected: 1}


# {{{ loop variables


def test_parts_of_a_tiled_loop_variable_are_converted_to_float() -> None:
    # b[16 * gid(0) + lid(0)] = a[16 * gid(0) + lid(0)] + lid(0) + gid(0) * 16.0f;
    unit = lp.split_iname(over_n("b[i] = a[i] + i"), "i", 16, outer_tag="g.0", inner_tag="l.0")
    assert "= a[16 * gid(0) + lid(0)] + lid(0) + gid(0) * 16.0f;" in generated(unit)
    assert operations(unit) == enumerated(unit) == {"f32 add": 2, "f32 mul": 1}


def test_parallel_loop_that_starts_at_one_adds_a_float() -> None:
    # b[1 + lid(0)] = a[1 + lid(0)] * (lid(0) + 1.0f);
    unit = lp.tag_inames(over_n("b[i] = a[i]*i", "1<=i<=100"), {"i": "l.0"})
    assert "* (lid(0) + 1.0f);" in generated(unit)
    assert operations(unit) == enumerated(unit) == {"f32 add": 1, "f32 mul": 1}


def test_unrolled_loop_variable_is_a_literal() -> None:
    # d[0] = (double) (a[0] * 0.0); d[1] = (double) (a[1] * 1.0); ...
    unit = lp.tag_inames(over_n("d[i] = a[i]*i", "0<=i<100"), {"i": "unr"})
    assert "d[1] = (double) (a[1] * 1.0);" in generated(unit)
    assert operations(unit) == enumerated(unit) == {"f64 mul": 1}


# }}}


def test_reduction_has_the_type_of_its_accumulator() -> None:
    # acc_j = acc_j + 0.1 * a[j]; where acc_j is double, as Loopy infers.
    unit = make_kernel(
        "{[i,j]: 0<=i<n and 0<=j<3}",
        "b[i] = sum(j, 0.1*a[j])",
        floats("a", "3"),
        floats("b", "n"),
        ...,
        target=TARGETS[0],
    )
    assert "acc_j = acc_j + 0.1 * a[j];" in generated(unit)
    assert operations(unit) == enumerated(unit) == {"f64 mul": 3, "f64 add": 3}


def test_byte_integers_are_added_as_ints() -> None:
    # C promotes them to int; integer operations are tallied although they are not properties.
    names = [lp.GlobalArg(name, np.int8, shape="n") for name in ("k", "l", "m")]
    unit = make_kernel("{[i]: 0<=i<n}", "m[i] = k[i] + l[i]", *names, ...)
    tallies = count_kernel(load_kernel(unit)).tallies
    assert [tally.item.dtype for tally in tallies if getattr(tally.item, "kind", "") == "add"] == ["i32"]
