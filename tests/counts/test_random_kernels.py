"""Test symbolic counts of random kernels against enumeration, at every small size and for both countings.

The quick test uses the same kernels in each run. To test more kernels, and others, in two processes::

    LOOPYPERF_RANDOM_KERNELS=20000 LOOPYPERF_RANDOM_SEED=$(date +%s) \\
        .venv/bin/python -m pytest -n 2 -m "slow or not slow" tests/counts/test_random_kernels.py

The seed identifies a batch; the same seed generates the same kernels.
"""

import os
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, Phase, event, given, note, reject, seed, settings

from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.counts.loops import leaning_loops
from loopyperf.counts.property_vector import PropertyVector
from loopyperf.errors import KernelError, UncountableError
from loopyperf.kernel import Kernel, load_kernel
from tests.brute_force import COUNTINGS, brute_force_at_all
from tests.counts_with_share import settled
from tests.random_kernels import RandomKernel, random_kernels
from tests.stride_classes import UNSEEN

pytestmark = pytest.mark.usefixtures("fresh_kernels")

Counts = dict[str, int]

BATCH = 125
KERNELS = int(os.environ.get("LOOPYPERF_RANDOM_KERNELS", 4 * BATCH))
FIRST_SEED = int(os.environ.get("LOOPYPERF_RANDOM_SEED", 1))
SEEDS = range(FIRST_SEED, FIRST_SEED + -(-KERNELS // BATCH))
QUICK = 40
"""number of kernels of the quick test"""

SUB_GROUP_SIZES = (4, 32)
"""alternating sub-group sizes of every second kernel; 4 because most groups are small"""
SOME = 5
"""step through the sizes at which sub-groups are compared"""

FREQUENT = {
    "split": 0.3,
    "l.0": 0.3,
    "g.0": 0.3,
    "constant loop": 0.2,
    "guarded": 0.2,
    "strided access": 0.2,
    "tree of domains": 0.1,
    "reduction": 0.1,
    "choice": 0.1,
    "else": 0.1,
    "diagonal access": 0.1,
    "temporary": 0.1,
    "uneven access": 0.1,
}
"""feature -> minimum share of the kernels in a batch that have it"""
PRESENT = (
    *("triangle loop", "band loop", "strided loop", "skewed loop", "checkerboard loop", "divided loop"),
    *("l.1", "g.1", "unr", "ilp", "slabs", "nested tiles", "assumed remainder"),
    *("stencil access", "members access", "transposed access", "reversed access", "fixed access"),
    *("prefetch", "exchange", "accumulate", "nested if", "parallel reduction", "launches", "barriers"),
    "condition on data",
)
"""rarer features"""
ABSENT = 2
"""number of rarer features that may be missing from a batch"""


class Census:
    """The numbers of compared and discarded kernels, and of features of the compared ones."""

    def __init__(self) -> None:
        self.kernels, self.discarded = 0, 0
        self.features: Counter[str] = Counter()

    def record(self, features: frozenset[str]) -> None:
        """Record the features of a compared kernel."""
        self.kernels += 1
        self.features.update(features)
        for feature in features:
            event(feature)


@pytest.mark.parametrize(
    ("first", "number"), [(FIRST_SEED, QUICK), *(pytest.param(each, BATCH, marks=pytest.mark.slow) for each in SEEDS)]
)
def test_symbolic_counts_equal_enumeration(first: int, number: int) -> None:
    census = Census()

    @seed(first)
    @settings(
        max_examples=number,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(random_kernels())
    def compared(description: RandomKernel) -> None:
        note(repr(description))
        kernel = _loaded(description, census)
        _compare(description, kernel)
        turn, is_second = divmod(census.kernels, 2)
        if is_second and description.share is None:
            _compare_sub_groups(description, kernel, SUB_GROUP_SIZES[turn % 2])
        barriers = {"barriers"} if any(launch.barriers for launch in kernel.launches) else set()
        census.record(description.features | barriers)

    compared()
    assert census.discarded < 0.2 * census.kernels
    if number < BATCH:
        return  # too few for all features
    shares = {feature: census.features[feature] / census.kernels for feature in FREQUENT}
    assert {feature: share for feature, share in shares.items() if share < FREQUENT[feature]} == {}
    assert len([feature for feature in PRESENT if not census.features[feature]]) <= ABSENT


def _loaded(description: RandomKernel, census: Census) -> Kernel:
    """Return the loaded kernel; reject the example if Loopy cannot transform or schedule it."""
    try:
        unit = description.build()
    except Exception as error:  # transformations also raise exceptions of isl, pymbolic and Python
        event(f"Loopy cannot transform it: {type(error).__name__}")
    else:
        try:
            return load_kernel(unit)
        except KernelError:
            event("Loopy cannot schedule it")
    census.discarded += 1
    return reject()


def _compare(description: RandomKernel, kernel: Kernel, sub_group_size: int | None = None) -> None:
    """Compare the counts of *kernel* at every small size, or those of its sub-groups at some of them."""
    share = description.share
    properties = {
        counting: (
            count_kernel(kernel, counting, sub_group_size=sub_group_size)
            if share is None
            else settled(kernel, counting, share)
        ).properties()
        for counting in COUNTINGS
    }
    compared = description.sizes if sub_group_size is None else description.sizes[::SOME]
    enumerated = brute_force_at_all(kernel, compared, description.class_sizes, sub_group_size, share)
    for sizes, expected in zip(compared, enumerated, strict=True):
        for counting in COUNTINGS:
            left, right = expected[counting], _counted(properties[counting], sizes)
            if any(UNSEEN in name for name in left):
                # Each class is rounded separately, so their sums may differ if conditions have a typical share.
                merged = _without_classes if share is None else _without_accesses
                left, right = merged(left), merged(right)
            assert left == right, (counting, dict(sizes), sub_group_size)


def _starts_from_lanes(kernel: Kernel) -> bool:
    """Return whether a loop starts from another value in each lane."""
    inames = [(launch, frozenset(insn.within_inames)) for launch in kernel.launches for insn in launch.instructions]
    return any(leaning_loops(kernel, launch, kernel.domain(each)) for launch, each in inames)


def _compare_sub_groups(description: RandomKernel, kernel: Kernel, size: int) -> None:
    if size < max(SUB_GROUP_SIZES) and _starts_from_lanes(kernel):
        return  # counting the iterations of many sub-groups in a group takes long
    try:
        _compare(description, kernel, size)
    except UncountableError:
        event("the numbers of work-items depend on a size")


def _counted(properties: PropertyVector, sizes: Mapping[str, int]) -> Counts:
    return {name: int(count) for name, count in properties.evaluate(**sizes).items() if count}


def _without_classes(counts: Counts) -> Counts:
    """Return *counts* with accesses summed over stride classes, for when enumeration cannot determine a class."""
    total: Counter[str] = Counter()
    for name, count in counts.items():
        total[name.partition(" stride ")[0]] += 0 if "min(" in name else count
    return {name: count for name, count in total.items() if count}


def _without_accesses(counts: Counts) -> Counts:
    return {name: count for name, count in counts.items() if not name.startswith("global ")}
