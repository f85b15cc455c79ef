"""Test counts of small kernels of every construct against enumeration and hand-derived counts."""

from collections.abc import Mapping
from itertools import product

import loopy as lp
import numpy as np
import pytest

from loopyperf.counts.execution import Counting
from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.kernel import load_kernel
from tests import sample_and_all
from tests.brute_force import COUNTINGS, brute_force
from tests.counts import small_accesses, small_calls, small_loops, small_schedules, small_vectors
from tests.counts.small_kernels import SMALL_KERNELS, KernelBuilder, kernel, lanes


@sample_and_all(2)
def test_symbolic_counts_equal_enumeration(subtests: pytest.Subtests, step: int) -> None:
    for case in SMALL_KERNELS[::step]:
        with subtests.test(case=str(case)):
            kernel = load_kernel(case.build())
            properties = {counting: count_kernel(kernel, counting).properties() for counting in COUNTINGS}
            for sizes in case.sizes:
                enumerated = brute_force(kernel, sizes, case.class_sizes)
                for counting in COUNTINGS:
                    counts = properties[counting].evaluate(**sizes)
                    assert enumerated[counting] == {name: count for name, count in counts.items() if count}, (
                        counting,
                        sizes,
                    )


@sample_and_all(4)
def test_sub_group_counts_equal_enumeration(subtests: pytest.Subtests, step: int) -> None:
    for case, size in list(product(SMALL_KERNELS, [4, 32]))[::step]:
        with subtests.test(size=size, case=str(case)):
            kernel = load_kernel(case.build())
            by_counting = {counting: count_kernel(kernel, counting, sub_group_size=size) for counting in COUNTINGS}
            for sizes in case.sizes[:4]:
                enumerated = brute_force(kernel, sizes, case.class_sizes, sub_group_size=size)
                for counting in COUNTINGS:
                    counts = by_counting[counting].properties().evaluate(**sizes)
                    assert enumerated[counting] == {name: count for name, count in counts.items() if count}, (
                        counting,
                        sizes,
                    )


def test_arrays_of_sizes_equal_single_sizes(subtests: pytest.Subtests) -> None:
    for case in SMALL_KERNELS:
        with subtests.test(case=str(case)):
            properties = count_kernel(load_kernel(case.build())).properties()
            one_by_one = [properties.evaluate(**sizes) for sizes in case.sizes]
            together = properties.evaluate(**{name: np.array([s[name] for s in case.sizes]) for name in case.sizes[0]})
            for name in properties:
                assert [counts[name] for counts in one_by_one] == np.broadcast_to(
                    together[name], len(one_by_one)
                ).tolist(), name


# {{{ by hand


LOAD, STORE = "global load 32-bit stride 1", "global store 32-bit stride 1"
SHARED_LOAD, SHARED_STORE = "global load 32-bit stride 0", "global store 32-bit stride 0"
ONE_GROUP = {"launches": 1, "work-groups": 1}


def counted(build: KernelBuilder, counting: Counting = "executed", **sizes: int) -> dict[str, int]:
    """Return the nonzero properties without the minima, which follow from the others."""
    counts = count_kernel(load_kernel(build()), counting).properties().evaluate(**sizes)
    return {name: count for name, count in counts.items() if count and "min" not in name}


