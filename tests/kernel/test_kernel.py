"""Loading of Loopy kernels: launches, grids and memory from Loopy's schedule, accepted inputs, and errors."""

from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
import pytest
from loopy.kernel.data import AddressSpace
from loopy.symbolic import pw_aff_to_expr
from pymbolic import evaluate

import loopyperf as lpp
from loopyperf.errors import KernelError, ParameterError, UnboundedDomainError, UncountableError
from loopyperf.kernel import Kernel, load_kernel
from loopyperf.kernel.integers import plain_scalars
from loopyperf.kernel.launches import Barrier
from tests.kernels import floats, integers, make_kernel

LANGUAGE = (2018, 2)


def scaled(**options: Any) -> lp.TranslationUnit:
    """Return a kernel that doubles an array, in groups of 16."""
    unit = make_kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i] {id=scale}", name="scaled", **options)
    unit = lp.add_and_infer_dtypes(unit, {"a": np.float32})
    return lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0")


def two_steps() -> lp.TranslationUnit:
    """Return a kernel of two launches, the second of which passes numbers through local memory."""
    unit = make_kernel(
        "{[i,j,l]: 0<=i<n and 0<=j<n and 0<=l<32}",
        """
        a[i] = i {id=first}
        ... gbarrier {id=between, dep=first}
        <> c[l] = a[j] + l {id=fill, dep=between, inames=j:l}
        <> d[l] = c[31-l] {id=turn, dep=fill, inames=j:l}
        out[j,l] = d[31-l] {id=last, dep=turn}
        """,
        floats("a", "n"),
        floats("out", "n,32"),
        ...,
        name="steps",
        seq_dependencies=False,
    )
    unit = lp.split_iname(unit, "i", 64, outer_tag="g.0", inner_tag="l.0")
    for name, space in (("c", AddressSpace.LOCAL), ("d", AddressSpace.LOCAL)):
        unit = lp.set_temporary_address_space(unit, name, space)
    return lp.tag_inames(unit, {"j": "g.0", "l": "l.0"})


def extents(axes: Any, **sizes: int) -> dict[int, int]:
    """Return the extents of grid or group axes at *sizes*."""

    return {axis: int(evaluate(pw_aff_to_expr(extent, int_ok=True), dict(sizes))) for axis, extent in axes.items()}


# {{{ contents of a loaded kernel


def test_grid_of_one_launch_follows_the_tags() -> None:
    kernel = load_kernel(scaled())
    (launch,) = kernel.launches
    assert kernel.name == launch.name == "scaled"
    assert extents(launch.group_axes, n=33) == {0: 3}
    assert extents(launch.local_axes) == {0: 16}
    assert (launch.barriers, launch.host_inames, launch.local_memory) == ((), frozenset(), 0)


def test_group_size_is_the_same_at_all_sizes() -> None:
    # At n = 2 the domain has only i = 1, the second lane of its group; Loopy launches groups of two anyway.
    unit = lp.make_kernel(
        "{ [i]: 0 <= i < n and i mod 3 = 1 }", "a[i] = 2*a[i]", [lp.GlobalArg("a", np.float32), "..."]
    )
    unit = lp.split_iname(lp.assume(unit, "n >= 2"), "i", 2, outer_tag="g.0", inner_tag="l.0")
    (launch,) = load_kernel(unit).launches
    assert [extents(launch.local_axes, n=n) for n in (2, 4, 5, 100)] == [{0: 2}] * 4


def test_group_extent_covers_all_values_of_the_local_iname() -> None:
    # i from -1 to n-1, in groups of four: at n = 0 only the last lane is active; from n = 1 all four can be.
    unit = lp.make_kernel(
        "{ [i]: -1 <= i < n }", "a[i + 1] = 2*a[i + 1]", [lp.GlobalArg("a", np.float32, shape="n + 1"), "..."]
    )
    unit = lp.split_iname(lp.assume(unit, "n >= 0"), "i", 4, outer_tag="g.0", inner_tag="l.0")
    (launch,) = load_kernel(unit).launches
    assert [extents(launch.local_axes, n=n) for n in (0, 1, 2, 100)] == [{0: 4}] * 4


