"""Test predicted profiler counters against sums computed by hand."""

from collections.abc import Mapping

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import ParameterError
from loopyperf.models.profiler_counters import unit_of_metric
from tests.kernels import doubled, floats, make_kernel, two_launches

TURING = {"device": "nvidia-rtx-2080-ti"}
MANY = 2**24
"""number of elements; more than fit in L2"""


def transposed_tile(pad: int) -> lp.TranslationUnit:
    """Return a kernel in which each lane of a warp writes to its own row of a tile; rows have 32 + *pad* floats."""
    kernel = make_kernel(
        "{[g, i]: 0 <= g < 128 and 0 <= i < 32}",
        """
        for g, i
            tile[i, 0] = a[g, i]  {id=put}
            ... lbarrier  {id=all, dep=put}
            b[g, i] = tile[31 - i, 0]  {dep=all}
        end
        """,
        floats("a, b", (128, 32)),
        lp.TemporaryVariable("tile", np.float32, (32, 32 + pad), lp.AddressSpace.LOCAL),
        name="transposed",
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
        assert found[f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{op}.ratio"] == 4
        assert found[f"lts__t_sectors_op_{direction}.sum"] == pytest.approx(MANY / 8)
    left = 0.5 * 5.5 * 2**20 / 32  # sectors in L2 that are written back after the launch
    assert found["dram__sectors_read.sum"] == pytest.approx(MANY / 8)
    assert found["dram__sectors_write.sum"] == pytest.approx(MANY / 8 - left)
    assert found["smsp__sass_thread_inst_executed_op_memory_pred_on.sum"] == 2 * MANY
    assert found["smsp__sass_thread_inst_executed_op_fp32_pred_on.sum"] == MANY
    assert found["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"] == 0
    # The throughput is the traffic over the predicted execution time, relative to the peak bandwidth of 616 GB/s.
    costs = lpp.estimate(doubled(group=256), n=MANY, model="pipeline", **TURING).breakdown.by_property()
    seconds = sum(costs.values()) - costs["launches"]
    moved = 32 * (MANY / 4 - left) / seconds / 616e9
    assert found["dram__throughput.avg.pct_of_peak_sustained_elapsed"] == pytest.approx(100 * moved, rel=1e-6)


@pytest.mark.parametrize(("pad", "wavefronts"), [(0, 32), (1, 1), (2, 2), (8, 8)])
def test_padding_reduces_bank_conflicts_of_column_accesses(pad: int, wavefronts: int):
    found = lpp.counters(transposed_tile(pad), **TURING)
    for op in ("ld", "st"):
        assert found[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"] == 128 * wavefronts
        assert found[f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum"] == 128 * (wavefronts - 1)


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
        ParameterError, match=r"^metric 'dram__cycles' is not predicted; list\(counters\) shows those that are$"
    ):
        _ = found["dram__cycles"]


def test_counters_are_a_mapping():
    found = lpp.counters(doubled(), n=64, **TURING)
    (launch,) = found.launches
    assert isinstance(found, Mapping)
    assert dict(found) == dict(launch.values)
    assert (len(found), list(found)) == (len(launch.values), list(launch.values))
    for each in (found, launch):
        assert "dram__sectors_read.sum" in each
        assert "dram__cycles" not in each
    assert found.get("dram__cycles", 0.5) == 0.5
    several = lpp.counters(two_launches(), n=1024, **TURING)
    assert "dram__sectors_read.sum" in several
    assert set(several) == set(found)


SINES, COSINES = (" + ".join(f"{function}(x[g, i] + {number})" for number in range(8)) for function in ("sin", "cos"))


@pytest.mark.parametrize(
    ("condition", "lanes"),
    [
        ("i < 16", [i < 16 for i in range(32)]),
        ("i % 2 == 0", [i % 2 == 0 for i in range(32)]),
        ("i < 24", [i < 24 for i in range(32)]),
        ("g < 512", [True] * 32),
    ],
)
def test_lanes_of_divergent_branches_equal_their_enumeration(condition: str, lanes: list[bool]):
    kernel = make_kernel(
        "{[g, i]: 0 <= g < 1024 and 0 <= i < 32}",
        f"""
        for g, i
            if {condition}
                y[g, i] = {SINES}  {{id=sines, nosync=cosines}}
            else
                y[g, i] = {COSINES}  {{id=cosines, nosync=sines}}
            end
        end
        """,
        floats("x, y", (1024, 32)),
    )
    kernel = lp.tag_inames(kernel, "g:g.0, i:l.0")
    by_lane = {"sines": sum(lanes), "cosines": 32 - sum(lanes) or 32}
    machine = lpp.machine_program(kernel, **TURING)
    executed = dict.fromkeys((*by_lane, ""), 0.0)
    for warps in machine.launches[0].classes:
        for each in warps.graph.instructions:
            executed[each.source if each.source in by_lane else ""] += warps.warps * float(each.executions)
    expected = (32 * executed[""] + sum(by_lane[name] * executed[name] for name in by_lane)) / sum(executed.values())
    found = lpp.counters(kernel, **TURING)
    for which in ("", "_pred_on"):
        assert found[f"smsp__thread_inst_executed{which}_per_inst_executed.ratio"] == pytest.approx(expected)
    remarks = lpp.explain(kernel, **TURING).devices[0]
    shown = {name: remarks.lanes_at(name) for name in by_lane}
    assert shown == {name: "" if number == 32 else f"{number} lanes" for name, number in by_lane.items()}


def test_device_of_another_vendor_is_refused():
    with pytest.raises(ParameterError, match=r"counters are Nsight Compute metrics, .*; 'amd-r9-fury' is from AMD"):
        lpp.counters(doubled(), n=64, device="amd-r9-fury")


def test_all_metrics_but_ratios_have_a_unit():
    found = lpp.counters(doubled(), n=64, **TURING)
    assert max(map(len, str(found).splitlines())) <= 80
    units = {metric: unit_of_metric(metric) for metric in found.launches[0].values}
    assert units["dram__sectors_read.sum"] == "sectors"
    assert units["smsp__issue_active.avg.pct_of_peak_sustained_active"] == "%"
    assert all(metric.endswith(".ratio") for metric, unit in units.items() if not unit)
    assert units["smsp__thread_inst_executed_per_inst_executed.ratio"] == ""


def test_loads_from_constant_memory_do_not_go_through_l1():
    def counters(index: str) -> tuple[float, ...]:
        table = np.arange(16, dtype=np.float32)
        constant = lp.TemporaryVariable("c", initializer=table, address_space=lp.AddressSpace.GLOBAL, read_only=True)
        array = lp.GlobalArg("a, b", np.float32, shape=(4, 32))
        kernel = make_kernel("{[g, i]: 0 <= g < 4 and 0 <= i < 32}", f"b[g, i] = a[g, i]*c[{index}]", array, constant)
        found = lpp.counters(lp.tag_inames(kernel, "g:g.0, i:l.0"), **TURING)
        metrics = (
            "t_requests_pipe_lsu_mem_global_op_ld",
            "t_sectors_pipe_lsu_mem_global_op_ld",
            "data_pipe_lsu_wavefronts",
        )
        instructions = found["smsp__inst_executed.sum"]
        return instructions, *(found[f"l1tex__{metric}.sum"] for metric in metrics)

    _, *by_l1 = counters("3")
    loading, *also_by_l1 = counters("i")
    assert by_l1 == also_by_l1 == [4, 16, 8]  # a[g, i], and the store for the wavefronts
    assert counters("i // 2")[0] == loading


def test_wavefronts_sum_over_warps_with_different_alignments():
    width, height, row = 48, 6, 62
    kernel = make_kernel(
        f"{{[g, i, j]: 0 <= g < 4 and 0 <= i < {width} and 0 <= j < {height}}}",
        """
        for g, i, j
            tile[j, i] = a[g, j, i]  {id=put}
            ... lbarrier  {id=all, dep=put}
            b[g, j, i] = tile[j, i]  {dep=all}
        end
        """,
        floats("a, b", (4, height, width)),
        lp.TemporaryVariable("tile", np.float32, (height, row), lp.AddressSpace.LOCAL),
    )
    found = lpp.counters(lp.tag_inames(kernel, "g:g.0, i:l.0, j:l.1"), **TURING)
    words = np.array([j * row + i for j in range(height) for i in range(width)]).reshape(-1, 32)
    wavefronts = sum(np.bincount(warp % 32).max() for warp in words)  # all words are distinct
    assert wavefronts > len(words)
    for op in ("ld", "st"):
        assert found[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"] == pytest.approx(4 * wavefronts)
