"""Neighbors of loaded indices, compared with the sectors that actual index arrays lead to."""

from collections.abc import Callable

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import ParameterError
from loopyperf.memory.footprints import working_sets
from loopyperf.memory.kernel_profile import LaunchProfile

N, GROUP, LANES = 8192, 128, 32
OFFSETS = (0, 1, 40, 41)
"""elements from the loaded index"""
Indices = np.ndarray[tuple[int], np.dtype[np.int64]]

PATTERNS: dict[str, Callable[[np.random.Generator], Indices]] = {
    "consecutive": lambda _: np.arange(N),
    "1": lambda _: np.arange(N),
    "2/2": lambda _: 2 * np.arange(N),
    "constant": lambda _: np.full(N, 0),
    "permutation": lambda draw: draw.permutation(N),
    "random in 512": lambda draw: draw.integers(0, 512, N),
    "random in 100000": lambda draw: draw.integers(0, 100_000, N),
}


def gathering(body: str, length: int = 2 * N + 100_000) -> lp.TranslationUnit:
    """Return a kernel in groups of work-items that computes *body* for each i."""
    unit = lp.make_kernel(
        f"{{[i, k]: 0 <= i < {N} and 0 <= k < 8}}",
        body,
        [
            lp.GlobalArg("x, y", np.float64, shape=length),
            lp.GlobalArg("zones", np.int64, shape=N),
            lp.GlobalArg("nodes", np.int64, shape=(N, 8)),
        ],
        seq_dependencies=True,
        lang_version=(2018, 2),
    )
    return lp.split_iname(unit, "i", GROUP, outer_tag="g.0", inner_tag="l.0")


NEIGHBORS = "<> z = zones[i]\ny[i] = " + " + ".join(f"x[z + {offset}]" for offset in OFFSETS)


def launch_of(unit: lp.TranslationUnit, **typical: str) -> LaunchProfile:
    (launch,) = lpp.kernel_profile(unit, typical=typical).launches
    return launch


def touched(launch: LaunchProfile, groups: range) -> tuple[float, float]:
    sets = working_sets(launch.footprints)
    found = sets.touched(sets.program, launch.footprints.window({0: groups}, {}), "x", "load")["x"]
    return float(found.sectors), float(found.lines)


