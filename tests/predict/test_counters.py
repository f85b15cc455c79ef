"""Test predicted profiler counters against sums computed by hand."""

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import ParameterError
from loopyperf.models.profiler_counters import unit_of_metric
from tests.kernels import doubled, two_launches

TURING = {"device": "nvidia-rtx-2080-ti"}
MANY = 2**24
"""number of elements; more than fit in L2"""


def transposed_tile(pad: int) -> lp.TranslationUnit:
    """Return a kernel in which each lane of a warp writes to its own row of a tile; rows have 32 + *pad* floats."""
    kernel = lp.make_kernel(
        "{[g, i]: 0 <= g < 128 and 0 <= i < 32}",
        """
        for g, i
            tile[i, 0] = a[g, i]  {id=put}
            ... lbarrier  {id=all, dep=put}
            b[g, i] = tile[31 - i, 0]  {dep=all}
        end
        """,
        [
            lp.GlobalArg("a, b", np.float32, shape=(128, 32)),
            lp.TemporaryVariable("tile", np.float32, (32, 32 + pad), lp.AddressSpace.LOCAL),
        ],
        name="transposed",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(kernel, "g:g.0, i:l.0")


def test_writes_that_fit_in_l2_do_not_reach_dram_during_the_launch():
    found = lpp.counters(doubled(group=256), n=2**18, **TURING)
    assert found["lts__t_sectors_op_write.sum"] == 2**15
    assert found["dram__sectors_write.sum"] == 0


def test_streaming_kernel_moves_each_sector_once_through_all_levels():
    found = lpp.counters(doubled(group=256), n=MANY, **TURING)
    for direction, op in (("read", "ld"), ("write", "st")):
        assert found[f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum"] == MANY / 32
        assert found[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum"] == MANY / 8
        assert found[f"lts__t_sectors_op_{direction}.sum"] == pytest.approx(MANY / 8)
    left = 0.5 * 5.5 * 2**20 / 32  # sectors in L2 that are written back after the launch
    assert found["dram__sectors_read.sum"] == pytest.approx(MANY / 8)
    assert found["dram__sectors_write.sum"] == pytest.approx(MANY / 8 - left)
    assert found["smsp__sass_thread_inst_executed_op_memory_pred_on.sum"] == 2 * MANY
    assert found["smsp__sass_thread_inst_executed_op_fp32_pred_on.sum"] == MANY
    assert found["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == 0
    # The throughput is the traffic over the predicted time, relative to the peak bandwidth of 616 GB/s.
    seconds = float(lpp.estimate(doubled(group=256), n=MANY, model="pipeline", **TURING).seconds)
    moved = 32 * (MANY / 4 - left) / seconds / 616e9
    assert found["dram__throughput.avg.pct_of_peak_sustained_elapsed"] == pytest.approx(100 * moved, rel=1e-6)


@pytest.mark.parametrize(("pad", "wavefronts"), [(0, 32), (1, 1), (2, 2), (8, 8)])
def test_padding_reduces_bank_conflicts_of_column_accesses(pad: int, wavefronts: int):
    found = lpp.counters(transposed_tile(pad), **TURING)
    for op in ("ld", "st"):
        assert found[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"] == 128 * wavefronts


def test_partial_warps_reduce_the_mean_number_of_lanes():
    full, partial = (lpp.counters(doubled(group=group), n=48 * 640, **TURING) for group in (64, 48))
    lanes = "smsp__thread_inst_executed_per_inst_executed.ratio"
    assert (full[lanes], partial[lanes]) == (32, (32 + 16) / 2)
    for each in (full, partial):
        assert each["smsp__sass_thread_inst_executed_op_memory_pred_on.sum"] == 2 * 48 * 640


def test_registers_and_occupancy_match_the_machine_program():
    found, machine = (analyze(doubled(group=256), n=MANY, **TURING) for analyze in (lpp.counters, lpp.machine_program))
    (launch,) = machine.launches
    assert found["launch__registers_per_thread"] == launch.registers
    assert found["sm__maximum_warps_per_active_cycle_pct"] == 100 * launch.room.share
    assert found["launch__waves_per_multiprocessor"] == MANY / 256 / 68 / launch.room.groups
    assert found["smsp__inst_executed.sum"] == sum(
        each.warps * sum(float(one.executions) for one in each.graph.instructions) for each in launch.classes
    )


def test_each_launch_has_its_own_counters():
    found = lpp.counters(two_launches(), n=1024, **TURING)
    assert [each["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"] for each in found.launches] == [64, 32]
    with pytest.raises(ParameterError, match=r"has 2 launches; use one of counters\.launches"):
        _ = found["smsp__inst_executed.sum"]


def test_unknown_metric_is_refused():
    found = lpp.counters(doubled(), n=64, **TURING)
    with pytest.raises(
        ParameterError, match=r"'dram__cycles' is not predicted; choose one of: dram__sectors_read\.sum, "
    ):
        _ = found["dram__cycles"]


def test_device_of_another_vendor_is_refused():
    with pytest.raises(ParameterError, match=r"counters are Nsight Compute metrics, .*; 'amd-r9-fury' is from AMD"):
        lpp.counters(doubled(), n=64, device="amd-r9-fury")


def test_all_metrics_but_ratios_have_a_unit():
    found = lpp.counters(doubled(), n=64, **TURING)
    assert max(map(len, str(found).splitlines())) <= 80
    units = {metric: unit_of_metric(metric) for metric in found.launches[0].values}
    assert units["dram__sectors_read.sum"] == "sectors"
    assert units["smsp__issue_active.avg.pct_of_peak_sustained_active"] == "%"
    assert [metric for metric, unit in units.items() if not unit] == [
        "smsp__thread_inst_executed_per_inst_executed.ratio"
    ]


def test_constant_memory_is_loaded_only_with_lane_dependent_indices():
    def loads(index: str) -> float:
        table = np.arange(16, dtype=np.float32)
        constant = lp.TemporaryVariable("c", initializer=table, address_space=lp.AddressSpace.GLOBAL, read_only=True)
        array = lp.GlobalArg("a, b", np.float32, shape=(4, 32))
        kernel = lp.make_kernel(
            "{[g, i]: 0 <= g < 4 and 0 <= i < 32}",
            f"b[g, i] = a[g, i]*c[{index}]",
            [array, constant],
            lang_version=(2018, 2),
        )
        found = lpp.counters(lp.tag_inames(kernel, "g:g.0, i:l.0"), **TURING)
        return found["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"]

    assert (loads("3"), loads("i // 2")) == (4, 8)


def test_wavefronts_sum_over_warps_with_different_alignments():
    width, height, row = 48, 6, 62
    kernel = lp.make_kernel(
        f"{{[g, i, j]: 0 <= g < 4 and 0 <= i < {width} and 0 <= j < {height}}}",
        """
        for g, i, j
            tile[j, i] = a[g, j, i]  {id=put}
            ... lbarrier  {id=all, dep=put}
            b[g, j, i] = tile[j, i]  {dep=all}
        end
        """,
        [
            lp.GlobalArg("a, b", np.float32, shape=(4, height, width)),
            lp.TemporaryVariable("tile", np.float32, (height, row), lp.AddressSpace.LOCAL),
        ],
        lang_version=(2018, 2),
    )
    found = lpp.counters(lp.tag_inames(kernel, "g:g.0, i:l.0, j:l.1"), **TURING)
    words = np.array([j * row + i for j in range(height) for i in range(width)]).reshape(-1, 32)
    wavefronts = sum(np.bincount(warp % 32).max() for warp in words)  # all words are distinct
    assert wavefronts > len(words)
    for op in ("ld", "st"):
        assert found[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"] == pytest.approx(4 * wavefronts)
