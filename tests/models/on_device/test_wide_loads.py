"""Merged loads of neighboring elements in local memory: which compilers generate them, and their wavefronts."""

from collections.abc import Iterator

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.memory import bank_access

TILE = 16


def product(target: lp.TargetBase, rows: int) -> lp.TranslationUnit:
    """Return c = a·b in groups of 16 x 16 work-items, each of which computes elements of *rows* consecutive rows."""
    unit = lp.make_kernel(
        "{[i,j,k]: 0<=i,j,k<256}",
        "c[i,j] = sum(k, a[i,k]*b[k,j])",
        [lp.GlobalArg("a,b,c", np.float32, shape=(256, 256))],
        target=target,
        lang_version=(2018, 2),
    )
    unit = lp.split_iname(unit, "i", TILE * rows, outer_tag="g.1", inner_iname="row")
    unit = lp.split_iname(
        unit, "row", rows, outer_iname="y", inner_iname="of_item", outer_tag="l.1", inner_tag="ilp.unr"
    )
    unit = lp.split_iname(unit, "j", TILE, outer_tag="g.0", inner_iname="x", inner_tag="l.0")
    unit = lp.split_iname(unit, "k", TILE, inner_tag="unr")
    outer = "i_outer, j_outer, k_outer"
    unit = lp.add_prefetch(unit, "a", ["y", "of_item", "k_inner"], fetch_outer_inames=outer, default_tag="l.auto")
    return lp.add_prefetch(unit, "b", ["k_inner", "x"], fetch_outer_inames=outer, default_tag="l.auto")


def local_loads(unit: lp.TranslationUnit, device: str) -> Iterator[tuple[str, int, float]]:
    """Yield the array, the bits and the wavefronts of each load from local memory."""
    (launch,) = lpp.timed_program(unit, device=device).launches
    for _, instruction, request in launch.requested():
        if instruction.subsystem == "local" and instruction.kind == "load":
            yield request.array, instruction.bits, request.wavefronts


@pytest.mark.parametrize("rows", [1, 2, 4])
def test_wide_load_has_the_wavefronts_of_its_addresses(rows: int) -> None:
    lanes = np.arange(32)
    by_hand = bank_access(lanes, 4 * TILE * rows * (lanes // TILE), 16).wavefronts
    found = {each for each in local_loads(product(lp.CudaTarget(), rows), "a100") if each[0].startswith("a")}
    assert found == {("a_fetch", 128, by_hand)}
    assert by_hand < 4 * bank_access(lanes, 4 * TILE * rows * (lanes // TILE), 4).wavefronts


@pytest.mark.parametrize(
    ("target", "device", "bits"),
    [
        (lp.CudaTarget(), "a100", {32, 128}),
        (lp.PyOpenCLTarget(), "a100", {32}),
        (lp.OpenCLTarget(), "a100", {32}),
        (lp.PyOpenCLTarget(), "amd-mi210", {32, 128}),
    ],
)
def test_only_nvidias_opencl_compiler_does_not_merge_loads(target: lp.TargetBase, device: str, bits: set[int]) -> None:
    assert {each[1] for each in local_loads(product(target, 1), device)} == bits
