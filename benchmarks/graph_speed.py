"""Measure how long building the graphs of TITAN V kernels takes, relative to Loopy's passes on the same kernels.

Each kernel is timed once, in CPU time, after a warm-up kernel. Loopy's time is that of ``load_kernel``: preprocessing,
linearization and launches. Loopy's objects are frozen before the graphs are built, so that their garbage collection
does not count in our time.

    LOOPYPERF_SHARED_DATA=../shared/data LOOPY_NO_CACHE=1 .venv/bin/python benchmarks/graph_speed.py [--every N]
"""

import argparse
import gc
import pickle
from time import process_time

import numpy as np
from parts.titan_v import Row, measured_kernels

from loopyperf.counts.sizes import Typical
from loopyperf.kernel import load_kernel
from loopyperf.memory.source_launch import KernelStructure


def times(row: Row) -> tuple[float, float]:
    """Return the times of Loopy's passes and of the graphs, in milliseconds."""
    unit = pickle.loads(row["kernel"])
    begin = process_time()
    kernel = load_kernel(unit)
    loaded = process_time()
    gc.collect()
    gc.freeze()
    ready = process_time()
    KernelStructure(kernel, Typical({})).profile(row["sizes"])
    end = process_time()
    gc.unfreeze()
    return 1e3 * (loaded - begin), 1e3 * (end - ready)


def main() -> None:
    """Print percentiles of both times, and the ratio of the medians."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--every", type=int, default=20, help="use only every N-th kernel")
    options = parser.parse_args()
    _, *found = map(times, measured_kernels()[:: options.every])
    for name, part in zip(("Loopy's passes", "graphs"), np.array(found).T, strict=True):
        median, p75, p90 = np.percentile(part, [50, 75, 90])
        print(f"{name:16} median {median:6.1f} ms, p75 {p75:6.1f}, p90 {p90:6.1f}")
    loopy, ours = np.median(found, axis=0)
    print(f"ratio of the medians {ours / loopy:.2f}, {len(found)} kernels")


if __name__ == "__main__":
    main()