def test_each_launch_has_its_own_instructions_grid_and_local_memory() -> None:
    first, second = load_kernel(two_steps()).launches
    assert [insn.id for insn in first.instructions] == ["first"]
    assert [insn.id for insn in second.instructions] == ["fill", "turn", "last"]
    assert (extents(first.group_axes, n=100), extents(first.local_axes)) == ({0: 2}, {0: 64})
    assert (extents(second.group_axes, n=100), extents(second.local_axes)) == ({0: 100}, {0: 32})
    # c and d: 32 floats of 4 bytes each.
    assert (first.local_memory, second.local_memory) == (0, 2 * 32 * 4)


def test_axis_lengths_are_assumed_nonnegative() -> None:
    unit = make_kernel("{[i]: lo<=i<n}", "out[i-lo] = a[6*i-6*lo+3]")
    kernel = load_kernel(lp.add_and_infer_dtypes(unit, {"a": np.float32}))
    assert kernel.assumptions.is_equal(isl.BasicSet("[lo, n] -> { : n >= lo }"))


def test_axis_of_unknown_length_adds_no_assumption() -> None:
    rows = lp.GlobalArg("out", np.float32, shape=(None, "n"), strides=("n", 1))
    unit = make_kernel("{[i,j]: 0<=i<3 and 0<=j<n}", "out[i,j] = 2", rows, integers("n"))
    assert load_kernel(unit).assumptions.is_equal(isl.BasicSet("[n] -> { : n >= 0 }"))


def test_barriers_are_named_after_the_instruction_that_they_precede() -> None:
    _, second = load_kernel(two_steps()).launches
    assert second.barriers == (
        Barrier("barrier before turn", (), frozenset(), frozenset()),
        Barrier("barrier before last", (), frozenset(), frozenset()),
    )


def test_barriers_record_device_and_host_loops() -> None:
    unit = make_kernel(
        ["[t] -> {[step]: 0<=step<t}", "[n] -> {[g,k,l]: 0<=g<n and 0<=k<4 and 0<=l<16}"],
        """
        for step
            ... gbarrier {id=top}
            for g, k, l
                <> c[l] = a[g,l] + k {id=fill, dep=top}
                a[g,l] = c[15-l] {id=turn, dep=fill}
            end
        end
        """,
        floats("a", "n,16"),
        ...,
        seq_dependencies=True,
    )
    unit = lp.set_temporary_address_space(unit, "c", "local")
    (launch,) = load_kernel(lp.tag_inames(unit, {"g": "g.0", "l": "l.0"})).launches
    assert launch.host_inames == {"step"}
    assert [barrier.inames for barrier in launch.barriers] == [{"step", "k"}, {"step", "k"}]


def test_reductions_and_prefetches_follow_schedule_order() -> None:
    unit = make_kernel("{[i,k]: 0<=i<n and 0<=k<16}", "out[i] = sum(k, a[k]) {id=add}", floats("a", 16), ...)
    unit = lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0")
    unit = lp.add_prefetch(unit, "a", ["k"], fetch_outer_inames="i_outer", default_tag="l.auto")
    (launch,) = load_kernel(unit).launches
    assert [insn.id for insn in launch.instructions] == ["a_fetch_rule", "add_k_init", "add_k_update", "add"]
    assert launch.local_memory == 16 * 4


def test_parameters_are_the_integer_arguments() -> None:
    unit = make_kernel(
        "{[i]: 0<=i<n}",
        "out[i] = x*a[i] + m",
        lp.ValueArg("x", np.float32),
        lp.ValueArg("m,n", np.int64),
        ...,
        assumptions="n>=1",
    )
    kernel = load_kernel(lp.add_and_infer_dtypes(unit, {"a": np.float32}))
    assert kernel.parameters == {"m", "n"}
    # The assumptions have all parameters, so that all counts share one isl space.
    assert kernel.assumptions.get_var_names_not_none(isl.dim_type.param) == ["m", "n"]
    assert kernel.assumptions.plain_is_equal(isl.BasicSet("[m,n] -> {: n>=1}").params())


