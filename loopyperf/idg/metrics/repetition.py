"""Passes of a loop that stand for many: seen from the pass, what a warp may still wait for is the same once more."""

from collections import Counter
from dataclasses import dataclass

from loopyperf.idg.metrics.one_warp import Execution, Moment, OneWarp
from loopyperf.idg.metrics.paths import Component, Link, Repetition, Start

ORDER: Component = "order"
END: Component = "end"
NEVER: Moment = (-1, None)


@dataclass(frozen=True, slots=True)
class View:
    """A warp at the start of a pass of a loop, seen from there: in each pass alike if it goes on alike."""

    warp: OneWarp
    outer: tuple[int, ...]
    """the passes of the loops around the loop"""
    number: int
    """of the pass"""

    def key(self, execution: Execution) -> Component:
        """Return what stands for a result of *execution*: by how many passes it is ago."""
        place, passes = execution
        level = len(self.outer)
        return place, passes[level] - self.number, passes[level + 1 :]

    def signature(self) -> Component:
        """Return what determines how the warp goes on."""
        now = self.warp.now
        results = frozenset((self.key(key), time - now) for key, (time, _) in self.warp.results.items())
        busy = frozenset((name, time - now) for name, (time, _) in self.warp.busy.items())
        return results, busy, self.warp.waiting

    def oldest(self) -> int:
        """Return the first pass of which a result may still be waited for."""
        level = len(self.outer)
        return min([self.number, *(passes[level] for _, passes in self.warp.results)])

    def links(self) -> dict[Component, Link]:
        """Return what each moment that may still be waited for hangs on."""
        results = {self.key(key): link for key, (_, link) in self.warp.results.items()}
        busy = {(name,): link for name, (_, link) in self.warp.busy.items()}
        return {**results, **busy, ORDER: self.warp.order, END: self.warp.end[1]}

    def start(self) -> None:
        """Let everything hang on the start of this pass."""
        warp = self.warp
        warp.results = {key: (time, Start(self.key(key))) for key, (time, _) in warp.results.items()}
        warp.busy = {name: (time, Start((name,))) for name, (time, _) in warp.busy.items()}
        warp.order = Start(ORDER)

    def repeat(self, times: int, passes: int, gained: int, before: dict[Component, Link]) -> None:
        """Go on as if what happened in the last *passes*, *gained* long, happened *times* in all.

        *before* is what each moment hung on when they began.
        """
        warp, ends, later = self.warp, self.links(), (times - 1) * gained
        level, shift = len(self.outer), (times - 1) * passes

        def hung(component: Component) -> Repetition:
            return Repetition(component, times, ends, before)

        warp.results = {
            (place, (*at[:level], at[level] + shift, *at[level + 1 :])): (time + later, hung(self.key((place, at))))
            for (place, at), (time, _) in warp.results.items()
        }
        warp.busy = {name: (time + later, hung((name,))) for name, (time, _) in warp.busy.items()}
        warp.order, warp.now = hung(ORDER), warp.now + later
        if warp.end[1] is not None:
            warp.end = (warp.end[0] + later, hung(END))


class Repeated:
    """A part of the run that stands for many, from its start on."""

    def __init__(self, view: View) -> None:
        """Begin it now, and let everything hang on its start."""
        warp = view.warp
        self.links, self.now, self.since = view.links(), warp.now, warp.since
        self.end, self.stalls = warp.end, warp.stalls
        warp.end, warp.stalls = NEVER, Counter()
        view.start()

    def repeat(self, view: View, passes: int, times: int) -> None:
        """End it after so many *passes*, and go on as if it had happened so many *times*."""
        warp = view.warp
        warp.forget()
        view.repeat(times, passes, warp.now - self.now, self.links)
        warp.end = max(warp.end, self.end, key=lambda moment: moment[0])
        if not warp.stalls:
            warp.since += (times - 1) * (warp.since - self.since)
        for stall, number in warp.stalls.items():
            self.stalls[stall] += number * times
        warp.stalls = self.stalls
