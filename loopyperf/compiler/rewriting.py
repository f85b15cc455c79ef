"""A graph that a compiler pass extends by instructions and edges."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Instruction, Item, Loop, Opcode

OfLoops = Callable[[tuple[Loop, ...]], Iterable[int]]


def _nothing(_: tuple[Loop, ...]) -> Iterable[int]:
    return ()


class Rewriting:
    """A graph to which a pass adds instructions and edges."""

    def __init__(self, graph: Idg) -> None:
        """Start with the instructions and edges of *graph*."""
        self.graph = graph
        self.instructions: list[Instruction] = list(graph.instructions)
        self.edges: list[Edge] = list(graph.edges)

    def add(self, kind: Opcode, text: str, number: int = 1, executions: int | Fraction = 1) -> list[int]:
        """Add *number* equal instructions that control what executes; return their indices."""
        first = len(self.instructions)
        subsystem = Pipeline.CONTROL if kind == Opcode.BRANCH else Pipeline.ALU
        is_assumed = kind == Opcode.MOVE
        added = Instruction(kind, "i32", subsystem, "", text, executions=executions, is_assumed=is_assumed)
        self.instructions += [added] * number
        return list(range(first, len(self.instructions)))

    def body_with(self, before: OfLoops = _nothing, first: OfLoops = _nothing, last: OfLoops = _nothing) -> list[Item]:
        """Return the body with instructions *before* each loop, and *first* and *last* in its body.

        These are functions of the loop and the loops around it, outermost first, that return added instructions.
        """

        def items(body: Sequence[Item], around: tuple[Loop, ...]) -> Iterator[Item]:
            for item in body:
                if isinstance(item, Loop):
                    loops = (*around, item)
                    yield from before(loops)
                    yield replace(item, body=(*first(loops), *items(item.body, loops), *last(loops)))
                else:
                    yield item

        return list(items(self.graph.body, ()))

    def rebuilt(self, body: Iterable[Item]) -> Idg:
        """Return the graph with all instructions and edges, and *body*."""
        return Idg(tuple(self.instructions), tuple(self.edges), tuple(body))