def test_only_arrays_outside_registers_are_in_memory() -> None:
    unit = make_kernel(
        "{[i,j]: 0<=i<n and 0<=j<4}",
        "<> p[j] = x*a[i] {inames=i:j}\n<> s = sum(j, p[j]) {inames=i}\nout[i] = s",
        lp.ValueArg("x", np.float32),
        lp.GlobalArg("a", np.float32),
        ...,
        seq_dependencies=True,
    )
    kernel = load_kernel(unit)
    in_memory = {name: kernel.arrays.get(name) is not None for name in ("a", "out", "p", "s", "x", "n")}
    assert in_memory == {"a": True, "out": True, "p": False, "s": False, "x": False, "n": False}


def test_temporaries_with_shared_storage_count_once() -> None:
    unit = make_kernel(
        "{[g,l]: 0<=g<n and 0<=l<16}",
        """
        <> c[l] = a[g,l] {id=one, inames=g:l}
        out[g,l] = c[15-l] {id=two, dep=one}
        <> d[l] = out[g,l] {id=three, dep=two, inames=g:l}
        out[g,l] = d[15-l] {id=four, dep=three}
        """,
        floats("a,out", "n,16"),
        ...,
        seq_dependencies=False,
    )
    for name in "cd":
        unit = lp.set_temporary_address_space(unit, name, "local")
    unit = lp.infer_unknown_types(lp.tag_inames(unit, {"g": "g.0", "l": "l.0"}))
    shared = lp.allocate_temporaries_for_base_storage(lp.alias_temporaries(unit, ["c", "d"]))
    assert [load_kernel(unit).launches[0].local_memory for unit in (unit, shared)] == [2 * 64, 64]


def test_lane_variables_are_registers_that_differ_by_lane() -> None:
    unit = make_kernel(
        "{[g,l]: 0<=g<n and 0<=l<16}",
        """
        <> alike = g + 1
        <> own = l + alike
        <> derived = own + 1 {inames=g}
        <> still_alike = alike + 1 {inames=g:l}
        <> chosen = 0
        if l % 2 == 0
            chosen = 1
        end
        out[g,l] = derived + still_alike + chosen
        """,
        floats("out", "n,16"),
        ...,
        seq_dependencies=True,
    )
    kernel = load_kernel(lp.tag_inames(unit, {"g": "g.0", "l": "l.0"}))
    assert kernel.lane_variables == {"own", "derived", "chosen"}


# }}}


# {{{ accepted inputs


def summary(kernel: Kernel) -> list[Any]:
    """Return the properties of a kernel's launches that can be compared."""
    return [
        ([str(insn) for insn in launch.instructions], launch.barriers, extents(launch.group_axes, n=40))
        for launch in kernel.launches
    ]


@pytest.mark.parametrize(
    "prepare",
    [
        lp.preprocess_program,
        lambda unit: lp.linearize(lp.preprocess_program(unit)),
        lambda unit: unit.default_entrypoint,
        lambda unit: lp.preprocess_program(unit).default_entrypoint,
        lambda unit: lp.linearize(lp.preprocess_program(unit)).default_entrypoint,
    ],
    ids=["preprocessed", "linearized", "loop kernel", "preprocessed loop kernel", "linearized loop kernel"],
)
@pytest.mark.parametrize("build", [scaled, two_steps])
def test_preprocessed_and_linearized_kernels_load_the_same(build: Any, prepare: Any) -> None:
    assert summary(load_kernel(build())) == summary(load_kernel(prepare(build())))


def test_a_loop_kernel_may_call_functions() -> None:
    unit = make_kernel("{[i]: 0<=i<n}", "out[i] = sqrt(a[i])")
    kernel = load_kernel(lp.add_and_infer_dtypes(unit, {"a": np.float32}).default_entrypoint)
    assert "sqrt" in kernel.callables


