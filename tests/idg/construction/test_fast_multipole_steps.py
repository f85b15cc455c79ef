"""Test executed instructions of the fast multipole method's U list, for the optimizations of Sim's section 6.2.1.

A work-item has 27 leaves of 256 sources, P = 6912. The coordinates of each target take 3 loads.
"""

from collections import Counter
from functools import cache

import pytest

from loopyperf.counts.sizes import Typical
from loopyperf.idg.graph import Idg
from loopyperf.kernel import load_kernel
from loopyperf.measurement.environment import Configuration, DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files
from tests.profiles import source_profile

LEAVES, PAIRS = 27, 27 * 256
LIMITS = DeviceLimits(group_size=256, local_memory=2**15, global_memory=2**30, warp_size=32)


@cache
def forms() -> dict[str, Configuration]:
    (file,) = (
        each
        for each in load_kernel_files(bundled_folder("test_kernels/optimization_steps"))
        if each.path.stem == "fast_multipole"
    )
    return {each.label: each for each in file.configurations(LIMITS)}


@cache
def graph(label: str) -> Idg:
    (launch,) = source_profile(load_kernel(forms()[label].build()), {"leaves": 4}, Typical({})).launches
    (kind,) = launch.classes
    return kind.graph


def accesses(label: str) -> Counter[tuple[str, str, str]]:
    found = Counter[tuple[str, str, str]]()
    for each in graph(label).instructions:
        if each.reference is not None:
            found[each.kind, each.subsystem, each.dtype] += int(each.executions)
    return found


LOADS = {
    # Four numbers of each source, or one vector. With local memory, a work-item fetches one source of each leaf, or
    # two.
    "baseline": {("load", "global", "b32"): 3 + 4 * PAIRS},
    "vecpack": {("load", "global", "b32"): 3, ("load", "global", "b128"): PAIRS},
    "shmem": {
        ("load", "global", "b32"): 3 + 4 * LEAVES,
        ("store", "local", "b32"): 4 * LEAVES,
        ("load", "local", "b32"): 4 * PAIRS,
    },
    "vecpack, rsqrt, shmem, ujam": {
        ("load", "global", "b32"): 6,
        ("load", "global", "b128"): 2 * LEAVES,
        ("store", "local", "b128"): 2 * LEAVES,
        ("load", "local", "b128"): PAIRS,
    },
    # A source is loaded once for two targets.
    "ujam": {("load", "global", "b32"): 6 + 4 * PAIRS},
}


@pytest.mark.parametrize("label", LOADS)
def test_loads_and_stores_of_each_optimization(label: str) -> None:
    targets = 2 if "ujam" in label else 1
    assert accesses(label) == {**LOADS[label], ("store", "global", "b32"): targets}


@pytest.mark.parametrize("label", ["baseline", "rsqrt", "ujam", "vecpack, rsqrt, shmem, ujam"])
def test_pair_takes_a_root_and_a_division_or_a_reciprocal_root(label: str) -> None:
    pairs = PAIRS * (2 if "ujam" in label else 1)
    mix = Counter(
        {
            kind: sum(int(each.executions) for each in graph(label).instructions if each.kind == kind)
            for kind in ("div", "special", "barrier")
        }
    )
    has_rsqrt = "rsqrt" in label
    barriers = 2 * LEAVES if "shmem" in label else 0
    assert mix == Counter({"div": 0 if has_rsqrt else pairs, "special": pairs, "barrier": barriers})


def test_lanes_of_a_warp_load_the_same_source() -> None:
    (kind,) = source_profile(load_kernel(forms()["vecpack"].build()), {"leaves": 4}, Typical({})).launches[0].classes
    (place,) = (place for place, each in enumerate(kind.graph.instructions) if each.dtype == "b128")
    # 16 bytes of one sector, for every source.
    assert {access.sectors for access in kind.access(place).executions} == {1}
