"""Tests of test_kernels/rodinia/: groups of the paper, and estimates of the pipeline model."""

from functools import cache

import numpy as np
import pytest

from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files
from loopyperf.predict.estimate import estimate
from tests import sample_and_all

LIMITS = DeviceLimits(group_size=256, local_memory=2**15, global_memory=2**30)
FILES = {file.name: file for file in load_kernel_files(bundled_folder("test_kernels/rodinia"))}
WARPS = {
    "Fan2": 2,
    "nw_kernel1": 1,
    "kmeans_kernel_c": 8,
    "kmeans_swap": 2,
    "lud_perimeter": 1,
    "lud_internal": 8,
    "hotspot": 8,
    "opt_srad1": 8,
    "opt_srad2": 8,
    "bpnn_layerforward_ocl": 8,
    "bpnn_adjust_weights_ocl": 8,
    "compute_step_factor": 6,
    "time_step": 6,
    "compute_flux": 6,
}
"""warps of a group: the smallest occupancies of Lemeire et al., table 9"""
GPU = "nvidia-rtx-2070"
"""the only one of the three GPUs of Lemeire et al. for which all latencies are published"""


@cache
def form(name: str):
    (only,) = FILES[name].configurations(LIMITS)
    return only


def test_the_kernels_are_those_of_the_table():
    assert FILES.keys() == WARPS.keys()


def test_a_group_has_as_many_warps_as_in_the_table(subtests: pytest.Subtests):
    for name in WARPS:
        with subtests.test(name=name):
            extents = form(name).label.removeprefix("group ").split("x")
            assert -(-np.prod([int(extent) for extent in extents]) // 32) == WARPS[name]


@sample_and_all(3)
def test_pipeline_estimates_are_longest_for_the_largest_size(subtests: pytest.Subtests, step: int):
    for name in list(WARPS)[::step]:
        with subtests.test(name=name):
            unit, sizes = form(name).build(), form(name).sizes
            least, most = (
                estimate(unit, model="pipeline", device=GPU, parameters=sizes[place]).seconds for place in (0, -1)
            )
            assert 0 < least < most
