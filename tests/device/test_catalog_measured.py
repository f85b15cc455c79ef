"""Measured latencies and bandwidths of the catalog, compared with values transcribed independently from the sources."""

import re

import pytest

from loopyperf.device.device_files import load_description
from loopyperf.device.device_library import BUNDLED

DEVICES = {path.stem: load_description(path) for path in sorted(BUNDLED.glob("*.toml"))}

POINTER_CHASE = """
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
"""cycles of a pointer chase, transcribed again, at other sizes than the catalog cites"""

PLATEAUS = """
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
"""GB/s of data sets that fit into the level, transcribed again"""


def measured(table: str) -> list[tuple[str, str, float]]:
    levels, *rows = (line.split() for line in table.strip().splitlines())
    return [
        (slug, level, float(cell))
        for slug, *cells in rows
        for level, cell in zip(levels, cells, strict=True)
        if cell != "-"
    ]


def test_latencies_equal_the_pointer_chase(subtests: pytest.Subtests):
    for slug, level, cycles in measured(POINTER_CHASE):
        with subtests.test(slug=slug, level=level, cycles=cycles):
            # transitions between levels are gradual: 2 % from one size to the next
            assert DEVICES[slug].level(level).latency == pytest.approx(cycles, rel=0.02)


def test_bandwidths_equal_the_measured_plateaus(subtests: pytest.Subtests):
    for slug, level, bandwidth in measured(PLATEAUS):
        with subtests.test(slug=slug, level=level, bandwidth=bandwidth):
            # the catalog omits decimals
            assert DEVICES[slug].level(level).sustained_bandwidth == pytest.approx(bandwidth * 1e9, abs=1e9)


def test_measured_cache_bandwidth_does_not_exceed_the_peak(subtests: pytest.Subtests):
    for name, device in DEVICES.items():
        with subtests.test(name=name):
            for level in device.memory:
                if level.per == "core" and level.sustained_bandwidth and level.bandwidth_per_core:
                    # measured with 32-bit loads on NVIDIA devices, one per load/store unit
                    peak = min(level.bandwidth_per_core, 4 * (device.load_store_units or 32))
                    assert 0.9 < level.sustained_bandwidth / (device.cores * device.clock * peak) <= 1


def test_no_parameter_is_taken_from_test_kernels(subtests: pytest.Subtests):
    """Models have to predict the bandwidth of streaming kernels at each occupancy, so no parameter may come from them.

    Only the start of a group is measured with them, with the kernel that only stores, at its lowest occupancy.
    """
    for name, device in DEVICES.items():
        with subtests.test(name=name):
            for part in device.parts:
                for name, quantity in part.sources:
                    # Only these kernels have published bandwidths by the share of stores (docs/accuracy/streams.md).
                    is_by_mix = name in ("read_bandwidth", "copy_bandwidth", "write_bandwidth")
                    is_of_tests = re.search("gpu-stream|triad", quantity.source)
                    assert name == "group_start" or is_by_mix or not is_of_tests, name


def test_group_start_is_measured_with_the_init_kernel(subtests: pytest.Subtests):
    for name, device in DEVICES.items():
        with subtests.test(name=name):
            group_start = device.source("group_start")
            assert group_start is None or "gpu-stream, init" in group_start.source
