"""A graph as text that reads like an annotated kernel: what each instruction is, how often it runs, and after what."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loopyperf.idg.graph import Idg
from loopyperf.idg.pictures.edge_words import of_pass, when
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop

WIDEST = 60
"""characters of a line of the source: what goes beyond is left out"""
INDENTATION = "    "


@dataclass(frozen=True, slots=True)
class _Line:
    """A loop's head, of which nothing else is known, or an instruction."""

    text: str
    place: int | None = None

    def cells(self, graph: Idg) -> tuple[str, ...]:
        """Return what stands in the columns."""
        if self.place is None:
            return "", self.text, "", "", "", ""
        each = graph.instructions[self.place]
        kind = f"{each.kind} {each.dtype}".rstrip()
        return str(self.place), self.text, kind, each.subsystem, f"×{each.executions}", _waits(graph, self.place)


def listing(graph: Idg) -> str:
    """Return the rolled *graph* as lines of text, an instruction or the head of a loop each.

    The columns are: the number of the instruction; the line of the source, inside its loops; kind and type; the
    subsystem; how often one warp executes it; and what it waits for, with the pass of a loop that this is of (``k - 1``
    of the one before, ``k = 15`` of a fixed one), where not in all passes, and through what, if not through registers.
    """
    rows = [line.cells(graph) for line in _lines(graph, graph.body, "")]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(f"{_row(row, widths)}\n" for row in rows)


def _row(row: Sequence[str], widths: Sequence[int]) -> str:
    number, *others = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return "  ".join((number.strip().rjust(widths[0]), *others)).rstrip()


def _lines(graph: Idg, body: Sequence[Item], indentation: str) -> Iterator[_Line]:
    for item in body:
        if isinstance(item, Loop):
            yield _Line(f"{indentation}{head(item)}:")
            yield from _lines(graph, item.body, indentation + INDENTATION)
        else:
            yield _Line(indentation + _text(graph.instructions[item]), item)


def head(loop: Loop) -> str:
    """Return the head of *loop*: its name and its number of passes."""
    number = "1 pass" if loop.trips == 1 else f"{loop.trips} passes"
    return f"for {loop.name} in {number}{', unrolled' if loop.is_unrolled else ''}"


def _text(instruction: Instruction) -> str:
    text = " ".join(instruction.text.split()) or instruction.label
    guard = "" if instruction.condition is None else f"if {instruction.condition}: "
    return clipped(guard + text)


def clipped(text: str) -> str:
    """Return *text* in at most :data:`WIDEST` characters."""
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _waits(graph: Idg, place: int) -> str:
    edges = sorted(graph.definitions[place], key=lambda edge: edge.source)
    waits = dict.fromkeys(_definition(graph, edge) for edge in edges)
    return f"waits for {', '.join(waits)}" if waits else ""


def _definition(graph: Idg, edge: Edge) -> str:
    number, condition = of_pass(graph, edge), when(edge)
    of = f" [{number}]" if number else ""
    through = "" if edge.through == Dependence.DATA else f" ({edge.through})"
    return f"{edge.source}{of}{through}{f' if {condition}' if condition else ''}"
