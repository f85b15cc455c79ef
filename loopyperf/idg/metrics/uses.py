"""Where the result of an instruction is used first, and what the program has in between.

Both are read off the text of the program, in which each instruction stands once, as Sim (section 5.3) reads them off
the machine code: from a definition the text is followed to the use, from the end of a loop's body back to its start as
often as the edge says. A loop on the way is passed through once.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Instruction, Item, Loop, placed


class FirstUses:
    """The first uses of results in a graph."""

    def __init__(self, graph: Idg) -> None:
        """Take the uses of *graph*: edges through registers, or to what a result decides on."""
        self._graph = graph
        self._order = [place for place, _ in placed(graph.body)]
        self._position = {place: position for position, place in enumerate(self._order)}
        self._spans = {id(loop): span for loop, span in _spans(graph.body, 0)}
        self._uses: dict[int, list[Edge]] = {}
        for edge in graph.edges:
            if edge.through in ("data", "control"):
                self._uses.setdefault(edge.source, []).append(edge)

    def of(self, place: int) -> Edge | None:
        """Return the edge to the first use of the result of *place*; None if there is none."""
        everything = range(len(self._order) + 1)
        return min(self._uses.get(place, ()), key=lambda edge: self._length(edge, everything), default=None)

    def between(self, place: int, is_counted: Callable[[Instruction], bool]) -> int:
        """Return how many instructions there are of a sort, from *place* on, itself included, to before its first use.

        Without a use, they are those to the end of the loop that it is in, or of the program.
        """
        counted = (int(is_counted(self._graph.instructions[each])) for each in self._order)
        before = list(accumulate(counted, initial=0))
        use = self.of(place)
        if use is not None:
            return self._length(use, before)
        around = self._graph.loops_around[place]
        end = self._spans[id(around[-1])].stop if around else len(self._order)
        return before[end] - before[self._position[place]]

    def _length(self, edge: Edge, before: Sequence[int]) -> int:
        """Return the length of the text from the source of *edge* to its target, given that *before* each position."""
        source, target = before[self._position[edge.source]], before[self._position[edge.target]]
        level, passes = next(((level, passes) for level, passes in enumerate(edge.distance) if passes), (0, 0))
        if not passes:
            return target - source
        span = self._spans[id(self._graph.loops_around[edge.source][level])]
        return passes * (before[span.stop] - before[span.start]) + target - source


def _spans(body: Sequence[Item], position: int) -> Iterator[tuple[Loop, range]]:
    """Yield each loop in *body*, which begins at *position*, with where in the text it is."""
    for item in body:
        if isinstance(item, Loop):
            length = sum(1 for _ in placed(item.body))
            yield item, range(position, position + length)
            yield from _spans(item.body, position)
            position += length
        else:
            position += 1
