"""The analytic models on plain numbers: the example of Lemeire's Figures 2, 6 and 14, and proved properties."""

from math import isclose

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.errors import GraphError, ModelInputError
from loopyperf.models import gpumech, mwp_cwp, roofline, transit, volkov, wfg
from loopyperf.models.workload import Lambdas, TwoPipelines, Workload
from tests.models.analytic_models import MODELS

# Lemeire, Fig. 1 and Table 2: 4 computational instructions, one of which overlaps, and 2 memory instructions.
EXAMPLE = Workload(compute=4, memory=2, independent_compute=1)
CORE = TwoPipelines(compute=Lambdas(1, 4), memory=Lambdas(2, 6))
OCCUPANCIES = np.arange(1, 21)


# {{{ the example


def test_roofline_of_the_example():
    assert roofline.cycles_per_run(EXAMPLE, CORE, OCCUPANCIES).tolist() == (4 * OCCUPANCIES).tolist()


def test_volkov_of_the_example_saturates_at_seven_warps():
    # Λapp = 3·4 + 1 + 2·6 = 25.
    expected = [max(25, 4 * warps) for warps in OCCUPANCIES]
    assert volkov.cycles_per_run(EXAMPLE, CORE, OCCUPANCIES).tolist() == expected


def test_transit_of_the_example_has_no_overlap_inside_a_warp():
    # ΣΛ = 4·4 + 2·6 = 28.
    assert transit.cycles_per_run(EXAMPLE, CORE, OCCUPANCIES) == pytest.approx(
        [max(28, 4 * warps) for warps in OCCUPANCIES], rel=1e-12
    )


def test_mwp_cwp_of_the_example():
    # MWP = 3, CWP = 4: 14 + 2ω, then memory bound: 4ω + 6.
    expected = [14 + 2 * warps if warps <= 3 else 4 * warps + 6 for warps in OCCUPANCIES]
    assert mwp_cwp.cycles_per_run(EXAMPLE, CORE, OCCUPANCIES).tolist() == expected


def test_corrected_mwp_cwp_takes_the_maximum_of_its_cases():
    # 25 + 2(ω − 1), 4ω + 6 and 4ω + 6.
    expected = [max(23 + 2 * warps, 4 * warps + 6) for warps in OCCUPANCIES]
    assert mwp_cwp.cycles_per_run(EXAMPLE, CORE, OCCUPANCIES, corrected=True).tolist() == expected


def test_wfg_of_the_example():
    # Blocks of 2: λtrans = 2·max(1, 4/ω). With four warps: CYCcomp = 4 + 2, NBC = 2, Λexposed = 6 − 3·2 = 0; leaving
    # memory takes max(1, 0), CPW = 4 + 2. With three: 16/3 + 2 = 22/3, NBC = 22/9, Λexposed = 6 − 44/9 = 10/9.
    found = wfg.cycles_per_run(EXAMPLE, CORE, OCCUPANCIES)
    assert found[0] == pytest.approx(28, rel=1e-12)  # 2·(2·4 + 6)
    assert found[2] == pytest.approx(3 * (16 / 3 + 2 * 10 / 9), rel=1e-12)
    assert found[3:].tolist() == [6 * warps for warps in OCCUPANCIES[3:]]


def test_corrected_wfg_of_the_example():
    # ω ≤ 4: λtrans = 8/ω, CYCcomp = 16/ω, NBC = 16/3ω, Λexposed = 6/ω − max(0, (ω − 1)/ω·16/3ω − 8/ω) = 6/ω, as one
    # block hides less than its own latency: 28. ω = 10: λtrans = 2, NBC = 4/3, Λexposed = .6 − (.9·4/3 − .8) = .2.
    # Leaving memory: (4 − 4)/2 = 0.
    found = wfg.cycles_per_run(EXAMPLE, CORE, OCCUPANCIES, corrected=True)
    assert found[:4] == pytest.approx([28] * 4, rel=1e-12)
    assert found[9] == pytest.approx(10 * (4 + 2 * 0.2), rel=1e-12)
    assert found[-1] == pytest.approx(80, rel=1e-12)


@pytest.mark.parametrize(
    ("computing", "memory", "expected"),
    [(8, 6, lambda warps: 12 + 2 * warps), (11, 3, lambda w: 16.5 - 2.5 * w), (3, 11, lambda w: 4.5 + 9.5 * w)],
)
def test_wfg_on_the_three_cases_of_figure_6(computing, memory, expected):
    # Equation 40 holds while latency is exposed, and without the cycle of a memory instruction. Once no memory latency
    # is exposed, it no longer holds: in case 2, from the third warp on.
    core = TwoPipelines(Lambdas(1e-6, computing), Lambdas(1e-6, memory), memory_instruction=0)
    for warps in (1, 2):
        found = wfg.cycles_per_run(Workload(compute=1, memory=1), core, warps)
        assert found == pytest.approx(expected(warps), rel=1e-12)


