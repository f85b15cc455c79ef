"""How good is the order of variants that nobody ran? Two hundred matrix multiplications, ranked and then all measured.

All variants are measured once on the local OpenCL device, and kept in FILE, a line of JSON each; what is there is not
measured again. They are then ranked by the fit of the device (or the one at ``--fit``), with all caches off, and
compared: rank correlation, what the variant costs that is predicted to be fastest, the best of the eight predicted
fastest and of the shortlist, over the fastest; and how long ranking took against compiling and measuring them all.

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
    """Yield the variants: without tiles their depth does not matter."""
    for (width, height), (columns, rows), depth, tiles in product(GROUPS, BLOCKS, DEPTHS, TILES):
        if width * columns <= 128 and height * rows <= 128 and (tiles or depth == DEPTHS[0]):
            yield Form(width, height, depth, columns, rows, tiles)


VARIANTS = {form.label: partial(matrix_multiplication, form) for form in forms()}


def measure(file: Path, n: int) -> None:
    """Append to *file* what is not in it yet."""
    known = {each["name"] for each in lines(file) if each["n"] == n}
    left = {name: build for name, build in VARIANTS.items() if name not in known}
    machine = open_backend("opencl") if left else None
    for name, build in left.items():
        ranking = lpp.rank({name: build}, n=n, device="nvidia-titan-v", model="roofline", top=1)
        begin = time.perf_counter()
        found = ranking.measure(machine, top=1)
        line = {"name": name, "n": n, "seconds": found.seconds.get(name), "took": time.perf_counter() - begin}
        with file.open("a") as archive:
            archive.write(json.dumps(line | {"failed": found.failures.get(name, "")}) + "\n")


def lines(file: Path) -> list[dict]:
    """Return what is in *file*."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def arguments() -> argparse.Namespace:
    """Return what is asked for."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--n", type=int, default=256)
    parser.add_argument("--fit", type=Path, help="by default the one of the local device")
    parser.add_argument("--model", help="by default the one that is better")
    parser.add_argument("--workers", type=int, default=1, help="processes that rank")
    return parser.parse_args()


def figures(ranking: lpp.Ranking, found: Mapping[str, dict]) -> dict[str, str]:
    """Return column -> figure of how *ranking* orders what was *found* of its variants."""
    names = [name for name in ranking.order if name in found]
    predicted = np.array([ranking.seconds[name] for name in names])
    measured = np.array([found[name]["seconds"] for name in names])
    short = [names.index(name) for name in ranking.shortlist().names if name in found]
    return {
        "Spearman": f"{spearman(predicted, measured):.2f}",
        "median abs ln": f"{median_log_error(predicted, measured):.2f}",
        "spread": f"{measured.max() / measured.min():.1f}",
        "top 1": f"{regret(predicted, measured):.2f}",
        "best of top 8": f"{measured[:8].min() / measured.min():.2f}",
        "shortlist": f"{len(short)}",
        "its best": f"{measured[short].min() / measured.min():.2f}",
    }


def main() -> None:
    """Measure, rank, compare."""
    asked = arguments()
    measure(asked.file, asked.n)
    found = {each["name"]: each for each in lines(asked.file) if each["n"] == asked.n and each["seconds"]}
    executor = ProcessPoolExecutor(asked.workers) if asked.workers > 1 else None
    begin = time.perf_counter()
    with lp.CacheMode(False):  # as if nobody had seen the variants; processes are forked with that
        ranking = lpp.rank(VARIANTS, fit=asked.fit, model=asked.model, executor=executor, n=asked.n)
    ranked = time.perf_counter() - begin
    took = sum(each["took"] for each in found.values())
    row = figures(ranking, found) | {"times faster": f"{took / ranked:.0f}"}
    number = sum(name in found for name in ranking.order)
    table = Table(title=f"{number} matrix multiplications, n = {asked.n}, {ranking.device}, model {ranking.model}")
    for column in row:
        table.add_column(column, justify="right")
    table.add_row(*row.values())
    Console(width=140).print(table)
    print(f"ranked in {ranked:.1f} s, {ranked / len(VARIANTS) * 1e3:.0f} ms each; measured in {took:.0f} s")
    for name, reason in ranking.failures.items():
        print(f"not ranked: {name}: {reason}")


if __name__ == "__main__":
    main()
