"""Launches each test kernel a few times on the first GPU, for a profiler that counts what a launch does.

    ncu --csv --metrics dram__sectors_read.sum,... python3 benchmarks/counted_kernels.py > counters.csv

Each line on standard error names a kernel, its sizes, and the entry point that the profiler lists.
"""

import sys

from loopyperf.errors import LoopyperfError
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.backends.interface import BenchmarkCase
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files


def main() -> None:
    """Launch a moderate size of each configuration of the bundled test kernels."""
    backend = open_backend("cuda")
    for file in load_kernel_files(bundled_folder("test_kernels")):
        for form in file.configurations(backend.limits):
            sizes = form.sizes[len(form.sizes) // 3]
            try:
                backend.time(BenchmarkCase(file.name, form, sizes), 1)
                print(file.name, form.label, sizes, form.build().default_entrypoint.name, file=sys.stderr, flush=True)
            except LoopyperfError as error:
                print(file.name, form.label, f"{error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