def test_gpumech_of_the_example():
    # Two intervals of 2 instructions and 6 stall cycles: p = 4/16.
    found = gpumech.cycles_per_run(EXAMPLE, CORE, OCCUPANCIES)
    assert found == pytest.approx([2 * (8 + 0.25 * (warps - 1)) for warps in OCCUPANCIES], rel=1e-12)
    greedy = [2 * (8 + max(0, 2 * (warps - 1) - 6)) for warps in OCCUPANCIES]
    assert gpumech.cycles_per_run(EXAMPLE, CORE, OCCUPANCIES, policy="gto").tolist() == greedy
    corrected = [2 * (8 + 2 * (warps - 1) - min(6, warps - 1)) for warps in OCCUPANCIES]
    assert gpumech.cycles_per_run(EXAMPLE, CORE, OCCUPANCIES, corrected=True).tolist() == corrected


def test_gpumech_on_the_worked_example_of_its_paper():
    # Three instructions and 6 stall cycles, 4 warps: the probability is 3/9, so that 3/9·2·3 = 2 instructions do not
    # overlap; with the probability 1, 6 do not (Lemeire, section 2.5.1).
    workload, core = Workload(compute=3, memory=1), TwoPipelines(Lambdas(1, 1), Lambdas(1, 6))
    assert gpumech.cycles_per_run(workload, core, 4) == pytest.approx(9 + 2, rel=1e-12)
    assert gpumech.cycles_per_run(workload, core, 4, corrected=True) == 9 + 6


# }}}


# {{{ theorems


numbers = st.floats(0.05, 500)
lambdas = st.tuples(numbers, numbers).map(lambda both: Lambdas(min(both), max(both)))
cores = st.builds(TwoPipelines, compute=lambdas, memory=lambdas)
workloads = st.builds(Workload, compute=st.integers(1, 500), memory=st.integers(1, 200))
occupancies = st.integers(1, 64)


@given(workloads, cores, occupancies)
def test_volkov_equals_transit_without_ilp(workload, core, occupancy):
    # Lemeire, Theorem 1: a maximum of two terms on one side, the crossing of two curves on the other.
    expected = volkov.cycles_per_run(workload, core, occupancy)
    assert transit.cycles_per_run(workload, core, occupancy) == pytest.approx(expected, rel=1e-9)


@given(workloads, lambdas, occupancies)
def test_gpumech_gto_equals_volkov_without_computational_latency(workload, memory, occupancy):
    # Lemeire, section 2.5.2: if the probability to issue in the stall is 1, and memory does not limit the throughput.
    core = TwoPipelines(compute=Lambdas(1, 1), memory=Lambdas(1e-9, memory.completion))
    issued, stalled = workload.compute, workload.memory * float(memory.completion)
    if issued / (issued + stalled) * float(memory.completion) >= 1:
        expected = volkov.cycles_per_run(workload, core, occupancy)
        assert gpumech.cycles_per_run(workload, core, occupancy, policy="gto") == pytest.approx(expected, rel=1e-9)


@given(workloads, cores, st.sampled_from([*MODELS]))
def test_array_of_occupancies_matches_single_occupancies(workload, core, name):
    every = MODELS[name](workload, core, np.array([[1, 2, 3], [7, 20, 64]]))
    assert every.shape == (2, 3)
    assert isclose(every[1, 1], MODELS[name](workload, core, 20), rel_tol=1e-12)


@given(workloads, cores, st.sampled_from(sorted(MODELS.keys() - {"roofline"})))
def test_single_warp_waits_for_its_memory(workload, core, name):
    assert MODELS[name](workload, core, 1) >= workload.memory * float(core.memory.completion) * (1 - 1e-12)


# }}}


# {{{ special cases


def test_workload_without_memory_is_bound_by_computation():
    workload = Workload(compute=10, memory=0)
    for name, model in MODELS.items():
        assert model(workload, CORE, 20) == pytest.approx(200, rel=0.1), name


def test_workload_without_computation_is_bound_by_memory():
    workload = Workload(compute=0, memory=10)
    for name in MODELS.keys() - {"gpumech-rr", "gpumech-rr-corrected", "gpumech-gto", "wfg"}:
        assert MODELS[name](workload, CORE, 20) == pytest.approx(400, rel=1e-12), name
    # The original WFG model exposes the latency to every warp, as only the requests themselves hide it. GPUMech
    # models memory only by its stalls (Lemeire, section 2.5: its second part models contention).
    for name in ("gpumech-rr", "gpumech-rr-corrected", "gpumech-gto"):
        assert MODELS[name](workload, CORE, 20) <= 60


