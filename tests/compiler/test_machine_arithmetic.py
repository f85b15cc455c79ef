"""Arithmetic in nvcc's machine code: functions, constants, known selects, commuted products."""

import numpy as np
import pytest

from loopyperf.compiler import lowered
from loopyperf.compiler.functions import with_function_sequences
from loopyperf.compiler.identities import with_exact_reciprocals
from loopyperf.compiler.value_numbering import without_common_subexpressions
from loopyperf.idg import Idg
from tests.idg.machine_graphs import folded, kinds, source
from tests.idg.patterns import flat

LANES = "{[i]: 0<=i<32}"


def pointwise(code: str, dtype: type = np.float32) -> Idg:
    return source(LANES, code, flat("a", dtype), flat("b", dtype), flat("out", dtype))


def test_commuted_products_are_merged() -> None:
    graph = folded(pointwise("<> s = a[i]\n<> t = b[i]\nout[i] = (s*t)*3 + (t*s)*5"))
    assert kinds(without_common_subexpressions(graph)).count("mul f32") == 3


def test_commuted_differences_are_not_merged() -> None:
    graph = folded(pointwise("<> s = a[i]\n<> t = b[i]\nout[i] = (s - t)*3 + (t - s)*5"))
    assert kinds(without_common_subexpressions(graph)).count("add f32") == 3


def test_double_constants_are_moved_in_halves_only_on_hopper() -> None:
    # The upper half of the digits is enough for 0.5 but not for 0.1 and 0.3; 0.1 is moved only once.
    graph = pointwise("out[i] = 0.5*a[i] + 0.1*b[i]*(a[i] + 0.1) + 0.3", np.float64)
    plain = pointwise("out[i] = 0.5*a[i] + 0.5*b[i]*(a[i] + 0.5) + 0.5", np.float64)
    extra = [
        int(lowered(graph, capability=c).executed - lowered(plain, capability=c).executed) for c in ((9, 0), (8, 0))
    ]
    assert extra == [4, 0]


@pytest.mark.parametrize(
    ("divisor", "instructions"),
    [
        ("8", {"integer": 6}),
        ("7", {"integer": 6, "fma": 1}),  # includes a constant
        ("b[i]", {"convert": 2, "mufu": 1, "integer": 29, "fma": 4}),  # Loopy does not know its sign
    ],
)
def test_integer_division_becomes_an_instruction_sequence(divisor: str, instructions: dict[str, int]) -> None:
    graph = folded(pointwise(f"out[i] = a[i] // {divisor}", np.int32))
    mix = with_function_sequences(graph).mix()
    assert {kind: number for (kind, _), number in mix.items() if kind not in ("load", "store")} == instructions


def test_condition_known_in_an_unrolled_copy_is_evaluated() -> None:
    # Of the four copies, 0 and 2 add a and the others 2*b, without a select instruction.
    code = "out[i] = sum(k, if(k % 2 == 0, a[k + i], 2*b[k + i]))"
    graph = lowered(source("{[i,k]: 0<=i<32 and 0<=k<4}", code, flat("a"), flat("b"), flat("out")))
    mix = graph.mix()
    assert (mix["load", "b32"], mix["add", "f32"], mix["fma", "f32"]) == (4, 2, 2)
    assert ("select", "") not in mix


@pytest.mark.parametrize(("divisor", "kind"), [("8", "mul"), ("0.25", "mul"), ("3", "div"), ("b[i]", "div")])
def test_only_division_by_a_power_of_two_becomes_a_product(divisor: str, kind: str) -> None:
    graph = with_exact_reciprocals(folded(pointwise(f"out[i] = a[i]/{divisor}")))
    (found,) = (each for each in graph.instructions if each.kind in ("mul", "div"))
    assert found.kind == kind
    if kind == "mul":
        assert found.operands[1].known == 1 / float(divisor)


def test_product_with_a_reciprocal_is_fused_into_a_multiply_add() -> None:
    mix = lowered(pointwise("out[i] = a[i]/128 + b[i]/0.25")).mix()
    assert (mix["fma", "f32"], mix["mul", "f32"]) == (1, 1)


def test_indirect_loads_with_equal_indices_are_merged() -> None:
    graph = source(LANES, "out[i] = a[k[i]]*a[k[i]] + b[k[i]]", *map(flat, ("a", "b", "out")), flat("k", np.int32))
    loads = [
        each.reference.array
        for each in without_common_subexpressions(folded(graph)).instructions
        if each.kind == "load"
    ]
    assert sorted(loads) == ["a", "b", "k"]


def test_loads_of_two_inames_on_one_axis_are_merged() -> None:
    # i and j are both the work-item index, but j starts at 1: a[i] and a[j - 1] are loaded together.
    code = "b[i] = a[i] + 1\nout[j] = a[j - 1]*a[j]"
    domain = "{[i,j]: 0<=i<32 and 1<=j<=32}"
    graph = source(domain, code, flat("a"), flat("b"), flat("out"), tags={"i": "l.0", "j": "l.0"})
    assert kinds(without_common_subexpressions(folded(graph))).count("load b32") == 2


@pytest.mark.parametrize(("between", "name", "number"), [("barrier", "i", 2), ("nop", "i", 1), ("barrier", "j", 1)])
def test_conditional_loads_are_not_merged_across_a_barrier(between: str, name: str, number: int) -> None:
    # i covers 20 of the 32 work-items and needs a test; j covers all. nvcc (sm_80 and sm_90) loads as often.
    middle = {"barrier": "... lbarrier {id=b, dep=x}", "nop": "... nop {id=b, dep=x}"}[between]
    code = (
        f"out[{name}] = 2*a[{name}] {{id=x}}\n{middle}\nmore[{name}] = 3*a[{name}] {{id=y, dep=b}}\nb[j] = 1 {{dep=y}}"
    )
    arguments = map(flat, ("a", "b", "out", "more"))
    graph = source("{[i,j]: 0<=i<20 and 0<=j<32}", code, *arguments, tags={"i": "l.0", "j": "l.0"})
    assert kinds(without_common_subexpressions(folded(graph))).count("load b32") == number
