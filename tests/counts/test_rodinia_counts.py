"""Test symbolic counts of the kernels of test_kernels/rodinia/ against enumeration, with small groups and sizes."""

from fractions import Fraction
from typing import Any

import pytest

from loopyperf.counts.counted_kernel import count_properties
from loopyperf.kernel import load_kernel
from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files
from tests.brute_force import COUNTINGS, brute_force

LIMITS = DeviceLimits(group_size=256, local_memory=2**16, global_memory=2**30)
FILES = {file.name: file for file in load_kernel_files(bundled_folder("test_kernels/rodinia"))}
SMALL: dict[str, tuple[Any, dict[str, int]]] = {
    "Fan2": ((4, 2), {"n": 13, "t": 2}),
    "kmeans_kernel_c": (8, {"n": 16, "k": 3, "f": 5}),
    "kmeans_swap": (8, {"n": 16, "f": 5}),
    "lud_perimeter": (4, {"n": 16, "t": 1}),
    "lud_internal": (4, {"n": 16, "t": 1}),
    "hotspot": ((4, 2), {"n": 8, "m": 3}),
    "opt_srad1": (8, {"n": 16}),
    "opt_srad2": (8, {"n": 16}),
    "bpnn_layerforward_ocl": (4, {"n": 8}),
    "bpnn_adjust_weights_ocl": (4, {"n": 8}),
    "compute_step_factor": (8, {"n": 16}),
    "time_step": (8, {"n": 16}),
}
"""kernel -> group shape and sizes"""
HALF = Fraction(1, 2)
"""probability of conditions on data: those of k-means select values, and no count depends on it"""


def test_all_kernels_but_two_are_compared():
    # Enumeration does not support indirect accesses (compute_flux); nw_kernel1 has other strides in small tiles.
    assert FILES.keys() - SMALL.keys() == {"nw_kernel1", "compute_flux"}


def test_symbolic_counts_equal_enumeration(subtests: pytest.Subtests) -> None:
    for name in SMALL:
        with subtests.test(name=name):
            group, sizes = SMALL[name]
            (configuration,) = FILES[name].configurations(LIMITS, group)
            kernel = load_kernel(configuration.build())
            enumerated = brute_force(kernel, sizes, share=HALF)
            for counting in COUNTINGS:
                counts = count_properties(kernel, counting).properties().evaluate(**sizes)
                assert enumerated[counting] == {name: count for name, count in counts.items() if count}