BY_HAND: list[tuple[KernelBuilder, Mapping[str, int], Mapping[str, int]]] = [
    # 40 = 16 + 16 + 8: three groups, and half of the last one executes.
    (small_loops.a_tiled_loop, {"n": 40}, {"f32 mul": 40, LOAD: 40, STORE: 40, "launches": 1, "work-groups": 3}),
    # Rows of 1, 2, ..., 40 entries: 40·41/2 = 820, each with a multiplication and an addition. Lanes are rows, n
    # elements apart, and access half the elements; x is the same for all lanes.
    (
        small_loops.a_triangular_loop,
        {"n": 40},
        {
            **dict.fromkeys(["f32 add", "f32 mul", SHARED_LOAD, "global load 32-bit stride 2/>4"], 820),
            STORE: 40,
            "launches": 1,
            "work-groups": 3,
        },
    ),
    # out = a*sqrt(b + 1) in vectors of 4, 10 times: the product has 4 components, the rest is scalar.
    (
        small_vectors.a_scalar_among_vectors,
        {"n": 10},
        {
            **dict.fromkeys(["f32 add", "f32 special", LOAD], 10),
            **dict.fromkeys(["global load 128-bit stride 1", "global store 128-bit stride 1"], 10),
            "f32 mul": 40,
            "launches": 1,
            "work-groups": 1,
        },
    ),
    # j takes three values from i on, but stays below 7: 3+3+3+3+3+2+1 = 18.
    (
        small_loops.a_tree_of_domains,
        {"n": 7},
        {"f32 add": 18, "f32 mul": 7, SHARED_LOAD: 18, SHARED_STORE: 7, **ONE_GROUP},
    ),
    (small_loops.nothing_to_do, {"n": 17}, {"launches": 1, "work-groups": 2}),
    # A group of 16: each lane adds its number to zero (16 additions), then 8, 4, 2 and 1 lanes add two partial sums,
    # 15 additions of two local loads each. Stores to local memory: 16 zeros, 16 numbers, 15 sums. Lane 0's sum is
    # loaded and stored. Four levels need a barrier each. For 5 groups:
    (
        small_schedules.a_reduction_over_lanes,
        {"n": 5},
        {
            "barriers": 5 * 16 * 4,
            "f32 add": 5 * (16 + 15),
            LOAD: 5 * 16,
            SHARED_STORE: 5,
            "local load 32-bit": 5 * (2 * 15 + 1),
            "local store 32-bit": 5 * (16 + 16 + 15),
            "launches": 1,
            "work-groups": 5,
        },
    ),
    (small_schedules.an_argmax, {"n": 5}, {SHARED_LOAD: 5, SHARED_STORE: 2, **ONE_GROUP}),  # no additions or calls
    # 8×8 matrices in tiles of 4×4: 4 groups, 2 steps each; a step fetches 16 of a and 16 of b and multiplies 4 times
    # per work-item. Two barriers per step: before the fetch and after it.
    (
        small_schedules.prefetched_tiles,
        {"n": 8},
        {
            "barriers": 4 * 2 * 2 * 16,
            **dict.fromkeys(["f32 add", "f32 mul"], 8**3),
            **dict.fromkeys([LOAD, "local store 32-bit"], 4 * 2 * (16 + 16)),
            "local load 32-bit": 2 * 8**3,
            STORE: 8 * 8,
            "launches": 1,
            "work-groups": 4,
        },
    ),
    # 70 points in groups of 16, then 65 in groups of 64: 5 + 2 groups.
    (
        small_schedules.two_launches,
        {"n": 70, "m": 65},
        {"f32 mul": 65, LOAD: 65, STORE: 70 + 65, "launches": 2, "work-groups": 5 + 2},
    ),
    # Three times 40 points, in groups of 16 and in groups of 32.
    (
        small_schedules.a_loop_around_launches,
        {"n": 40, "t": 3},
        {
            **dict.fromkeys(["f32 add", "f32 mul"], 3 * 40),
            **dict.fromkeys([LOAD, STORE], 2 * 3 * 40),
            "launches": 2 * 3,
            "work-groups": 3 * (3 + 2),
        },
    ),
    # 40, 39 and 38 points, each time in three groups: the grid has the size of the largest launch.
    (
        small_schedules.a_shrinking_launch,
        {"n": 40, "t": 3},
        {**dict.fromkeys(["f32 mul", LOAD, STORE], 40 + 39 + 38), "launches": 3, "work-groups": 3 * 3},
    ),
    # Of 17 points, 0..4 take the first branch; 6, 8, 10, 12 and 14, but not 16, the second.
    (
        small_loops.nested_predicates,
        {"n": 17},
        {**dict.fromkeys(["f32 mul", LOAD, STORE], 5 + 5), "launches": 1, "work-groups": 2},
    ),
    # Of 17 points, 0, 1, 2, 15 and 16 take the branch with a, and all of them but 0 multiply; 12 divide b.
    (
        small_loops.nested_choices,
        {"n": 17},
        {"f32 add": 1, "f32 div": 12, "f32 mul": 4, LOAD: 5 + 12, STORE: 17, "launches": 1, "work-groups": 2},
    ),
    # a·a of two f32 is f32; with b, which is f64, the sum is f64.
    (
        small_accesses.double_precision,
        {"n": 17},
        {
            **dict.fromkeys(["f32 mul", "f64 add", "global load 64-bit stride 1", "global store 64-bit stride 1"], 17),
            LOAD: 2 * 17,
            "launches": 1,
            "work-groups": 2,
        },
    ),
    # Integer arithmetic is free and integer accesses are not.
    (
        small_accesses.integer_arrays,
        {"n": 17},
        {
            **dict.fromkeys([LOAD, "global load 64-bit stride 1", "global store 64-bit stride 1"], 17),
            "launches": 1,
            "work-groups": 2,
        },
    ),
    # Five summands are four additions; a square is a power; exp is special. Signs and fmin are free.
    (
        small_accesses.every_operation,
        {"n": 1},
        {"f32 add": 4, "f32 div": 1, "f32 pow": 1, "f32 special": 1, LOAD: 5 + 2, STORE: 1, **ONE_GROUP},
    ),
    # x = a[i]; y = x·x; out[i] = y + x: scalar temporaries are not memory.
    (small_accesses.scalar_temporaries, {"n": 1}, {"f32 add": 1, "f32 mul": 1, LOAD: 1, STORE: 1, **ONE_GROUP}),
    # s = s + b·a[i], b an argument: s and a are loaded, s is stored.
    (
        small_accesses.arrays_without_axes,
        {"n": 5},
        {"f32 add": 5, "f32 mul": 5, SHARED_LOAD: 5 + 5, SHARED_STORE: 5, **ONE_GROUP},
    ),
]


