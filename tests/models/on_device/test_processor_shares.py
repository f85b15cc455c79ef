"""The columns of a processor: what goes in vectors, what goes one by one, and what passes of loops wait for."""

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.device.library import a_processor
from loopyperf.models.on_device.pipeline_shares import pipeline_shares
from loopyperf.predict.stages import staged

N, GROUP, LANES = 256, 64, 16
CLOCK = a_processor().clock


def columns(domain: str, text: str) -> dict[str, float]:
    """Return column -> cycles, of n work-items in groups of 64; launches as they are."""
    unit = lp.make_kernel(domain, text, [lp.GlobalArg("a, out", np.float32, shape=lp.auto), ...])
    unit = lp.split_iname(lp.assume(unit, "n >= 64"), "i", GROUP, outer_tag="g.0", inner_tag="l.0")
    graphs = lpp.kernel_profile(unit, warp_size=LANES, n=N)
    shares = pipeline_shares(staged(graphs, a_processor()).timed)
    sums = {name: sum(sources.values()) for name, sources in shares.items()}
    return {name: each if name == "launches" else each * CLOCK for name, each in sums.items()}


def test_without_loops_everything_goes_in_vectors() -> None:
    found = columns("{[i]: 0 <= i < n}", "out[i] = a[i] + 1")
    assert found["launches"] == 1
    assert found["start"] == a_processor().group_start * N / GROUP
    assert not [name for name in found if "one by one" in name]
    assert not [name for name in found if "recurrences" in name]


def test_a_sum_goes_one_by_one_and_waits_for_its_additions() -> None:
    found = columns("{[i, k]: 0 <= i < n and 0 <= k < n}", "out[i] = sum(k, a[i + n*k]*a[k])")
    passes = N * N
    assert found["recurrences: fma f32"] == pytest.approx(passes * a_processor().completion_latency("fma", "f32"))
    loads = a_processor().issue_latency("load global", "b32")
    stores = a_processor().issue_latency("store global", "b32")
    assert found["L1: one by one"] == pytest.approx(2 * passes * loads + N * stores)
    assert found["alu: one by one"] >= passes * a_processor().issue_latency("fma", "f32")
    assert "alu" not in found


def test_a_division_is_one_instruction() -> None:
    found = columns("{[i, k]: 0 <= i < n and 0 <= k < n}", "out[i] = sum(k, 1/(a[i] + a[k]))")
    assert found["sfu: one by one"] == pytest.approx(N * N * a_processor().issue_latency("div", "f32"))
    assert found["recurrences: add f32"] == pytest.approx(N * N * a_processor().completion_latency("add", "f32"))