@pytest.mark.parametrize("target", [lp.PyOpenCLTarget(), lp.OpenCLTarget(), lp.CudaTarget()])
def test_every_device_target_has_all_launches(target: Any) -> None:
    assert len(load_kernel(two_steps().copy(target=target)).launches) == 2


# }}}


# {{{ errors


@pytest.mark.parametrize("wrong", [3, "out[i] = 2*a[i]", None])
def test_object_of_wrong_type_raises(wrong: Any) -> None:
    with pytest.raises(KernelError, match=f"got {type(wrong).__name__}; build one with loopy.make_kernel"):
        load_kernel(wrong)


def test_error_names_arguments_without_a_type() -> None:
    unit = make_kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]", name="untyped")
    with pytest.raises(KernelError, match=r"'untyped' has arguments without a type: a; .*add_and_infer_dtypes"):
        load_kernel(unit)


def test_type_inference_error_includes_loopys_message() -> None:
    unit = make_kernel("{[i]: 0<=i<n}", "out[i] = nonsense(a[i])", lp.GlobalArg("a", np.float32), ...)
    with pytest.raises(KernelError, match=r"loopy cannot prepare kernel 'loopy_kernel'.*nonsense"):
        load_kernel(unit)


# Loopy parses "not i == 0" as "(not i) == 0".
@pytest.mark.parametrize("condition", ["not i == 0"])
def test_misparsed_condition_needs_a_probability(condition: str) -> None:
    arguments = [lp.GlobalArg("a", np.float32, shape="n"), ...]
    unit = make_kernel("{[i]: 0<=i<n}", f"if {condition}\na[i] = 2\nend", *arguments)
    with pytest.raises(UncountableError, match=r"the source does not tell how often .* holds; give its probability"):
        lpp.count(unit)
    counts = lpp.count(unit, typical={"insn": 0.5}).properties()
    assert counts["global store 32-bit stride 0"](n=64) == 32


def test_loopy_error_without_message_names_its_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    def map_bitwise_and(*_: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(lp, "preprocess_program", map_bitwise_and)
    unit = make_kernel("{[i]: 0<=i<n}", "a[i] = 2", lp.GlobalArg("a", np.float32), ...)
    with pytest.raises(KernelError, match=r"no message; raised by map_\w+ in .*; .*compare them, as in"):
        load_kernel(unit)


def test_several_entry_points_raise() -> None:
    units = [make_kernel("{[i]: 0<=i<n}", "out[i] = 2.0*i", name=name) for name in ("one", "two")]
    both = lp.merge(units)
    with pytest.raises(KernelError, match=r"has one, two; choose one with unit.with_entrypoints"):
        load_kernel(both)
    assert load_kernel(both.with_entrypoints("two")).name == "two"


def test_translation_unit_without_entry_point_raises() -> None:
    function = lp.make_function("{[i]: 0<=i<10}", "y[i] = 2*x[i]", name="double", lang_version=LANGUAGE)
    with pytest.raises(KernelError, match="this one has none"):
        load_kernel(function)


def test_loop_kernel_with_undefined_functions_raises() -> None:
    unit = make_kernel("{[i]: 0<=i<n}", "out[i] = sqrt(a[i]) + sqrt(b[i])", name="roots")
    unit = lp.preprocess_program(lp.add_and_infer_dtypes(unit, {"a": np.float32, "b": np.float64}))
    with pytest.raises(
        KernelError, match=r"'roots' calls 'sqrt_[01]', which only its translation unit defines; pass that"
    ):
        load_kernel(unit.default_entrypoint)


def test_unbounded_grid_error_names_the_instruction() -> None:
    unit = make_kernel("{[i]: 0<=i}", "out[0] = 1 {id=write, inames=i}", floats("out", 1), ...)
    with pytest.raises(UnboundedDomainError, match=r"instruction 'write': its loops \(i\) have no bounds"):
        load_kernel(lp.tag_inames(unit, {"i": "g.0"}))


def test_cyclic_dependencies_raise() -> None:
    unit = make_kernel(
        "{[i,j]: 0<=i,j<4}",
        "a[i] = 1 {id=one, dep=two}\nb[j] = 2 {id=two, dep=one}",
        floats("a,b", 4),
        ...,
        name="circle",
    )
    with pytest.raises(KernelError, match=r"loopy cannot prepare kernel 'circle' \(DependencyCycleFound\)"):
        load_kernel(unit)


# }}}


# {{{ integer arguments that affect only computed values are not required for graphs and estimates

DOMAIN = "{[i]: 0 <= i < n}"


def kernel(text: str, domain: str = DOMAIN, shape: str = "n") -> lp.TranslationUnit:
    arguments = [lp.GlobalArg("a", np.int32, shape=shape), lp.ValueArg("n, p, q", np.int32), ...]
    return lp.make_kernel(domain, text, arguments, lang_version=(2018, 2))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a[i] = a[i]*p + q", {"p", "q"}),
        ("a[i + p] = q", {"q"}),
        ("a[i] = a[i] + 1 {if=p > q}", set[str]()),
        ("a[i] = a[i] + q {if=p > 0}", {"q"}),
        ("<int32> j = i + p\na[j] = q", {"q"}),
        ("<int32> j = i + p\n<int32> k = j + q\na[k] = 1", set[str]()),
        ("<int32> j = i + p\na[i] = j + q", {"p", "q"}),
        ("a[i] = p if i < q else 2", {"p"}),
    ],
)
def test_scalars_in_loops_conditions_and_addresses_are_not_plain(text: str, plain: set[str]) -> None:
    assert plain_scalars(kernel(text).default_entrypoint, {"n", "p", "q"}) == plain


