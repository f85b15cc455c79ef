"""All configurations of the bundled kernels and of the ranking sets, for the limits of a large GPU."""

import re
from pathlib import Path

from loopyperf.measurement.campaign import plan
from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files

LIMITS = DeviceLimits(
    group_size=1024,
    local_memory=48 * 1024,
    global_memory=20 * 2**30,
    cores=132,
    warp_size=32,
    clock=1.98e9,
    memory=80 * 2**30,
    cache=50 * 2**20,
)
"""of an H100, as the CUDA backend reports them"""
FOLDERS = (
    "measurement_kernels",
    "measurement_kernels/microbenchmarks",
    "test_kernels",
    "test_kernels/optimization_steps",
    "test_kernels/rodinia",
)
RANKING_SETS = Path(__file__).parents[3] / "benchmarks" / "ranking_sets"
PLANNED = {
    f"{folder.name}: {name}, {form.label}": (name, form)
    for folder in (*map(bundled_folder, FOLDERS), RANKING_SETS)
    for name, form in plan(load_kernel_files(folder), LIMITS)
}


def one_of_each_kind() -> list[str]:
    """Return one label for each set of labels that differ only in numbers."""
    kinds: dict[str, str] = {}
    for label in sorted(PLANNED):
        kinds.setdefault(re.sub(r"\d+", "", label), label)
    return list(kinds.values())