def test_barriers_drain_memory_in_mwp_cwp():
    # MWP − 1 = 2 departures of 2 cycles, for each barrier of each of the 5 groups.
    without = mwp_cwp.cycles_per_run(EXAMPLE, CORE, 10)
    barriers = Workload(compute=4, memory=2, independent_compute=1, barriers=3, warps_per_group=2)
    assert mwp_cwp.cycles_per_run(barriers, CORE, 10) == without + 3 * 5 * 2 * 2


def test_barriers_leave_less_computation_to_hide_latency_in_wfg():
    # αsync = 2: NBC = CYCcomp/5 where it was CYCcomp/3. With two warps: λtrans = 4, CYCcomp = 10, Λexposed = 6 − 2.
    barriers = Workload(compute=4, memory=2, barriers=2)
    assert wfg.cycles_per_run(barriers, CORE, 2) == pytest.approx(2 * (8 + 2 * 4), rel=1e-12)


def test_issue_limit_acts_as_another_pipeline():
    core = TwoPipelines(compute=Lambdas(1, 4), memory=Lambdas(2, 6), issue_limit=1)
    assert roofline.cycles_per_run(EXAMPLE, core, 10) == 60
    assert volkov.cycles_per_run(EXAMPLE, core, 10) == 60


# }}}


# {{{ bad input


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"compute": -1, "memory": 2}, "compute must be >= 0, got -1"),
        ({"compute": 4, "memory": -2}, "memory must be >= 0, got -2"),
        ({"compute": 0, "memory": 0}, r"compute \+ memory must be > 0, got 0"),
        ({"compute": 4, "memory": 2, "independent_compute": 5}, "independent_compute must be >= 0 and <= 4, got 5"),
        ({"compute": 4, "memory": 2, "ilp": 0.5}, "ilp must be >= 1, got 0.5"),
        ({"compute": 4, "memory": 2, "barriers": -1}, "barriers must be >= 0, got -1"),
        ({"compute": 4, "memory": 2, "warps_per_group": 0}, "warps_per_group must be >= 1, got 0"),
        ({"compute": float("nan"), "memory": 2}, "compute must be >= 0, got nan"),
        ({"compute": "four", "memory": 2}, "compute must be a number, got 'four'"),
    ],
)
def test_invalid_workload_raises(numbers, words):
    with pytest.raises(ModelInputError, match=words):
        Workload(**numbers)


def test_invalid_core_raises():
    with pytest.raises(ModelInputError, match=r"memory\.issue must be > 0, got 0"):
        TwoPipelines(compute=Lambdas(1, 4), memory=Lambdas(0, 6))
    with pytest.raises(ModelInputError, match="issue_limit must be > 0, got 0"):
        TwoPipelines(compute=Lambdas(1, 4), memory=Lambdas(2, 6), issue_limit=0)
    with pytest.raises(GraphError, match="completion latency must be >= 0 cycles, got -6"):
        Lambdas(2, -6)


@pytest.mark.parametrize("name", MODELS)
def test_occupancy_out_of_range_raises(name):
    core = TwoPipelines(compute=Lambdas(1, 4), memory=Lambdas(2, 6), most_warps=48)
    with pytest.raises(ModelInputError, match="occupancy must be >= 1 and <= 48, got 0"):
        MODELS[name](EXAMPLE, core, 0)
    with pytest.raises(ModelInputError, match="occupancy must be >= 1 and <= 48, got 49"):
        MODELS[name](EXAMPLE, core, [1, 49])


def test_rare_memory_requests_take_their_share():
    # With 1/4 request per warp, a period has the computation of four warps, and a warp takes a quarter of a period.
    for memory in (0.25, 0.5):
        one = wfg.cycles_per_run(Workload(10 / memory, 1), CORE, 1)
        assert wfg.cycles_per_run(Workload(10, memory), CORE, 1) <= one


def test_array_as_workload_raises():
    with pytest.raises(ModelInputError, match="compute must be one number"):
        Workload(compute=np.array([4, 8]), memory=2)


def test_only_round_robin_has_corrected_equations():
    with pytest.raises(ModelInputError, match="corrected=True requires policy='rr', got policy='gto'"):
        gpumech.cycles_per_run(EXAMPLE, CORE, 1, policy="gto", corrected=True)


def test_unknown_policy_raises():
    with pytest.raises(ModelInputError, match=r"policy must be 'rr' .* got 'lrr'"):
        gpumech.cycles_per_run(EXAMPLE, CORE, 1, policy="lrr")


# }}}
