"""Loopy's passes: kernels without generated code raise errors, and Loopy's dumps are suppressed."""

from threading import Thread
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import KernelError, ParameterError
from loopyperf.idg.warp_classes import Warp
from loopyperf.kernel import load_kernel
from loopyperf.kernel.loopy_passes import without_dumps
from loopyperf.predict.sampled import made_case
from tests.idg.patterns import pattern
from tests.kernels import floats, integers, make_kernel

LANGUAGE = (2018, 2)


def scaled() -> lp.TranslationUnit:
    """Return a kernel that doubles an array, in groups of 16."""
    unit = lp.make_kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i] {id=scale}", name="scaled", lang_version=LANGUAGE)
    unit = lp.add_and_infer_dtypes(unit, {"a": np.float32})
    return lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0")


def private_value_used_in_second_launch() -> lp.TranslationUnit:
    unit = lp.make_kernel(
        "{[i]: 0<=i<1024}",
        """
        <> t = 2*a[i] {id=t}
        ... gbarrier {id=g, dep=t}
        out[i] = t + a[1023-i] {dep=g}
        """,
        [lp.GlobalArg("out,a", np.float64, shape=1024)],
        lang_version=LANGUAGE,
        name="passing",
    )
    return lp.split_iname(unit, "i", 128, outer_tag="g.0", inner_tag="l.0")


def saved_without_new_schedule() -> lp.TranslationUnit:
    return lp.save_and_reload_temporaries(lp.preprocess_program(private_value_used_in_second_launch()))


def split_after_linearization() -> lp.TranslationUnit:
    unit = lp.make_kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]", name="untiled", lang_version=LANGUAGE)
    unit = lp.add_and_infer_dtypes(unit, {"a": np.float32})
    return lp.split_iname(lp.linearize(lp.preprocess_program(unit)), "i", 16)


def renamed_after_linearization() -> lp.TranslationUnit:
    unit = lp.linearize(lp.preprocess_program(scaled()))
    kernel = unit.default_entrypoint
    return unit.with_kernel(kernel.copy(instructions=[each.copy(id="other") for each in kernel.instructions]))


def length_without_argument() -> lp.TranslationUnit:
    unit = scaled()
    (array,) = (each for each in unit.default_entrypoint.args if each.name == "a")
    args = [array.copy(shape=("m",)) if each is array else each for each in unit.default_entrypoint.args]
    return unit.with_kernel(unit.default_entrypoint.copy(args=args))


def vectors_of(dtype: Any, target: Any = None, split: str = "loop first") -> lp.TranslationUnit:
    """Return a kernel that doubles an array in vectors of four; *split* tells whether the array is split before."""
    unit = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "out[i] = a[i] + a[i]",
        [lp.GlobalArg("a,out", dtype, shape="n"), lp.ValueArg("n", np.int32)],
        assumptions="n >= 4 and n mod 4 = 0",
        lang_version=LANGUAGE,
        target=target or lp.PyOpenCLTarget(),
    )
    if split == "array first":
        unit = lp.split_array_axis(unit, "a,out", 0, 4)
    unit = lp.split_iname(unit, "i", 4, inner_tag="vec")
    if split == "loop first":
        unit = lp.split_array_axis(unit, "a,out", 0, 4)
    return lp.split_iname(lp.tag_array_axes(unit, "a,out", "C,vec"), "i_outer", 16, outer_tag="g.0", inner_tag="l.0")


def half_vectors() -> lp.TranslationUnit:
    return vectors_of(np.float16)


def complex_vectors() -> lp.TranslationUnit:
    return vectors_of(np.complex64)


def bool_vectors_in_cuda() -> lp.TranslationUnit:
    return vectors_of(np.bool_, lp.CudaTarget())


def vectors_in_c() -> lp.TranslationUnit:
    return vectors_of(np.float32, lp.CTarget())


WITHOUT_CODE = {
    half_vectors: "PyOpenCLTarget has no vectors of 4 float16: untag the axis of 'a'",
    complex_vectors: "PyOpenCLTarget has no vectors of 4 complex64",
    bool_vectors_in_cuda: "CudaTarget has no vectors of 4 bool",
    vectors_in_c: "CTarget has no vectors of 4 float32",
    private_value_used_in_second_launch: "without a definition",
    saved_without_new_schedule: "linearize again",
    split_after_linearization: "linearize again",
    renamed_after_linearization: "linearize again",
    length_without_argument: "non-argument",
}


