"""Compare a search by an optimizer with an exhaustive search."""

from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import loopy as lp

import loopyperf as lpp

NEAR = 0.05
"""relative tolerance"""


def show(
    build: Callable[..., lp.TranslationUnit], space: Mapping[str, Any], arguments: Mapping[str, Any], trials: int
) -> None:
    """Rank all points of *space*, search it with *trials* trials of an optimizer, and print both results."""
    with ProcessPoolExecutor() as executor:
        every = lpp.search(build, space, **arguments, optimizer="exhaustive", executor=executor)
        found = lpp.search(build, space, **arguments, optimizer="tpe", trials=trials, executor=executor)
    print(every, found, comparison(every, found), sep="\n\n")


def comparison(every: lpp.Search, found: lpp.Search) -> str:
    """Return after how many trials *found* was nearly as good as the best of *every* point, and its final result."""
    limit = (1 + NEAR) * every.seconds
    needed = found.trials_until(limit)
    near = sum(seconds <= limit for seconds in every.ranking.seconds.values())
    return (
        f"{near} of {every.points} points are within {NEAR:.0%} of the best; {found.optimizer} finds one "
        f"{'in none' if needed is None else f'in trial {needed}'} of {len(found.trials)} trials, and its best point is "
        f"{found.seconds / every.seconds - 1:.1%} slower than the best"
    )
