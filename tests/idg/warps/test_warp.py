"""Test the work-items of a warp's lanes, and the values of their inames in Loopy's code."""

from math import prod

import loopy as lp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.errors import ParameterError
from loopyperf.idg.warp_classes import Warp, group_shape, iname_values, warps_of_group
from loopyperf.kernel import Kernel, load_kernel
from tests.idg.brute_force_warp import local_ids


def mapped(domain: str, tags: dict[str, str], dtype: type = np.float32) -> Kernel:
    unit = lp.make_kernel(
        domain,
        f"out[{', '.join(sorted(tags))}] = 1",
        [lp.GlobalArg("out", dtype, shape=None, strides=(4096, 1)[-len(tags) :]), ...],
        lang_version=(2018, 2),
        target=lp.PyOpenCLTarget(),
    )
    return load_kernel(lp.tag_inames(unit, tags))


@given(
    shape=st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple),
    size=st.sampled_from([32, 64]),
    draw=st.data(),
)
def test_lanes_are_numbered_along_the_first_axis_first(shape: tuple[int, ...], size: int, draw: st.DataObject) -> None:
    axes = dict(enumerate(shape))
    number = draw.draw(st.integers(0, warps_of_group(axes, size) - 1))
    warp = Warp(shape=axes, number=number, size=size)
    found = [warp.local_ids[axis].tolist() for axis in axes]
    assert list(zip(*found, strict=True)) == list(local_ids(number, size, shape))


@given(shape=st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple), size=st.sampled_from([32, 64]))
def test_warps_of_a_group_have_all_its_work_items(shape: tuple[int, ...], size: int) -> None:
    axes = dict(enumerate(shape))
    numbers = range(warps_of_group(axes, size))
    assert sum(Warp(shape=axes, number=number, size=size).lanes for number in numbers) == prod(shape)


def test_last_warp_of_a_group_may_have_fewer_lanes() -> None:
    # 40 work-items: 32 and 8
    assert [Warp(shape={0: 40}, number=number).lanes for number in (0, 1)] == [32, 8]


def test_axis_without_work_items_is_skipped() -> None:
    # only l.0 and l.2: lane 16 is the first work-item of the second layer
    ids = Warp(shape={0: 16, 2: 16}).local_ids
    assert (ids[0][16], ids[2][16]) == (0, 1)


def test_inames_of_groups_and_lanes() -> None:
    kernel = mapped("{[g,i]: 0<=g<8 and 0<=i<40}", {"g": "g.0", "i": "l.0"})
    values = iname_values(kernel, Warp({0: 5}, {0: 40}, number=1), ["g", "i"])
    assert {name: each.tolist() for name, each in values.items()} == {"g": [5] * 8, "i": list(range(32, 40))}


def test_inames_start_at_the_lower_bound_of_the_loop() -> None:
    kernel = mapped("{[g,i]: 2<=g<8 and 3<=i<19}", {"g": "g.0", "i": "l.0"})
    values = iname_values(kernel, Warp({0: 1}, {0: 16}), ["g", "i"])
    assert (values["g"].tolist(), values["i"].tolist()) == ([3] * 16, list(range(3, 19)))


def test_lower_bound_may_depend_on_a_size() -> None:
    # Loopy's code: out[m + gid(0)*4096 ...]
    kernel = mapped("[m] -> {[g,i]: m<=g<m+8 and 0<=i<16}", {"g": "g.0", "i": "l.0"})
    warp = Warp({0: 2}, {0: 16})
    assert iname_values(kernel, warp, ["g"], {"m": 100})["g"].tolist() == [102] * 16
    with pytest.raises(ParameterError, match="give size 'm'"):
        iname_values(kernel, warp, ["g"])


def test_sequential_inames_have_no_lanes() -> None:
    kernel = mapped("{[g,i]: 0<=g<8 and 0<=i<16}", {"i": "l.0", "g": "for"})
    assert list(iname_values(kernel, Warp(shape={0: 16}), ["g", "i"])) == ["i"]


def test_group_shape_is_that_of_the_launch() -> None:
    kernel = mapped("{[i,j]: 0<=i<16 and 0<=j<4}", {"i": "l.0", "j": "l.1"})
    assert group_shape(kernel.launches[0], {}) == {0: 16, 1: 4}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"number": 2}, "warps 0 to 1, got 2"), ({"number": -1}, "got -1"), ({"size": 0}, "at least one lane")],
)
def test_warp_outside_of_the_group_raises(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Warp(shape={0: 64}, **wrong)


def test_missing_group_index_raises() -> None:
    kernel = mapped("{[g,i]: 0<=g<8 and 0<=i<16}", {"g": "g.0", "i": "l.0"})
    with pytest.raises(ParameterError, match=r"iname .g. needs the group index along g\.0"):
        iname_values(kernel, Warp(shape={0: 16}), ["g"])
