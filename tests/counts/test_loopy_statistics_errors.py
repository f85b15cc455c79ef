"""Test kernels that Loopy 2025.2's statistics count wrongly or reject against hand-derived counts; n is 100."""

from typing import Any

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
import pytest
from loopy.target.opencl import vec

from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.kernel import load_kernel
from tests.counts.small_kernels import array, kernel, lanes, sizes


def counted(unit: lp.TranslationUnit, n: int = 100, **options: Any) -> dict[str, int]:
    """Return the counts of *unit* without launches, work-groups and minima."""
    loaded = load_kernel(unit)
    counts = count_kernel(loaded, **options).properties().evaluate(**dict.fromkeys(loaded.parameters, n))
    excluded = ("launches", "work-groups")
    return {name: int(number) for name, number in counts.items() if name not in excluded and "min(" not in name}


def over_n(code: str, *arguments: object, **dtypes: type) -> lp.TranslationUnit:
    """Return a kernel that executes *code* for each i below n, in groups of 16."""
    return lanes(kernel("{[i]: 0<=i<n}", code, *arguments, sizes("n"), **dtypes))


# {{{ conditions


def test_affine_condition_selects_the_executed_branch() -> None:
    counts = count_kernel(load_kernel(over_n("out[i] = if(i < 5, 2*a[i], b[i])", array("a,b,out", "n"))))
    by_array = {(tally.item, tally.executions(n=100)) for tally in counts.tallies}
    assert counts.properties().evaluate(n=100)["f32 mul"] == 5
    loads = sorted(times for item, times in by_array if getattr(item, "direction", "") == "load")
    assert loads == [5, 95]


# }}}


# {{{ expressions


def test_zero_dimensional_array_is_loaded_by_every_lane() -> None:
    counts = counted(over_n("out[i] = a + b[i]", lp.GlobalArg("a", np.float32, shape=()), array("b,out", "n")))
    assert counts["global load 32-bit stride 0"] == 100


@pytest.mark.parametrize("extremum", [prim.Min, prim.Max])
def test_min_and_max_are_free(extremum: Any) -> None:
    here = prim.Variable("i")
    largest = extremum((prim.Variable("a")[here], prim.Variable("b")[here]))
    assignment = lp.Assignment(prim.Variable("out")[here], largest, within_inames=frozenset(["i"]))
    arguments = [array("a,b,out", "n"), ...]
    unit = lp.make_kernel("{[i]: 0<=i<n}", [assignment], arguments, lang_version=(2018, 2))
    assert counted(lanes(unit)) == {"global load 32-bit stride 1": 200, "global store 32-bit stride 1": 100}


def test_linear_subscripts_count_elements() -> None:
    counts = counted(over_n("out[i] = a[[2*i]]\nout[[i]] = 1", array("a", "2,n"), array("out", "n")))
    assert counts == {"global load 32-bit stride 1/2": 100, "global store 32-bit stride 1": 200}


def test_segmented_sum_adds_once_per_iteration() -> None:
    unit = kernel(
        "{[i,j]: 0<=i<n and 0<=j<n}",
        "out[i], flag[i] = reduce(segmented(sum), j, (a[j,i], start[j,i]))",
        array("a", "n,n"),
        array("start", "n,n", np.int32),
        array("out", "n"),
        array("flag", "n", np.int32),
        sizes("n"),
    )
    assert counted(lanes(unit))["f32 add"] == 10_000


# }}}


# {{{ called kernels


def calling(*calls: str, inlined: bool = False) -> lp.TranslationUnit:
    """Return a kernel that calls a kernel for each row of 16 elements; that one calls another kernel."""
    inner = lp.make_function("{[k]: 0<=k<16}", "z[k] = 3*w[k]", name="triple", lang_version=(2018, 2))
    outer = lp.make_function(
        "{[i,i2]: 0<=i,i2<16}", "[i]: y[i] = triple([i2]: x[i2])", name="through", lang_version=(2018, 2)
    )
    unit = lanes(
        kernel("{[r,j,j2]: 0<=r<n and 0<=j,j2<16}", "\n".join(calls), array("a,b,out", "n,16"), sizes("n")), "r"
    )
    merged = lp.merge([unit, outer, inner])
    for name in ("through", "triple") if inlined else ():
        merged = lp.inline_callable_kernel(merged, name)
    return merged


