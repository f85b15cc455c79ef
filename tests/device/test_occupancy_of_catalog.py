"""Occupancies of groups of all sizes on each device of the catalog: monotonic, and within the limits of a core."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from loopyperf.device.description import Device
from loopyperf.device.device_files import load_description
from loopyperf.device.device_library import BUNDLED
from loopyperf.device.occupancy import Occupancy, occupancy
from loopyperf.device.substitutes import completed, lacking
from loopyperf.errors import OccupancyError
from loopyperf.testing.device_laws import largest_group
from tests import sample_and_all

SHARES = (0.0, 0.1, 0.3, 0.5, 1.0)
"""shares of a group's maximum resources"""
DEVICES = [load_description(path) for path in sorted(BUNDLED.glob("*.toml"))]
Group = tuple[int, int, int]


def resident(device: Device) -> Iterator[tuple[Group, Occupancy | None]]:
    """Yield groups of all sizes with their occupancies, None where a group does not fit."""
    for shares in product(SHARES, repeat=3):
        work_items, registers, local_memory = map(round, np.multiply(shares, largest_group(device)))
        group = max(1, work_items), registers, local_memory
        try:
            yield group, occupancy(device, *group)
        except OccupancyError:
            yield group, None


@sample_and_all(4)
def test_resident_groups_fit_and_larger_groups_have_no_higher_occupancy(subtests: pytest.Subtests, step: int) -> None:
    for device in [each for each in DEVICES if not lacking(each)][::step]:
        with subtests.test(device=device.slug):
            check_resident_groups(completed(device))


def check_resident_groups(device: Device) -> None:
    limits, groups = device.limits, dict(resident(device))
    for (work_items, registers, local_memory), found in groups.items():
        if found is not None:
            assert found.warps <= limits.needed("warps")
            assert found.groups * work_items * registers <= limits.needed("registers")
            assert found.groups * local_memory <= limits.needed("local_memory")
            assert found.bound_by
            assert found.share == found.warps / limits.needed("warps")
    for (less, one), (more, other) in product(groups.items(), repeat=2):
        if all(a <= b for a, b in zip(less, more, strict=True)) and other is not None:
            assert one is not None
            assert other.groups <= one.groups