@pytest.mark.parametrize("build", WITHOUT_CODE)
def test_kernel_without_generated_code_raises_a_one_line_error(build: Any, capfd: Any) -> None:
    unit = build()
    with pytest.raises(Exception):  # noqa: B017, PT011  Loopy raises a KeyError if a schedule is stale
        lp.generate_code_v2(unit)
    capfd.readouterr()
    with pytest.raises(KernelError, match=WITHOUT_CODE[build]) as error:
        load_kernel(unit)
    assert "\n" not in str(error.value)
    ranking = lpp.rank({"right": scaled(), "wrong": unit}, n=1024, device="nvidia-v100", model="roofline")
    assert (ranking.order, set(ranking.failures)) == (("right",), {"wrong"})
    assert capfd.readouterr().out == ""


def test_order_of_splitting_array_and_loop_does_not_matter() -> None:
    one, other = (load_kernel(vectors_of(np.float32, split=split)) for split in ("loop first", "array first"))
    assert one.loopy_kernel.instructions == other.loopy_kernel.instructions


def test_type_without_code_is_noted() -> None:
    with pytest.raises(ValueError, match="unable to map dtype 'float16'"):
        lp.generate_code_v2(with_dtype(np.float16))
    note = "Loopy generates no code for float16 with PyOpenCLTarget"
    for dtype, notes in ((np.float16, [note]), (np.float32, [])):
        found = lpp.estimate(with_dtype(dtype), n=1024, device="nvidia-v100", model="roofline").notes
        assert [each for each in found if "generates no code" in each] == notes


def with_dtype(dtype: Any) -> lp.TranslationUnit:
    unit = lp.make_kernel("{[i]: 0<=i<n}", "out[i] = a[i] + a[i]", name="twice", lang_version=LANGUAGE)
    unit = lp.add_dtypes(unit, {"a": dtype, "out": dtype})
    return lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0")


def test_saved_temporaries_are_counted_as_global_accesses() -> None:
    saved = saved_without_new_schedule()
    again = saved.with_kernel(lp.get_one_linearized_kernel(saved["passing"], saved.callables_table))
    found = lpp.count(again).properties().evaluate()
    assert (found["global load 64-bit stride 1"], found["global store 64-bit stride 1"]) == (3 * 1024, 2 * 1024)


