"""All configurations of the bundled kernels, as a large GPU has them."""

from loopyperf.measurement.campaign import plan
from loopyperf.measurement.configuration import Limits
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files

LIMITS = Limits(
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
PLANNED = {
    f"{folder}: {name}, {form.label}": (name, form)
    for folder in FOLDERS
    for name, form in plan(load_kernel_files(bundled_folder(folder)), LIMITS)
}