def test_counts_equal_those_derived_by_hand(subtests: pytest.Subtests) -> None:
    for build, sizes, expected in BY_HAND:
        with subtests.test(build.__name__):
            assert counted(build, **sizes) == expected


@pytest.mark.parametrize(("n", "m", "points"), [(40, 3, 37), (3, 3, 0), (3, 5, 0)])
def test_trip_count_between_two_sizes_is_their_difference(n: int, m: int, points: int) -> None:
    counts = count_kernel(load_kernel(small_loops.a_loop_between_two_sizes())).properties()
    assert points == counts["global load 32-bit stride 1/2"](n=n, m=m)


def test_loop_in_unrolled_copies_has_their_trip_counts() -> None:
    # 2 barriers for each sum, executed by 2 work-items: n = 3 sums in the first copy, 2 in the second.
    counts = counted(small_schedules.barriers_in_copies_of_which_each_loops_less, n=3)
    assert counts["barriers"] == 2 * 2 * (3 + 2)


@pytest.mark.parametrize(("n", "m", "stores"), [(5, 7, 12), (5, 0, 0), (0, 7, 0)])
def test_loops_of_one_domain_are_empty_together(n: int, m: int, stores: int) -> None:
    counts = count_kernel(load_kernel(small_loops.two_loops_of_one_domain())).properties()
    assert stores == counts["global store 32-bit stride 0"](n=n, m=m)


@pytest.mark.parametrize(("counting", "fetchers"), [("paper", 8), ("executed", 8 * 4)])
def test_prefetch_along_one_axis_is_executed_by_all_lanes(counting: Counting, fetchers: int) -> None:
    # 16×16 points in groups of 8×4: 8 groups. The fetch uses only l.0; along l.1, four work-items load the same data.
    assert counted(small_schedules.a_prefetch_by_some_lanes, counting, n=16) == {
        "barriers": 16 * 16,
        "f32 mul": 16 * 16,
        "global load 32-bit stride 1": 8 * fetchers,
        "global store 32-bit stride 1": 16 * 16,
        "launches": 1,
        "local load 32-bit": 16 * 16,
        "local store 32-bit": 8 * fetchers,
        "work-groups": 8,
    }


