"""How long the graphs of measured titan-v kernels take to build, as a ratio to Loopy's passes on the same kernels.

One call each, in processor time, after a first kernel that is not counted. Loopy's part is all of ``load_kernel``:
preprocessing, linearization, launches. Collections of garbage that Loopy's objects would cause are kept out of ours.

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
from loopyperf.memory.source_launch import source_profile


def times(row: Row) -> tuple[float, float]:
    """Return the milliseconds of Loopy's passes, and of the graphs."""
    unit = pickle.loads(row["kernel"])
    begin = process_time()
    kernel = load_kernel(unit)
    loaded = process_time()
    gc.collect()
    gc.freeze()
    ready = process_time()
    source_profile(kernel, row["sizes"], Typical({}))
    end = process_time()
    gc.unfreeze()
    return 1e3 * (loaded - begin), 1e3 * (end - ready)


def main() -> None:
    """Print percentiles of both, and the ratio of the medians."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--every", type=int, default=20, help="only each of them that comes every so many")
    asked = parser.parse_args()
    _, *found = map(times, measured_kernels()[:: asked.every])
    for name, part in zip(("Loopy's passes", "the graphs"), np.array(found).T, strict=True):
        median, most, nearly_all = np.percentile(part, [50, 75, 90])
        print(f"{name:16} median {median:6.1f} ms, p75 {most:6.1f}, p90 {nearly_all:6.1f}")
    loopy, ours = np.median(found, axis=0)
    print(f"ratio of the medians {ours / loopy:.2f}, of {len(found)} kernels")


if __name__ == "__main__":
    main()
