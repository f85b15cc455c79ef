"""Laws of all analytic models, with an example of each exception."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import loopyperf as lpp
from loopyperf.device.description import Device
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.workload import Lambdas, TwoPipelines, Workload
from tests.kernels import doubled
from tests.models.analytic_models import MODELS

OCCUPANCIES = np.arange(1, 65)
LAMBDAS = ("compute.issue", "compute.completion", "memory.issue", "memory.completion")

numbers = st.floats(0.05, 500)
lambdas = st.tuples(numbers, numbers).map(lambda both: Lambdas(min(both), max(both)))
cores = st.builds(TwoPipelines, compute=lambdas, memory=lambdas)
workloads = st.builds(Workload, compute=st.integers(1, 300), memory=st.integers(1, 100), ilp=st.floats(1, 4))

# Examples in which a larger latency reduces the time: a workload, a core, the factor, the occupancy.
ANOMALIES: dict[tuple[str, str], tuple[Workload, TwoPipelines, float, int]] = {
    # MWP falls from 1.5 to 1, below CWP = 1.015: computation bound, 1000·10 + 15, becomes memory bound, 15·10 + 1000.
    ("mwp-cwp", "memory.issue"): (Workload(1000, 1), TwoPipelines(Lambdas(1, 1), Lambdas(10, 15)), 1.5, 10),
    # Computation that takes longer hides more of the latency, and the latency counts for each warp.
    ("wfg", "compute.issue"): (Workload(20, 1), TwoPipelines(Lambdas(1, 1), Lambdas(1, 400)), 2, 30),
    ("wfg", "compute.completion"): (Workload(20, 1), TwoPipelines(Lambdas(0.1, 10), Lambdas(0.1, 400)), 2, 30),
    # The probability to issue, ΣI/(ΣI + ΣS), falls by more than the stall grows.
    ("gpumech-rr", "memory.completion"): (Workload(100, 1), TwoPipelines(Lambdas(1, 1), Lambdas(1, 10)), 2, 64),
}
LAWFUL = [(name, latency) for name in MODELS for latency in LAMBDAS if (name, latency) not in ANOMALIES]
SHORTER_WITH_MORE_WARPS = {"mwp-cwp", "wfg"}
"""they are discontinuous between their cases (Lemeire, section 2.4.2 on the second)"""


def slower(core: TwoPipelines, latency: str, factor: float) -> TwoPipelines:
    """Return *core* with one latency multiplied by *factor*."""
    pipeline, _, name = latency.partition(".")
    before = getattr(core, pipeline)
    return replace(core, **{pipeline: replace(before, **{name: factor * getattr(before, name)})})


# {{{ runs


@settings(max_examples=500)
@given(name=st.sampled_from(sorted(MODELS)), workload=workloads, core=cores)
def test_time_is_positive(name: str, workload: Workload, core: TwoPipelines):
    assert (MODELS[name](workload, core, OCCUPANCIES) > 0).all()


@settings(max_examples=2000)
@given(case=st.sampled_from(LAWFUL), workload=workloads, core=cores, factor=st.floats(1, 3))
def test_throughput_does_not_grow_with_a_latency(
    case: tuple[str, str], workload: Workload, core: TwoPipelines, factor: float
):
    name, latency = case
    before = MODELS[name](workload, core, OCCUPANCIES)
    after = MODELS[name](workload, slower(core, latency, factor), OCCUPANCIES)
    assert (after >= before * (1 - 1e-9)).all()


@pytest.mark.parametrize(("name", "latency"), ANOMALIES)
def test_exceptions_break_the_law_of_latencies(name: str, latency: str):
    workload, core, factor, occupancy = ANOMALIES[name, latency]
    before = MODELS[name](workload, core, occupancy)
    assert MODELS[name](workload, slower(core, latency, factor), occupancy) < before


@settings(max_examples=500)
@given(name=st.sampled_from(sorted(MODELS.keys() - SHORTER_WITH_MORE_WARPS)), workload=workloads, core=cores)
def test_more_warps_take_no_less_time(name: str, workload: Workload, core: TwoPipelines):
    cycles = MODELS[name](workload, core, OCCUPANCIES)
    assert (np.diff(cycles) >= -1e-9 * cycles[:-1]).all()


def test_more_warps_take_less_time_in_figure_6():
    # Case 2: 16.5 − 2.5ω.
    core = TwoPipelines(Lambdas(1e-6, 11), Lambdas(1e-6, 3), memory_instruction=0)
    assert MODELS["wfg"](Workload(1, 1), core, 2) < MODELS["wfg"](Workload(1, 1), core, 1)


def test_more_warps_take_less_time_where_mwp_cwp_is_discontinuous():
    # MWP = 1, CWP = 1.2: one warp 2·1 + 10, by equation 28; two 2·1·2 + 5·1, by equation 26.
    core = TwoPipelines(Lambdas(1, 1), Lambdas(1, 1))
    assert MODELS["mwp-cwp"](Workload(10, 2), core, np.array([1, 2])).tolist() == [12, 9]


@settings(max_examples=300)
@given(name=st.sampled_from(["roofline", "volkov", "transit", "gpumech-gto"]), workload=workloads, core=cores)
def test_throughput_saturates(name: str, workload: Workload, core: TwoPipelines):
    # It never decreases with the warps, and finally, more of them do not help. GPUMech's intervals have at least one
    # instruction: if the mean is less, the probability to issue one in a stall is nearly zero.
    assume(workload.compute >= workload.memory)
    warps = 2.0 ** np.arange(0, 18)  # with more, the rounding of the crossing of Transit's curves is visible
    throughput = warps / MODELS[name](workload, core, warps)
    assert (np.diff(throughput) >= -1e-9 * throughput[:-1]).all()
    assert throughput[-1] == pytest.approx(throughput[-2], rel=0.01)


@given(workload=workloads, core=cores)
def test_proved_order_of_the_models(workload: Workload, core: TwoPipelines):
    cycles = {name: MODELS[name](workload, core, OCCUPANCIES) for name in MODELS}
    tolerance = 1 + 1e-9
    assert (cycles["roofline"] <= cycles["volkov"] * tolerance).all()
    assert (cycles["volkov"] <= cycles["transit"] * tolerance).all()
    assert (cycles["volkov"] <= cycles["mwp-cwp-corrected"] * tolerance).all()
    assert (cycles["gpumech-rr"] <= cycles["gpumech-rr-corrected"] * tolerance).all()


# }}}


# {{{ kernels


def overclocked(device: Device, factor: float) -> Device:
    """Return *device* with all rates per second multiplied by *factor*."""

    def faster(part: Any) -> Any:
        per_second = {name for name, number in part.declared().items() if number.unit in ("Hz", "B/s")}
        return replace(part, **{name: factor * getattr(part, name) for name in per_second & dict(part.known()).keys()})

    return replace(faster(device), memory=tuple(map(faster, device.memory)))


def test_seconds_scale_with_the_clock(subtests: pytest.Subtests):
    for name in DEVICE_MODELS:
        with subtests.test(name=name):
            device = replace(lpp.load_device("nvidia-v100"), launch_overhead=0.0)  # which is not in cycles
            slow = lpp.estimate(doubled(), n=2**18, model=name, device=device)
            fast = lpp.estimate(doubled(), n=2**18, model=name, device=overclocked(device, 2))
            assert fast.seconds == pytest.approx(slow.seconds / 2, rel=1e-12)
            assert sum(fast.breakdown.by_property().values()) == pytest.approx(fast.seconds, rel=1e-14)


# }}}
