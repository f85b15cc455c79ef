"""Test that the bundled measurement kernels cover every property of the paper, on small and large devices."""

from functools import cache

import numpy as np
import pytest

from loopyperf.calibration.calibrate import CountedRun, counted_runs, kernel_coverage
from loopyperf.calibration.dependence import own_parts
from loopyperf.calibration.problem import MIN_CONFIGURATIONS, Coverage, tabulate
from loopyperf.counts.item import BITS, PAPER_PROPERTIES
from loopyperf.errors import LoopyperfError
from loopyperf.measurement.environment import DeviceLimits
from tests.small_campaign import write_kernel_files

GPU = DeviceLimits(group_size=1024, local_memory=48 * 1024, global_memory=2**30, cores=80, warp_size=32)
POCL = DeviceLimits(group_size=4096, local_memory=2**21, global_memory=2**30)
SMALL = DeviceLimits(group_size=256, local_memory=2**15, global_memory=2**28, cores=64, warp_size=64)
LIMITS = {"an NVIDIA GPU": GPU, "PoCL": POCL}


@cache
def runs(device: str) -> tuple[CountedRun, ...]:
    return tuple(counted_runs(LIMITS[device]))


@pytest.mark.slow
@pytest.mark.parametrize("device", LIMITS)
def test_every_property_of_the_paper_is_in_at_least_three_kernels(device: str):
    rows = {row.name: row for row in tabulate(runs(device), PAPER_PROPERTIES)}
    assert {
        name: rows[name].configurations for name in PAPER_PROPERTIES if rows[name].configurations < MIN_CONFIGURATIONS
    } == {}


@pytest.mark.slow
@pytest.mark.parametrize("device", LIMITS)
def test_every_property_of_the_paper_is_in_kernels_of_more_than_one_class(device: str):
    # except accesses of local memory wider than 32 bits, which only one class has
    wide = {f"local {direction} {bits}-bit" for direction in ("load", "store") for bits in BITS[1:]}
    rows = {row.name: row for row in tabulate(runs(device), PAPER_PROPERTIES)}
    assert {name for name in PAPER_PROPERTIES if len(rows[name].classes) < 2} == wide


@pytest.mark.slow
def test_counts_are_linearly_independent_for_any_run_times():
    # Dividing rows by any numbers preserves linear dependencies of columns. Each row is divided by its largest count,
    # so that kernels with large counts do not dominate.
    counted = runs("an NVIDIA GPU")
    names = sorted({name for run in counted for name in run.properties})
    counts = np.array([[float(run.properties.get(name, 0)) for name in names] for run in counted])
    own = own_parts(counts / counts.max(axis=1, keepdims=True))
    assert {name for name, part in zip(names, own, strict=True) if part < 1e-6} == set()


@pytest.mark.slow
def test_counts_except_launches_vary_by_a_factor_of_100():
    rows = tabulate(runs("PoCL"), PAPER_PROPERTIES)
    assert {row.name for row in rows if row.most < 100 * row.least} == {"launches"}


def test_kernels_beyond_the_model_are_excluded(tmp_path):
    folder = write_kernel_files(tmp_path, "vectors")
    assert {row.name for row in kernel_coverage(SMALL, folder) if row.configurations} == {
        "f32 add",
        "f32 mul",
        "global load 32-bit stride 1",
        "global min(load, store) 32-bit stride 1",
        "global store 32-bit stride 1",
        "launches",
        "work-groups",
    }
    (file,) = folder.glob("*.py")
    file.write_text(file.read_text().replace("steps=3,", 'steps=3, beyond="caches" if "a[i]" in statement else "",'))
    row = next(row for row in kernel_coverage(SMALL, folder) if row.name == "global store 32-bit stride 1")
    # "fill" is the only one of the five kernels without loads
    assert row == Coverage(row.name, ("vectors",), configurations=1, least=2**14, most=2**16)


def test_ranges_are_limited_by_device_memory(tmp_path):
    folder = write_kernel_files(tmp_path, "vectors")
    # sums and products use four vectors of 2^14 to 2^16 elements of 4 bytes
    rows = kernel_coverage(DeviceLimits(256, 2**15, 4 * 4 * 2**15), folder)
    assert [(row.least, row.most) for row in rows if row.name == "f32 add"] == [(2 * 2**14, 2 * 2**15)]


def test_missing_folder_is_refused(tmp_path):
    with pytest.raises(LoopyperfError, match="is not a folder"):
        kernel_coverage(SMALL, tmp_path / "nowhere")
