"""Test arrays as frameworks declare them: axes of unknown length, separate arrays and automatic offsets."""

from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp


def in_groups(domain: str, code: str, *arguments: Any, lane: str = "i") -> lp.TranslationUnit:
    knl = lp.make_kernel(domain, code, list(arguments), lang_version=(2018, 2))
    return lp.split_iname(knl, lane, 64, outer_tag="g.0", inner_tag="l.0")


def test_axis_of_unknown_length_costs_its_accessed_part() -> None:
    # PyOP2 declares arrays with rows of 3 elements and an unknown number of rows.
    def wrapper(index: str, first: str | None) -> lp.TranslationUnit:
        types = {"dat": np.float64, "out": np.float64} | ({"map": np.int32} if "map" in index else {})
        rows = [lp.GlobalArg(name, dtype, shape=(first, 3), strides=(3, 1)) for name, dtype in types.items()]
        domain, code = "[n] -> {[e, i]: 0 <= e < n and 0 <= i < 3}", f"out[e, i] = 2*dat[{index}]"
        return in_groups(domain, code, lp.ValueArg("n", np.int32), *rows, lane="e")

    def seconds(knl: lp.TranslationUnit, **more: Any) -> Any:
        return lpp.estimate(knl, n=100_000, device="nvidia-a100", model="roofline", **more).seconds

    assert seconds(wrapper("e, i", None)) == seconds(wrapper("e, i", "n"))
    unknown, known = (wrapper("map[e, i], 0", first) for first in (None, "n"))
    assert seconds(unknown) > seconds(known)
    assert seconds(unknown, typical={"len(dat)": 300_000}) == seconds(known)
    assert lpp.count(unknown, typical={"len(dat)": 300_000, "dat": "1"}).tallies


def test_separate_axis_costs_as_much_as_individual_arrays() -> None:
    def seconds(value: str, *arrays: lp.GlobalArg) -> Any:
        knl = in_groups("{[i]: 0 <= i < n}", f"y[i] = {value}", lp.ValueArg("n", np.int32), *arrays)
        return lpp.estimate(knl, n=1_000_000, device="nvidia-a100", model="pipeline").seconds

    separate = lp.GlobalArg("v", np.float64, shape="2, n", dim_tags="sep,C", offset=lp.auto)
    found = seconds("v[0, i] + v[1, i]", separate, lp.GlobalArg("y", np.float64, shape="n"))
    own = seconds("v0[i] + v1[i]", *(lp.GlobalArg(name, np.float64, shape="n") for name in ("v0", "v1", "y")))
    assert found == pytest.approx(own, rel=0.01)  # the kernel also loads two offsets
