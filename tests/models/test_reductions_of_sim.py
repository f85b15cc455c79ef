"""GPUPerf on the reductions of Sim, section 6.3, on his Tesla C2050: what his figures 13 and 14 have of K0 to K6.

He states neither n nor the size of a group: these are those that Harris measured, and the defaults of NVIDIA's sample.
"""

from dataclasses import replace
from functools import cache

import pytest

import loopyperf as lpp
from loopyperf.models.gpuperf import Analysis, analyse
from loopyperf.models.on_device.gpuperf_rows import analysis_of
from loopyperf.models.on_device.timed_launch import TimedKernel
from test_kernels.optimization_steps.reduction import STEPS, reduction

C2050 = lpp.load_device("nvidia-tesla-c2050")
COMPUTING = [step for step in STEPS if step != "K6"]
CASES = pytest.mark.parametrize(("group", "n"), [(128, 2**22), (256, 2**24)])


@cache
def analysis(step: str, group: int, n: int) -> Analysis:
    graphs = lpp.instruction_graph(reduction(step, group), **STEPS[step].sizes(group, n))
    return analysis_of(TimedKernel(graphs, C2050).launches[0])


def as_printed(found: Analysis) -> Analysis:
    """Return *found* with AMAT by equation 12 as printed, of one cache, which nothing is found in a second time."""
    return analyse(replace(found.inputs, amat=None, miss_ratio=1.0), found.parameters)


@CASES
def test_each_step_executes_fewer_instructions(group: int, n: int) -> None:
    found = [analysis(step, group, n) for step in STEPS]
    executed = [(each.inputs.insts + each.inputs.sfu_insts) * each.inputs.total_warps for each in found]
    assert executed == sorted(set(executed), reverse=True)


@CASES
def test_each_step_is_faster_than_the_one_before(group: int, n: int) -> None:
    times = [as_printed(analysis(step, group, n)).t_exec for step in STEPS]
    assert times == sorted(set(times), reverse=True)


@CASES
def test_with_two_caches_on_the_way_to_memory_the_last_step_gains_nothing(group: int, n: int) -> None:
    *times, previous, last = (analysis(step, group, n).t_exec for step in STEPS)
    assert times == sorted(set(times), reverse=True)
    assert times[-1] > previous
    # 18 + 130 + 440 cycles for each request in place of 18 + 440, where all of the bandwidth is for 440.
    assert previous < last < 1.05 * previous
    assert (analysis("K6", group, n).amat, as_printed(analysis("K6", group, n)).amat) == pytest.approx((588, 458), 0.01)


@CASES
def test_up_to_k5_computation_hides_all_memory_but_what_one_warp_waits_for(group: int, n: int) -> None:
    for step in COMPUTING:
        found = as_printed(analysis(step, group, n))
        # Equation 17: one of N warps overlaps with nothing.
        assert found.t_mem_visible <= found.t_comp / found.inputs.n * (1 + 1e-9)
        assert (found.b_memlp, found.b_itilp) == (0, 0)
        assert found.b_fp > 0.8 * found.t_comp


@CASES
def test_k6_waits_for_memory(group: int, n: int) -> None:
    found = analysis("K6", group, n)
    assert (found.itmlp, found.b_itilp) == (found.mwp_peak_bw, 0)
    assert found.t_mem_visible > 4 * found.t_comp
    assert found.b_memlp > 0
