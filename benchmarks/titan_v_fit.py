"""Fitted models on 822 measured kernels of a TITAN V, groups of einsums held out: errors, ranks, regret, intervals.

The data are those of ``titan_v.py``; a group is an einsum at one size, under many transformations. For each way to fit
(linear and overlap, of counts and of the catalog's pipelines), times are predicted by fits to other groups, and
compared as there, beside a roofline of all that is asked for. The intervals are those of fits to four fifths of the
groups, asked about the others. Observations are kept in FILE, a line of JSON each; what is there is not made again.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v_fit.py FILE [--every N] [--from K] \
        [--seconds S] [--gather] [--without COLUMN]

With ``--without`` a pipeline is left out of what fits are told, as often as it is given: what a column is worth.
"""

import argparse
import json
import lzma
import pickle
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from parts.shared_data import SHARED_DATA
from rich.console import Console
from rich.table import Table
from titan_v import DEVICE, FEWEST, too_long

from loopyperf.calibration.candidates import Candidate, possible
from loopyperf.calibration.held_out import held_out
from loopyperf.calibration.problem import Observation
from loopyperf.calibration.validation import cross_validate
from loopyperf.errors import LoopyperfError
from loopyperf.models.metrics import median_log_error, regret, spearman
from loopyperf.oracle.observation import observe

SPREAD = 5
"""slowest over fastest kernel of a group, from which on its rank correlation is worth reading"""


def observed(row: Mapping[str, Any], seconds: int) -> dict[str, Any]:
    """Return what a fit is told of a row, or why there is nothing within so many *seconds*."""
    signal.alarm(seconds)
    try:
        unit, group = pickle.loads(row["kernel"]), str(row["group"])
        found = observe(unit, row["sizes"], row["seconds"], kernel_class=group, label=str(row["id"]), device=DEVICE)
        return {"counts": dict(found.properties), "pipelines": dict(found.pipelines)}
    except (LoopyperfError, TimeoutError) as error:
        return {"failed": type(error).__name__}
    finally:
        signal.alarm(0)


def gather(
    rows: Sequence[Mapping[str, Any]], places: range, file: Path, tell: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> None:
    """Append to *file* what *tell* tells of each row at *places* that is not in it yet."""
    known = {each["row"] for each in map(json.loads, file.read_text().splitlines())} if file.exists() else set[int]()
    for place in (place for place in places if place not in known):
        told = tell(rows[place])
        with file.open("a") as lines:
            lines.write(json.dumps({"row": place, **told}) + "\n")


def kept(rows: Sequence[dict[str, Any]], files: Sequence[Path]) -> tuple[list[Observation], Counter[str]]:
    """Return the observations in *files*, and how many rows have none for which reason."""
    found: list[Observation] = []
    failed: Counter[str] = Counter()
    for line in (line for file in files for line in file.read_text().splitlines()):
        each = json.loads(line)
        if "failed" in each:
            failed[each["failed"]] += 1
            continue
        row = rows[each["row"]]
        group = str(row["group"])
        found.append(Observation(group, str(each["row"]), {}, each["counts"], row["seconds"], each["pipelines"]))
    return found, failed


def figures(predicted: np.ndarray, observations: Sequence[Observation]) -> list[str]:
    """Return the cells of a way to fit."""
    measured = np.array([row.seconds for row in observations])
    groups: dict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(observations):
        groups[row.kernel_class].append(place)
    pairs = [(predicted[places], measured[places]) for places in groups.values() if len(places) >= FEWEST]
    wide = [pair for pair in pairs if pair[1].max() > SPREAD * pair[1].min()]
    ranks, regrets = [spearman(*pair) for pair in pairs], [regret(*pair) for pair in pairs]
    far = [spearman(*pair) for pair in wide]
    numbers = (median_log_error(predicted, measured), np.mean(ranks), np.median(ranks), np.mean(far), np.median(far))
    return [f"{each:.2f}" for each in (*numbers, np.median(regrets), np.mean(regrets))]


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
    columns = (
        "fit",
        "median |ln|",
        "Spearman mean",
        "median",
        f"spread > {SPREAD}: mean",
        "median",
        "regret median",
        "mean",
    )
    found = Table(*columns, "80 % interval holds", "times", "without one")
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
    parser.add_argument("file", type=Path, nargs="+", help="where observations are kept; of several, all are read")
    parser.add_argument("--every", type=int, default=1, help="only each of the rows that comes every so many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--seconds", type=int, default=120, help="for each kernel at most")
    parser.add_argument("--without", action="append", default=[], help="a pipeline that fits are told nothing of")
    parser.add_argument("--gather", action="store_true", help="make observations, and fit nothing")
    asked = parser.parse_args()
    signal.signal(signal.SIGALRM, too_long)
    with lzma.open(SHARED_DATA / "titan-v.pkl.xz") as file:
        rows = pickle.load(file)
    if asked.gather or not all(each.exists() for each in asked.file):
        gather(
            rows, range(asked.first, len(rows), asked.every), asked.file[0], partial(observed, seconds=asked.seconds)
        )
    if not asked.gather:
        every, failed = kept(rows, asked.file)
        observations = without(every, asked.without)
        candidates = [each for each in possible(every) if not asked.without or each.basis == "pipelines"]
        console = Console(width=150)
        console.print(f"{len(observations)} kernels, {len({row.kernel_class for row in observations})} groups")
        if asked.without:
            console.print(f"without {', '.join(asked.without)}")
        console.print(table(observations, candidates))
        console.print(f"without an observation: {dict(failed) or 'none'}")


if __name__ == "__main__":
    main()