@pytest.mark.parametrize(("counting", "lanes"), [("paper", 1), ("executed", 16)])
def test_value_per_group_is_computed_by_all_lanes(counting: Counting, lanes: int) -> None:
    assert counted(small_schedules.a_number_for_each_group, counting, n=7) == {
        "f32 mul": 7 * lanes,
        "global load 32-bit stride 0": 7 * lanes,
        "global store 32-bit stride 1": 7 * 16,
        "launches": 1,
        "work-groups": 7,
    }


@pytest.mark.parametrize(
    ("build", "flag", "launches"),
    [
        (small_schedules.a_launch_on_a_condition, 1, 1),
        (small_schedules.a_launch_on_a_condition, 0, 0),
        (small_schedules.a_condition_in_a_launch, 0, 1),
        (small_schedules.a_barrier_on_a_condition, 0, 1),
    ],
)
def test_only_host_conditions_skip_launches(build: KernelBuilder, flag: int, launches: int) -> None:
    assert counted(build, n=40, flag=flag).get("launches", 0) == launches


def test_alternating_launches_are_counted_once_per_step() -> None:
    # Five steps: 0, 2 and 4 in three groups of 16, 1 and 3 in two of 32.
    counts = counted(small_schedules.launches_by_turns, n=40, t=5)
    assert (counts["launches"], counts["work-groups"]) == (5, 3 * 3 + 2 * 2)


@pytest.mark.parametrize(
    ("build", "rounds"),
    [
        # Group g executes g + 1 iterations: 1+2+3+4+5.
        (small_schedules.barriers_in_a_loop_that_differs_between_groups, 15),
        # g iterations: 0+1+2+3+4.
        (small_schedules.barriers_in_a_loop_of_an_inner_domain, 10),
        # min(5, 3(g+h)+1) iterations: 1 in one group, 4 in two groups, and 5 in the other 22.
        (small_schedules.barriers_in_a_loop_that_two_group_axes_shorten_together, 1 + 2 * 4 + 22 * 5),
        # 5 iterations each in the 15 groups on and below the diagonal.
        (small_schedules.barriers_in_a_triangle_of_groups, 15 * 5),
    ],
)
def test_barriers_follow_the_trip_count_of_each_group(build: KernelBuilder, rounds: int) -> None:
    # An iteration has two barriers, one before and one after the exchange, executed by 16 work-items.
    assert 2 * 16 * rounds == counted(build, n=5)["barriers"]


def test_data_dependent_choice_between_free_branches_is_counted() -> None:
    def build() -> lp.TranslationUnit:
        return lanes(kernel("{[i]: 0<=i<n}", "out[i] = if(a[i] < 0, -1.0, 1.0)", a=np.float32))

    assert counted(build, n=17) == {
        "global load 32-bit stride 1": 17,
        "global store 32-bit stride 1": 17,
        "launches": 1,
        "work-groups": 2,
    }


@pytest.mark.parametrize(
    ("build", "name", "count"),
    [
        (small_calls.a_call_up_to_a_size, "f32 add", 20 * 17),
        (small_calls.a_call_up_to_a_loop_variable, "f32 add", 210),  # 1 + 2 + ... + 20
        (small_calls.a_call_with_a_condition, "f32 mul", 16 * 17 // 2 + 4 * 16),
        (small_calls.a_call_from_a_place, "f32 mul", 20 * 16),
        (small_calls.a_loop_up_to_a_register, "f32 add", sum(2 * (i + 20) + 2 for i in range(20))),
    ],
)
def test_computed_values_bound_loops_and_conditions(build: KernelBuilder, name: str, count: int) -> None:
    assert counted(build, n=20)[name] == count


# }}}
