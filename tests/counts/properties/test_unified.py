"""Test the names of properties, and which items are not properties."""

import loopy as lp
import numpy as np
import pytest

from loopyperf.counts.arithmetic import Operation
from loopyperf.counts.item import property_name
from loopyperf.counts.kernel_counts import Access, KernelCounts, Overhead, count_kernel
from loopyperf.kernel import load_kernel


def test_name_of_each_property(subtests: pytest.Subtests) -> None:
    for item, name in [
        (Operation("add", "f32"), "f32 add"),
        (Operation("special", "f64"), "f64 special"),
        # Not in the paper, but counted: a fit without a weight for it reports that.
        (Operation("mul", "f16"), "f16 mul"),
        (Access("load", "global", 32, "1"), "global load 32-bit stride 1"),
        (Access("store", "global", 64, "2/2"), "global store 64-bit stride 2/2"),
        (Access("load", "global", 128, "3/>4"), "global load 128-bit stride 3/>4"),
        (Access("load", "local", 32, ""), "local load 32-bit"),
        (Access("store", "local", 64, ""), "local store 64-bit"),
        (Overhead("barriers"), "barriers"),
        (Overhead("work-groups"), "work-groups"),
        (Overhead("launches"), "launches"),
        # The paper does not count integer arithmetic, comparisons or logic.
        (Operation("add", "i32"), None),
        (Operation("mul", "u64"), None),
        (Operation("min/max", "f32"), None),
        (Operation("compare", "f32"), None),
        (Operation("logic", "i32"), None),
        (Operation("shift", "i32"), None),
    ]:
        with subtests.test(item=item, name=name):
            assert name == property_name(item)


@pytest.fixture(scope="module")
def counts() -> KernelCounts:
    """Return counts of f64 loads of strides 1 and 0, integer arithmetic, and stores of both sizes."""
    unit = lp.make_kernel(
        "{[i]: 0<=i<n}",
        "out[i] = a[i]*x[0] + 3*k[i] {id=f64}\nk[i] = k[i]*k[i] + 1 {id=integers}\nsmall[i] = 2 {id=f32}",
        [
            lp.GlobalArg("out,a,x", np.float64, shape="n"),
            lp.GlobalArg("small", np.float32, shape="n"),
            lp.GlobalArg("k", np.int32, shape="n"),
            ...,
        ],
        lang_version=(2018, 2),
        seq_dependencies=True,
    )
    return count_kernel(load_kernel(lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0")))


def test_kernel_has_only_properties_with_counts(counts: KernelCounts) -> None:
    assert list(counts.properties()) == [
        "f64 add",
        "f64 mul",
        "global load 32-bit stride 1",
        "global load 64-bit stride 0",
        "global load 64-bit stride 1",
        "global store 32-bit stride 1",
        "global store 64-bit stride 1",
        "launches",
        "work-groups",
        "global min(load, store) 32-bit stride 1",
        "global min(load, store) 64-bit stride 1",
    ]


def test_integer_arithmetic_is_tallied_but_is_not_a_property(counts: KernelCounts) -> None:
    integers = {
        tally.item for tally in counts.tallies if isinstance(tally.item, Operation) and tally.item.dtype == "i32"
    }
    assert integers >= {Operation("mul", "i32"), Operation("add", "i32")}
    assert not [name for name in counts.properties() if "i32" in name]


def test_minima_use_the_totals_of_the_kernel(counts: KernelCounts) -> None:
    # k is loaded by three references, one of "f64" and two of "integers"; it and "small" are stored once each.
    values = counts.properties().evaluate(n=40)
    assert values["global load 32-bit stride 1"] == 3 * 40
    assert values["global store 32-bit stride 1"] == 2 * 40
    assert values["global min(load, store) 32-bit stride 1"] == 2 * 40
    assert values["global min(load, store) 64-bit stride 1"] == 40
