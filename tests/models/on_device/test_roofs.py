"""The roofline chart's data: roofs from the device's description, launches whose flop and bytes are known by hand."""

from dataclasses import replace

import loopy as lp
import numpy as np
import pytest
from kernels import doubled

import loopyperf as lpp
from loopyperf.device.description import MemoryLevel
from loopyperf.models.on_device.roofs import LaunchUnderRoofs

V100 = lpp.load_device("nvidia-v100")
N = 2**22


def test_roofs_are_those_of_the_description() -> None:
    found = lpp.roofline(doubled(), n=N, device=V100)
    cycles = V100.cores * V100.clock
    # 64 lanes of single precision, 32 of double, 16 of special functions; 4 issues of 32 lanes; the L1 and local memory
    # are one pipeline of 128 B a cycle.
    assert found.peaks == pytest.approx(
        {
            "f32 multiply-adds": 2 * 64 * cycles,
            "f64 multiply-adds": 2 * 32 * cycles,
            "special functions": 16 * cycles,
            "issue limit": 2 * 4 * 32 * cycles,
        }
    )
    assert found.bandwidths["local and L1"] == pytest.approx(128 * cycles)
    assert found.bandwidths["DRAM"] == pytest.approx(V100.level("DRAM").sustained_bandwidth)
    assert list(found.bandwidths) == ["local and L1", "L2", "DRAM"]


@pytest.mark.parametrize("group", [16, 256])
def test_a_stream_moves_eight_bytes_for_a_flop_by_way_of_all_memories(group: int) -> None:
    (launch,) = lpp.roofline(doubled(group=group), n=N, device=V100).launches
    # A multiplication, a load and a store of 4 bytes for each of n elements, in full warps and in half ones.
    assert launch.flops == N
    assert launch.moved == pytest.approx({"local and L1": 8 * N, "L2": 8 * N, "DRAM": 8 * N})
    assert launch.intensities == pytest.approx(dict.fromkeys(launch.moved, 1 / 8))


def test_a_stream_is_at_the_roof_of_device_memory() -> None:
    found = lpp.roofline(doubled(group=256), n=N, device=V100)
    (launch,) = found.launches
    assert launch.bound == "DRAM"
    # The core with most groups has 205 of them, the mean core 204.8; latencies are told to a 64th of a cycle.
    assert launch.performance == pytest.approx(found.bandwidths["DRAM"] / 8, rel=0.01)


def test_the_time_is_that_of_the_roofline_model() -> None:
    found = lpp.roofline(doubled(), n=N, device=V100)
    estimate = lpp.estimate(doubled(), n=N, device=V100, model="roofline")
    # The V100's description states no launch overhead.
    assert sum(launch.seconds for launch in found.launches) == pytest.approx(estimate.seconds)


def test_what_no_roof_is_of_is_said_to_lie_below_all_of_them() -> None:
    stream = lpp.roofline(doubled(group=256), n=N, device=V100)
    assert stream.below_all_roofs == ""
    # Lanes run down a column: each of four requests asks for 16 lines, and the load/store units take one a cycle.
    rows = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}", "b[i, j] = a[i, j] + a[i, j+1] + a[i, j+2]",
        [lp.GlobalArg("a", np.float32, shape="n, n+2"), lp.GlobalArg("b", np.float32, shape="n, n"), ...],
        name="rows", assumptions="n mod 16 = 0 and n >= 16", lang_version=(2018, 2),
    )  # fmt: skip
    rows = lp.split_iname(rows, "i", 16, outer_tag="g.1", inner_tag="l.0")
    found = lpp.roofline(lp.split_iname(rows, "j", 16, outer_tag="g.0", inner_tag="l.1"), n=2048, device=V100)
    (launch,) = found.launches
    assert launch.bound == "load/store"
    assert found.below_all_roofs == "load/store has no roof: rows lies below all of them"
    slopes = [launch.intensities[memory] * each for memory, each in found.bandwidths.items()]
    assert launch.performance < 0.9 * min(slopes)
    assert found.below_all_roofs in str(found).replace("\n    ", " ")


def test_a_copy_has_no_flop() -> None:
    copy = lp.make_kernel(
        "{[i]: 0 <= i < n}", "b[i] = a[i]", [lp.GlobalArg("a,b", np.float32, shape="n"), ...], lang_version=(2018, 2)
    )
    (launch,) = lpp.roofline(
        lp.split_iname(copy, "i", 256, outer_tag="g.0", inner_tag="l.0"), n=N, device=V100
    ).launches
    assert (launch.flops, launch.performance) == (0, 0)


def test_a_launch_that_takes_no_time_has_no_performance() -> None:
    nothing = LaunchUnderRoofs("empty", 0.0, {}, 0.0, "issues")
    assert nothing.performance == 0


def without_bandwidth(level: MemoryLevel) -> MemoryLevel:
    return replace(level, bandwidth=None, sustained_bandwidth=None, bandwidth_per_core=None)


def test_a_roof_that_is_not_described_is_that_of_a_relative_and_said_to_be() -> None:
    device = replace(V100, memory=tuple(without_bandwidth(x) if x.name == "L2" else x for x in V100.memory))
    found, known = (lpp.roofline(doubled(), n=N, device=each) for each in (device, V100))
    assert found.bandwidths["L2"] == pytest.approx(known.bandwidths["L2"])
    (said,) = (note for note in found.notes if "L2" in note)
    assert said.startswith("assumed throughputs of nvidia-v100: L2 2.45 TB/s (2.7 times")
