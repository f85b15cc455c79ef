"""How many points a search was spared, beside one of all points."""

import loopyperf as lpp

NEAR = 0.05
"""relative"""


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