ONCE = ("[j]: out[r,j] = through([j2]: a[r,j2])",)
TWICE = ("[j]: b[r,j] = through([j2]: a[r,j2]) {id=first}", "[j]: out[r,j] = through([j2]: b[r,j2]) {dep=first}")


@pytest.mark.parametrize(("calls", "times"), [(ONCE, 1), (TWICE, 2)])
@pytest.mark.parametrize("inlined", [False, True])
@pytest.mark.parametrize("prepare", [lambda unit: unit, lp.preprocess_program])
def test_called_kernels_execute_once_per_call(calls: tuple[str, ...], times: int, inlined: bool, prepare: Any) -> None:
    counts = counted(prepare(calling(*calls, inlined=inlined)))
    assert counts == {
        "f32 mul": times * 1600,
        "global load 32-bit stride 4/>4": times * 1600,
        "global store 32-bit stride 4/>4": times * 1600,
    }


# }}}


# {{{ types


def test_complex_product_and_sum_are_eight_real_operations() -> None:
    # (4 mul + 2 add) and 2 add
    counts = counted(over_n("out[i] = a[i]*b[i] + c[i]", a=np.complex128, b=np.complex128, c=np.complex128))
    assert counts == {
        "f64 mul": 400,
        "f64 add": 400,
        "global load 128-bit stride 1": 300,
        "global store 128-bit stride 1": 100,
    }


def test_access_size_is_the_size_of_the_type(subtests: pytest.Subtests) -> None:
    for dtype, bits in [
        *((np.dtype(f"{kind}{size}"), 8 * size) for kind in "iu" for size in (1, 2, 4, 8)),
        *((np.dtype(name), bits) for name, bits in (("f2", 16), ("f4", 32), ("f8", 64), ("c8", 64), ("c16", 128))),
        *((vec.types[np.dtype(np.float32), width], bits) for width, bits in ((2, 64), (3, 128), (4, 128), (8, 256))),
    ]:
        with subtests.test(dtype=dtype, bits=bits):
            counts = counted(over_n("out[i] = a[i]", array("a,out", "n", dtype)))
            assert counts == {f"global load {bits}-bit stride 1": 100, f"global store {bits}-bit stride 1": 100}


def test_vector_operation_counts_each_component() -> None:
    counts = counted(over_n("out[i] = a[i] + a[i]", array("a,out", "n", vec.types[np.dtype(np.float32), 4])))
    assert counts["f32 add"] == 400


def in_vectors(*others: str) -> lp.TranslationUnit:
    """Return a kernel over n rows of 4; a and out have a vector layout, *others* do not."""
    code = " + ".join(["out[i,j] = 2*a[i,j]", *(f"{name}[i,j]" for name in others)])
    arguments = [array(name, "n,4") for name in ("a", "out", *others)]
    unit = lanes(kernel("{[i,j]: 0<=i<n and 0<=j<4}", code, *arguments, sizes("n")))
    return lp.tag_inames(lp.tag_array_axes(unit, "a,out", "C,vec"), {"j": "vec"})


def test_vectorized_loop_accesses_whole_vectors() -> None:
    assert counted(in_vectors()) == {
        "f32 mul": 400,
        "global load 128-bit stride 1": 100,
        "global store 128-bit stride 1": 100,
    }


def test_loop_that_loopy_cannot_vectorize_accesses_components() -> None:
    assert counted(in_vectors("b")) == {
        "f32 mul": 400,
        "f32 add": 400,
        "global load 32-bit stride 4/4": 800,
        "global store 32-bit stride 4/4": 400,
    }


def test_axis_of_separate_arrays_adds_no_stride() -> None:
    unit = lanes(kernel("{[i,j]: 0<=i<n and 0<=j<3}", "out[i,j] = 2*a[i,j]", array("a,out", "n,3"), sizes("n")))
    unit = lp.tag_inames(lp.tag_array_axes(unit, "a,out", "C,sep"), {"j": "unr"})
    assert counted(unit) == {"f32 mul": 300, "global load 32-bit stride 1": 300, "global store 32-bit stride 1": 300}


def test_constant_memory_counts_as_global_memory() -> None:
    counts = counted(over_n("out[i] = c[0] + c[i]", lp.ConstantArg("c", np.float32, shape="n"), array("out", "n")))
    assert (counts["global load 32-bit stride 0"], counts["global load 32-bit stride 1"]) == (100, 100)


