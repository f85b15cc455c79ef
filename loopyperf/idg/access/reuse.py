"""What a cache does not keep: the sectors that it has to fetch, by layer conditions.

A cache that holds all that a loop touches fetches it once. One that holds what two passes of the loop touch fetches,
after the first pass, what a pass touches beyond the one before. One that holds less fetches in every pass what the
body fetches, and there the loops inside are asked the same. Capacity is counted in lines, of all arrays together
(papers on layer conditions: Stengel, Treibig, Hager and Wellein, Quantifying performance bottlenecks of stencil
computations using the Execution-Cache-Memory model, 2015).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from loopyperf.idg.access.blocks import Touched
from loopyperf.idg.access.sectors import LINE
from loopyperf.idg.access.working_sets import Part, Window, WorkingSets, middle
from loopyperf.idg.warps.nest import Nest, Statement

PASSES = LINE // 4 + 1
"""over which new lines are counted: so many that one which moves on by elements comes to a new line"""

ByArray = Mapping[str, Touched]


@dataclass(frozen=True)
class Cache:
    """A cache of so many bytes, and the launch whose accesses it serves."""

    sets: WorkingSets
    capacity: float

    def fetched(self, window: Window) -> ByArray:
        """Return array -> what the cache fetches of it while the launch runs in *window*, which it begins empty."""
        return self._once(self.sets.program.nest, window) or self._body(self.sets.program.nest, window)

    def _once(self, part: Part, window: Window) -> ByArray | None:
        """Return what *part* touches, where the cache holds it all."""
        whole = self.sets.touched(part, window)
        return whole if sum(each.lines for each in whole.values()) * LINE <= self.capacity else None

    def _body(self, nest: Nest, window: Window) -> ByArray:
        """Return what is fetched in one pass of *nest*: by the loops in it one by one, and by all between them."""
        statements = [item for item in nest.body if isinstance(item, Statement)]
        loops = [item for item in nest.body if isinstance(item, Nest)]
        parts: list[ByArray] = [self._loop(loop, window) for loop in loops]
        if statements:
            parts.append(self.sets.touched(statements, window))
        return _at_least(_sum(parts), self.sets.touched(nest, window))

    def _loop(self, loop: Nest, window: Window) -> ByArray:
        if (once := self._once(loop, window)) is not None:
            return once
        values = self.sets.values(loop, window)
        one = {**window, loop.iname: middle(values, 1)}
        two = {**window, loop.iname: middle(values, 2)}
        pass_ = self._once(loop, one)
        if pass_ is None:
            fetched = _times(self._body(loop, one), len(values))
        elif len(values) > 1 and self._once(loop, two) is not None:
            number = min(len(values), PASSES)
            several = self.sets.touched(loop, {**window, loop.iname: middle(values, number)})
            more = {array: several[array] - pass_[array] for array in several}
            fetched = _sum([pass_, _times(more, Fraction(len(values) - 1, number - 1))])
        else:
            fetched = _times(pass_, len(values))
        return _at_least(fetched, self.sets.touched(loop, window))


def _times(parts: ByArray, number: int | Fraction) -> ByArray:
    return {array: each.times(number) for array, each in parts.items()}


def _sum(parts: Iterable[ByArray]) -> ByArray:
    total: dict[str, Touched] = {}
    for part in parts:
        for array, each in part.items():
            total[array] = total.get(array, Touched()) + each
    return total


def _at_least(fetched: ByArray, touched: ByArray) -> ByArray:
    """Return *fetched*, of each array no less than what is *touched* of it."""
    return {array: fetched.get(array, Touched()).at_least(each) for array, each in touched.items()}
