"""GPUPerf on plain numbers: an example by hand, identities, invalid input."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from loopyperf.errors import ModelInputError
from loopyperf.models.literature.gpuperf import Inputs, Parameters, analyse

C2050 = Parameters()
KERNEL = Inputs(
    insts=100,
    mem_insts=10,
    sync_insts=2,
    sfu_insts=25,
    fp_insts=40,
    total_warps=14 * 96,
    active_sms=14,
    n=24,
    avg_trans_warp=2,
    miss_ratio=0.5,
    size_of_data=300,
    ilp=1.5,
    mlp=2,
    o_cfdiv=7,
    o_bank=11,
)


def test_every_quantity_of_an_example_by_hand():
    found = analyse(KERNEL, C2050)
    # Computation: 96 warps on a core, at most 18·32/32 = 18 instructions in parallel, of 1.5·24 = 36.
    assert (found.itilp_max, found.itilp) == (18, 18)
    assert found.w_parallel == 100 * 96
    assert found.avg_dram_lat == 460  # 440 + 20
    assert found.f_sync == pytest.approx(64 * 460 * 0.1, rel=1e-12)
    assert found.o_sync == pytest.approx(2 * 96 * 2944, rel=1e-12)
    assert found.f_sfu == 0.125  # 1/4 of the instructions on 1/8 of the units
    assert found.o_sfu == 25 * 96 * 8 * 0.125
    assert found.w_serial == pytest.approx(565248 + 2400 + 7 + 11, rel=1e-12)
    assert found.t_comp == pytest.approx(9600 + 567666, rel=1e-12)
    # Memory: 1.15·128/460 = 0.32 GB/s for a warp; 144/(0.32·14) of them.
    assert found.bw_per_warp == pytest.approx(0.32e9, rel=1e-12)
    assert found.mwp_peak_bw == pytest.approx(144 / 4.48, rel=1e-12)
    assert found.mwp == 23  # 460/20, of 32.1 and 24
    assert found.amat == 248  # 460/2 + 18
    assert (found.comp_cycles, found.mem_cycles) == (100, 1240)
    assert found.cwp_full == pytest.approx(13.4, rel=1e-12)
    assert found.cwp == pytest.approx(13.4, rel=1e-12)
    assert found.mwp_cp == pytest.approx(12.4, rel=1e-12)
    assert found.itmlp == pytest.approx(24.8, rel=1e-12)
    assert found.t_mem == pytest.approx(10 * 96 / 24.8 * 248, rel=1e-12)
    # Overlap: CWP ≤ MWP, so one of 24 warps does not overlap.
    assert found.zeta == 1
    assert found.f_overlap == pytest.approx(23 / 24, rel=1e-12)
    assert found.t_overlap == pytest.approx(9600, rel=1e-12)  # all of Tmem
    assert found.t_exec == pytest.approx(577266, rel=1e-12)
    # Benefits.
    assert found.t_fp == 40 * 96
    assert found.t_mem_min == pytest.approx(300 * 460 * 4.48 / 144, rel=1e-12)
    assert found.b_itilp == 0
    assert found.b_serial == found.w_serial
    assert found.b_fp == pytest.approx(9600 - 3840, rel=1e-9)
    assert (found.t_mem_visible, found.b_memlp) == (0, 0)


def test_default_parameters_are_those_of_the_papers_device():
    # Sim, Table 3.
    assert (C2050.freq, C2050.mem_peak_bandwidth) == (1.15e9, 144e9)
    assert (C2050.simd_width, C2050.sfu_width, C2050.fp_lat) == (32, 4, 18)
    assert (C2050.dram_lat, C2050.delta, C2050.hit_lat, C2050.gamma) == (440, 20, 18, 64)


def test_two_warps_have_a_benefit_of_parallelism():
    # Two warps: ITILP is 2 of 18, so the maximum would leave a ninth of the time.
    found = analyse(replace(KERNEL, n=2, ilp=1, sync_insts=0, sfu_insts=0, o_cfdiv=0, o_bank=0), C2050)
    assert found.w_parallel == 9 * 9600
    assert found.b_itilp == 8 * 9600


def test_slow_floating_point_instructions_have_a_negative_benefit():
    found = analyse(replace(KERNEL, fp_insts=100, avg_inst_lat=6), C2050)
    assert found.b_fp < 0


def test_given_memory_access_time_is_used_unchanged():
    assert analyse(replace(KERNEL, amat=77), C2050).amat == 77


# {{{ identities


positive = st.floats(0.5, 200)
kernels = st.builds(
    Inputs,
    insts=positive,
    mem_insts=st.floats(0, 50),
    sync_insts=st.just(0.0),
    sfu_insts=st.floats(0, 50),
    fp_insts=st.floats(0, 100),
    total_warps=st.integers(14, 10**5),
    active_sms=st.integers(1, 14),
    n=st.integers(1, 48),
    avg_trans_warp=st.floats(1, 32),
    miss_ratio=st.floats(0, 1),
    size_of_data=st.floats(0, 1e4),
    ilp=st.floats(1, 8),
    mlp=st.floats(1, 8),
)


@given(kernels)
def test_parts_add_up_to_the_total(kernel):
    found = analyse(kernel, C2050)
    assert found.t_exec == pytest.approx(found.t_comp + found.t_mem_visible, rel=1e-12)
    parts = found.t_fp + found.b_itilp + found.b_serial + found.b_fp
    assert parts == pytest.approx(found.t_comp, rel=1e-9)
    assert max(found.t_comp, found.t_mem) <= found.t_exec * (1 + 1e-12)


@given(st.builds(replace, kernels, n=st.just(48), mlp=st.just(1.0), mem_insts=st.floats(1, 10)))
@settings(suppress_health_check=[HealthCheck.filter_too_much])
def test_memory_costs_as_much_as_computation_where_warps_alternate(kernel):
    # 1 ≤ CWPfull − 1 ≤ MWP, and neither N nor the bandwidth is a limit: as many requests are in flight as warps compute
    # while one waits.
    found = analyse(kernel, C2050)
    assume(1 <= found.cwp_full - 1 <= found.mwp)
    assume(found.cwp_full <= kernel.n)
    assume(kernel.mlp * found.mwp_cp <= found.mwp_peak_bw)
    assert found.t_mem == pytest.approx(found.w_parallel, rel=1e-9)


@given(st.integers(18, 48), st.floats(1, 100), st.integers(14, 10**4))
def test_every_benefit_is_zero_for_an_ideal_kernel(warps, insts, total_warps):
    # All instructions are floating-point ones, enough warps hide their latency, and none accesses memory.
    kernel = Inputs(
        insts=insts, mem_insts=0, sync_insts=0, sfu_insts=0, fp_insts=insts, total_warps=total_warps, active_sms=14,
        n=warps,
    )  # fmt: skip
    found = analyse(kernel, C2050)
    assert (found.b_itilp, found.b_serial, found.b_memlp) == (0, 0, 0)
    assert found.b_fp == pytest.approx(0, abs=1e-9 * found.t_comp)
    assert found.t_exec == found.t_fp


@given(kernels, st.sampled_from(["insts", "mem_insts", "sfu_insts", "total_warps"]))
def test_more_work_takes_no_less_time(kernel, name):
    # Two exceptions: more instructions reduce Fsfu, the cost of special functions beside them; and if more requests
    # make the kernel memory bound, ζ lets one more warp overlap: up to 1/N less (24 of 10^5 random cases).
    assume(name != "insts" or kernel.sfu_insts == 0)
    before, after = analyse(kernel, C2050), analyse(replace(kernel, **{name: 2 * getattr(kernel, name)}), C2050)
    assert after.t_exec >= before.t_exec * (1 - (1 / kernel.n if before.zeta != after.zeta else 1e-9))


def test_an_array_of_occupancies_gives_an_array_of_each_quantity():
    every = analyse(replace(KERNEL, n=np.array([1, 8, 24, 48])), C2050)
    assert every.t_exec.shape == (4,)
    for place, warps in enumerate((1, 8, 24, 48)):
        one = analyse(replace(KERNEL, n=warps), C2050)
        for name in ("t_exec", "t_mem", "b_itilp", "b_memlp", "zeta"):
            assert getattr(every, name)[place] == pytest.approx(getattr(one, name), rel=1e-12)


# }}}


# {{{ bad input


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("insts", 0, "insts must be > 0, got 0"),
        ("mem_insts", -1, "mem_insts must be >= 0, got -1"),
        ("sync_insts", -2, "sync_insts must be >= 0, got -2"),
        ("ilp", 0.5, r"ilp must be >= 1, got 0\.5"),
        ("mlp", 0, "mlp must be >= 1, got 0"),
        ("miss_ratio", 1.5, r"miss_ratio must be >= 0 and <= 1, got 1\.5"),
        ("n", 0, "n must be >= 1, got 0"),
        ("active_sms", 0, "active_sms must be >= 1, got 0"),
        ("amat", 0, "amat must be > 0, got 0"),
    ],
)
def test_invalid_kernel_inputs_raise(name, value, words):
    with pytest.raises(ModelInputError, match=words):
        replace(KERNEL, **{name: value})


@pytest.mark.parametrize("name", ["freq", "mem_peak_bandwidth", "simd_width", "dram_lat", "delta", "transaction_size"])
def test_invalid_device_parameters_raise(name):
    with pytest.raises(ModelInputError, match=f"{name} must be > 0, got 0"):
        Parameters(**{name: 0})


def test_more_warps_than_the_maximum_raise():
    with pytest.raises(ModelInputError, match="n must be >= 1 and <= 48, got 49"):
        analyse(replace(KERNEL, n=49), replace(C2050, most_warps=48))


# }}}
