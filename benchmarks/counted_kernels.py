"""Launch each test kernel and each variant of the ranking sets once on the first GPU, for a profiler.

    ncu --csv --page raw --clock-control none --profile-from-start off --log-file counters.csv \
        --metrics dram__sectors_read.sum,... python3 benchmarks/counted_kernels.py [launched.jsonl]

The script enables profiling only for these launches. It writes a line of JSON for each kernel: its class, label and
sizes, the launches in the order of the profiler's rows, and the registers and bytes of private memory of each function.
"""

import ctypes
import json
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from parts.corpus import Member, own_members

from loopyperf.errors import LoopyperfError
from loopyperf.measurement.backends.cuda import CudaProgram
from loopyperf.measurement.environment import Configuration


def launch_once(cupy: Any, member: Member, configuration: Configuration) -> Mapping[str, Any]:
    """Launch *member* with profiling enabled; return a record of its launches."""
    program = CudaProgram(configuration.build())
    module = cupy.RawModule(code=program.source, options=program.options)
    arguments = configuration.arguments(np.random.default_rng(0), member.sizes)
    on_device = {name: cupy.asarray(each) if isinstance(each, np.ndarray) else each for name, each in arguments.items()}
    launches = program.launches(on_device, lambda nbytes: cupy.zeros(nbytes, np.uint8))
    functions = {each.function: module.get_function(each.function) for each in launches}
    cupy.cuda.runtime.deviceSynchronize()
    driver = ctypes.CDLL("libcuda.so.1")
    driver.cuProfilerStart()
    for each in launches:
        functions[each.function](each.grid, each.group, each.arguments)
    cupy.cuda.runtime.deviceSynchronize()
    driver.cuProfilerStop()
    return {
        "kernel_class": member.kernel_class,
        "label": member.label,
        "sizes": dict(member.sizes),
        "launches": [(each.function, each.grid, each.group) for each in launches],
        "functions": {name: (each.num_regs, each.local_size_bytes) for name, each in functions.items()},
    }


def launch_all(file: TextIO) -> None:
    """Launch all kernels in order, write the record of each to *file*, and print those that fail."""
    cupy = import_module("cupy")
    for member, configuration in own_members():
        try:
            file.write(json.dumps(launch_once(cupy, member, configuration)) + "\n")
        except (LoopyperfError, RuntimeError) as error:
            print(f"{member}: {error}", file=sys.stderr, flush=True)
        cupy.get_default_memory_pool().free_all_blocks()


def main() -> None:
    """Launch all kernels, and write the records to a file or to standard output."""
    if len(sys.argv) == 1:
        launch_all(sys.stdout)
        return
    with Path(sys.argv[1]).open("w", encoding="utf-8") as file:
        launch_all(file)


if __name__ == "__main__":
    main()
