"""λ and Λ of memory: Lemeire's equations on worked cases, and laws."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.device.lambdas import Lambdas
from loopyperf.device.library import load_device
from loopyperf.device.memory_lambdas import (
    by_dram_ratio,
    bytes_per_cycle,
    latency_in_flight,
    level_lambdas,
    mixed,
)
from loopyperf.errors import MissingNumberError, ParameterError

V100 = load_device("nvidia-v100")
cycles = st.fractions(min_value=Fraction(1, 8), max_value=1000)
latencies = st.builds(Lambdas, cycles, cycles)


# {{{ one level


def test_a_level_moves_bytes_at_the_cores_share_of_its_bandwidth() -> None:
    # 869 GB/s of 80 cores at 1.38 GHz are 7.871 bytes a cycle and core: 256 bytes take 32.5 cycles.
    found = level_lambdas(V100, "DRAM", 256)
    assert found.issue == pytest.approx(256 / (869e9 / (80 * 1.38e9)))
    assert found.issue == pytest.approx(32.52, abs=0.01)
    assert found.completion == 433


def test_measured_instructions_stand_in_for_a_level_without_latency() -> None:
    # Lemeire, Table 5, GTX 1060: a coalesced load of 128 bytes; one of 256 takes twice as long to issue.
    device = load_device("nvidia-gtx-1060")
    (measured,) = (each for each in device.instructions if each.name == "load global b32")
    assert level_lambdas(device, "DRAM", 256) == Lambdas(2 * measured.issue, measured.completion)


def test_a_bandwidth_that_nobody_published_is_missing() -> None:
    with pytest.raises(MissingNumberError, match=r"'nvidia-gtx-680' does not state memory.L2"):
        level_lambdas(load_device("nvidia-gtx-680"), "L2", 128)


def test_measured_bandwidth_goes_before_the_peak() -> None:
    assert bytes_per_cycle(V100, V100.level("DRAM")) < 897e9 / (80 * 1.38e9)
    assert bytes_per_cycle(V100, V100.level("local")) == 128


@given(latencies, st.integers(1, 100))
def test_latency_in_flight_keeps_littles_law(lambdas: Lambdas, requests: int) -> None:
    latency = latency_in_flight(lambdas, requests)
    assert latency >= lambdas.completion
    assert requests / Fraction(latency) <= 1 / Fraction(lambdas.issue)  # no more of them than the pipeline takes
    assert latency == lambdas.completion or requests / Fraction(latency) == 1 / Fraction(lambdas.issue)


# }}}


# {{{ several levels

DRAM_, L2 = Lambdas(20, 400), Lambdas(4, 200)


@pytest.mark.parametrize(
    ("ratio", "issue", "completion"),
    [
        (0, 4, 200),
        (Fraction(1, 4), 8, 250),  # 1/4 · 20 + 3/4 · 4, 1/4 · 400 + 3/4 · 200
        (1, 20, 400),
        (3, 60, 440),  # 3 · 20, 400 + 2 · 20
    ],
)
def test_shares_of_dram_mix_as_the_paper_says(ratio: Fraction, issue: int, completion: int) -> None:
    assert by_dram_ratio(DRAM_, L2, ratio) == Lambdas(issue, completion)


@given(latencies, latencies, st.fractions(0, 4), st.fractions(0, 1))
def test_more_from_dram_takes_longer_where_dram_does(a: Lambdas, b: Lambdas, ratio: Fraction, more: Fraction) -> None:
    dram = Lambdas(max(a.issue, b.issue), max(a.completion, b.completion))
    cache = Lambdas(min(a.issue, b.issue), min(a.completion, b.completion))
    before, after = by_dram_ratio(dram, cache, ratio), by_dram_ratio(dram, cache, ratio + more)
    assert (before.issue, before.completion) <= (after.issue, after.completion)
    assert before.completion <= after.completion


def test_shares_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(ParameterError, match="add up to one"):
        mixed([(0.5, DRAM_), (0.4, L2)])
    with pytest.raises(ParameterError, match="0 or more"):
        by_dram_ratio(DRAM_, L2, -1)


# }}}
