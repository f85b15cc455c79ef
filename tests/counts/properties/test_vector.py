"""Test the properties of a kernel, individually and together."""

import loopy as lp
import numpy as np
import pytest

from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.counts.property_vector import LesserCount, PropertyVector
from loopyperf.errors import ParameterError
from loopyperf.kernel import load_kernel
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial
from tests.kernels import floats, integers, make_kernel

MINIMUM = "global min(load, store) 32-bit stride 1"


@pytest.fixture(scope="module")
def properties() -> PropertyVector:
    """Return the properties of a kernel with n loads and m stores; no count depends on its size k."""
    unit = make_kernel(
        ["[k,m,n] -> {[i]: 0<=i<n}", "[m] -> {[j]: 0<=j<m}"],
        "out[j] = 2 {id=fill}\n<> s = a[i] {id=read, dep=fill}",
        floats("a", "n"),
        floats("out", "m"),
        integers("k,m,n"),
        ...,
        assumptions="n>=0 and m>=0 and k mod 2 = 0",
    )
    for iname in "ij":
        unit = lp.split_iname(unit, iname, 16, outer_tag="g.0", inner_tag="l.0")
    return count_kernel(load_kernel(unit)).properties()


def test_property_is_a_function_of_the_sizes(properties: PropertyVector) -> None:
    load, least = properties["global load 32-bit stride 1"], properties[MINIMUM]
    assert isinstance(load, QuasiPolynomial)
    assert isinstance(least, LesserCount)
    assert (load.parameters, least.parameters) == ({"n"}, {"m", "n"})
    assert load(n=7) == 7
    assert [least(n=n, m=5) for n in (3, 5, 8)] == [3, 5, 5]


def test_single_properties_equal_the_evaluated_vector(properties: PropertyVector) -> None:
    sizes = {"n": 40, "m": 33}
    assert {name: count(**sizes) for name, count in properties.items()} == properties.evaluate(**sizes)
    arrays = {name: size * np.arange(3) for name, size in sizes.items()}
    together = properties.evaluate(**arrays)
    for name, count in properties.items():
        assert np.array_equal(count.evaluate(**arrays), together[name]), name


def test_scalars_give_python_integers_and_arrays_give_arrays(properties: PropertyVector) -> None:
    assert {type(count) for count in properties.evaluate(n=40, m=33).values()} == {int}
    assert {type(count) for count in properties.evaluate(n=40, m=np.int64(33)).values()} == {int}
    shapes = {np.shape(count) for count in properties.evaluate(n=40, m=np.array([[33, 34]])).values()}
    assert shapes == {(1, 2)}


def test_minimum_is_formatted_as_min(properties: PropertyVector) -> None:
    assert str(properties[MINIMUM]) == "min(n, m)"
    assert properties[MINIMUM].latex() == r"\min\left(n, m\right)"


@pytest.mark.parametrize("expression", ["2*a[i]", "a[i] + b[i]", "a[i] + a[n - 1 - i]*b[i]"])
def test_minimum_of_a_count_and_its_multiple_is_formatted_as_one(expression: str) -> None:
    unit = make_kernel("{[i]: 0<=i<n}", f"out[i] = {expression}", assumptions="n>=1")
    unit = lp.split_iname(lp.add_dtypes(unit, dict.fromkeys(set("ab") & set(expression), np.float32)), "i", 16)
    unit = lp.tag_inames(unit, {"i_outer": "g.0", "i_inner": "l.0"})
    least = count_kernel(load_kernel(unit)).properties()[MINIMUM]
    assert (str(least), least.latex()) == ("n", "n")


def test_sizes_without_effect_may_be_given(properties: PropertyVector) -> None:
    assert properties.parameters == ("m", "n")
    assert properties.evaluate(n=40, m=33, k=6) == properties.evaluate(n=40, m=33)


def test_sizes_without_effect_are_checked(properties: PropertyVector) -> None:
    with pytest.raises(ParameterError, match=r"^k=5, m=33, n=40 violates the kernel's assumptions: .*k mod 2 = 0"):
        properties.evaluate(n=40, m=33, k=5)
    with pytest.raises(ParameterError, match=r"^k=5, m=33, n=40 violates the kernel's assumptions"):
        properties.evaluate(n=40, m=33, k=np.array([2, 4, 5]))


def test_unknown_property_is_not_a_key(properties: PropertyVector) -> None:
    assert "f32 add" not in properties
    with pytest.raises(KeyError):
        properties["f32 add"]
    assert len(properties) == len(list(properties))


def test_size_may_be_named_self() -> None:
    counted = count_kernel(
        load_kernel(make_kernel("{[i]: 0<=i<self}", "out[i] = 2*a[i]", floats("a,out", "self"), ...))
    )
    doubled = counted.properties()["f32 mul"]
    assert doubled(self=3) == doubled.evaluate(self=3) == counted.properties().evaluate(self=3)["f32 mul"] == 3
    assert "self=3" in str(counted.table(self=3))
