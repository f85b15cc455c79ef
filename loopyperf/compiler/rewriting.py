"""What the passes share that add instructions to a graph."""

from collections.abc import Iterable
from fractions import Fraction

from loopyperf.device.parts import Pipeline
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Instruction, Item, Opcode


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

    def rebuilt(self, body: Iterable[Item]) -> Idg:
        """Return the graph with all instructions and edges, and *body*."""
        return Idg(tuple(self.instructions), tuple(self.edges), tuple(body))