def test_scalars_in_bounds_lengths_and_assumptions_are_not_plain() -> None:
    unit = kernel("a[i] = sum(j, j + p)", "{[i, j]: 0 <= i < n and 0 <= j < q}")
    assert plain_scalars(unit.default_entrypoint, {"n", "p", "q"}) == {"p"}
    assert plain_scalars(kernel("a[i] = p*q", shape="n + q").default_entrypoint, {"n", "p", "q"}) == {"p"}
    assumed = lp.assume(kernel("a[i] = p*q"), isl.BasicSet("[n, p] -> { : n >= 1 and p >= 1 }"))
    assert plain_scalars(assumed.default_entrypoint, {"n", "p", "q"}) == {"q"}


def test_scalars_read_by_c_instructions_are_not_plain() -> None:
    unit = lp.make_kernel(
        DOMAIN,
        [lp.CInstruction("i", "a[i] = p;", read_variables=frozenset({"p"}), assignees=("a[i]",)), "a[i] = q"],
        [lp.GlobalArg("a", np.int32, shape="n"), lp.ValueArg("n, p, q", np.int32), ...],
        seq_dependencies=True,
        lang_version=(2018, 2),
    )
    assert plain_scalars(unit.default_entrypoint, {"n", "p", "q"}) == {"q"}


def test_graph_needs_sizes_but_no_plain_scalars() -> None:
    unit = kernel("a[i] = a[i]*p + q")
    unit = lp.split_iname(unit, "i", 32, outer_tag="g.0", inner_tag="l.0")
    without_scalars, with_scalars = lpp.instruction_graph(unit, n=64), lpp.instruction_graph(unit, n=64, p=3, q=5)
    assert [each.kind for each in without_scalars.instructions] == [each.kind for each in with_scalars.instructions]
    seconds = [
        float(lpp.estimate(unit, n=2**20, device="nvidia-h100", model="pipeline", **more))
        for more in ({}, {"p": 3, "q": 5})
    ]
    assert seconds[0] == pytest.approx(seconds[1], rel=1e-3)  # a known scalar is in a register slightly earlier
    with pytest.raises(ParameterError, match="missing size n"):
        lpp.instruction_graph(unit, p=3)


# }}}
