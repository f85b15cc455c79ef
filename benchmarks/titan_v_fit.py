"""Fitted models on 822 measured kernels of a TITAN V, groups of einsums held out: errors, ranks, regret, intervals.

Reads what ``titan_v_gather.py`` has found; a group is an einsum at one size, under many transformations. For each way
to fit (linear and overlap, of counts and of the catalog's pipelines), times are predicted by fits to other groups, and
compared as in ``titan_v.py``, beside a roofline of all that is asked for. The intervals are those of fits to four
fifths of the groups, asked about the others.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v_fit.py FILE [FILE ...] [--without COLUMN]

With ``--without`` a pipeline is left out of what fits are told, as often as it is given: what a column is worth.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from parts.titan_v import DEVICE, FIGURES, figures, gathered, measured_kernels, observed
from rich.console import Console
from rich.table import Table

from loopyperf.calibration.candidates import Candidate, possible
from loopyperf.calibration.intervals.held_out import held_out
from loopyperf.calibration.problem import Observation
from loopyperf.calibration.validation import cross_validate


def naive_roofline(row: Observation) -> float:
    """Return the seconds of the published peaks for the flops and the bytes that are asked for, whatever caches do."""
    asked = [(name, amount) for name, amount in row.properties.items() if name.startswith(("global load", "global st"))]
    flops = sum(amount for name, amount in row.properties.items() if name.startswith("f64"))
    carried = sum(amount * int(name.partition("-bit")[0].split()[-1]) / 8 for name, amount in asked)
    return max(flops / DEVICE.peak_flops("f64"), carried / DEVICE.level("DRAM").bandwidth)


def without(observations: Sequence[Observation], columns: Sequence[str]) -> list[Observation]:
    """Return *observations* that know nothing of *columns* of pipelines; raises SystemExit for one that none has."""
    known = {name for row in observations for name in row.pipelines}
    if missing := sorted(set(columns) - known):
        raise SystemExit(f"no kernel has the pipeline {', '.join(missing)}; there are {', '.join(sorted(known))}")
    return [
        replace(row, pipelines={name: busy for name, busy in row.pipelines.items() if name not in columns})
        for row in observations
    ]


def table(observations: Sequence[Observation], candidates: Sequence[Candidate]) -> Table:
    """Return how near each of *candidates* comes on groups that it was not fitted to."""
    found = Table("fit", *FIGURES, "80 % interval holds", "times", "without one")
    roofline = np.array([naive_roofline(row) for row in observations])
    found.add_row("naive roofline", *figures(roofline, observations))
    validated = cross_validate(observations, candidates)
    for name, left_out in validated.left_out.items():
        predicted = np.maximum(left_out.seconds, np.finfo(float).tiny)
        held = held_out(observations, [validated.candidates[name]])
        found.add_row(
            name, *figures(predicted, observations), f"{held.inside:.1%}", f"{held.factor:.2f}", str(held.without)
        )
    return found


def main() -> None:
    """Print how near the fits come."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("file", type=Path, nargs="+", help="what titan_v_gather.py found; of several, all are read")
    parser.add_argument("--without", action="append", default=[], help="a pipeline that fits are told nothing of")
    asked = parser.parse_args()
    found = [each for each in gathered(asked.file) if each.pipelines]
    every = observed(measured_kernels(), found)
    told = without(every, asked.without)
    candidates = [each for each in possible(every) if not asked.without or each.basis == "pipelines"]
    console = Console(width=150)
    console.print(f"{len(told)} kernels, {len({row.kernel_class for row in told})} groups")
    if asked.without:
        console.print(f"without {', '.join(asked.without)}")
    console.print(table(told, candidates))


if __name__ == "__main__":
    main()
