"""Simulate figures of three papers; print a table of each, and write its data as CSV and a plot as SVG.

    python benchmarks/paper_figures.py [FOLDER]

The figures are Cornelis and Lemeire, Fig. 3; Lemeire et al., Fig. 2, 14 and 16; and Dao et al., Fig. 5a to 8. The
latencies are those of the papers; all other values are computed here. docs/pipeline.md compares the results with the
text and the tables of the papers.
"""

import csv
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import parts  # noqa: F401 - turns the cache off
from papers import barriers, example_kernel, matrix_multiplication, staircase

from loopyperf.device.device_library import load_device
from loopyperf.pipeline import what_if

Row = dict[str, Any]

BARRIER_GPUS = {"Fermi": "nvidia-tesla-c2050", "Kepler": "nvidia-gtx-650-ti", "Pascal": "nvidia-gtx-1060"}
"""Lemeire et al., Table 8; Fig. 16 shows the first and the last"""
STAIRCASES: tuple[tuple[str, int, staircase.Precision, int | None], ...] = (
    ("5a", 1, "f32", 2),
    ("6a", 1, "f32", None),
    ("6b, 7, 8a", 1, "f64", None),
    ("8b", 2, "f64", None),
    ("8c", 3, "f64", None),
)
"""figure, additions, precision, resident groups (None: as many as fit)"""


def products() -> Iterator[Row]:
    """Yield the performance of both matrix products with bank conflicts, and the simulated performance without them."""
    for gpu, table in matrix_multiplication.TABLE_3.items():
        for side, group in matrix_multiplication.GROUPS.items():
            for slow in matrix_multiplication.simulations(gpu, side, has_conflicts=True):
                plain = what_if(slow, lambdas={"local": table["local memory"]})
                execution = slow.scenario.execution
                groups, warps = execution.concurrent_groups, execution.concurrent_warps
                for conflicts, found in (("no", plain), ("yes", slow)):
                    shown = {"gpu": gpu, "group": group, "groups": groups, "warps": warps, "conflicts": conflicts}
                    gflops = round(matrix_multiplication.gflops(gpu, found), 1)
                    yield {**shown, "cycles": round(found.cycles), "Gflop/s": gflops}


def example() -> Iterator[Row]:
    """Yield the warps per cycle of the example kernel for every model, as published and as corrected."""
    for figure, models in example_kernel.FIGURES.items():
        for name, model in models.items():
            for warps, found in zip(example_kernel.OCCUPANCIES, example_kernel.warps_per_cycle(model), strict=True):
                yield {"figure": figure, "model": name, "warps": warps, "warps/cycle": round(found, 4)}


def rounds() -> Iterator[Row]:
    """Yield the performance of the iterative barrier kernel over occupancies and group sizes."""
    for gpu, name in BARRIER_GPUS.items():
        for point in barriers.points(load_device(name)):
            shown = {"gpu": gpu, "warps": point.warps, "warps of a group": point.warps_per_group}
            cycles = {"cycles of a round": point.cycles_per_round}
            yield {**shown, **cycles, "computations/cycle": round(point.computations_per_cycle, 4)}


def stairs() -> Iterator[Row]:
    """Yield the times at which each of 96 groups starts, has issued each fifth of its instructions, and finishes."""
    cores = load_device(staircase.DEVICE).cores
    for blocking in ("double precision", "every operand"):
        for figure, additions, precision, concurrent in STAIRCASES:
            found = staircase.staircase(additions, precision, blocking, concurrent_groups=concurrent)
            for group, times in sorted(found.of_device(cores).items()):
                moments = zip(staircase.SHARES, times.milestones, strict=True)
                shown = {"figure": figure, "blocks": blocking, "additions": f"{additions} {precision}", "group": group}
                shares = {f"{share:.0%}": float(moment) for share, moment in moments}
                yield {**shown, "start": float(times.start), **shares, "finish": float(times.finish)}


FIGURES: dict[str, Callable[[], Iterable[Row]]] = {
    "cornelis-3": products,
    "lemeire-2-and-14": example,
    "lemeire-16": rounds,
    "dao-5-to-8": stairs,
}


def main(folder: Path) -> None:
    """Write the data and plots of all figures to *folder*, and print the data."""
    pictures = import_module("papers.pictures").PICTURES  # not above: matplotlib takes long to import
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in FIGURES.items():
        begin = time.perf_counter()
        found = list(rows())
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(found[0]))
            writer.writeheader()
            writer.writerows(found)
        pictures[name](found).savefig(folder / f"{name}.svg")
        print(f"\n{name}: {len(found)} rows in {time.perf_counter() - begin:.0f} s")
        print(" | ".join(found[0]))
        for row in found:
            print(" | ".join(map(str, row.values())))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "paper-figures"))
