"""λ and Λ of memory levels, derived by hand from device parameters."""

from dataclasses import replace

import pytest

from loopyperf.device.device_library import load_device
from loopyperf.device.lambdas import bytes_per_cycle, global_levels, level_issue, level_latency, with_traffic
from loopyperf.errors import MissingNumberError

V100 = load_device("nvidia-v100")


def test_issue_latency_follows_the_bandwidth_per_core() -> None:
    # 869 GB/s for 80 cores at 1.38 GHz are 7.871 bytes per cycle and core: 256 bytes take 32.5 cycles.
    assert level_issue(V100, "DRAM", 256) == pytest.approx(256 / (869e9 / (80 * 1.38e9)))
    assert level_issue(V100, "DRAM", 256) == pytest.approx(32.52, abs=0.01)
    assert level_latency(V100, "DRAM") == 433


def test_measured_loads_replace_missing_memory_latency() -> None:
    # Lemeire, Table 5, GTX 1060: a coalesced load of 128 bytes; a load of 256 bytes takes twice as long to issue.
    device = load_device("nvidia-gtx-1060")
    (measured,) = (each for each in device.instructions if each.name == "load global b32")
    assert level_issue(device, "DRAM", 256) == 2 * measured.issue
    assert level_latency(device, "DRAM") == measured.completion


def test_device_without_memory_levels_raises() -> None:
    device = replace(V100, memory=tuple(level for level in V100.memory if level.name == "local"))
    with pytest.raises(MissingNumberError, match=r"\[memory.DRAM\]"):
        global_levels(device)


def test_unpublished_bandwidth_raises() -> None:
    with pytest.raises(MissingNumberError, match=r"'nvidia-gtx-680' lacks memory.L2"):
        level_issue(load_device("nvidia-gtx-680"), "L2", 128)


def test_measured_bandwidth_is_preferred_to_the_peak() -> None:
    assert bytes_per_cycle(V100, V100.level("DRAM")) < 897e9 / (80 * 1.38e9)
    assert bytes_per_cycle(V100, V100.level("local")) == 128


def test_bandwidth_depends_on_the_share_of_stores() -> None:
    device = load_device("nvidia-v100")  # reads 867, copies 809, writes 897 GB/s
    expected = {0: 867, 0.25: 838, 0.5: 809, 0.75: 853, 1: 897}
    for written, bandwidth in expected.items():
        found = with_traffic(device, written).level("DRAM").sustained_bandwidth
        assert found == pytest.approx(bandwidth * 1e9), written
    unmeasured = load_device("nvidia-titan-v")
    assert with_traffic(unmeasured, 0.5) is unmeasured
