"""Test that the bundled measurement kernels exercise every property of the paper, on small and large devices."""

from collections import defaultdict
from functools import cache

import numpy as np
import pytest

from loopyperf.calibration.overlap_fit import own_parts
from loopyperf.counts.item import BITS, PAPER_PROPERTIES
from loopyperf.measurement.arguments import allocated_bytes
from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.kernel_files import configurations_of, measurement_kernels
from loopyperf.stages.counting import count

GPU = DeviceLimits(group_size=1024, local_memory=48 * 1024, global_memory=2**30, cores=80, warp_size=32)
POCL = DeviceLimits(group_size=4096, local_memory=2**21, global_memory=2**30)
LIMITS = {"an NVIDIA GPU": GPU, "PoCL": POCL}

pytestmark = pytest.mark.slow


@cache
def runs(device: str) -> tuple[tuple[str, str, dict[str, int]], ...]:
    """Return the kernel class, label and counts of all configurations of the linear model at each size that fits."""
    found: list[tuple[str, str, dict[str, int]]] = []
    for file in measurement_kernels():
        for each in configurations_of(file, LIMITS[device]):
            unit = each.build()
            totals = count(unit).properties().totals
            for sizes in (sizes for schedule in each.ladders for sizes in schedule if not each.beyond):
                if allocated_bytes(unit.default_entrypoint, sizes) <= LIMITS[device].global_memory:
                    counts = dict(zip(totals.keys, totals.evaluator.at(sizes), strict=True))
                    found.append((file.name, each.label, counts))
    return tuple(found)


@pytest.mark.parametrize("device", LIMITS)
def test_every_property_of_the_paper_is_in_three_kernels_of_two_classes(device: str):
    kernels: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for kernel_class, label, counts in runs(device):
        for name in (name for name, number in counts.items() if number):
            kernels[name].add((kernel_class, label))
    assert {name for name in PAPER_PROPERTIES if len(kernels[name]) < 3} == set()
    # except accesses of local memory wider than 32 bits, which only one class has
    wide = {f"local {direction} {bits}-bit" for direction in ("load", "store") for bits in BITS[1:]}
    assert {name for name in PAPER_PROPERTIES if len({each for each, _ in kernels[name]}) < 2} == wide


def test_counts_are_linearly_independent_for_any_run_times():
    # Dividing rows by any numbers preserves linear dependencies of columns. Each row is divided by its largest count,
    # so that kernels with large counts do not dominate.
    counted = [counts for *_, counts in runs("an NVIDIA GPU")]
    names = sorted({name for counts in counted for name in counts})
    table = np.array([[float(counts.get(name, 0)) for name in names] for counts in counted])
    table /= table.max(axis=1, keepdims=True)
    own = own_parts(np.linalg.qr(table / np.linalg.norm(table, axis=0), mode="r"))
    assert {name for name, part in zip(names, own, strict=True) if part < 1e-6} == set()


def test_counts_except_launches_vary_by_a_factor_of_100():
    counted = [counts for *_, counts in runs("PoCL")]
    numbers = {name: [counts[name] for counts in counted if counts.get(name)] for name in PAPER_PROPERTIES}
    assert {name for name, some in numbers.items() if max(some) < 100 * min(some)} == {"launches"}
