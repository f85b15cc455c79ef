"""GPUPerf on the reductions of Sim, section 6.3, on his Tesla C2050: results of his figures 13 and 14 for K0 to K6.

He gives neither n nor the group size. Here, they are those that Harris measured, and the defaults of NVIDIA's sample.
"""

from functools import cache

import pytest

import loopyperf as lpp
from loopyperf.models.literature.gpuperf import Analysis
from loopyperf.models.literature.gpuperf_rows import LaunchInputs
from test_kernels.optimization_steps.reduction import STEPS, reduction
from tests.profiles import timed_on

C2050 = lpp.load_device("nvidia-tesla-c2050")
COMPUTING = [step for step in STEPS if step != "K6"]
CASES = pytest.mark.parametrize(("group", "n"), [(128, 2**22), (256, 2**24)])


@cache
def analysis(step: str, group: int, n: int) -> Analysis:
    graphs = lpp.kernel_profile(reduction(step, group), **STEPS[step].sizes(group, n))
    return LaunchInputs(timed_on(graphs, C2050).launches[0]).analysis


@CASES
def test_each_step_executes_fewer_instructions(group: int, n: int) -> None:
    found = [analysis(step, group, n) for step in STEPS]
    executed = [(each.inputs.insts + each.inputs.sfu_insts) * each.inputs.total_warps for each in found]
    assert executed == sorted(set(executed), reverse=True)


def test_each_step_is_faster_than_the_previous_one_at_sample_defaults() -> None:
    times = [analysis(step, 256, 2**24).t_exec for step in STEPS]
    assert times == sorted(set(times), reverse=True)


def test_last_step_gains_nothing_on_a_small_input() -> None:
    *times, previous, last = (analysis(step, 128, 2**22).t_exec for step in STEPS)
    assert times == sorted(set(times), reverse=True)
    assert times[-1] > previous
    # K6 has 64 groups: 5 on some of 14 cores, where 4.6 would be even.
    assert previous < last < 1.03 * previous


@CASES
def test_up_to_k5_computation_hides_memory_of_all_warps_but_one(group: int, n: int) -> None:
    for step in COMPUTING:
        found = analysis(step, group, n)
        # Equation 17: one of N warps does not overlap.
        assert found.t_mem_visible <= found.t_comp / found.inputs.n + 0.003 * found.t_comp
        assert (found.b_memlp, found.b_itilp) == (0, 0)
        assert found.b_fp > 0.8 * found.t_comp


@CASES
def test_k6_is_bound_by_memory(group: int, n: int) -> None:
    found = analysis("K6", group, n)
    assert (found.itmlp, found.b_itilp) == (found.mwp_peak_bw, 0)
    assert found.t_mem_visible > 3 * found.t_comp
