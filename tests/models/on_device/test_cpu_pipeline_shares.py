"""The columns of a CPU: vector instructions, scalar instructions, and loop-carried dependences."""

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.device.device_library import a_processor
from loopyperf.models.pipeline_shares import QUEUED, busy_seconds, pipeline_shares
from tests.profiles import timed_on

N, GROUP, LANES = 256, 64, 16
CLOCK = a_processor().clock


def columns(domain: str, text: str) -> dict[str, float]:
    """Return column -> cycles for n work-items in groups of 64; for launches, their number."""
    unit = lp.make_kernel(domain, text, [lp.GlobalArg("a, out", np.float32, shape=lp.auto), ...])
    unit = lp.split_iname(lp.assume(unit, "n >= 64"), "i", GROUP, outer_tag="g.0", inner_tag="l.0")
    graphs = lpp.kernel_profile(unit, warp_size=LANES, n=N)
    shares = pipeline_shares(timed_on(graphs, a_processor()))
    sums = {name: sum(sources.values()) for name, sources in shares.items()}
    return {name: each if name == "launches" else each * CLOCK for name, each in sums.items()}


def test_code_without_loops_is_vectorized() -> None:
    found = columns("{[i]: 0 <= i < n}", "out[i] = a[i] + 1")
    assert found["launches"] == 1
    assert found["start"] == a_processor().group_start * N / GROUP
    assert not [name for name in found if "one by one" in name]
    assert not [name for name in found if "recurrences" in name]


def test_sum_is_scalar_and_has_a_recurrence() -> None:
    found = columns("{[i, k]: 0 <= i < n and 0 <= k < n}", "out[i] = sum(k, a[i + n*k]*a[k])")
    iterations = N * N
    assert found["recurrences: fma f32"] == pytest.approx(iterations * a_processor().completion_latency("fma", "f32"))
    loads = a_processor().issue_latency("load global", "b32")
    stores = a_processor().issue_latency("store global", "b32")
    assert found["L1: one by one"] == pytest.approx(2 * iterations * loads + N * stores)
    assert found["alu: one by one"] >= iterations * a_processor().issue_latency("fma", "f32")
    assert "alu" not in found


def test_division_is_one_instruction() -> None:
    found = columns("{[i, k]: 0 <= i < n and 0 <= k < n}", "out[i] = sum(k, 1/(a[i] + a[k]))")
    assert found["sfu: one by one"] == pytest.approx(N * N * a_processor().issue_latency("div", "f32"))
    assert found["recurrences: add f32"] == pytest.approx(N * N * a_processor().completion_latency("add", "f32"))


@pytest.mark.parametrize("device", [a_processor(), lpp.load_device("nvidia-v100"), lpp.load_device("amd-r9-fury")])
def test_launches_after_the_first_are_queued(device: lpp.Device) -> None:
    unit = lp.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "a[i] = 2*a[i]\n... gbarrier\na[j] = 3*a[j]\n... gbarrier\na[k] = 4*a[k]",
        [lp.GlobalArg("a", np.float32, shape="n"), ...],
        assumptions="n >= 64 and n mod 64 = 0",
        seq_dependencies=True,
    )
    for iname in "ijk":
        unit = lp.split_iname(unit, iname, GROUP, outer_tag="g.0", inner_tag="l.0")
    found = busy_seconds(timed_on(lpp.kernel_profile(unit, warp_size=device.warp_size, n=N), device))
    assert found["launches"] == pytest.approx(1)
    assert found["further launches"] == pytest.approx(2 * QUEUED)
