"""Test the seven reductions of Sim's table 4: barriers, active lanes, bank conflicts and instructions of their warps.

Groups of 128 work-items have 4 warps; their trees have 7 levels, s = 1 … 64.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache

import pytest

from loopyperf.counts.sizes import Typical
from loopyperf.kernel import load_kernel
from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files
from loopyperf.memory.kernel_profile import LaunchProfile
from tests.profiles import source_profile

GROUP, WARP, LEVELS = 128, 32, 7
LIMITS = DeviceLimits(group_size=GROUP, local_memory=2**15, global_memory=2**30, warp_size=WARP)

ACTIVE: Mapping[str, Callable[[int, int], bool]] = {
    "K0": lambda lane, level: lane % (2 * 2**level) == 0,
    "K1": lambda lane, level: 2 * 2**level * lane < GROUP,
    "K2": lambda lane, level: lane < 64 >> level,
}
"""whether a lane is active at a level"""
ADDRESS: Mapping[str, Callable[[int, int], int]] = {
    "K0": lambda lane, level: lane,
    "K1": lambda lane, level: 2 * 2**level * lane,
    "K2": lambda lane, level: lane,
}


@cache
def launch(step: str) -> LaunchProfile:
    (file,) = (
        each
        for each in load_kernel_files(bundled_folder("test_kernels/optimization_steps"))
        if each.path.stem == "reduction"
    )
    form = next(each for each in file.configurations(LIMITS) if each.label == f"{step}, group {GROUP}")
    smallest = form.sizes[0]
    assert smallest["n"] == 2**16
    (only,) = source_profile(load_kernel(form.build()), smallest, Typical({})).launches
    return only


def executed(step: str, kind: str, dtype: str) -> Fraction:
    """Return how many instructions of a kind the warps of a group execute, averaged over all groups."""
    kinds = launch(step).classes
    found = sum(
        each.warps * instruction.executions
        for each in kinds
        for instruction in each.graph.instructions
        if (instruction.kind, instruction.dtype) == (kind, dtype)
    )
    return Fraction(found, launch(step).groups)


@pytest.mark.parametrize(
    ("step", "barriers"),
    # One before each level and one after the last. From K4 on, the levels of s <= 32 follow one, and none follows them.
    [("K0", 8), ("K1", 8), ("K2", 8), ("K3", 8), ("K4", 2), ("K5", 2), ("K6", 2)],
)
def test_all_warps_execute_the_barriers_between_levels(step: str, barriers: int) -> None:
    for kind in launch(step).classes:
        assert sum(each.executions for each in kind.graph.instructions if each.kind == "barrier") == barriers


@pytest.mark.parametrize("step", ACTIVE)
def test_warp_adds_at_levels_with_an_active_lane(step: str) -> None:
    # Brute force: 23 of K0 (4 warps at 5 levels, 2, 1), 8 of K1 and K2 (2 warps at the first level, then 1).
    warps = (range(first, first + WARP) for first in range(0, GROUP, WARP))
    adding = sum(any(ACTIVE[step](lane, level) for lane in warp) for warp in warps for level in range(LEVELS))
    assert executed(step, "add", "f32") == adding == {"K0": 23, "K1": 8, "K2": 8}[step]


def test_all_warps_execute_the_additions_of_the_fetch() -> None:
    # K3 to K5: 4 warps once, and a tree as in K2. K6: 2^16 numbers are 4 iterations of 64 groups; in each, two numbers
    # are added to each other and to the sum.
    trees = {step: executed(step, "add", "f32") for step in ("K3", "K4", "K5", "K6")}
    assert trees == {"K3": 4 + 8, "K4": 4 + 8, "K5": 4 + 8, "K6": 4 * 4 * 2 + 8}


@pytest.mark.parametrize("step", ACTIVE)
def test_bank_conflicts_match_brute_force(step: str) -> None:
    found = Counter[int]()
    for kind in launch(step).classes:
        in_tree = [
            place
            for place, each in enumerate(kind.graph.instructions)
            if (each.kind, each.subsystem) == ("load", "local") and each.text != "tile[0]"
        ]
        assert len(in_tree) in (0, 2)
        for place in in_tree:
            for access, number in kind.access(place).executions.items():
                found[access.wavefronts] += kind.warps * number
    expected = Counter[int]()
    for first in range(0, GROUP, WARP):
        for level in range(LEVELS):
            lanes = [lane for lane in range(first, first + WARP) if ACTIVE[step](lane, level)]
            stride = 64 >> level if step == "K2" else 2**level
            for offset in (0, stride) if lanes else ():
                words = {ADDRESS[step](lane, level) + offset for lane in lanes}
                expected[max(Counter(word % WARP for word in words).values())] += launch(step).groups
    assert found == expected
    # K1: 2 warps of 32 lanes 2 apart; then 32 lanes 4 apart, 16 lanes 8 apart, 8 lanes 16 apart, 4 lanes 32 apart, ...
    assert max(found) == (4 if step == "K1" else 1)


def test_each_step_executes_fewer_instructions_per_element() -> None:
    # The source graph computes s and subscripts at each use. Sim et al.: "the number of instructions was significantly
    # reduced by each optimization".
    numbers = [sum(each.warps * each.graph.executed for each in launch(f"K{step}").classes) for step in range(7)]
    assert numbers == sorted(set(numbers), reverse=True)