def test_atomic_update_loads_and_stores() -> None:
    unit = kernel("{[i]: 0<=i<n}", "out[0] = out[0] + a[i] {atomic}", array("out", "1", for_atomic=True), a=np.float32)
    counts = count_kernel(load_kernel(lp.tag_inames(lanes(unit), {})))
    assert counts.properties().evaluate(n=100)["global store 32-bit stride 0"] == 100
    assert counts.assumed == ("atomic updates of out are counted without the cost of collisions between work-items",)


# }}}


# {{{ lanes


def test_density_of_lanes_that_share_elements_or_wrap_around() -> None:
    # Four lanes share an element of a; lanes wrap around the 8 elements of b. Both use all the memory that they span.
    unit = over_n("out[i] = a[i//4] + b[i%8]", array("a,out", "n"), array("b", "8"))
    assert counted(unit)["global load 32-bit stride 1"] == 200
    shared = count_kernel(load_kernel(unit)).assumed
    of_a, of_b = (sentence.partition(" share elements of ")[2] for sentence in shared)
    assert of_a.startswith("a[")
    assert "(stride 1/4)" in of_a
    assert of_a.endswith("assumed stride 1")
    assert of_b.startswith("b[")
    assert "(stride 1, wraps at 8)" in of_b
    assert of_b.endswith("assumed stride 1")


@pytest.mark.parametrize(
    ("index", "stride"),
    [
        ("i*i", "1/>4"),
        ("2*(i%16)", "1/2"),
        ("i//16", "0"),
        ("(i%2)*1000", "1"),  # 16 lanes access two elements, far apart: less than one per lane
        ("7*(i%16) + 3", "1/>4"),
        ("15 - i%16", "1"),
        ("(i*5) % 16", "1"),  # a permutation
    ],
)
def test_non_affine_lanes_are_enumerated(index: str, stride: str) -> None:
    unit = over_n(f"out[i] = a[{index}]", lp.GlobalArg("a", np.float32, shape=None, strides=(1,)), array("out", "n"))
    assert counted(unit)[f"global load 32-bit stride {stride}"] == 100


def test_lanes_of_a_loop_between_two_sizes_are_enumerated() -> None:
    unit = kernel("{[i]: m<=i<n}", "out[i] = a[i//4]", array("a,out", "n"), sizes("m,n"), assumptions="m >= 0")
    counts = count_kernel(load_kernel(lanes(unit))).properties()
    assert counts["global load 32-bit stride 1"](m=7, n=100) == 93


def test_dot_product_counts_its_products_and_sums() -> None:
    # 100 dot products of four components: 4 multiplications and 3 additions each.
    vectors = lp.GlobalArg("a,b", vec.types[np.dtype(np.float32), 4], shape="n")
    counts = counted(over_n("out[i] = dot(a[i], b[i])", vectors, array("out", "n")))
    assert (counts["f32 mul"], counts["f32 add"]) == (400, 300)


def test_isnan_has_the_type_of_its_argument() -> None:
    a = lp.GlobalArg("a", np.float64, shape="n")
    counts = counted(over_n("out[i] = isnan(a[i])", a, lp.GlobalArg("out", np.int32, shape="n")))
    assert counts["f64 special"] == 100


def test_negative_strides_are_classified() -> None:
    counts = counted(over_n("out[n-1-i] = a[2*n-2-2*i]", array("a", "2*n"), array("out", "n")))
    assert counts == {"global load 32-bit stride 1/2": 100, "global store 32-bit stride 1": 100}


def test_strides_beyond_32_bits_are_exact() -> None:
    far = 3 * 2**31 + 1
    unit = kernel("{[i]: 0<=i<n}", f"out[i] = a[{far}*i]", array("a", f"{far}*n"), array("out", "n"), sizes("n"))
    assert counted(lanes(unit))["global load 32-bit stride 1/>4"] == 100


def test_counts_beyond_64_bits_are_exact() -> None:
    unit = kernel("{[i,j,k]: 0<=i,j,k<n}", "out[i,j,k] = 2*a[i]", array("a", "n"), array("out", "n,n,n"), sizes("n"))
    assert counted(lanes(unit), n=10**9)["f32 mul"] == 10**27


# }}}


# {{{ sub-groups