def with_unused_axis() -> lp.TranslationUnit:
    unit = lp.make_kernel(
        "{[i,j]: 0<=i,j<n}", "a[i] = 2*b[i] {id=one}\nc[i,j] = 3*d[i,j] {id=two}", name="both", lang_version=LANGUAGE
    )
    unit = lp.add_dtypes(unit, {"b": np.float32, "d": np.float32})
    unit = lp.split_iname(unit, "i", 16, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(unit, "j", 16, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.parametrize("asked", [{"device": "nvidia-v100", "model": "roofline"}, {"device": "amd-r9-fury"}])
def test_a_kernel_that_needs_more_hardware_axes_is_estimated_with_a_note(asked: Any) -> None:
    with pytest.raises(Exception, match="add_inames_for_unused_hw_axes"):
        lp.generate_code_v2(with_unused_axis())
    all_notes = [lpp.estimate(unit, n=1024, **asked).notes for unit in (with_unused_axis(), with_all_axes())]
    assert [sum("do not use all hardware axes (one)" in note for note in notes) for notes in all_notes] == [1, 0]


def with_all_axes() -> lp.TranslationUnit:
    return lp.add_inames_for_unused_hw_axes(with_unused_axis())


# {{{ Loopy's output


def with_unknown_function() -> lp.TranslationUnit:
    unit = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = frobnicate(x[i])", lang_version=LANGUAGE)
    return lp.add_dtypes(unit, {"x": np.float32, "y": np.float32})


def test_loopys_dump_of_a_program_is_not_printed(capfd: Any) -> None:
    with pytest.raises(Exception, match="frobnicate"):
        lp.linearize(lp.preprocess_program(with_unknown_function()))
    assert "KERNEL" in capfd.readouterr().out  # the dump that load_kernel suppresses
    with pytest.raises(KernelError, match="Unknown function 'frobnicate'"):
        load_kernel(with_unknown_function())
    assert capfd.readouterr().out == ""


def test_output_of_user_and_other_threads_is_kept(capfd: Any) -> None:
    other = Thread(target=print, args=("in another thread",))
    with without_dumps():
        print("by the user")
        other.start()
        other.join()
    print("afterwards")
    assert capfd.readouterr().out == "by the user\nin another thread\nafterwards\n"


# }}}


# {{{ stride and offset arguments default to those of contiguous arrays and can be given as sizes

AUTO: dict[str, Any] = {"dim_tags": "stride:auto,stride:auto", "offset": lp.auto}
SIZES: dict[str, Any] = {"n": 64, "m": 512}


def copied(names: str = "", body: str = "y[i,j] = 2*x[i,j]", **layout: Any) -> Any:
    """Return y = 2*x for n times m numbers, where x has *layout*; *names* are additional arguments."""
    unit = make_kernel(
        "{[i,j]: 0 <= i < n and 0 <= j < m}",
        body,
        lp.GlobalArg("x", np.float32, **{"shape": "n, m", **layout}),
        floats("y", "n, m"),
        integers(f"n, m{names}"),
        assumptions="n >= 1 and m >= 1",
    )
    unit = lp.split_iname(unit, "j", 32, inner_tag="l.0", outer_tag="g.0")
    return lp.tag_inames(unit, {"i": "g.1"})


def assumed_layout(unit: Any) -> dict[str, str]:
    contiguous = load_kernel(unit).contiguous
    return {name: str(value) for name, value in contiguous.items()}


# {{{ contiguous strides and offsets


def test_missing_strides_are_those_of_contiguous_rows(subtests: pytest.Subtests) -> None:
    for layout, expected in [
        ({"strides": ("s", "t")}, {"s": "m", "t": "1"}),
        ({"strides": ("s", 1)}, {"s": "m"}),
        ({"strides": ("s", 2)}, {"s": "2*m"}),
        ({"strides": (1, "t")}, {"t": "n"}),
        ({"strides": ("s", "n")}, {"s": "1"}),
        ({"strides": ("s", 1), "shape": (None, "m")}, {"s": "m"}),
        ({"strides": (1, "t"), "shape": (None, "m")}, {}),
        ({"strides": ("s", "t"), "shape": ("n", None)}, {"t": "1"}),
        ({"strides": ("s", "t"), "shape": "n + 2, 3*m"}, {"s": "3*m", "t": "1"}),
        ({"offset": "s"}, {"s": "0"}),
        ({"strides": ("m", 1)}, {}),
        ({"strides": ("3*t", "t")}, {"t": "1"}),
    ]:
        with subtests.test(layout=layout, expected=expected):
            assert assumed_layout(copied(", s, t", **layout)) == expected


def test_axis_order_is_inferred_from_given_strides() -> None:
    array = lp.GlobalArg("x", np.float32, shape="n, m, 4", strides=("s", 1, "t"))
    arguments = [array, lp.ValueArg("n, m, s, t", np.int32), ...]
    domain = "{[i,j,k]: 0 <= i < n and 0 <= j < m and 0 <= k < 4}"
    unit = make_kernel(domain, "x[i,j,k] = 0", *arguments)
    assert assumed_layout(unit) == {"s": "m*4", "t": "m"}


@pytest.mark.parametrize("body", ["y[i,j] = s*x[i,j]", "y[i,j] = x[i,(j+s) % m]", "y[i,j] = x[i,j] {if=s > 7}"])
def test_stride_argument_with_another_use_is_a_size(body: str) -> None:
    assert assumed_layout(copied(", s", body, strides=("s", 1))) == {}


def test_stride_shared_by_arrays_of_different_shapes_is_required() -> None:
    unit = make_kernel(
        "{[i]: 0 <= i < n}",
        "x[i,0] = y[i,0]",
        floats("x", "n, 3", strides=("s", 1)),
        floats("y", "n, 4", strides=("s", 1)),
        integers("n, s"),
    )
    with pytest.raises(ParameterError, match="missing size s of "):
        lpp.estimate(unit, device="nvidia-a100", model="roofline", n=64)


def test_assumptions_on_a_stride_apply_to_its_value() -> None:
    unit = copied(", s", strides=("s", 1))
    unit = lp.assume(unit, isl.BasicSet("[m, s] -> { : s >= m and s mod 32 = 0 }"))
    assert load_kernel(unit).parameters == {"n", "m"}
    assert lpp.count(unit).properties().evaluate(**SIZES)["f32 mul"] == 64 * 512
    with pytest.raises(ParameterError, match="violates the kernel's assumptions"):
        lpp.count(unit).properties().evaluate(n=64, m=500)


# }}}


# {{{ counts and times


def test_counts_are_those_of_the_contiguous_kernel() -> None:
    reference, by_parameters = lpp.count(copied()), lpp.count(copied(**AUTO))
    assert by_parameters.properties().evaluate(**SIZES) == reference.properties().evaluate(**SIZES)
    assert "x_stride0 = m, x_stride1 = 1, x_offset = 0" in " ".join(by_parameters.assumed)
    assert reference.assumed == ()


@pytest.mark.parametrize(("model", "device"), [("linear", "nvidia-h200"), ("roofline", "a100"), ("pipeline", "a100")])
def test_times_are_those_of_the_contiguous_kernel(model: str, device: str) -> None:
    device = device if "-" in device else f"nvidia-{device}"
    reference = lpp.estimate(copied(), device=device, model=model, **SIZES)
    by_parameters = lpp.estimate(copied(**AUTO), device=device, model=model, **SIZES)
    assert by_parameters.seconds == reference.seconds
    (note,) = set(by_parameters.notes) - set(reference.notes)
    assert "assumed contiguous" in note


def test_a_given_stride_overrides_the_contiguous_one() -> None:
    sizes = {"n": 2048, "m": 2048}
    reference = copied(strides=("1", "2048"))
    by_parameters, given = copied(**AUTO), {"x_stride0": 1, "x_stride1": 2048, "x_offset": 0}
    for model, device in (("linear", "nvidia-h200"), ("pipeline", "nvidia-a100")):
        expected = lpp.estimate(reference, device=device, model=model, **sizes)
        found = lpp.estimate(by_parameters, device=device, model=model, **sizes, **given)
        assert (found.seconds, found.notes) == (expected.seconds, expected.notes)
        assert found.seconds != lpp.estimate(by_parameters, device=device, model=model, **sizes).seconds


def test_strides_may_be_arrays_of_sizes() -> None:
    strides = np.array([512, 1024])
    found = lpp.estimate(
        copied(", s", strides=("s", 1)), device="nvidia-h200", model="linear", parameters={"s": strides, **SIZES}
    )
    assert np.shape(found.seconds) == (2,)


@pytest.mark.parametrize(("strides", "offset"), [((40, 1), 0), ((40, 1), 1), ((401, 3), 0), ((1, 44), 0)])
def test_sectors_of_given_strides_equal_brute_force(strides: tuple[int, int], offset: int) -> None:
    given = {"x_stride0": strides[0], "x_stride1": strides[1], "x_offset": offset}
    kernel, sizes = load_kernel(copied(**AUTO)).laid_out(given), {"n": 40, "m": 64} | given
    for row, half in ((0, 0), (3, 1)):
        lanes = range(32 * half, 32 * half + 32)
        touched = {4 * (offset + row * strides[0] + lane * strides[1]) // 32 for lane in lanes}
        assert pattern(kernel, "x", Warp(groups={0: half, 1: row}), sizes).at({}).sectors == len(touched)


def test_executed_kernel_gets_contiguous_strides() -> None:
    case = made_case(copied(**AUTO), SIZES)
    arguments = case.configuration.arguments(np.random.default_rng(0), case.sizes)
    assert (arguments["x_stride0"], arguments["x_stride1"], arguments["x_offset"]) == (512, 1, 0)
    assert arguments["x"].strides == (512 * 4, 4)


# }}}


# }}}
