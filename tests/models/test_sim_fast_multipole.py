"""GPUPerf on the U list of the fast multipole method, on Sim's Tesla C2050: each step of his figure 12."""

from functools import cache

import loopyperf as lpp
from loopyperf.models.literature.gpuperf import Analysis
from loopyperf.models.literature.gpuperf_rows import LaunchInputs
from test_kernels.optimization_steps.fast_multipole import fast_multipole
from tests.profiles import timed_on

C2050 = lpp.load_device("nvidia-tesla-c2050")
STEPS = ((), ("vecpack",), ("vecpack", "rsqrt"), ("vecpack", "rsqrt", "shmem"), ("vecpack", "rsqrt", "shmem", "ujam"))
"""optimizations that figure 12 applies one after the other, without prefetching, which it finds useless"""


@cache
def analysis(step: tuple[str, ...]) -> Analysis:
    graphs = lpp.kernel_profile(fast_multipole(frozenset(step)), leaves=256)
    return LaunchInputs(timed_on(graphs, C2050).launches[0]).analysis


def test_each_step_is_faster_than_the_one_before() -> None:
    times = [analysis(step).t_exec for step in STEPS]
    assert times == sorted(set(times), reverse=True)
    assert times[0] > 2 * times[-1]


def test_every_step_is_bound_by_computation() -> None:
    for step in STEPS:
        found = analysis(step)
        assert found.t_comp >= 0.99 * found.t_mem
        assert found.t_mem_visible < 0.05 * found.t_comp
        assert found.b_serial == 0


def test_floating_point_benefit_shrinks_with_each_step() -> None:
    benefits = [analysis(step).b_fp for step in STEPS]
    assert benefits == sorted(set(benefits), reverse=True)
    assert benefits[0] > 0.4 * analysis(STEPS[0]).t_exec
    assert benefits[-1] < 0.2 * analysis(STEPS[-1]).t_exec
