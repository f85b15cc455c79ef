"""Tune the 217 matrix multiplications of ``ranking.py`` on the local OpenCL device, against measurements of all.

FILE holds the measurements that ``ranking.py FILE`` made of all variants. The script tunes with a fit of the device
(``loopyperf calibrate``) and prints the number of measurements, the measured time of the found variant over the least
in FILE, and the time of tuning over that of building and measuring all:

    POCL_MAX_PTHREAD_COUNT=1 PYTHONPATH=benchmarks .venv/bin/python -m tuning.on_pocl FILE [--n 256] [--state STATE] \
        [--workers 2]
"""

import argparse
import time
from pathlib import Path

import loopy as lp
from ranking import BLOCKS, DEPTHS, GROUPS, TILES, records
from ranking_sets.matrix_multiplication import Form, matrix_multiplication

import loopyperf as lpp
from loopyperf.executors import Processes

SPACE = {"group": GROUPS, "block": BLOCKS, "depth": DEPTHS, "tiles": TILES}
RESTRICTIONS = (
    "group[0]*block[0] <= 128",
    "group[1]*block[1] <= 128",
    f"tiles or depth == {DEPTHS[0]}",  # without tiles, the depth has no effect
)


def form(group: tuple[int, int], block: tuple[int, int], depth: int, tiles: str) -> Form:
    """Return the variant of a point of the space."""
    return Form(*group, depth, *block, tiles)


def build(**choice: object) -> lp.TranslationUnit:
    """Return the kernel of a point of the space."""
    return matrix_multiplication(form(**choice))


def main() -> None:
    """Tune once, and print the comparison."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("file", type=Path, help="measurements of all variants, by ranking.py")
    parser.add_argument("--n", type=int, default=256, help="size of the matrices")
    parser.add_argument("--state", type=Path, help="archive of the tuning")
    parser.add_argument("--budget", type=int, help="largest number of measurements")
    parser.add_argument("--workers", type=int, default=1, help="processes that predict variants")
    options = parser.parse_args()
    found = {each["name"]: each for each in records(options.file) if each["n"] == options.n and each["seconds"]}
    begin = time.perf_counter()
    with lp.CacheMode(False):
        tuned = lpp.tune(
            build, SPACE, restrictions=RESTRICTIONS, backend="opencl", n=options.n, budget=options.budget,
            state=options.state, executor=Processes(options.workers) if options.workers > 1 else None,
        )  # fmt: skip
    took = time.perf_counter() - begin
    print(tuned)
    recorded = found[form(**tuned.choice).label]["seconds"]
    least = min(each["seconds"] for each in found.values())
    all_took = sum(each["took"] for each in found.values())
    print(
        f"{len(tuned.trail)} measurements; the variant takes {recorded / least:.3f} of the least recorded time; "
        f"{took:.0f} s, {took / all_took:.3f} of the {all_took:.0f} s of all {len(found)} variants"
    )


if __name__ == "__main__":
    main()
