"""Test the stride classes of accesses whose addresses depend on data, in whole or in part."""

from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.kernel import load_kernel
from tests.counts.small_kernels import array, kernel, lanes, sizes
from tests.counts.small_uncountable import COLUMNS, VALUES

LOAD = "global load 32-bit stride "


def loads(unit: lp.TranslationUnit, n: int) -> dict[str, int]:
    """Return stride class -> number of 32-bit loads."""
    counts = count_kernel(load_kernel(unit)).properties().evaluate(n=n)
    return {name.removeprefix(LOAD): int(number) for name, number in counts.items() if name.startswith(LOAD)}


@pytest.mark.parametrize(
    ("code", "index"),
    [
        ("out[i] = a[column[i]] {id=gather}", "column[i_inner + i_outer*16]"),
        ("<> place = column[i]\nout[i] = a[place] {id=gather}", "place"),
    ],
)
def test_indirect_loads_are_uncoalesced_unless_given(code: str, index: str) -> None:
    unit = lanes(kernel("{[i]: 0<=i<n}", code, VALUES, COLUMNS, array("out", "n"), sizes("n")))
    assumed = count_kernel(load_kernel(unit))
    assert assumed.properties().evaluate(n=100)["global load 32-bit stride 1/>4"] == 100
    (sentence,) = assumed.assumed
    assert sentence.startswith(f"addresses depend on data (a[{index}])")
    given = count_kernel(load_kernel(unit), typical={"a": "1"})
    assert given.properties().evaluate(n=100)["global load 32-bit stride 1"] == 200
    assert given.assumed == ()


def test_indirect_stores_are_uncoalesced() -> None:
    code = "out[column[i]] = a[i]"
    unit = lanes(kernel("{[i]: 0<=i<n}", code, array("out", "n"), COLUMNS, a=np.float32))
    counts = count_kernel(load_kernel(unit)).properties()
    assert counts["global store 32-bit stride 1/>4"](n=100) == 100


def by_groups(code: str) -> lp.TranslationUnit:
    """Return a kernel with groups of 16 lanes l; each group loads elements of a at a data-dependent base."""
    domain = "{[g,l,j]: 0<=g<n and 0<=l<16 and 0<=j<4}"
    unit = kernel(domain, code, VALUES, COLUMNS, array("out", "n,16"), sizes("n"))
    return lp.tag_inames(unit, {"g": "g.0", "l": "l.0"})


@pytest.mark.parametrize(
    ("code", "stride"),
    [
        ("<> base = column[g]\nout[g,l] = a[base + l]", "1"),
        ("<> place = column[g] + l\nout[g,l] = a[place]", "1"),
        ("<> base = column[g]\nout[g,l] = a[base - 2*l]", "1/2"),
        ("for j\n<> base = column[j]\nout[g,l] = a[base + l]\nend", "1"),
        # A condition on the group selects the same base in all lanes.
        ("<int32> base = 0\nif g % 3 == 0\nbase = 5\nend\nout[g,l] = a[base + l]", "1"),
        # The base is the value from the last iteration of a loop.
        ("for j\n<> base = column[j] {inames=g:l:j}\nend\nout[g,l] = a[base + l]", "1"),
    ],
)
def test_lanes_with_a_common_base_have_the_stride_of_their_offsets(code: str, stride: str) -> None:
    code = f"for g,l\n{code}\nend"
    counts = count_kernel(load_kernel(by_groups(code)))
    assert f"{LOAD}{stride}" in counts.properties()
    assert f"{LOAD}1/>4" not in counts.properties()
    assert not any("depend on data" in sentence for sentence in counts.assumed)


@pytest.mark.parametrize(
    "code",
    [
        "<> place = column[l]\nout[g,l] = a[place]",
        "<> place = column[l] + l\nout[g,l] = a[place]",
        "<int32> place = 0\nif l % 3 == 0\nplace = 5\nend\nout[g,l] = a[place]",
        "<int32> place = l\nplace = place + 1\nout[g,l] = a[place]",
    ],
)
def test_lanes_with_individual_bases_are_uncoalesced(code: str) -> None:
    counts = count_kernel(load_kernel(by_groups(f"for g,l\n{code}\nend")))
    assert any("depend on data" in sentence for sentence in counts.assumed)
    assert "global load 32-bit stride 1/>4" in counts.properties()


