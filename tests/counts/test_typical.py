"""Test counts with typical values for quantities that the source does not determine."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import loopy as lp
import numpy as np
import pytest
from parts.cubin import instruction_mix

import loopyperf as lpp
from loopyperf.compiler.resources import library
from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.errors import ParameterError, UncountableError
from loopyperf.kernel import load_kernel
from tests.counts.small_kernels import array, kernel, lanes, sizes
from tests.counts.small_uncountable import (
    call_with_arrays,
    complex_minimum,
    data_dependent_choice,
    data_dependent_predicate,
    foreign_code,
    image,
    random_numbers,
    sparse_rows,
    structure,
)
from tests.kernels import gathered

CONDITION = "m[i_inner + i_outer*16] > 0"


def counted(unit: lp.TranslationUnit, n: int = 100, **options: Any) -> dict[str, int]:
    """Return the counts of *unit* without launches and work-groups."""
    counts = count_kernel(load_kernel(unit), **options).properties().evaluate(n=n)
    return {name: int(number) for name, number in counts.items() if name not in ("launches", "work-groups")}


# {{{ conditions


@pytest.mark.parametrize("keyword", [CONDITION, "some"])
def test_conditional_body_executes_with_the_given_probability(keyword: str) -> None:
    # m is always loaded 100 times; 25 of 100 bodies execute, each with a load, a multiplication and a store.
    assert counted(data_dependent_predicate(), typical={keyword: 0.25}) == {
        "f32 mul": 25,
        "global load 32-bit stride 1": 100 + 25,
        "global store 32-bit stride 1": 25,
        "global min(load, store) 32-bit stride 1": 25,
    }


def test_overloaded_function_in_a_condition_keeps_its_name() -> None:
    # Loopy renames isnan of one of the types to isnan_0 or isnan_1.
    unit = lp.make_kernel(
        "{[i]: 0<=i<n}",
        "c[i] = (2*d[i] if isnan(a[i]) else 0) + (3*e[i] if isnan(b[i]) else 0)",
        [lp.GlobalArg("a", np.float32), lp.GlobalArg("b,c,d,e", np.float64), ...],
        lang_version=(2018, 2),
    )
    counts = counted(unit, typical={"isnan(a[i])": 0.25, "isnan(b[i])": 0.5})
    assert counts["f64 mul"] == 25 + 50


def test_else_branch_executes_with_the_remaining_probability() -> None:
    # out = if(a > 0, 2 a, a/3): the condition loads a, and so does each branch.
    counts = counted(data_dependent_choice(), typical={"some": 0.25})
    assert (counts["f32 mul"], counts["f32 div"]) == (25, 75)
    assert counts["global load 32-bit stride 1"] == 200


def test_affine_part_of_a_condition_stays_exact() -> None:
    # Both parts hold for 3/4 of 7 points; m is loaded only if i < 7, first for the body, then for the else branch.
    unit = kernel(
        "{[i]: 0<=i<n}",
        "if i < 7 and m[i] > 0\nout[i] = 2*a[i] {id=some}\nelse\nout[i] = 1\nend",
        array("a,out", "n"),
        sizes("n"),
        m=np.int32,
    )
    counts = counted(lanes(unit), typical={CONDITION: 0.75})
    assert counts["f32 mul"] == round(7 * 0.75)
    assert counts["global load 32-bit stride 1"] == round(7 + 7 + 7 * 0.75)
    assert counts["global store 32-bit stride 1"] == 100


def test_disjunction_of_affine_and_data_conditions() -> None:
    # i < 10 holds for 10 points; m[i] > 0 holds for a fifth of the other 90: 18.
    unit = kernel(
        "{[i]: 0<=i<n}",
        "if i < 10 or m[i] > 0\nout[i] = 2*a[i] {id=some}\nend",
        array("a,out", "n"),
        sizes("n"),
        m=np.int32,
    )
    counts = counted(lanes(unit), typical={CONDITION: 0.2})
    assert counts["f32 mul"] == 10 + 18
    assert counts["global load 32-bit stride 1"] == 90 + 28  # m unless i < 10; a


def test_condition_shared_by_instructions_is_evaluated_once() -> None:
    # Loopy generates one if around both.
    code = "if m[i] > 0\nout[i] = 2*a[i] {id=some}\nout2[i] = 3*a[i] {id=other}\nend"
    unit = kernel("{[i]: 0<=i<n}", code, array("out,out2", "n"), sizes("n"), a=np.float32, m=np.int32)
    counts = counted(lanes(unit), typical={CONDITION: 0.5})
    assert counts["global load 32-bit stride 1"] == 100 + 50 + 50


def test_loop_invariant_condition_is_evaluated_before_the_loop() -> None:
    unit = kernel(
        "{[i,j]: 0<=i<n and 0<=j<8}",
        "if m[i] > 0\nout[i,j] = 2*a[i] {id=some}\nend",
        array("a", "n"),
        array("out", "n,8"),
        sizes("n"),
        m=np.int32,
    )
    counts = counted(lanes(unit), typical={CONDITION: 0.5})
    assert counts["f32 mul"] == 400
    assert counts["global load 32-bit stride 1"] == 100 + 400


def guarded(condition: str, tile: int = 128, inner: int = 1) -> lp.TranslationUnit:
    """Return a kernel of square roots under *condition*, in tiles whose loop is split again if *inner* exceeds 1."""
    unit = kernel(
        "{[i]: 0<=i<n}",
        f"if {condition}\n    out[i] = sqrt(a[i]) {{id=root}}\nend",
        array("a,b,d,out", "n+1", np.float64),
        array("f", "n,n", np.float64),
        sizes("n"),
    )
    unit = lp.split_iname(unit, "i", tile, outer_tag="g.0", inner_tag=None if inner > 1 else "l.0")
    return lp.split_iname(unit, "i_inner", inner, outer_tag="l.0", inner_tag="unr") if inner > 1 else unit


@pytest.mark.parametrize(
    ("condition", "keywords", "share"),
    [
        ("d[i+1] > 1e-3", ["d[i+1] > 1e-3", "d[i + 1]>0.001", " d[ i+1 ] >1e-3", "d", "root"], 0.25),
        ("d[i+1] > 1e-3", ["not d[i+1] > 1e-3", "not(d[i + 1] > 0.001)"], 0.75),
        ("not (d[i] > 0)", ["d[i] > 0", "d"], 0.75),
        ("d[2*i] > i", ["d[2*i] > i"], 0.25),
        ("f[i, i] > d[i]", ["f[i,i] > d[i]"], 0.25),
    ],
)
def test_keyword_of_a_condition_is_its_text_before_loops_were_split(
    condition: str, keywords: list[str], share: float
) -> None:
    for tile, inner in ((64, 1), (128, 1), (128, 4)):
        for keyword in keywords:
            counts = counted(guarded(condition, tile, inner), n=1000, typical={keyword: 0.25})
            assert counts["f64 special"] == 1000 * share, (keyword, tile, inner)


def test_error_names_the_condition_independently_of_tiles() -> None:
    messages: set[str] = set()
    for tile, inner in ((64, 1), (128, 1), (128, 4)):
        with pytest.raises(UncountableError, match=r"typical=\{'d\[i \+ 1\] > 0': 0\.5\}") as error:
            lpp.estimate(guarded("d[i+1] > 0", tile, inner), n=1000, device="nvidia-v100", model="roofline")
        messages.add(str(error.value))
    assert len(messages) == 1


def test_condition_in_a_branch_that_never_executes_needs_no_probability() -> None:
    unit = guarded("d[i] > 0 and f[i, i] > 0")
    assert counted(unit, n=1000, typical={"d[i] > 0": 0})["global load 64-bit stride 1"] == 1000
    assert counted(unit, n=1000, typical={"d[i] > 0": 0, "f": 0.5})["global load 64-bit stride 1"] == 1000
    with pytest.raises(UncountableError, match=r"how often f\[i, i\] > 0 holds"):
        counted(unit, typical={"d[i] > 0": 0.5})


# }}}


# {{{ selects


ALL = (0, 0.25, 1)
SELECTS = {
    "if(x[i] > 0, x[i], 0)": 1,
    "if(x[i] > 0, x[i], -x[i])": 1,
    "if(x[i] < lo, lo, if(x[i] > hi, hi, x[i]))": 1,
    "if(x[i] < 0, -x[i], x[i]) + if(b[i] < 0, 0, b[i])": 2,
    "if(lo > 0, 2*x[i], 3*x[i])": 1,
    "x[i] + if(b[i] > 0, x[i], 0)": 2,
}
"""choice between cheap values -> elements that it loads; NVRTC generates as many LDG for each of them (sm_80)"""


def chosen(expression: str, target: Any = None) -> lp.TranslationUnit:
    unit = lp.make_kernel(
        "{[i]: 0<=i<n}",
        f"y[i] = {expression} {{id=some}}",
        [lp.GlobalArg("a,b,x,y", np.float32, shape="n"), lp.ValueArg("lo,hi", np.float32), lp.ValueArg("n", np.int32)],
        assumptions="n >= 128 and n mod 128 = 0",
        lang_version=(2018, 2),
        target=target,
    )
    return lp.split_iname(unit, "i", 128, outer_tag="g.0", inner_tag="l.0")


def test_choice_between_cheap_values_needs_no_probability() -> None:
    options: dict[str, Any] = {"n": 2**20, "device": "nvidia-v100"}
    metric = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
    for expression, loads in {**SELECTS, "if(a[i] < b[i], a[i], b[i])": 2}.items():
        unit = chosen(expression)
        times = {lpp.estimate(unit, model="pipeline", **options).seconds}
        if "if(x[i] <" not in expression:  # one condition, which the name of the instruction identifies
            every = [lpp.estimate(unit, model="pipeline", typical={"some": p}, **options) for p in ALL]
            times |= {each.seconds for each in every}
        assert len(times) == 1, expression
        assert lpp.counters(unit, **options)[metric] == 2**20 * loads / 32, expression
        assert counted(unit, n=1024)["global load 32-bit stride 1"] == 1024 * loads, expression


@pytest.mark.skipif(library() is None, reason="NVRTC is not installed")
def test_machine_code_loads_as_often_as_selects_do() -> None:
    for expression, loads in SELECTS.items():
        code = lp.generate_code_v2(chosen(expression, lp.CudaTarget())).device_code()
        assert instruction_mix(code, "sm_80")["LDG"] == loads, expression


@pytest.mark.parametrize("side", ["b[i]", "exp(x[i])", "x[i]/3", "((((x[i]*lo+hi)*x[i]+lo)*x[i]+hi)*x[i]+lo)*x[i]"])
def test_choice_between_other_values_needs_a_probability(side: str) -> None:
    with pytest.raises(UncountableError, match=r"how often x\[i\] > 0 holds"):
        counted(chosen(f"if(x[i] > 0, {side}, 0)"))


@pytest.mark.parametrize("reduction", ["any", "all"])
def test_reduction_of_conditions_over_a_group_needs_no_probability(reduction: str) -> None:
    unit = lp.make_kernel(
        "{[b, i]: 0 <= b < n and 0 <= i < 256}",
        f"o[b] = {reduction}(i, x[b, i] > 0)",
        [lp.GlobalArg("x", np.float32, shape="n, 256"), lp.GlobalArg("o", np.int32, shape="n"), sizes("n")],
        lang_version=(2018, 2),
    )
    unit = lp.tag_inames(unit, "b:g.0,i:l.0")
    # 256 values are loaded once; a level of 128, 64, ..., 1 work-items loads two values each; one work-item the result.
    counts = counted(unit, n=10)
    assert counts["global load 32-bit stride 1"] == 10 * 256
    assert lpp.estimate(unit, n=1000, device="nvidia-v100", model="roofline").seconds > 0


# }}}


# {{{ loops


def test_only_the_inner_loop_body_depends_on_the_row_length() -> None:
    # Each of 100 rows loads two row pointers and stores once; each of its 27 entries loads a value and adds it.
    assert counted(sparse_rows(), typical={"j": 27}) == {
        "f32 add": 2700,
        "global load 32-bit stride 1": 200,
        "global load 32-bit stride 1/>4": 2700,
        "global store 32-bit stride 1": 100,
        "global min(load, store) 32-bit stride 1": 100,
    }


@pytest.mark.parametrize(("typical", "adds"), [({"j": 2.5}, 250), ({"j": 0}, None), ({"s": 5, "e": 9}, 400)])
def test_fractional_iteration_counts_and_typical_bounds(typical: Any, adds: int | None) -> None:
    assert counted(sparse_rows(), typical=typical).get("f32 add") == adds


def row_lengths(split: bool) -> lp.TranslationUnit:
    """The length of each row is loaded from memory."""
    unit = kernel(
        ["{[i]: 0<=i<n}", "[row_length] -> {[j]: 0<=j<row_length}"],
        "<> row_length = length[i]\nout[i] = sum(j, a[j,i])",
        array("length", "n", np.int32),
        array("a", "1000,n"),
        array("out", "n"),
        sizes("n"),
    )
    return lanes(lp.split_iname(unit, "j", 8) if split else unit)


@pytest.mark.parametrize("split", [False, True])
def test_variable_loop_bound_takes_its_typical_value(split: bool) -> None:
    counts = counted(row_lengths(split), typical={"row_length": 27})
    assert counts["f32 add"] == 2700
    assert counts["global load 32-bit stride 1"] == 100 + 2700


def test_split_loop_requires_typical_values_of_its_bounds() -> None:
    with pytest.raises(UncountableError, match="give a typical value of row_length") as error:
        count_kernel(load_kernel(row_lengths(split=True)))
    assert error.value.keyword == "row_length"


# }}}


# {{{ foreign code


def test_foreign_code_has_the_given_counts() -> None:
    given = {"f32 add": 3, "global store 32-bit stride 1": 1, "local load 64-bit": Fraction(1, 2)}
    counts = counted(lanes(foreign_code()), typical={"text": given})
    assert counts == {"f32 add": 300, "global store 32-bit stride 1": 100, "local load 64-bit": 50}


@pytest.mark.parametrize("text", ["", " \n", ";", "// nothing", "/* i++; */ ;"])
def test_foreign_code_without_statements_has_no_counts(text: str) -> None:
    empty = lp.CInstruction((), text, read_variables=frozenset({"a"}), within_inames_is_final=True)
    arrays = [array("a,out", "n"), sizes("n")]
    unit = lp.make_kernel("{[i]: 0<=i<n}", ["out[i] = 2*a[i]", empty], arrays, lang_version=(2018, 2))
    alone = lp.make_kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]", arrays, lang_version=(2018, 2))
    assert counted(unit) == counted(alone)
    arguments: dict[str, Any] = {"n": 1000, "device": "nvidia-v100", "model": "roofline"}
    assert lpp.estimate(unit, **arguments).seconds == lpp.estimate(alone, **arguments).seconds


def test_function_of_arrays_has_the_given_counts() -> None:
    with pytest.raises(UncountableError, match="no count for a call of matvec") as error:
        counted(call_with_arrays())
    assert error.value.keyword == "matvec"
    given = {"f32 add": 100, "f32 mul": 100, "global load 32-bit stride 0": 110}
    counts = counted(call_with_arrays(), typical={"matvec": given})
    assert counts == {name: 100 * number for name, number in given.items()}


@pytest.mark.parametrize("build", [foreign_code, call_with_arrays])
def test_given_operations_are_timed_although_unused(build: Any) -> None:
    name = "text" if build is foreign_code else "matvec"
    device = replace(lpp.load_device("nvidia-v100"), launch_overhead=0.0)
    times = [
        lpp.estimate(build(), n=2**20, device=device, model="roofline", typical={name: {"f64 mul": number}})
        for number in (1000, 2000)
    ]
    assert times[1].seconds == pytest.approx(2 * times[0].seconds, rel=1e-3)  # except for the time to start groups


def test_estimate_rejects_given_accesses_without_addresses() -> None:
    stated = {"text": {"global load 32-bit stride 1": 1}}
    with pytest.raises(UncountableError, match="give only its operations"):
        lpp.estimate(foreign_code(), n=100, device="nvidia-v100", model="roofline", typical=stated)


def test_function_with_several_results_has_the_given_counts() -> None:
    counts = counted(random_numbers(), typical={"philox4x32_f32": {"f32 mul": 4}})
    assert counts["f32 mul"] == 400


def test_other_uncountable_constructs_have_the_given_counts() -> None:
    load = {"global load 32-bit stride 1/2": 1}
    members = counted(structure(), n=99, typical={"p[i].x": load, "p[i].y": load})
    assert members["global load 32-bit stride 1/2"] == 99 + 33
    assert counted(image(), typical={"a": {"f32 special": 2}})["f32 special"] == 2 * 100
    pairs = counted(complex_minimum(), typical={"min(a[i], b[i])": {"f32 add": 3}})
    assert (pairs["f32 add"], pairs["global load 64-bit stride 0"]) == (3 * 100, 2 * 100)


# }}}


# {{{ large and wrong values


@pytest.mark.parametrize("passes", [10**19, 1e308, np.uint64(2**64 - 1)])
@pytest.mark.parametrize("keyword", ["j", "e"])
def test_large_values_are_exact(passes: Any, keyword: str) -> None:
    stated = {"j": {"j": passes}, "e": {"s": 0, "e": passes}}[keyword]
    expected = 100 * Fraction(str(passes))
    assert counted(sparse_rows(), typical=stated)["f32 add"] == expected


@pytest.mark.parametrize("digits", [400, 5000])
@pytest.mark.parametrize(
    ("build", "stated"),
    [
        (sparse_rows, lambda number: {"j": number}),
        (sparse_rows, lambda number: {"s": 0, "e": -number}),
        (foreign_code, lambda number: {"text": {"f32 add": Fraction(number, 3)}}),
    ],
)
def test_values_beyond_the_largest_float_are_rejected(build: Any, stated: Any, digits: int) -> None:
    with pytest.raises(ParameterError, match=r"must be at most 1.8e\+308 in magnitude"):
        lpp.count(build(), typical=stated(10**digits))
    with pytest.raises(ParameterError, match=r"must be at most 1.8e\+308 in magnitude"):
        count_kernel(load_kernel(build()), typical=stated(10**digits))


@pytest.mark.parametrize(
    ("build", "typical", "message"),
    [
        (
            data_dependent_predicate,
            {"sone": 0.5},
            r"; not used so far: 'sone'; did you mean 'some' instead of 'sone'\?",
        ),
        (sparse_rows, {"k": 3}, "; not used so far: 'k'$"),
        (sparse_rows, {"k": 3, "zz": 3}, "; not used so far: 'k', 'zz'$"),
    ],
)
def test_error_names_a_misspelled_keyword(build: Any, typical: Any, message: str) -> None:
    with pytest.raises(UncountableError, match=message):
        count_kernel(load_kernel(build()), typical=typical)


def test_error_names_a_misspelled_array_and_suggests_another() -> None:
    with pytest.raises(ParameterError, match=r"that it uses: 'a'; did you mean 'a' instead of 'aa'\?"):
        count_kernel(load_kernel(gathered()), typical={"aa": "1"})


@pytest.mark.parametrize(
    ("typical", "message"),
    [
        ({"some": 0.5, "sone": 0.5}, "kernel 'small' does not use typical 'sone'; keywords that it uses: .*'some'"),
        ({"some": 1.5}, "must be a probability from 0 to 1, got 3/2"),
        ({"some": "often"}, r"must be a finite number, got 'often' \(str\)"),
        ({"some": float("nan")}, "must be a finite number, got nan"),
        ({"some": True}, r"must be a finite number, got True \(bool\)"),
    ],
)
def test_invalid_typical_value_is_rejected(typical: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        count_kernel(load_kernel(data_dependent_predicate()), typical=typical)


@pytest.mark.parametrize(
    ("build", "typical", "message"),
    [
        (sparse_rows, {"j": -1}, r"typical\['j'\] must be an iteration count >= 0, got -1"),
        (sparse_rows, {"s": 0, "e": 2.5}, r"typical\['e'\] must be a loop bound \(an integer >= 0\), got 5/2"),
        (sparse_rows, {"s": 0, "e": -2}, r"typical\['e'\] must be a loop bound \(an integer >= 0\), got -2"),
        (sparse_rows, {"j": 2, "a": "5"}, r"typical\['a'\] must be .* or a stride class \(0, 1, 1/2, .*\), got '5'"),
        (foreign_code, {"text": {"f32 add": -1}}, "must not contain negative numbers"),
        (foreign_code, {"text": 3}, r"typical\['text'\] must map properties to numbers, got 3"),
        (foreign_code, {"text": {3: 1}}, "a property name must be a string such as 'f32 add', got 3"),
        (foreign_code, {"text": {"f32 adds": 3}}, "unknown property 'f32 adds'; use e.g. 'f32 add'"),
    ],
)
def test_typical_value_of_the_wrong_kind_is_rejected(build: Any, typical: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        count_kernel(load_kernel(build()), typical=typical)


# }}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"counting": ["paper"]}, r"unknown counting \['paper'\]; choose one of"),
        ({"sub_group_size": "32"}, "sub_group_size must be an integer >= 1, got '32'"),
        ({"sub_group_size": 32.5}, "sub_group_size must be an integer >= 1, got 32.5"),
        ({"sub_group_size": np.int8(-1)}, "sub_group_size must be an integer >= 1, got .*-1"),
        ({"sub_group_size": True}, "sub_group_size must be an integer >= 1, got True"),
        ({"sub_group_size": [32]}, r"sub_group_size must be an integer >= 1, got \[32\]"),
        ({"typical": ["j"]}, r"typical must map keywords to values, got \['j'\]"),
        ({"typical": {"j": 3, 4: 5}}, "typical must map keywords to values, got the keyword 4"),
    ],
)
def test_option_of_the_wrong_type_is_rejected(options: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        lpp.count(sparse_rows(), **options)


def test_sub_group_size_may_be_a_numpy_integer() -> None:
    unit = lanes(kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]", a=np.float32))
    counts = lpp.count(unit, sub_group_size=np.int64(8))  # pyright: ignore[reportArgumentType]
    assert type(counts.sub_group_size) is int
    assert counts.properties()["f32 mul"](n=32) == 4


def test_estimate_notes_list_what_was_assumed() -> None:
    assumed = lpp.estimate(sparse_rows(), n=100, device="amd-r9-fury", typical={"j": 27})
    assert any(note.startswith("assumed: addresses depend on data (a[") for note in assumed.notes)
