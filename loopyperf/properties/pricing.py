"""What counts cost at prices by property: a search asks it of one kernel at thousands of sizes."""

from collections.abc import Mapping, Sequence


class Pricing:
    """Prices in the order of a kernel's counts by source; counts of properties without a price are left out."""

    __slots__ = ("minima", "prices", "sums")

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

    def costs(self, counts: Sequence[int]) -> list[float]:
        """Return price · count of each of *counts*; of a minimum, of those that are fewer together."""
        found = [price * counts[place] for price, place in self.sums]
        for price, left, right in self.minima:
            first, second = [counts[place] for place in left], [counts[place] for place in right]
            found += [price * count for count in (first if sum(first) <= sum(second) else second)]
        return found
