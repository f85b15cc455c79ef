"""Throughput bounds as functions of sizes: by hand, compared with the roofline model, and their crossovers."""

from functools import cache
from itertools import pairwise

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import ParameterError
from tests.kernels import doubled, floats, make_kernel

V100 = lpp.load_device("nvidia-v100")


@cache
def powers(group: int = 256) -> lp.TranslationUnit:
    """Return y[i] = Σ over m of x[i]·c for n elements; m sets the arithmetic for each."""
    unit = make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < m}",
        "y[i] = sum(k, x[i]*1.5f)",
        floats("x,y", "n"),
        ...,
        assumptions=f"n >= 1 and m >= 1 and n mod {group} = 0",
        target=lp.PyOpenCLTarget(),
    )
    return lp.split_iname(unit, "i", group, outer_tag="g.0", inner_tag="l.0")


@cache
def tiled(tile: int = 16) -> lp.TranslationUnit:
    knl = make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        assumptions=f"n >= {tile} and n mod {tile} = 0",
        target=lp.PyOpenCLTarget(),
    )
    knl = lp.add_dtypes(knl, {"a": np.float32, "b": np.float32})
    knl = lp.split_iname(knl, "i", tile, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", tile, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "k", tile)


def test_bounds_of_a_sum_by_hand():
    # Per warp: m additions and m multiplications on 64 lanes, λ = 1/2, at best fused in pairs; x and y are 4 bytes
    # each, moved once, at 897 GB/s.
    bounds = lpp.throughput_bounds(powers(), device=V100)
    found = bounds.seconds(n=2**20, m=1000)
    assert found["alu"] == pytest.approx(2**20 / 32 * 1000 / 2 / (80 * 1.38e9), rel=1e-3)
    assert found["DRAM"] == pytest.approx(8 * 2**20 / 897e9, rel=1e-3)
    assert bounds.bound(n=2**20, m=1000) == "alu"
    assert bounds.bound(n=2**20, m=1) == "DRAM"
    assert str(bounds["alu"]) == "m*n/64"
    assert bounds["alu"](n=512, m=3) == 512 * 3 // 64


@pytest.mark.parametrize(
    ("code", "moved"),
    [
        ("y[i] = 2*x[i]", 8),
        ("y[i] = 2*y[i]", 8),
        ("y[i] = 2*x[i] + y[i]", 12),
        ("y[i] = x[i] {id=set}\ny[i] = 2*y[i] {dep=set}", 8),
    ],
)
def test_in_place_arrays_are_loaded_and_stored(code: str, moved: int):
    unit = make_kernel(
        "{[i]: 0 <= i < n}", code, floats("x,y", lp.auto), ..., assumptions="n >= 1", target=lp.PyOpenCLTarget()
    )
    unit = lp.split_iname(unit, "i", 256, outer_tag="g.0", inner_tag="l.0")
    bounds, n = lpp.throughput_bounds(unit, device=V100), 2**22
    assert bounds.seconds(n=n)["DRAM"] == pytest.approx(moved * n / 897e9, rel=1e-3)
    assert bounds.at_least(n=n) <= lpp.estimate(unit, model="roofline", device=V100, n=n).seconds * (1 + 1e-3)


def test_atomic_update_by_one_instruction_is_one_request():
    # nvcc makes RED of an addition to global memory, and ATOMS of one of integers to local memory (its own test:
    # tests/machine_code/test_atomic_updates.py): a warp sends one request, and adds nothing itself.
    update, copy = ("bins[i] = bins[i] + 1 {atomic}", "bins[i] = 1")
    by_update, by_store = (lpp.throughput_bounds(histogram(code), device=V100) for code in (update, copy))
    assert str(by_update["load/store"]) == str(by_store["load/store"])
    added = lpp.throughput_bounds(of_atomics("b[0] = b[0] + a[i]*a[i] {atomic}"), device=V100)
    alone = lpp.throughput_bounds(of_atomics("b[0] = a[i]*a[i]"), device=V100)
    assert str(added["alu"]) == str(alone["alu"])


def test_atomic_update_in_a_loop_loads_adds_and_stores():
    # A loop around a compare-exchange, which nvcc makes of floating-point additions to local memory.
    by_update, by_store = (
        lpp.throughput_bounds(histogram(code, np.float32), device=V100)
        for code in ("bins[i] = bins[i] + 1 {atomic}", "bins[i] = 1")
    )
    assert by_update.seconds(n=2**20)["load/store"] == pytest.approx(2 * by_store.seconds(n=2**20)["load/store"])


def histogram(code: str, dtype: type = np.int32) -> lp.TranslationUnit:
    """Return a kernel whose groups execute *code* on an array in local memory."""
    bins = lp.TemporaryVariable(
        "bins", dtype, shape=(128,), address_space=lp.AddressSpace.LOCAL, for_atomic="atomic" in code
    )
    unit = lp.make_kernel(
        "{[g, i]: 0 <= g < n and 0 <= i < 128}", code, [bins, ...], assumptions="n >= 1", seq_dependencies=True,
        lang_version=(2018, 2), target=lp.CudaTarget(),
    )  # fmt: skip
    return lp.tag_inames(unit, "g:g.0, i:l.0")


def of_atomics(code: str) -> lp.TranslationUnit:
    arrays = [
        lp.GlobalArg("a", np.float32, shape="n"),
        lp.GlobalArg("b", np.float32, shape=1, for_atomic="atomic" in code),
        ...,
    ]
    unit = lp.make_kernel(
        "{[i]: 0 <= i < n}", code, arrays, assumptions="n >= 1", lang_version=(2018, 2), target=lp.CudaTarget()
    )
    return lp.split_iname(unit, "i", 128, outer_tag="g.0", inner_tag="l.0")


def test_factors_of_one_are_free() -> None:
    codes = ("b[i] = 1*a[i]*a[i+1]", "b[i] = a[i]*a[i+1]", "b[i] = 1*a[i]", "b[i] = a[i]")
    bounds = [lpp.throughput_bounds(of_lanes(code), device="nvidia-a100") for code in codes]
    product, same, copy, plain = (each.seconds(n=4096) for each in bounds)
    assert (product, copy) == (same, plain)
    assert product["alu"] > 0
    assert "alu" not in copy


def of_lanes(code: str) -> lp.TranslationUnit:
    arrays = [lp.GlobalArg("a", np.float32, shape="n+1"), lp.GlobalArg("b", np.float32, shape="n"), ...]
    unit = make_kernel("{[i]: 0<=i<n}", code, *arrays)
    return lp.split_iname(unit, "i", 128, outer_tag="g.0", inner_tag="l.0")


def test_arrays_of_sizes_give_arrays_of_seconds():
    bounds = lpp.throughput_bounds(powers(), device=V100)
    sizes = np.array([256, 512, 2**20])
    every = bounds.seconds(n=sizes, m=5)
    for place, n in enumerate(sizes):
        alone = bounds.seconds(n=int(n), m=5)
        assert {name: found[place] for name, found in every.items()} == alone


@pytest.mark.parametrize(("unit", "sizes"), [(powers(), {"n": 2**20, "m": 300}), (tiled(), {"n": 1024})])
def test_roofline_estimate_is_not_below_the_bounds(unit: lp.TranslationUnit, sizes: dict[str, int]):
    # The tolerance is for sums that are rounded to fractions of a cycle.
    bounds = lpp.throughput_bounds(unit, device=V100).seconds(**sizes)
    roofline = lpp.estimate(unit, model="roofline", device=V100, **sizes).seconds
    assert max(bounds.values()) <= roofline * (1 + 1e-3)


# {{{ where the bound changes


def test_lower_bound_excludes_loads_that_the_compiler_may_merge():
    unit = make_kernel(
        "{[g, j, jj, k]: 0 <= g < n and 0 <= j, jj < 128 and 0 <= k < 64}",
        """
        for g
            <> t[jj] = a[128*g + jj] {id=fetch}
            b[128*g + j] = sum(k, t[127 - j]) {dep=fetch}
        end
        """,
        floats("a,b", "128*n"),
        ...,
        assumptions="n >= 1",
        target=lp.PyOpenCLTarget(),
    )
    unit = lp.set_temporary_address_space(lp.tag_inames(unit, "g:g.0, j:l.0, jj:l.0, k:unr"), "t", "local")
    bounds, sizes, local = lpp.throughput_bounds(unit, device=V100), {"n": 2**16}, "load/store"
    roofline = lpp.estimate(unit, device=V100, model="roofline", **sizes).seconds
    assert bounds.seconds(**sizes)[local] > roofline > bounds.at_least(**sizes)
    assert bounds.at_least(**sizes) == max(each for name, each in bounds.seconds(**sizes).items() if name != local)


def test_crossover_from_dram_to_arithmetic_by_hand():
    # 8 bytes at 897 GB/s over 80 cores: 8·1.38e9·80/897e9 = 0.9846 cycles per element; sums, m/64: m = 63.01.
    (found,) = lpp.crossover(powers(), "m", device=V100, n=2**16)
    assert (found.size, found.before, found.after) == (64, "DRAM", "alu")
    # 2^30 values are too many to try them all.
    (found,) = lpp.crossover(powers(), "m", device=V100, n=256, at_most=2**30)
    assert found.size == 64
    assert lpp.crossover(doubled(), "n", device=V100) == ()


@pytest.mark.parametrize("device", ["nvidia-v100", "nvidia-rtx-3090"])
def test_crossovers_match_a_scan_of_all_sizes(device: str):
    bounds = lpp.throughput_bounds(tiled(), device=device)
    sizes = range(16, 4097, 16)
    longest = [bounds.bound(n=n) for n in sizes]
    expected = [
        (n, before, after) for n, (before, after) in zip(sizes[1:], pairwise(longest), strict=True) if before != after
    ]
    found = lpp.crossover(tiled(), "n", device=device, at_most=4096)
    assert [(each.size, each.before, each.after) for each in found] == expected


def test_invalid_sizes_raise():
    with pytest.raises(ParameterError, match="no size k"):
        lpp.crossover(doubled(), "k", device=V100)
    with pytest.raises(ParameterError, match="missing size n"):
        lpp.crossover(powers(), "m", device=V100)
    with pytest.raises(ParameterError, match="m is the size that varies"):
        lpp.crossover(powers(), "m", device=V100, n=256, m=3)
    with pytest.raises(ParameterError, match=r"n must be an integer below 2\^62, got 64\.5"):
        lpp.crossover(powers(), "m", device=V100, n=64.5)
    with pytest.raises(ParameterError, match="at_most must be an integer"):
        lpp.crossover(powers(), "m", device=V100, n=256, at_most=1e6)
    with pytest.raises(ParameterError, match="no size size"):
        lpp.crossover(powers(), "m", device=V100, parameters={"size": 3, "n": 256})


# }}}


def test_indirectly_accessed_array_is_listed_as_left_out():
    unit = make_kernel(
        "{[i]: 0 <= i < n}",
        "b[i] = a[idx[i]]",
        floats("a,b", None),
        lp.GlobalArg("idx", np.int32, shape=None),
        ...,
        target=lp.PyOpenCLTarget(),
    )
    bounds = lpp.throughput_bounds(lp.split_iname(unit, "i", 256, outer_tag="g.0", inner_tag="l.0"), device=V100)
    assert any("traffic of a: indirect accesses are not included" in sentence for sentence in bounds.left_out)


def test_operations_in_no_bound_are_listed_as_left_out():
    unit = make_kernel(
        "{[i]: 0 <= i < n}",
        "b[i] = exp(a[i])",
        lp.GlobalArg("a,b", np.float64, shape="n"),
        ...,
        target=lp.PyOpenCLTarget(),
    )
    unit = lp.split_iname(unit, "i", 256, outer_tag="g.0", inner_tag="l.0")
    assert "f64 special is not included in any bound" in lpp.throughput_bounds(unit, device=V100).left_out
