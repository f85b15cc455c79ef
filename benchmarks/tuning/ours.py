"""The order of measurements of :func:`loopyperf.tune` on recorded spaces, and how often its stated regret holds.

``judge.py`` takes the order as a strategy. This script prints, for each space, after how many measurements ``tune``
ends and how far the fastest measured variant is from the optimum then; over all runs, the share whose regret is within
the accepted one must be at least the stated probability:

    LOOPYPERF_SHARED_DATA=../shared/data PYTHONPATH=benchmarks .venv/bin/python -m tuning.judge \
        --strategy tuning.ours:tune
    LOOPYPERF_SHARED_DATA=../shared/data PYTHONPATH=benchmarks .venv/bin/python -m tuning.ours
"""

import numpy as np
from parts.tables import show, table

from loopyperf.search.tuner import Candidates, Tuner
from tuning.spaces import Option, RecordedSpace, all_spaces

SEEDS = 30
NOISE = 0.002
"""standard deviation of ln of the predictions by which runs differ: the method itself is deterministic"""
MEASUREMENTS = 200
"""measurements of a run; the other variants follow in the order of prediction"""
REGRET, PROBABILITY = 0.02, 0.9
ABSENT = 0.5
"""coordinate of an option that a variant does not have"""


def coordinates(space: RecordedSpace) -> list[list[float]]:
    """Return coordinates of the variants, in a space with the diagonal 1, as ``loopyperf.search.tuner.coordinates``.

    Numbers are a scale, except permutations; other options have an axis for each value.
    """
    names = sorted({name for each in space.parameters for name in each})
    axes: list[list[float]] = []
    options = 0
    for name in names:
        values = sorted(
            {each[name] for each in space.parameters if name in each}, key=lambda each: (str(type(each)), each)
        )
        lacking = [name not in each for each in space.parameters]
        if len(values) + any(lacking) < 2:
            continue
        options += 1
        if all(_is_number(each) for each in values) and "perm" not in name:
            place = {value: index / max(1, len(values) - 1) for index, value in enumerate(values)}
            axes.append([place.get(each[name], ABSENT) if name in each else ABSENT for each in space.parameters])
        else:
            axes += [[0.5**0.5 * (each.get(name) == value) for each in space.parameters] for value in values]
        if any(lacking):
            axes.append([ABSENT * each for each in lacking])
    return (np.array(axes).T / np.sqrt(max(1, options))).tolist()


def _is_number(value: Option) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def tuner_of(space: RecordedSpace, seed: int) -> tuple[list[int], Tuner]:
    """Return the variants that have a prediction, and a tuner of them with slightly perturbed predictions.

    In a space without predictions, all are predicted to take one second.
    """
    known = {row: each for row, each in enumerate(space.predictions or ()) if each and "pipeline" in each.seconds}
    rows = list(known) or [*range(len(space.times))]
    noise = np.exp(NOISE * np.random.default_rng(seed).standard_normal(len(rows)))
    seconds = [
        (known[row].seconds["pipeline"] if known else 1.0) * factor for row, factor in zip(rows, noise, strict=True)
    ]
    busy = [known[row].busy if known else {} for row in rows]
    parts = [{name: each for name, each in of_row.items() if name != "launches"} for of_row in busy]
    every = coordinates(space)
    return rows, Tuner(Candidates.of(seconds, [every[row] for row in rows], parts), REGRET, PROBABILITY)


def tune(space: RecordedSpace, seed: int) -> list[int]:
    """Return the order in which ``tune`` measures the variants of *space* if it goes on after the accepted regret."""
    rows, tuner = tuner_of(space, seed)
    order: list[int] = []
    while len(order) < MEASUREMENTS and (index := tuner.ask()) is not None:
        tuner.tell(index, space.times[rows[index]])
        order.append(rows[index])
    later = [index for index in np.argsort(tuner.candidates.predicted) if rows[index] not in set(order)]
    order += [rows[index] for index in later]
    return [*order, *(row for row in range(len(space.times)) if row not in set(order))]


def ended(space: RecordedSpace, seed: int) -> tuple[int, float]:
    """Return the number of measurements after which ``tune`` ends, and the relative distance from the optimum then."""
    rows, tuner = tuner_of(space, seed)
    tried = 0
    while (index := tuner.ask()) is not None and tuner.remaining_regret() > tuner.regret:
        tuner.tell(index, space.times[rows[index]])
        tried += 1
    return tried, min(tuner.seconds.values()) / space.best - 1


def main() -> None:
    """Print after how many measurements tunings end, and how often their stated regret holds."""
    result = table("space", "variants", "measured", "regret, worst", "held")
    every: list[float] = []
    for space in all_spaces():
        if space.predictions is None:
            continue
        runs = [ended(space, seed) for seed in range(SEEDS)]
        regrets = [regret for _, regret in runs]
        every.append(float(np.mean(np.array(regrets) <= REGRET)))
        measured = f"{np.median([number for number, _ in runs]):.0f}"
        result.add_row(space.name, str(len(space.times)), measured, f"{max(regrets):.3f}", f"{every[-1]:.2f}")
    show(result)
    show(f"Mean over spaces of the share of runs within {REGRET:.0%}: {np.mean(every):.2f} (stated {PROBABILITY})")


if __name__ == "__main__":
    main()
