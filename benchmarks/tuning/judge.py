"""Judge search strategies on recorded spaces: tables of their scores, and pictures of the best time so far.

A strategy is a function of a space and a seed that returns the order in which it measures the variants. Random order is
exact, the order of prediction has one run, and peers are those that ``peers.py`` stored. ``--strategy`` adds others,
with 30 runs each. Fractions are optimum / best time after 1 to 50 measurements. The first number of a cell is that of
the median run, the second that of the worst tenth of the runs:

    LOOPYPERF_SHARED_DATA=../shared/data PYTHONPATH=benchmarks .venv/bin/python -m tuning.judge [NAME ...] \
        [--strategy MODULE:FUNCTION ...] [--pictures FOLDER]
"""

import argparse
import json
import lzma
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from math import inf
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from parts.tables import show, table
from rich.table import Table

from tuning.scores import (
    MEASUREMENTS,
    TOLERANCES,
    Run,
    Score,
    Strategy,
    best_times,
    improvements,
    random_best,
    random_score,
    score,
)
from tuning.spaces import RecordedSpace, all_spaces

PEERS = Path(__file__).parents[1] / "gathered" / "tuning-peers.json.xz"
"""runs of other tuners, by ``peers.py``"""
RANDOM, PREDICTION = "random", "order of prediction"
SEEDS = 30
SHOWN = 200
"""measurements on the axis of a picture"""


def by_prediction(space: RecordedSpace) -> list[int]:
    """Return the variants by increasing time of ``pipeline``, equal ones in the order of the space.

    Variants without prediction come last.
    """
    seconds = [inf if each is None else each for each in space.predicted()]
    return sorted(range(len(seconds)), key=seconds.__getitem__)


def runs_by_strategy(
    space: RecordedSpace, strategies: Mapping[str, Strategy], peers: Mapping[str, Mapping[str, Sequence[Run]]]
) -> dict[str, Sequence[Run]]:
    """Return the runs on *space* of the order of prediction, of *strategies*, and of *peers*, by space and strategy."""
    found: dict[str, Sequence[Run]] = {}
    if space.predictions is not None:
        found[PREDICTION] = [improvements(space, by_prediction(space))]
    for name, strategy in strategies.items():
        found[name] = [improvements(space, strategy(space, seed)) for seed in range(SEEDS)]
    return found | {name: runs for name, runs in peers.get(space.name, {}).items() if runs}


def imported(names: Sequence[str]) -> dict[str, Strategy]:
    """Return function -> strategy for *names* such as ``"module:function"``."""
    pairs = [name.partition(":")[::2] for name in names]
    return {function: getattr(import_module(module), function) for module, function in pairs}


def stored_peers(path: Path = PEERS) -> dict[str, dict[str, list[Run]]]:
    """Return space -> strategy -> runs of other tuners; empty if the file is absent."""
    if not path.exists():
        return {}
    with lzma.open(path, "rt") as file:
        return json.load(file)["runs"]


# {{{ tables

COLUMNS = (
    "runs",
    *(f"after {number}" for number in MEASUREMENTS),
    *(f"until {tolerance:.0%}" for tolerance in TOLERANCES),
    "mean P",
)


def cells(found: Score) -> list[str]:
    """Return the table cells of a score: medians, and those of the worst tenth of the runs after a slash."""
    fractions = [f"{median:.2f}/{worst:.2f}" for median, worst in found.fractions]
    reached = ["/".join("-" if each == inf else f"{each:.0f}" for each in pair) for pair in found.until]
    return [*fractions, *reached, f"{found.mean:.2f}"]


def of_space(space: RecordedSpace, runs: Mapping[str, Sequence[Run]]) -> tuple[Table, dict[str, Score]]:
    """Return a table of all strategies on *space*, and their scores."""
    scores = {RANDOM: random_score(space)} | {name: score(space, each) for name, each in runs.items()}
    found = table(f"{space.name}: {len(space.times)} variants", *COLUMNS)
    for name, each in scores.items():
        found.add_row(name, str(len(runs[name])) if name in runs else "exact", *cells(each))
    return found, scores


def over_spaces(scores: Mapping[str, Mapping[str, Score]]) -> Table:
    """Return the median over spaces of each strategy's median run, and that of its worst space after a slash.

    The score P is its mean over spaces.
    """
    found = table(f"{len(scores)} spaces", "spaces", *COLUMNS[1:])
    for name in dict.fromkeys(name for each in scores.values() for name in each):
        of_strategy = [each[name] for each in scores.values() if name in each]
        fractions = np.array([[median for median, _ in each.fractions] for each in of_strategy])
        reached = np.array([[median for median, _ in each.until] for each in of_strategy])
        summary = Score(
            list(zip(np.median(fractions, axis=0), fractions.min(axis=0), strict=True)),
            list(zip(np.median(reached, axis=0), reached.max(axis=0), strict=True)),
            float(np.mean([each.mean for each in of_strategy])),
        )
        found.add_row(name, str(len(of_strategy)), *cells(summary))
    return found


# }}}


def draw(space: RecordedSpace, runs: Mapping[str, Sequence[Run]], peers: Collection[str], folder: Path) -> None:
    """Write a picture of the regret of each strategy, best time so far / optimum, against measurements.

    Lines of *peers* are thin.
    """
    number = min(SHOWN, len(space.times))
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    steps = np.arange(1, number + 1)
    axes.plot(steps, random_best(space, number) / space.best, color="gray", linestyle="--", label=f"{RANDOM} (mean)")
    for name, each in runs.items():
        best = np.array([best_times(space, run, number) for run in each]) / space.best
        width = 1.0 if name in peers else 2.5
        axes.step(steps, np.median(best, axis=0), where="post", linewidth=width, label=name)
    axes.set(xscale="log", yscale="log", xlabel="measurements", ylabel="best time so far / optimum", title=space.name)
    axes.legend(fontsize="small")
    figure.savefig(folder / f"{space.name}.svg")
    plt.close(figure)


def main() -> None:
    """Print the scores of all strategies."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("names", nargs="*", help="spaces; by default all")
    parser.add_argument("--pictures", type=Path, help="folder for the pictures")
    parser.add_argument("--strategy", action="append", default=[], help="MODULE:FUNCTION; may be repeated")
    options = parser.parse_args()
    strategies = imported(options.strategy)
    peers = stored_peers()
    scores: dict[str, dict[str, Score]] = {}
    for space in all_spaces():
        if options.names and space.name not in options.names:
            continue
        runs = runs_by_strategy(space, strategies, peers)
        found, scores[space.name] = of_space(space, runs)
        show(found)
        if options.pictures is not None:
            draw(space, runs, peers.get(space.name, ()), options.pictures)
    show(over_spaces(scores))


if __name__ == "__main__":
    main()
