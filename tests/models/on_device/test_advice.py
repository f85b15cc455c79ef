"""GPUPerf on kernels: its inputs, and its advice for kernels with known problems."""

import json

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.models.literature.gpuperf import Analysis, Inputs, Parameters, analyse
from loopyperf.models.literature.gpuperf_advice import Advice
from loopyperf.models.literature.gpuperf_rows import LaunchInputs
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


def by_banks(stride: int) -> lp.TranslationUnit:
    """Return sums of a tile that lanes read *stride* words apart."""
    unit = lp.make_kernel(
        "{[g, l, m, k]: 0 <= g < n and 0 <= l, m < 32 and 0 <= k < 200}",
        f"""
        tile[m*{stride}] = a[g, m] {{id=fetch}}
        ... lbarrier {{id=all, dep=fetch}}
        b[g, l] = sum(k, tile[l*{stride}]*k) {{id=use, dep=all}}
        """,
        [
            lp.GlobalArg("a,b", np.float32, shape="n, 32"),
            lp.TemporaryVariable("tile", np.float32, shape=(32 * stride,), address_space=lp.AddressSpace.LOCAL),
            ...,
        ],
        assumptions="n >= 1",
        lang_version=(2018, 2),
        target=lp.PyOpenCLTarget(),
    )
    return lp.tag_inames(unit, {"g": "g.0", "l": "l.0", "m": "l.0"})


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


# {{{ advice


def analysed(amat: float) -> Analysis:
    """Return the analysis of 200 instructions, 10 of them memory requests, with 48 warps per core."""
    numbers = {"sync_insts": 0, "sfu_insts": 0, "fp_insts": 50, "total_warps": 14 * 4800, "active_sms": 14, "n": 48}
    return analyse(Inputs(insts=200, mem_insts=10, mlp=4, amat=amat, **numbers), Parameters())


def bound(analysis: Analysis) -> str:
    return Advice("k", 1e9, analysis, ()).bound


def test_memory_that_hides_all_computation_is_the_bound():
    # The visible part of the memory time is shorter than computation, but memory takes nearly all of the time.
    found = analysed(amat=800)
    assert found.t_mem_visible < found.t_comp < found.t_mem
    assert found.t_exec == pytest.approx(found.t_mem, rel=0.05)
    assert bound(found) == "memory"


def test_computation_that_hides_all_of_memory_is_the_bound():
    found = analysed(amat=50)
    assert (found.t_mem_visible, found.t_exec) == (0, found.t_comp)
    assert bound(found) == "computation"


@pytest.mark.parametrize("amat", [100, 200, 400])
def test_equal_times_are_bound_by_both(amat: float):
    # If as many requests are in flight as computation has time to issue, Tmem equals Tcomp.
    found = analysed(amat)
    assert found.t_comp == pytest.approx(found.t_mem, rel=1e-12)
    assert bound(found) == "computation and memory alike"


def test_column_access_is_reported_with_its_sectors():
    (advice,) = lpp.advise(transposed(), n=4096, device=V100)
    assert advice.bound == "memory"
    (memory,) = (each for each in advice.benefits if each.name == "B_memlp")
    assert memory.seconds == 0  # the group's other rows hit in the cache, and the bandwidth is fully used
    assert any("load a, 32 sectors per request (minimum 4)" in sentence for sentence in memory.evidence)
    assert any("store b, 4 sectors per request; share by level" in sentence for sentence in memory.evidence)


@pytest.mark.parametrize(
    ("knl", "sizes", "is_spread"), [(transposed(), {"n": 4096}, True), (doubled(), {"n": 2**20}, False)]
)
def test_coalescing_is_advised_only_for_uncoalesced_requests(knl, sizes: dict[str, int], is_spread: bool):
    (advice,) = lpp.advise(knl, **sizes, device=V100)
    (memory,) = (each for each in advice.benefits if each.name == "B_memlp")
    assert any("adjacent work-items access adjacent elements" in each for each in memory.techniques) == is_spread
    assert any("minimum" in each for each in memory.evidence) == is_spread


