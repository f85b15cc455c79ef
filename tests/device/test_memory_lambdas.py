"""λ and Λ of memory: on worked cases, by what descriptions state."""

from dataclasses import replace

import pytest

from loopyperf.device.device_library import load_device
from loopyperf.device.lambdas import bytes_per_cycle, global_levels, level_issue, level_latency
from loopyperf.errors import MissingNumberError

V100 = load_device("nvidia-v100")


def test_a_level_moves_bytes_at_the_cores_share_of_its_bandwidth() -> None:
    # 869 GB/s of 80 cores at 1.38 GHz are 7.871 bytes a cycle and core: 256 bytes take 32.5 cycles.
    assert level_issue(V100, "DRAM", 256) == pytest.approx(256 / (869e9 / (80 * 1.38e9)))
    assert level_issue(V100, "DRAM", 256) == pytest.approx(32.52, abs=0.01)
    assert level_latency(V100, "DRAM") == 433


def test_measured_instructions_stand_in_for_a_level_without_latency() -> None:
    # Lemeire, Table 5, GTX 1060: a coalesced load of 128 bytes; one of 256 takes twice as long to issue.
    device = load_device("nvidia-gtx-1060")
    (measured,) = (each for each in device.instructions if each.name == "load global b32")
    assert level_issue(device, "DRAM", 256) == 2 * measured.issue
    assert level_latency(device, "DRAM") == measured.completion


def test_a_description_without_memory_says_so() -> None:
    device = replace(V100, memory=tuple(level for level in V100.memory if level.name == "local"))
    with pytest.raises(MissingNumberError, match=r"\[memory.DRAM\]"):
        global_levels(device)


def test_a_bandwidth_that_nobody_published_is_missing() -> None:
    with pytest.raises(MissingNumberError, match=r"'nvidia-gtx-680' lacks memory.L2"):
        level_issue(load_device("nvidia-gtx-680"), "L2", 128)


def test_measured_bandwidth_goes_before_the_peak() -> None:
    assert bytes_per_cycle(V100, V100.level("DRAM")) < 897e9 / (80 * 1.38e9)
    assert bytes_per_cycle(V100, V100.level("local")) == 128
