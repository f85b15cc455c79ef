"""How many points a search was spared, beside one of all points."""

from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import loopy as lp

import loopyperf as lpp

NEAR = 0.05
"""relative"""


def show(
    build: Callable[..., lp.TranslationUnit], space: Mapping[str, Any], asked: Mapping[str, Any], trials: int
) -> None:
    """Rank all points of *space*, then look for one as good among *trials* of them, and print both."""
    with ProcessPoolExecutor() as executor:
        every = lpp.search(build, space, **asked, optimizer="exhaustive", executor=executor)
        found = lpp.search(build, space, **asked, optimizer="tpe", trials=trials, executor=executor)
    print(every, found, economy(every, found), sep="\n\n")


def economy(every: lpp.Search, found: lpp.Search) -> str:
    """Return after how many trials *found* was as good as the best of *every* point, and how good it is in the end."""
    limit = (1 + NEAR) * every.seconds
    needed = found.trials_until(limit)
    near = sum(seconds <= limit for seconds in every.ranking.seconds.values())
    return (
        f"{near} of {every.points} points are within {NEAR:.0%} of the best; {found.optimizer} finds one "
        f"{'in no trial' if needed is None else f'in trial {needed}'} of {len(found.trials)}, and ends "
        f"{found.seconds / every.seconds - 1:.1%} above the best"
    )
