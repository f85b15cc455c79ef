"""Kernels measured on an H200 can be built again, and predicted counters of some equal the measured ones."""

import loopy as lp
import pytest
from parts import RANKING_SETS
from parts.corpus import CONVOLUTION, OF_TITAN_V, Member, own_members
from transformed_kernels import DEVICE, MEASURED, gathered, measured

import loopyperf as lpp
from loopyperf.calibration.archived import measured_kernels
from loopyperf.compiler.cuda_code import CompleteCudaTarget, for_cuda
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.kernel_files import load_kernel_files
from loopyperf.predict.validate import with_empty_kernel

EXACT = (
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "lts__t_sectors_srcunit_tex_op_write.sum",
)
NEAR = (
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
)
PRODUCTS = [
    "group 32x8, depth 16, block 1x1, tiles of nothing",
    "group 16x16, depth 16, block 1x1, tiles of b",
    "nodes, 16 a group, tiles of u, C order",
]


@pytest.mark.parametrize("label", PRODUCTS)
def test_predicted_counters_equal_measured_counters(label: str):
    found = [each for each in measured() if each["label"] == label][-1]
    member = Member(found["kernel_class"], label, found["sizes"])
    predicted = lpp.counters(for_cuda(member.build()), device=DEVICE, parameters=member.sizes)
    (launch,) = found["launches"]
    for metric in EXACT:
        assert predicted[metric] == pytest.approx(launch["counters"][metric], rel=0.05), metric
    for metric in NEAR:
        assert predicted[metric] == pytest.approx(launch["counters"][metric], rel=0.15), metric


def test_measured_kernels_can_be_built_again():
    own = {(member.kernel_class, member.label) for member, _ in own_members()}
    others = {(each["kernel_class"], each["label"]) for each in measured()} - own
    assert {kernel_class for kernel_class, _ in others} == {CONVOLUTION, OF_TITAN_V}


def test_more_than_100_kernels_are_evaluated():
    assert len(gathered()) > 100


def test_cuda_archive_yields_cuda_kernels():
    archive = read_archive(MEASURED.parent / "ranking.jsonl.xz")
    for each in measured_kernels(archive, with_empty_kernel(load_kernel_files(RANKING_SETS)))[:5]:
        assert isinstance(each.kernel, lp.TranslationUnit)
        assert isinstance(each.kernel.target, CompleteCudaTarget)
