"""Kernels split over devices, so that all of them finish at the same time."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import loopyperf as lpp
from loopyperf.calibration.fits import save_fit
from loopyperf.errors import ParameterError, UnknownDeviceError
from loopyperf.search.split import shares_that_end_together
from tests.kernels import doubled, triangle, two_launches
from tests.parts_backend import PartsBackend

DEVICES = ("nvidia-v100", "nvidia-titan-v")
N = 2**20
TICK = 2.0**-20


def test_two_devices_of_the_catalog_finish_together():
    found = lpp.split(doubled(), devices=DEVICES, model="pipeline", n=N)
    alone = [lpp.estimate(doubled(), device=device, model="pipeline", n=N).seconds for device in DEVICES]
    assert found.devices == DEVICES
    assert sum(found.groups) == found.total_groups == N // 16
    assert found.alone == tuple(alone)
    # Groups are not divided: each device may have up to one too many or too few.
    assert found.seconds[0] == pytest.approx(found.seconds[1], abs=max(alone) / found.total_groups * 2)
    assert found.together < min(alone)
    assert [len(each) for each in found.ranges] == list(found.groups)


def test_single_device_gets_all_groups():
    found = lpp.split(doubled(), devices=["amd-r9-fury"], n=1000)
    assert found.groups == (63,)
    assert found.together == lpp.estimate(doubled(), device="amd-r9-fury", n=1000).seconds


def test_device_that_is_twice_as_fast_gets_twice_the_groups():
    slow = PartsBackend(seconds=lambda *_: 2 * TICK, name="Slow")
    fast = PartsBackend(seconds=lambda *_: TICK, name="Fast")
    found = lpp.split(doubled(), devices=[slow, fast], model="sampled", n=N)
    # The launch and the host take twelve ticks on both devices, for any number of groups.
    assert found.groups[1] / found.groups[0] == pytest.approx(2, rel=1e-2)
    assert found.devices == ("slow", "fast")


def test_first_device_gets_more_groups_if_the_first_groups_do_less_work():
    found = lpp.split(triangle(), devices=["nvidia-v100", "nvidia-v100"], model="pipeline", n=2**12)
    assert sum(found.groups) == 256
    # The work of a group grows with its number, so the first 256/√2 = 181 of 256 groups have half of the work.
    assert found.groups[0] in (180, 181, 182)
    assert found.seconds[0] == pytest.approx(found.seconds[1], rel=2 / 181)


def test_printed_split_has_a_line_for_each_device():
    found = lpp.split(doubled(), devices=DEVICES, model="pipeline", n=N)
    lines = str(found).splitlines()
    assert lines[0].startswith(f"doubled(n={N}) on {', '.join(found.devices)}: {N // 16:,} groups in ")
    rows = [(device, f"{groups:,}") for device, groups in zip(found.devices, found.groups, strict=True)]
    assert [tuple(line.split()[:2]) for line in lines[2:4]] == rows


times = st.floats(1e-6, 10)


@given(st.lists(st.tuples(times, times), min_size=1, max_size=5))
def test_busy_devices_finish_together_before_idle_ones_could_start(pairs: list[tuple[float, float]]):
    fixed = [cost for cost, _ in pairs]
    alone = [cost + further for cost, further in pairs]
    shares = shares_that_end_together(fixed, alone)
    assert sum(shares) == pytest.approx(1, rel=1e-8)
    assert min(shares) >= 0
    ends = [cost + (total - cost) * share for cost, total, share in zip(fixed, alone, shares, strict=True) if share]
    assert max(ends) == pytest.approx(min(ends), rel=1e-9)
    idle = [cost for cost, share in zip(fixed, shares, strict=True) if not share]
    assert all(cost >= max(ends) * (1 - 1e-9) for cost in idle)


def test_device_with_a_launch_longer_than_the_whole_run_is_idle():
    assert shares_that_end_together([0.0, 5.0], [1.0, 5.5]) == (1.0, 0.0)


@pytest.mark.parametrize("pair", [(-1.0, 2.0), (3.0, 2.0), (0.0, float("inf"))])
def test_invalid_times_are_refused(pair: tuple[float, float]):
    with pytest.raises(ParameterError, match="times must be finite, and at least their fixed part"):
        shares_that_end_together([pair[0]], [pair[1]])


def test_error_of_a_fit_with_negative_times_names_the_device(make_fit, own_data: Path):
    save_fit(make_fit(weights={"f32 mul": -1e-9, "launches": 1e-6}), own_data / "fits" / "made-up-1" / "linear.json")
    with pytest.raises(ParameterError, match=r"on made-up-1, model 'linear' predicts -.*below 0.*; drop that device$"):
        lpp.split(doubled(), devices=["made-up-1", "amd-r9-fury"], n=N)


@pytest.mark.parametrize("devices", [[], "nvidia-v100", 3, None])
def test_devices_must_be_a_nonempty_list(devices: object):
    with pytest.raises(ParameterError, match="devices must be a list of one or more devices"):
        lpp.split(doubled(), devices=devices, model="pipeline", n=N)


def test_invalid_device_is_refused():
    for model in ("pipeline", "learned", "sampled"):
        with pytest.raises(ParameterError):
            lpp.split(doubled(), devices=[["nvidia-v100"]], model=model, n=N)


def test_unknown_device_is_refused():
    with pytest.raises(UnknownDeviceError):
        lpp.split(doubled(), devices=["nvidia-v100", "nobody"], model="pipeline", n=N)


def test_kernel_of_several_launches_is_refused():
    with pytest.raises(ParameterError, match="has several launches, between which devices would have to wait"):
        lpp.split(two_launches(), devices=DEVICES, model="pipeline", n=N)
