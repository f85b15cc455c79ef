"""Measured latencies and bandwidths of the catalog against a second reading of the tables that they are from."""

import re

import pytest

from loopyperf.device.device_files import load_description
from loopyperf.device.device_library import BUNDLED

DEVICES = {path.stem: load_description(path) for path in sorted(BUNDLED.glob("*.toml"))}

CHASED = """
                  L0    L1     L2     L3     DRAM
amd-rx-6900-xt    72.9  -      219.9  422.3  -
nvidia-a40        -     33.3   250.4  -      554.6
nvidia-rtx-3090   -     33.3   250.4  -      -
nvidia-a100       -     33.2   205.3  -      549.5
nvidia-a100-40    -     33.2   205.3  -      573
nvidia-v100       -     28.0   212.1  -      432.1
nvidia-h100       -     32.3   280.1  -      678.6
nvidia-h200       -     32.3   280.1  -      678.6
amd-mi210         -     128    248    -      -
amd-mi300x        -     120    213.4  456.6  883.9
amd-mi100         -     134.2  266.1  -      634.9
amd-mi300a        -     119.0  212.4  448.3  818.9
nvidia-gh200      -     32.3   280.3  -      687.4
nvidia-l40        -     34.3   273.4  -      623.9
nvidia-rtx-a4000  -     33.3   -      -      -
nvidia-rtx-a6000  -     33.3   250.4  -      554.6
"""
"""cycles of a pointer chase, read a second time and at other sizes than what the catalog cites"""

READ = """
                  L0     L1       L2       L3      DRAM
amd-rx-6900-xt    13146  -        4645.1   1953.1  453.1
nvidia-a40        -      9352     2434.1   -       679
nvidia-a100       -      19119.9  5434.7   -       1732.3
nvidia-a100-40    -      -        5434.7   -       1372
nvidia-v100       -      13873.4  2452.1   -       869
nvidia-h100-pcie  -      25204.7  6862.5   -       1973.1
nvidia-h200       -      -        9675     -       3888.2
nvidia-h100       -      -        9675     -       -
nvidia-rtx-3090   -      -        -        -       818.2
amd-mi210         -      10615.8  5064.1   -       1253.3
amd-mi300x        -      38824.5  27705.5  5797.8  4073
amd-mi100         -      -        2716.9   -       854.2
nvidia-l40        -      22620.1  5711.2   -       845
"""
"""GB/s of data sets that fit into the level, read a second time"""


def measured(table: str) -> list[tuple[str, str, float]]:
    levels, *rows = (line.split() for line in table.strip().splitlines())
    return [
        (slug, level, float(cell))
        for slug, *cells in rows
        for level, cell in zip(levels, cells, strict=True)
        if cell != "-"
    ]


def test_latencies_are_those_of_the_pointer_chase(subtests: pytest.Subtests):
    for slug, level, cycles in measured(CHASED):
        with subtests.test(slug=slug, level=level, cycles=cycles):
            # the levels have no sharp borders: 2 % between one size and the next
            assert DEVICES[slug].level(level).latency == pytest.approx(cycles, rel=0.02)


def test_bandwidths_are_those_of_the_measured_plateaus(subtests: pytest.Subtests):
    for slug, level, bandwidth in measured(READ):
        with subtests.test(slug=slug, level=level, bandwidth=bandwidth):
            # digits after the point are left out of the catalog
            assert DEVICES[slug].level(level).sustained_bandwidth == pytest.approx(bandwidth * 1e9, abs=1e9)


def test_a_core_takes_no_more_from_its_cache_than_it_can(subtests: pytest.Subtests):
    for name, device in DEVICES.items():
        with subtests.test(name=name):
            for level in device.memory:
                if level.per == "core" and level.sustained_bandwidth and level.bandwidth_per_core:
                    # measured with loads of 32 bits on devices of NVIDIA, one for each load/store unit
                    most = min(level.bandwidth_per_core, 4 * (device.load_store_units or 32))
                    assert 0.9 < level.sustained_bandwidth / (device.cores * device.clock * most) <= 1


def test_no_bandwidth_is_from_the_kernels_that_models_are_tested_with(subtests: pytest.Subtests):
    """The bandwidth of streaming kernels against occupancy is what a model has to predict.

    How long it takes to begin a group is known from the one that only stores, at its lowest occupancy.
    """
    for name, device in DEVICES.items():
        with subtests.test(name=name):
            for part in device.parts:
                for name, quantity in part.sources:
                    assert name == "group_start" or not re.search("gpu-stream|triad", quantity.source), name


def test_what_begins_a_group_is_from_the_kernel_that_only_stores(subtests: pytest.Subtests):
    for name, device in DEVICES.items():
        with subtests.test(name=name):
            stated = device.source("group_start")
            assert stated is None or "gpu-stream, init" in stated.source