def test_uncoalesced_requests_are_listed_even_without_a_benefit():
    (advice,) = lpp.advise(transposed(), n=4096, device=V100)
    (load,) = advice.beside_benefits
    assert "load a, 32 sectors per request (minimum 4)" in load
    printed = advice.what_to_try()
    assert printed.index("uncoalesced accesses (more sectors than needed)") < printed.index(f"  {load}")
    assert advice.to_dict()["scattered"] == [load]
    (stream,) = lpp.advise(doubled(), n=2**20, device=V100)
    assert stream.scattered == ()


@pytest.mark.parametrize(("stride", "degree"), [(2, 2), (8, 8), (32, 32)])
def test_bank_conflicts_are_reported_with_their_degree(stride: int, degree: int):
    (advice,) = lpp.advise(by_banks(stride), n=4096, device=V100)
    (serial,) = (each for each in advice.benefits if each.name == "B_serial")
    assert any(f"{degree} times as many wavefronts" in sentence for sentence in serial.evidence)


def test_no_serialization_benefit_without_bank_conflicts():
    (advice,) = lpp.advise(by_banks(1), n=4096, device=V100)
    (serial,) = (each for each in advice.benefits if each.name == "B_serial")
    assert (serial.seconds, serial.evidence) == (0, ())


def test_other_instructions_are_listed_by_opcode():
    # each of 200 iterations converts k and multiplies; the load is loop-invariant
    (advice,) = lpp.advise(by_banks(1), n=4096, device=V100)
    (others,) = (each for each in advice.benefits if each.name == "B_fp")
    assert "use_k_update: 201 of 401 instructions per warp, 200 convert, 1 load local" in others.evidence
    assert "move: 5 instructions per warp" in others.evidence
    assert "integer: 4 instructions per warp" in others.evidence


def test_single_warp_lacks_parallelism():
    (advice,) = lpp.advise(by_banks(1), n=1, device=V100)
    (parallelism,) = (each for each in advice.benefits if each.name == "B_itilp")
    assert parallelism.seconds > 0.2 * advice.seconds
    assert "1 warp per core" in parallelism.evidence[0]


def test_benefits_are_sorted_and_printed_with_techniques():
    (advice,) = lpp.advise(by_banks(8), n=4096, device=V100)
    times = [each.seconds for each in advice.benefits]
    assert times == sorted(times, reverse=True)
    text = str(advice)
    assert text.startswith(f"{advice.launch}: ")
    assert "try another layout of the tile" in text
    assert json.loads(json.dumps(advice.to_dict())) == advice.to_dict()


def test_computation_hidden_by_memory_is_no_benefit():
    (advice,) = lpp.advise(transposed(), n=4096, device=V100)
    assert advice.analysis.t_overlap == advice.analysis.t_comp > advice.analysis.t_fp
    assert advice.worth == ()
    assert "no change known to GPUPerf saves 1 % of the time" in str(advice)


@pytest.mark.parametrize("code", ["a[i] = 2*a[i]", "b[i] = 2*a[i]"])
def test_no_memory_parallelism_benefit_at_full_bandwidth(code: str):
    # An in-place update loads and stores as much as an out-of-place one.
    arrays = [lp.GlobalArg(name, np.float32, shape="n") for name in "ab" if f"{name}[" in code]
    unit = lp.make_kernel("{[i]: 0 <= i < n}", code, [*arrays, ...], target=lp.PyOpenCLTarget())
    unit = lp.split_iname(unit, "i", 256, outer_tag="g.0", inner_tag="l.0")
    (advice,) = lpp.advise(unit, n=2**24, device=V100)
    (memory,) = (each for each in advice.benefits if each.name == "B_memlp")
    assert memory.seconds < 0.02 * advice.seconds


def test_time_equals_the_gpuperf_estimate():
    (advice,) = lpp.advise(doubled(), n=2**20, device=V100)
    estimate = lpp.estimate(doubled(), n=2**20, device=V100, model="gpuperf")
    launch = estimate.breakdown.by_property()["launches"]
    assert advice.seconds == pytest.approx(estimate.seconds - launch, rel=1e-9)


# }}}