def enumerated(bases: Indices, block: int) -> int:
    """Return the blocks of *block* bytes that hold a neighbor of one of *bases*."""
    return len({8 * int(place) // block for offset in OFFSETS for place in bases + offset})


def test_neighbors_touch_what_actual_indices_lead_to() -> None:
    for pattern, drawn in PATTERNS.items():
        launch = launch_of(gathering(NEIGHBORS), x=pattern)
        zones = [drawn(np.random.default_rng(seed)) for seed in range(4)]
        for groups in (range(1), range(7, 8), range(10, 30), range(N // GROUP)):
            here = slice(groups.start * GROUP, groups.stop * GROUP)
            for found, block in zip(touched(launch, groups), (32, 128), strict=True):
                expected = np.mean([enumerated(each[here], block) for each in zones])
                assert found == pytest.approx(expected, rel=0.05, abs=1), (pattern, groups, block)


def test_groups_share_what_actual_indices_share() -> None:
    one, other = range(3, 4), range(40, 41)
    for pattern in ("permutation", "random in 512", "constant", "consecutive"):
        launch = launch_of(gathering(NEIGHBORS), x=pattern)
        sets, window = working_sets(launch.footprints), launch.footprints.window
        found = sets.common(window({0: one}, {}), window({0: other}, {}))["x"]
        shared: list[int] = []
        for seed in range(40):
            zones = PATTERNS[pattern](np.random.default_rng(seed)).reshape(-1, GROUP)
            here, there = (
                {8 * int(z) // 32 for offset in OFFSETS for z in zones[at.start] + offset} for at in (one, other)
            )
            shared.append(len(here & there))
        assert float(found.sectors) == pytest.approx(float(np.mean(shared)), rel=0.05, abs=1), pattern


def test_warps_request_the_sectors_of_actual_indices() -> None:
    for pattern, drawn in PATTERNS.items():
        launch = launch_of(gathering(NEIGHBORS), x=pattern)
        (kind,) = launch.classes
        loads = [each for node, each in kind.accesses.items() if kind.graph.instructions[node].kind == "load"]
        found = sum(each.profile.total("sectors") for each in loads if each.bits == 64)
        draws = (drawn(np.random.default_rng(seed)).reshape(-1, LANES) for seed in range(20))
        expected = [
            8 + sum(len({8 * int(z) // 32 for z in lanes + offset}) for offset in OFFSETS)
            for zones in draws
            for lanes in zones[8:16]
        ]
        assert float(found) == pytest.approx(float(np.mean(expected)), rel=0.05, abs=2), pattern


def test_neighbors_far_apart_share_sectors() -> None:
    # Without a pattern, each pair of neighbors touches one sector, or two if it starts at the last of four elements.
    (found, _), pairs = touched(launch_of(gathering(NEIGHBORS)), range(5, 6)), len(OFFSETS) // 2
    assert found == GROUP * pairs * 1.25


def test_differently_loaded_indices_share_nothing_known() -> None:
    body = "<> z = zones[i]\n<> w = nodes[i, 0]\ny[i] = x[z] + x[w]"
    assert touched(launch_of(gathering(body)), range(5, 6))[0] == 2 * GROUP


def test_nodes_of_an_element_are_apart_along_its_nodes() -> None:
    # Lanes are neighbors, as typical says, but nodes[i, 0] and nodes[i, 1] are unrelated: 32 sectors of 4 doubles each.
    launch = launch_of(gathering("y[i] = sum(k, x[nodes[i, k]])"), x="1")
    assert touched(launch, range(5, 6))[0] == pytest.approx(8 * GROUP / 4, rel=0.2)
    assert touched(launch_of(gathering("y[i] = sum(k, x[nodes[i, k]])"), x="consecutive"), range(5, 6))[0] == 2 * GROUP


def test_indirect_stencil_streams_like_its_affine_form() -> None:
    def seconds(body: str, **typical: str) -> float:
        return lpp.estimate(gathering(body), device="nvidia-v100", model="roofline", typical=typical).seconds

    assert seconds(NEIGHBORS, x="1") == seconds(NEIGHBORS, x="consecutive")
    assert seconds(NEIGHBORS, x="1") < seconds(NEIGHBORS, x="permutation") < seconds(NEIGHBORS)


def test_patterns_have_stride_classes() -> None:
    # x is one array of elements; rows of y have four elements, so that consecutive rows are a stride of four apart.
    arrays = [lp.GlobalArg("x", np.float32, shape=N), lp.GlobalArg("y", np.float32, shape=(N, 4)), ...]
    body = "out[i] = x[zones[i] + 1] + y[zones[i], 2]"
    unit = lp.make_kernel(f"{{[i]: 0 <= i < {N}}}", body, arrays, lang_version=(2018, 2))
    unit = lp.add_dtypes(unit, {"zones": np.int32, "out": np.float64})
    unit = lp.split_iname(unit, "i", GROUP, outer_tag="g.0", inner_tag="l.0")
    for pattern, of_x, of_y in (("consecutive", "1", "1/4"), ("constant", "0", "0"), ("permutation", "1/>4", "1/>4")):
        counts = lpp.count(unit, typical={"x": pattern, "y": pattern}).properties()
        for stride in {of_x, of_y}:
            loads = N * [of_x, of_y].count(stride) + 2 * N * (stride == "1")  # zones is loaded twice
            assert counts[f"global load 32-bit stride {stride}"]() == loads, (pattern, stride)


@pytest.mark.parametrize("pattern", ["random", "random in 0", "random in -3", "sorted", "5"])
def test_unknown_pattern_is_rejected(pattern: str) -> None:
    with pytest.raises(
        ParameterError, match="must be consecutive, constant, permutation, 'random in 4096' or"
    ) as found:
        lpp.estimate(gathering(NEIGHBORS), device="nvidia-v100", typical={"x": pattern})
    assert len(str(found.value)) <= 160
