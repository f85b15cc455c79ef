"""Tests of size schedules and group sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.errors import KernelFileError
from loopyperf.measurement.environment import DeviceLimits, doubling

# {{{ size schedules

sizes = st.integers(1, 2000)


@given(at_least=sizes, multiple_of=sizes, at_most=sizes)
def test_schedule_matches_the_definition(at_least, multiple_of, at_most):
    smallest = min(size for size in range(at_least, at_least + multiple_of) if size % multiple_of == 0)
    doubles = (smallest * 2**step for step in range(at_most.bit_length()))
    assert tuple(size for size in doubles if size <= at_most) == doubling(at_least, multiple_of, at_most)


@pytest.mark.parametrize(("at_least", "multiple_of"), [(0, 16), (-1, 16), (16, 0), (16, -2)])
def test_schedule_without_a_first_size_is_rejected(at_least, multiple_of):
    with pytest.raises(KernelFileError, match=f"got at_least={at_least}, multiple_of={multiple_of}"):
        doubling(at_least, multiple_of, 100)


# }}}


# {{{ group sizes


def limits(group_size: int) -> DeviceLimits:
    return DeviceLimits(group_size, local_memory=2**15, global_memory=2**30)


def test_devices_of_the_paper_get_its_group_sizes():
    # Section 4.1: the R9 Fury, with at most 256 work-items in a group, has the small sets, the Titan X the large ones.
    assert limits(256).groups_1d() == (192, 224, 256)
    assert limits(256).groups_2d() == ((16, 12), (16, 14), (16, 16))
    assert limits(512).groups_1d() == (128, 256, 384)
    assert limits(512).groups_2d() == ((16, 12), (16, 16), (32, 16))
    assert limits(1024).groups_1d() == (256, 384, 512)
    assert limits(1024).groups_2d() == ((16, 16), (24, 16), (32, 16))


def test_class_can_have_one_set_on_all_but_small_devices():
    for group_size in (512, 1024):
        assert limits(group_size).groups_1d(unless_small="large") == (256, 384, 512)
        assert limits(group_size).groups_2d(unless_small="medium") == ((16, 12), (16, 16), (32, 16))
    assert limits(256).groups_1d(unless_small="large") == limits(256).groups_1d()
    assert limits(256).groups_2d(unless_small="medium") == limits(256).groups_2d()


@pytest.mark.parametrize("group_size", [64, 192, 230, 256, 384, 511, 512, 1024])
def test_no_group_is_larger_than_the_device_can_hold(group_size):
    device = limits(group_size)
    for one in (None, "small", "medium", "large"):
        assert all(size <= group_size for size in device.groups_1d(one))
        assert all(x * y <= group_size for x, y in device.groups_2d(one))


# }}}