def test_prefetch_wider_than_its_group_counts_active_sub_groups() -> None:
    # 128 lanes load 130 elements: four sub-groups, then one with two active lanes; in 10 groups.
    code = "out[g,i] = sum(w, a[128*g + i + w])"
    unit = kernel("{[g,i,w]: 0<=g<10 and 0<=i<128 and 0<=w<3}", code, array("a", "1282"), array("out", "10,128"))
    unit = lp.add_prefetch(lp.tag_inames(unit, {"g": "g.0", "i": "l.0"}), "a", ["i", "w"], default_tag="l.auto")
    counts = counted(unit, sub_group_size=32)
    assert counts["local store 32-bit"] == 50
    assert counts["global load 32-bit stride 1"] == 50
    assert counts["barriers"] == 40


def test_tree_reduction_counts_active_sub_groups() -> None:
    # A group of 128 adds in 4 sub-groups, then in 2, 1, 1, 1, 1, 1, 1; one sub-group stores.
    unit = kernel("{[g,i]: 0<=g<n and 0<=i<128}", "out[g] = sum(i, a[g,i])", array("a", "n,128"), array("out", "n"))
    counts = counted(lp.tag_inames(unit, {"g": "g.0", "i": "l.0"}), sub_group_size=32)
    assert counts["f32 add"] == 1200
    assert counts["global store 32-bit stride 0"] == 100


@pytest.mark.parametrize(("counting", "times"), [("paper", 1), ("executed", 4)])
def test_all_sub_groups_along_an_unused_axis_execute(counting: Any, times: int) -> None:
    # Each group has 128 work-items along an axis that the first instruction does not use.
    unit = kernel(
        "{[g,i]: 0<=g<n and 0<=i<128}",
        "<> x = 2*a[g] {id=once, inames=g}\nout[g,i] = x {dep=once}",
        array("a", "n"),
        array("out", "n,128"),
        sizes("n"),
    )
    counts = counted(lp.tag_inames(unit, {"g": "g.0", "i": "l.0"}), counting=counting, sub_group_size=32)
    assert counts["f32 mul"] == 100 * times
    assert counts["global store 32-bit stride 1"] == 400


def test_work_items_are_numbered_along_the_first_axis_first() -> None:
    # Groups of 8 by 8 are two sub-groups. Rows 0 and 1 are half of the first; columns 0 and 1 are in both.
    for condition, active in (("y < 2", 1), ("x < 2", 2)):
        code = f"if {condition}\nout[g,y,x] = 2*a[g,y,x]\nend"
        unit = kernel("{[g,y,x]: 0<=g<n and 0<=x,y<8}", code, array("a,out", "n,8,8"), sizes("n"))
        unit = lp.tag_inames(unit, {"g": "g.0", "y": "l.1", "x": "l.0"})
        assert counted(unit, sub_group_size=32)["f32 mul"] == 100 * active


# }}}


# {{{ launches


def test_each_launch_has_its_own_groups() -> None:
    # Two launches have groups of 256 and 64 work-items, which all execute instructions without a local axis.
    code = """
        <> x = 2*s[0] {id=first, inames=g}
        a[g,i] = x {id=write, dep=first}
        ... gbarrier {id=wait, dep=write}
        <> y = 3*s[0] {id=second, inames=h, dep=wait}
        b[h,j] = y + a[h,j] {dep=second}
    """
    arguments = [array("s", "1"), array("a", "n,256"), array("b", "n,64"), sizes("n")]
    unit = kernel("{[g,i,h,j]: 0<=g,h<n and 0<=i<256 and 0<=j<64}", code, *arguments)
    unit = lp.tag_inames(unit, {"g": "g.0", "h": "g.0", "i": "l.0", "j": "l.0"})
    assert counted(unit, counting="executed")["f32 mul"] == 100 * (256 + 64)
    assert counted(unit, counting="paper")["f32 mul"] == 100 * (1 + 1)


def test_groups_of_a_parametric_size_are_counted_symbolically() -> None:
    code = "<> x = 2*a[g] {id=once, inames=g}\nout[g,i] = x {dep=once}"
    unit = kernel("{[g,i]: 0<=g<m and 0<=i<n}", code, array("a", "m"), array("out", "m,n"), sizes("n,m"))
    unit = lp.tag_inames(unit, {"g": "g.0", "i": "l.0"})
    assert str(count_kernel(load_kernel(unit)).properties()["f32 mul"]).startswith("m*n")


# }}}
