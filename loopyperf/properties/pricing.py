"""What counts cost at prices by property: a search asks it of one kernel at thousands of sizes."""

from collections.abc import Mapping, Sequence
from operator import mul

from loopyperf.properties.unified import work_of_one


class Pricing:
    """Prices in the order of a kernel's counts by source; counts of properties without a price are left out."""

    __slots__ = ("minima", "prices", "sums", "unpriced", "work")

    def __init__(
        self, names: Sequence[str], minima: Mapping[str, tuple[str, str]], prices: Mapping[str, float]
    ) -> None:
        """Price counts of the properties *names*, and *minima* of two such properties each."""
        self.prices = prices
        self.sums = [(prices[name], place) for place, name in enumerate(names) if name in prices]
        places = {
            side: [at for at, name in enumerate(names) if name == side] for pair in minima.values() for side in pair
        }
        self.minima = [
            (prices[name], places[left], places[right]) for name, (left, right) in minima.items() if name in prices
        ]

        self.work = [work_of_one(name) for name in names]
        self.unpriced = [(work, at) for at, work in enumerate(self.work) if work and names[at] not in prices]

    def share_unpriced(self, counts: Sequence[int]) -> float:
        """Return the share, from 0 to 1, of the work of *counts* that is of properties without a price."""
        if not self.unpriced:
            return 0.0
        return sum(work * counts[at] for work, at in self.unpriced) / max(sum(map(mul, self.work, counts)), 1.0)

    def costs(self, counts: Sequence[int]) -> list[float]:
        """Return price · count of each of *counts*; of a minimum, of those that are fewer together."""
        found = [price * counts[place] for price, place in self.sums]
        for price, left, right in self.minima:
            first, second = [counts[place] for place in left], [counts[place] for place in right]
            found += [price * count for count in (first if sum(first) <= sum(second) else second)]
        return found
