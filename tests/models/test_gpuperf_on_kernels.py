"""GPUPerf on kernels: its inputs, and the results of Sim's figures 12 to 14 on his Tesla C2050."""

from functools import cache

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.models.literature.gpuperf import Analysis
from loopyperf.models.literature.gpuperf_rows import LaunchInputs
from test_kernels.optimization_steps.fast_multipole import fast_multipole
from test_kernels.optimization_steps.reduction import STEPS, reduction
from tests.kernels import doubled
from tests.profiles import timed_on

V100 = lpp.load_device("nvidia-v100")
C2050 = lpp.load_device("nvidia-tesla-c2050")


def transposed() -> lp.TranslationUnit:
    """Return b[i, j] = a[j, i]: the lanes of a warp, along j, read a column."""
    unit = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "b[i, j] = a[j, i]",
        [lp.GlobalArg("a,b", np.float32, shape="n, n"), ...],
        assumptions="n mod 32 = 0 and n >= 32",
        lang_version=(2018, 2),
        target=lp.PyOpenCLTarget(),
    )
    unit = lp.split_iname(unit, "i", 8, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(unit, "j", 32, outer_tag="g.0", inner_tag="l.0")


def inputs(unit: lp.TranslationUnit, device: lpp.Device = V100, **sizes: int) -> LaunchInputs:
    return LaunchInputs(timed_on(lpp.kernel_profile(unit, **sizes), device).launches[0])


# {{{ inputs


def test_inputs_of_a_kernel_counted_by_hand():
    # y[i] = 2·x[i] of 2^20 floats in groups of 16: a load, a store, a multiplication; each request is for a part of a
    # line of 128 bytes, and the kernel touches 2·2^20·4 bytes.
    found = inputs(doubled(), n=2**20).inputs
    assert (found.mem_insts, found.fp_insts, found.sync_insts, found.sfu_insts) == (2, 1, 0, 0)
    assert found.insts >= 3
    assert (found.active_sms, found.n) == (80, 32)
    assert found.total_warps == 80 * -(-(2**16) // 80)  # on the core with the most groups
    assert found.avg_trans_warp == 1
    assert found.size_of_data == pytest.approx(2 * 2**20 * 4 / 64 / 80, rel=1e-12)  # 16 lanes request 64 bytes
    assert found.o_bank == 0


def test_column_access_has_a_transaction_per_lane():
    # A load of 32 lines and a store of one: 16.5 on average.
    assert inputs(transposed(), n=1024).inputs.avg_trans_warp == 16.5


def test_parameters_of_the_papers_device_match_the_paper():
    found = inputs(doubled(), C2050, n=2**20).parameters
    assert (found.freq, found.mem_peak_bandwidth, found.dram_lat, found.delta, found.hit_lat) == (
        1.15e9, 144e9, 440, 20, 18,
    )  # fmt: skip
    assert (found.sfu_width, found.fp_lat, found.warp_size, found.transaction_size) == (4, 18, 32, 64)


def test_device_without_l1_latency_has_an_estimate():
    # The device file of the GTX 1060 has only the latency of DRAM.
    assert lpp.estimate(doubled(), n=2**16, device="nvidia-gtx-1060", model="gpuperf").seconds > 0


@pytest.mark.parametrize("device", ["nvidia-v100", "nvidia-h100", "amd-mi210"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_copy_is_not_faster_than_the_published_bandwidth(device: str, dtype: type):
    unit = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "b[i] = a[i]",
        [lp.GlobalArg("a,b", dtype, shape="n"), ...],
        assumptions="n mod 256 = 0",
        lang_version=(2018, 2),
        target=lp.PyOpenCLTarget(),
    )
    unit = lp.split_iname(unit, "i", 256, outer_tag="g.0", inner_tag="l.0")
    gpu = lpp.load_device(device)
    moved = 2 * 2**24 * np.dtype(dtype).itemsize
    # The grid is distributed evenly over all cores except for the last groups: within 2 %.
    seconds = lpp.estimate(unit, n=2**24, device=gpu, model="gpuperf").seconds
    assert seconds >= 0.98 * moved / gpu.level("DRAM").bandwidth


# }}}


# {{{ reductions (section 6.3)
#
# He gives neither n nor the group size. Here, they are those that Harris measured, and the defaults of NVIDIA's sample.


COMPUTING = [step for step in STEPS if step != "K6"]
CASES = pytest.mark.parametrize(("group", "n"), [(128, 2**22), (256, 2**24)])


@cache
def analysis_of_sum(step: str, group: int, n: int) -> Analysis:
    return inputs(reduction(step, group), C2050, **STEPS[step].sizes(group, n)).analysis


@CASES
def test_each_step_executes_fewer_instructions(group: int, n: int) -> None:
    found = [analysis_of_sum(step, group, n) for step in STEPS]
    executed = [(each.inputs.insts + each.inputs.sfu_insts) * each.inputs.total_warps for each in found]
    assert executed == sorted(set(executed), reverse=True)


def test_each_step_is_faster_than_the_previous_one_at_sample_defaults() -> None:
    times = [analysis_of_sum(step, 256, 2**24).t_exec for step in STEPS]
    assert times == sorted(set(times), reverse=True)


def test_last_step_gains_nothing_on_a_small_input() -> None:
    *times, previous, last = (analysis_of_sum(step, 128, 2**22).t_exec for step in STEPS)
    assert times == sorted(set(times), reverse=True)
    assert times[-1] > previous
    # K6 has 64 groups: 5 on some of 14 cores, where 4.6 would be even.
    assert previous < last < 1.03 * previous


@CASES
def test_up_to_k5_computation_hides_memory_of_all_warps_but_one(group: int, n: int) -> None:
    for step in COMPUTING:
        found = analysis_of_sum(step, group, n)
        # Equation 17: one of N warps does not overlap.
        assert found.t_mem_visible <= found.t_comp / found.inputs.n + 0.003 * found.t_comp
        assert (found.b_memlp, found.b_itilp) == (0, 0)
        assert found.b_fp > 0.8 * found.t_comp


@CASES
def test_k6_is_bound_by_memory(group: int, n: int) -> None:
    found = analysis_of_sum("K6", group, n)
    assert (found.itmlp, found.b_itilp) == (found.mwp_peak_bw, 0)
    assert found.t_mem_visible > 3 * found.t_comp


# }}}


# {{{ U list of the fast multipole method (section 6.2)


OPTIMIZATIONS = (
    (),
    ("vecpack",),
    ("vecpack", "rsqrt"),
    ("vecpack", "rsqrt", "shmem"),
    ("vecpack", "rsqrt", "shmem", "ujam"),
)
"""optimizations that figure 12 applies one after the other, without prefetching, which it finds useless"""


@cache
def analysis_of_u_list(step: tuple[str, ...]) -> Analysis:
    return inputs(fast_multipole(frozenset(step)), C2050, leaves=256).analysis


def test_each_step_of_the_u_list_is_faster_than_the_one_before() -> None:
    times = [analysis_of_u_list(step).t_exec for step in OPTIMIZATIONS]
    assert times == sorted(set(times), reverse=True)
    assert times[0] > 2 * times[-1]


def test_every_step_of_the_u_list_is_bound_by_computation() -> None:
    for step in OPTIMIZATIONS:
        found = analysis_of_u_list(step)
        assert found.t_comp >= 0.99 * found.t_mem
        assert found.t_mem_visible < 0.05 * found.t_comp
        assert found.b_serial == 0


def test_floating_point_benefit_shrinks_with_each_step() -> None:
    benefits = [analysis_of_u_list(step).b_fp for step in OPTIMIZATIONS]
    assert benefits == sorted(set(benefits), reverse=True)
    assert benefits[0] > 0.4 * analysis_of_u_list(OPTIMIZATIONS[0]).t_exec
    assert benefits[-1] < 0.2 * analysis_of_u_list(OPTIMIZATIONS[-1]).t_exec


# }}}
