"""Test double-precision multiplications of the kernels in ``../shared/data/titan-v.pkl.xz`` against their einsums."""

import pickle
from typing import Any

import pytest

from loopyperf.compiler import lowered
from loopyperf.counts.sizes import Typical
from loopyperf.kernel import load_kernel
from tests.corpora.titan_v import needs_archive
from tests.profiles import source_profile

from .branch_decisions import around_calls
from .instruction_counts import Tally
from .launch import FAST_MATH

pytestmark = needs_archive

# By number of the kernel in the archive, each from a different archive group: the elements or tiles of one work-group,
# and the multiply-adds for each. (k,ij,kj -> ki) sums over j for each i; of a product of three, two are contracted
# first; a tiled contraction sums over its whole reduction length for each point of the group's tile.
MULTIPLY_ADDS = {
    18: 27 * (3 * 35 * 35 + 3 * 3 * 35),  # mj,kij,lkm -> lmi: u with D, then with J
    8197: 16 * (3 * 35 * 35 + 3 * 3 * 35),  # kij,lkm,lmj -> mi: u with J, then with D
    436: 29 * 4 * 35 * 35,  # k,ij,kj -> ki for four u
    545: 31 * 4 * 20 * 20,
    979: 8 * 5 * 35 * 35,
    8697: 2 * 5 * (3 * 3 * 4 + 3 * 4 * 4),  # lmj,lkm,kij -> mi for five u
    9036: 16 * 5 * 35 * 15 * 4,  # lk,ilj,lkj -> ki
    8934: 16 * 5 * 20 * 10 * 4,
    1286: 10 * 3 * (3 * 3 * 35 + 3 * 35 * 35),
    1781: 9 * 6 * 35 * 15 * 4,
    2359: 4 * 4 * 8 * 312,  # ji,kjl -> lki by tiles of 4 × 4 × 8, summed over j
    2405: 8 * 32 * 8 * 312,
    7472: 8 * 32 * 8 * 72,  # ik,jlim -> mlkj
    7784: 16 * 2 * 16 * 72,
    4093: 32 * 2 * 2 * 296,
    8294: 2 * (3 * 10 * 10 + 3 * 3 * 10),
}
"""multiply-adds of the first work-group"""
ONLY_SCALED = {165: 32 * 20, 246: 4 * 15}
"""multiplications of the first work-group, for kernels without a sum"""


def first_group(launch: Any, row: dict[str, Any], architecture: str) -> Tally:
    """Return the tally of all warps of the first work-group."""
    machine = launch(pickle.loads(row["kernel"]), architecture, FAST_MATH)
    sizes = row["sizes"]
    return sum(
        (machine.run(sizes, warp=warp, decide=around_calls) for warp in range(machine.warps(sizes))), Tally.nothing()
    )


@pytest.mark.slow
def test_multiply_adds_match_the_einsum(subtests: pytest.Subtests, launch, rows) -> None:
    for number in MULTIPLY_ADDS:
        with subtests.test(number=number):
            assert first_group(launch, rows[number], "sm_90").lanes["DFMA"] == MULTIPLY_ADDS[number]


@pytest.mark.parametrize("number", [18, 545, 8697, 2405])
def test_multiply_adds_for_an_older_device_match_the_einsum(launch, rows, number) -> None:
    assert first_group(launch, rows[number], "sm_80").lanes["DFMA"] == MULTIPLY_ADDS[number]


@pytest.mark.parametrize("number", ONLY_SCALED)
def test_scaling_multiplies_once_per_point(launch, rows, number) -> None:
    tally = first_group(launch, rows[number], "sm_90")
    assert (tally.lanes["DMUL"], tally.lanes["STG.64"]) == (ONLY_SCALED[number],) * 2
    assert tally["DFMA"] == 0


WITHIN = (
    *(18, 165, 246, 545, 979, 1286, 1589, 1781, 2359, 2405, 2896, 3989, 4093),
    *(5908, 7472, 7784, 7897, 8197, 8294, 8697, 9026, 9036),
)
"""kernels with accurate machine graphs; those of 436 and similar kernels lack the values that nvcc spills, or loads
again because it has too few registers
"""


@pytest.mark.slow
def test_total_executed_instructions_are_within_15_percent(subtests: pytest.Subtests, launch, rows) -> None:
    for number in WITHIN:
        with subtests.test(number=number):
            unit, sizes = pickle.loads(rows[number]["kernel"]), rows[number]["sizes"]
            graphs = source_profile(load_kernel(unit), sizes, Typical({})).graph
            example = graphs.launches[0].representative.example
            group = tuple(example.groups.get(axis, 0) for axis in range(3))
            tally = launch(unit, "sm_90", FAST_MATH).run(sizes, group, example.number, decide=around_calls)
            assert abs(lowered(graphs).executed / tally.total - 1) < 0.15


def test_kernels_are_from_different_groups(rows) -> None:
    groups = [rows[number]["group"] for number in (*MULTIPLY_ADDS, *ONLY_SCALED)]
    assert len(groups) == len(set(groups))
