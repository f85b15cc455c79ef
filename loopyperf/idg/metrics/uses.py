"""Where the result of an instruction is used first, and what the program has in between.

Both are read off the text of the program, in which each instruction stands once, as Sim (section 5.3) reads them off
the machine code: from a definition the text is followed to the use, from the end of a loop's body back to its start as
often as the edge says. A loop on the way is passed through once.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

from loopyperf.idg.graph import Idg
from loopyperf.idg.metrics.program_text import ProgramText
from loopyperf.idg.program import Dependence, Edge, Instruction


class FirstUses:
    """The first uses of results in a graph."""

    def __init__(self, graph: Idg) -> None:
        """Take the uses of *graph*: edges through registers, or to what a result decides on."""
        self._text = ProgramText(graph)
        self._uses: dict[int, list[Edge]] = {}
        for edge in graph.edges:
            if edge.through in (Dependence.DATA, Dependence.CONTROL):
                self._uses.setdefault(edge.source, []).append(edge)

    def of(self, place: int) -> Edge | None:
        """Return the edge to the first use of the result of *place*; None if there is none."""
        everything = range(len(self._text.order) + 1)
        return min(self._uses.get(place, ()), key=lambda edge: self._length(edge, everything), default=None)

    def between(self, place: int, is_counted: Callable[[Instruction], bool]) -> int:
        """Return how many instructions there are of a sort, from *place* on, itself included, to before its first use.

        Without a use, they are those to the end of the loop that it is in, or of the program.
        """
        counted = (int(is_counted(self._text.graph.instructions[each])) for each in self._text.order)
        before = list(accumulate(counted, initial=0))
        use = self.of(place)
        if use is not None:
            return self._length(use, before)
        around = self._text.graph.loops_around[place]
        end = self._text.span(around[-1]).stop if around else len(self._text.order)
        return before[end] - before[self._text.position[place]]

    def _length(self, edge: Edge, before: Sequence[int]) -> int:
        """Return the length of the text from the source of *edge* to its target, given that *before* each position."""
        source, target = before[self._text.position[edge.source]], before[self._text.position[edge.target]]
        level, passes = next(((level, passes) for level, passes in enumerate(edge.distance) if passes), (0, 0))
        if not passes:
            return target - source
        span = self._text.span(self._text.graph.loops_around[edge.source][level])
        return passes * (before[span.stop] - before[span.start]) + target - source
