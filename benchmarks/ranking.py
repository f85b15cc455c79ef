"""Evaluate the ranking of two hundred matrix multiplications against measurements of all of them.

The script measures all variants once on the local OpenCL device, and appends a line of JSON for each to FILE; it skips
variants that FILE already contains. It then ranks them by the fit of the device (or by ``--fit``), with all caches off.
It prints the rank correlation; the measured times, relative to the fastest variant, of the variant that is predicted to
be fastest, and of the best of the first eight; and the time of ranking relative to that of compiling and measuring all
variants.

    POCL_MAX_PTHREAD_COUNT=1 .venv/bin/python benchmarks/ranking.py FILE [--n 256] [--fit FIT] [--model MODEL] \
        [--workers 1]
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import loopy as lp
import numpy as np
import parts  # noqa: F401 - turns the cache off
from ranking_sets.matrix_multiplication import Form, matrix_multiplication
from rich.console import Console
from rich.table import Table

import loopyperf as lpp
from loopyperf.calibration.accuracy import median_log_error, regret, spearman
from loopyperf.measurement.backends import open_backend

GROUPS = ((8, 8), (16, 8), (8, 16), (16, 16), (32, 8), (8, 32), (64, 4), (32, 16))
BLOCKS = ((1, 1), (2, 2), (4, 1), (1, 4))
DEPTHS = (8, 16)
TILES = ("", "a", "b", "ab")


def forms() -> Iterator[Form]:
    """Yield the variants. Without tiles, the depth has no effect, so only one depth is used."""
    for (width, height), (columns, rows), depth, tiles in product(GROUPS, BLOCKS, DEPTHS, TILES):
        if width * columns <= 128 and height * rows <= 128 and (tiles or depth == DEPTHS[0]):
            yield Form(width, height, depth, columns, rows, tiles)


VARIANTS = {form.label: partial(matrix_multiplication, form) for form in forms()}


def measure(file: Path, n: int) -> None:
    """Measure the variants that *file* does not contain, and append them to it."""
    done = {each["name"] for each in records(file) if each["n"] == n}
    remaining = {name: build for name, build in VARIANTS.items() if name not in done}
    backend = open_backend("opencl") if remaining else None
    for name, build in remaining.items():
        ranking = lpp.rank({name: build}, n=n, device="nvidia-titan-v", model="roofline", top=1)
        begin = time.perf_counter()
        found = ranking.measure(backend, top=1)
        line = {"name": name, "n": n, "seconds": found.seconds.get(name), "took": time.perf_counter() - begin}
        with file.open("a") as archive:
            archive.write(json.dumps(line | {"failed": found.failures.get(name, "")}) + "\n")


def records(file: Path) -> list[dict]:
    """Return the records in *file*."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("file", type=Path, help="file of the measurements; it is created or extended")
    parser.add_argument("--n", type=int, default=256, help="size of the matrices")
    parser.add_argument("--fit", type=Path, help="by default the fit of the local device")
    parser.add_argument("--model", help="by default the more accurate model of the fit")
    parser.add_argument("--workers", type=int, default=1, help="number of processes for ranking")
    return parser.parse_args()


def figures(ranking: lpp.Ranking, found: Mapping[str, dict]) -> dict[str, str]:
    """Return column -> figure that compares *ranking* with the *found* measurements of its variants."""
    names = [name for name in ranking.order if name in found]
    predicted = np.array([ranking.seconds[name] for name in names])
    measured = np.array([found[name]["seconds"] for name in names])
    return {
        "Spearman": f"{spearman(predicted, measured):.2f}",
        "median abs ln": f"{median_log_error(predicted, measured):.2f}",
        "spread": f"{measured.max() / measured.min():.1f}",
        "top 1": f"{regret(predicted, measured):.2f}",
        "best of top 8": f"{measured[:8].min() / measured.min():.2f}",
    }


def main() -> None:
    """Measure and rank the variants, and print the comparison."""
    options = arguments()
    measure(options.file, options.n)
    found = {each["name"]: each for each in records(options.file) if each["n"] == options.n and each["seconds"]}
    executor = ProcessPoolExecutor(options.workers) if options.workers > 1 else None
    begin = time.perf_counter()
    with lp.CacheMode(False):  # all variants are new to Loopy; forked processes inherit this setting
        ranking = lpp.rank(VARIANTS, fit=options.fit, model=options.model, executor=executor, n=options.n)
    ranked = time.perf_counter() - begin
    took = sum(each["took"] for each in found.values())
    row = figures(ranking, found) | {"times faster": f"{took / ranked:.0f}"}
    number = sum(name in found for name in ranking.order)
    table = Table(title=f"{number} matrix multiplications, n = {options.n}, {ranking.device}, model {ranking.model}")
    for column in row:
        table.add_column(column, justify="right")
    table.add_row(*row.values())
    Console(width=140).print(table)
    print(f"ranked in {ranked:.1f} s, {ranked / len(VARIANTS) * 1e3:.0f} ms each; measured in {took:.0f} s")
    for name, reason in ranking.failures.items():
        print(f"not ranked: {name}: {reason}")


if __name__ == "__main__":
    main()
