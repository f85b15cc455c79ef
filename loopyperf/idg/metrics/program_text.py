"""The text of a program, in which each instruction stands once: where instructions and loops are in it."""

from collections.abc import Iterator, Sequence

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Item, Loop, placed


class ProgramText:
    """The positions of instructions and loops in the text of a graph's program."""

    def __init__(self, graph: Idg) -> None:
        """Take the program of *graph*."""
        self.graph = graph
        self.order = [place for place, _ in placed(graph.body)]
        """the instructions, as they stand one after the other"""
        self.position = {place: position for position, place in enumerate(self.order)}
        """of each instruction"""
        self._spans = {loop.number: span for loop, span in _spans(graph.body, 0)}

    def span(self, loop: Loop) -> range:
        """Return the positions of what is in *loop*."""
        return self._spans[loop.number]


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