@pytest.mark.parametrize(
    ("index", "stride"),
    [
        # Data that is a summand shifts all lanes equally, also inside floors.
        ("column[j] + l", "1"),
        ("(column[j] + l)//3", "1"),
        ("3*((column[j] + 2*l)//3) + (column[j] + 2*l) % 3", "1/2"),
        # Data that multiplies a lane, or is a modulus, does not.
        ("column[j]*l", "1/>4"),
        ("(column[j]*l)//3", "1/>4"),
        ("l % column[j]", "1/>4"),
        ("5 + 2*(column[g] + column[j]*l)", "1/>4"),
    ],
)
def test_only_additive_data_preserves_the_stride(index: str, stride: str) -> None:
    counts = count_kernel(load_kernel(by_groups(f"out[g,l] = sum(j, a[{index}])")))
    assert counts.properties().evaluate(n=10)[f"{LOAD}{stride}"] == 640
    assert any("depend on data" in sentence for sentence in counts.assumed) == (stride == "1/>4")
    if stride == "1/>4":
        given = count_kernel(load_kernel(by_groups(f"out[g,l] = sum(j, a[{index}])")), typical={"a": "2/2"})
        assert given.properties().evaluate(n=10)[f"{LOAD}2/2"] == 640


def test_non_affine_addresses_leave_the_gaps_between_lanes_unused() -> None:
    counts = count_kernel(load_kernel(by_groups("out[g,l] = sum(j, a[3*g*l + j*l])")))
    assert counts.properties().evaluate(n=10)[f"{LOAD}1/>4"] == 640
    assert counts.assumed[-1].startswith("addresses are not affine in loop variables")


@pytest.mark.parametrize("value", ["l*0.5f", "l/2", "sqrt(l*1.0f)"])
def test_rounded_indices_are_data(value: str) -> None:
    unit = by_groups(f"for g,l\n<int32> place = {value}\nout[g,l] = a[place]\nend")
    assert loads(unit, n=10)["1/>4"] == 160


def test_iteration_counters_that_differ_by_lane_are_uncoalesced() -> None:
    unit = kernel(
        "{[g,l,j]: 0<=g<n and 0<=l<16 and 0<=j<=l}",
        "for g,l\n<int32> place = 0\nfor j\nplace = place + 1\nend\nout[g,l] = a[place]\nend",
        VALUES,
        array("out", "n,16"),
        sizes("n"),
    )
    assert loads(lp.tag_inames(unit, {"g": "g.0", "l": "l.0"}), n=10)["1/>4"] == 160


@pytest.mark.parametrize(
    ("typical", "expected"),
    [
        (None, "1/>4"),
        ({"x": "2/3"}, "2/3"),
        ({"off": "1/>4"}, "1/>4"),
        ({"off": 0}, "0"),
        ({"off": 1}, "1"),
        ({"off": 3}, "1/3"),
        ({"off": 8}, "1/>4"),
        ({"off": 1, "len(x)": 1000}, "1"),
    ],
)
def test_loaded_strides_are_uncoalesced_unless_given(typical: dict[str, Any] | None, expected: str) -> None:
    knl = lp.make_kernel(
        "{[c,l,i]: 0<=c<nc and 0<=l<nl and 0<=i<6}",
        "y[c,i,l] = x[m[c,i] + off[i]*l]",
        [
            lp.GlobalArg("x", np.float64, shape=None),
            lp.GlobalArg("y", np.float64, shape="nc,6,nl"),
            lp.GlobalArg("m", np.int32, shape="nc,6"),
            lp.GlobalArg("off", np.int32, shape="6"),
            ...,
        ],
        lang_version=(2018, 2),
    )
    knl = lp.tag_inames(lp.split_iname(knl, "l", 32, inner_tag="l.0"), "c:g.0")
    counted = lpp.count(knl, typical=typical)
    assert f"global load 64-bit stride {expected}" in counted.properties()
    assert bool(counted.assumed) == (typical in (None, {"off": 3}, {"off": 8}))
    # Device models accept the same typical values.
    sizes = {"nc": 100, "nl": 64}
    assert lpp.estimate(knl, model="roofline", device="nvidia-v100", typical=typical, **sizes).seconds > 0


def test_unknown_base_leaves_the_gaps_between_lanes_unused() -> None:
    unit = kernel(
        "{[i_outer,i_inner]: 0<=i_outer<n and 0<=i_inner<16}",
        "<> place = column[0] {inames=i_outer}\nout[i_outer,i_inner] = a[place + 2*i_inner] {id=even}",
        VALUES,
        COLUMNS,
        array("out", "n,16"),
        sizes("n"),
    )
    counts = count_kernel(load_kernel(lp.tag_inames(unit, {"i_outer": "g.0", "i_inner": "l.0"})))
    assert counts.properties().evaluate(n=10)["global load 32-bit stride 1/2"] == 160
    assert any(each.startswith("addresses are not affine in loop variables (a[") for each in counts.assumed)
