"""What a cache does not keep: the sectors that it has to fetch, by layer conditions.

A cache that holds all that a loop touches fetches it once. One that holds what two passes of the loop touch fetches,
after the first pass, what a pass touches beyond the one before. One that holds less fetches in every pass what the
body fetches, and there the loops inside are asked the same. Of what is in a body one after the other, each part fetches
what it touches beyond the latest part before it that touches the array, if the cache holds all that both and the parts
between them touch. Capacity is counted in lines, of all arrays together (papers on layer conditions: Stengel, Treibig,
Hager and Wellein, Quantifying performance bottlenecks of stencil computations using the Execution-Cache-Memory model,
2015).

A cache that is too small by a little holds most of it all the same: warps do not run in lockstep, and lines are not
replaced strictly in the order of their use. On GPUs, misses rise slowly with what is too much (Ernst, Holzer, Hager,
Knorr and Wellein, Analytical performance estimation during code generation on modern GPUs, 2023, who fit curves to it).
Here, of what is reused, the part that a cache holds is its capacity over what it would have to hold.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from loopyperf.memory.cells import Touched
from loopyperf.memory.footprints import Part, StatementLoop, Window, WorkingSets, middle
from loopyperf.memory.sectors import LINE

PASSES = LINE // 4 + 1
"""over which new lines are counted: so many that one which moves on by elements comes to a new line"""

PARTS = 1000
"""to which the part that a cache holds is told, at least"""

ByArray = Mapping[str, Touched]


@dataclass(frozen=True)
class Cache:
    """A cache of so many bytes, and the launch whose accesses it serves."""

    sets: WorkingSets
    capacity: float
    kind: str | None = None
    """``"load"`` or ``"store"``: what is fetched for these alone, or written, while the cache holds what both touch"""

    def fetched(self, window: Window) -> ByArray:
        """Return array -> what the cache fetches of it while the launch runs in *window*, which it begins empty."""
        program = self.sets.program
        return self._touched(program, window) if self.held(window) == 1 else self._body(program, window)

    def held(self, window: Window) -> Fraction:
        """Return the part of all that the launch touches in *window* that the cache holds."""
        return self._held(self.sets.touched(self.sets.program, window))

    def _touched(self, part: Part, window: Window, array: str | None = None) -> ByArray:
        return self.sets.touched(part, window, array, self.kind)

    def _held(self, touched: ByArray) -> Fraction:
        """Return the part of what is *touched* that the cache still holds when it is touched again."""
        needed = sum(each.lines for each in touched.values()) * LINE
        share = Fraction(self.capacity) / needed if needed else Fraction(1)
        return min(share, Fraction(1)).limit_denominator(PARTS)

    def _body(self, loop: StatementLoop, window: Window) -> ByArray:
        """Return what is fetched in one pass of *loop*: by what is in it one after the other."""
        parts = list(_parts(loop))
        whole, everything = self._touched(loop, window), self.sets.touched(loop, window)
        touched = [self._touched(part, window) for part in parts]
        needed = [self.sets.touched(part, window) for part in parts]
        fetched: list[ByArray] = []
        latest: dict[str, int] = {}
        for number, part in enumerate(parts):
            found = dict(self._loop(part, window) if isinstance(part, StatementLoop) else touched[number])
            for array in found:
                if (before := latest.get(array)) is not None:
                    both = self._touched([*_statements(parts[before]), *_statements(part)], window, array)[array]
                    held = self._held(_at_most(_sum(needed[before : number + 1]), everything))
                    more = (both - touched[before][array]).at_least(Touched())
                    found[array] = more.times(held) + found[array].times(1 - held)
                latest[array] = number
            fetched.append(found)
        return _at_least(_sum(fetched), whole)

    def _loop(self, loop: StatementLoop, window: Window) -> ByArray:
        whole, values = self._touched(loop, window), self.sets.values(loop, window)
        in_all = self._held(self.sets.touched(loop, window))
        if in_all == 1 or not values:
            return whole
        one = {**window, loop.iname: middle(values, 1)}
        pass_ = self._touched(loop, one)
        fits = self._held(self.sets.touched(loop, one)) == 1
        anew = _times(pass_ if fits else self._body(loop, one), len(values))
        in_two, following = in_all, whole
        if len(values) > 1:
            in_two = self._held(self.sets.touched(loop, {**window, loop.iname: middle(values, 2)}))
            number = min(len(values), PASSES)
            several = self._touched(loop, {**window, loop.iname: middle(values, number)})
            more = {array: several[array] - pass_[array] for array in several}
            following = _sum([pass_, _times(more, Fraction(len(values) - 1, number - 1))])
        in_two = max(in_all, in_two)
        fetched = [_times(whole, in_all), _times(following, in_two - in_all), _times(anew, 1 - in_two)]
        return _at_least(_sum(fetched), whole)


def _parts(loop: StatementLoop) -> Iterator[Part]:
    """Yield what is in *loop* in its order: each loop, and the statements between two of them together."""
    between: list[int] = []
    for item in loop.body:
        if isinstance(item, int):
            between.append(item)
            continue
        if between:
            yield between
        yield item
        between = []
    if between:
        yield between


def _statements(part: Part) -> Sequence[int]:
    return part.statements if isinstance(part, StatementLoop) else part


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


def _at_most(parts: ByArray, touched: ByArray) -> ByArray:
    """Return *parts*, of each array no more than what is *touched* of it."""
    return {array: each.at_most(touched[array]) for array, each in parts.items()}
