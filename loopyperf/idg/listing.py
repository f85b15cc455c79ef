"""Listing of an instruction dependence graph as text."""

from collections.abc import Iterator, Sequence
from typing import Any

import pymbolic.primitives as prim

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Dependence, Edge, Instruction, Item, Loop, lag
from loopyperf.polyhedral.affine import Affine

WIDEST = 60
"""maximum characters of a source line; longer lines are truncated"""
INDENTATION = "    "
Row = tuple[str, ...]


def listing(graph: Idg) -> str:
    """Return the rolled *graph* as text, one line per instruction or loop header.

    The columns are: instruction index; source line, indented by loop; kind and type; subsystem; executions per warp;
    and the instructions that it waits for. A dependence shows its loop iteration (``k - 1`` for the previous one,
    ``k = 15`` for a fixed one), its condition if it does not always exist, and its kind if it is not through registers.
    """
    rows = list(_rows(graph, graph.body, ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(f"{_aligned(row, widths)}\n" for row in rows)


def _aligned(row: Row, widths: Sequence[int]) -> str:
    number, *others = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return "  ".join((number.strip().rjust(widths[0]), *others)).rstrip()


def _rows(graph: Idg, body: Sequence[Item], indentation: str) -> Iterator[Row]:
    for item in body:
        if isinstance(item, Loop):
            trips = "1 iteration" if item.trips == 1 else f"{item.trips} iterations"
            header = f"{indentation}for {item.name} in {trips}{', unrolled' if item.is_unrolled else ''}:"
            yield "", header, "", "", "", ""
            yield from _rows(graph, item.body, indentation + INDENTATION)
        else:
            instruction = graph.instructions[item]
            kind = f"{instruction.kind} {instruction.dtype}".rstrip()
            executions = f"×{instruction.executions}"
            text = indentation + _text(instruction)
            yield str(item), text, kind, instruction.subsystem, executions, _waits(graph, item)


def _text(instruction: Instruction) -> str:
    guard = "" if instruction.condition is None else f"if {instruction.condition}: "
    text = guard + (" ".join(instruction.text.split()) or instruction.label)
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _waits(graph: Idg, place: int) -> str:
    edges = sorted(graph.definitions[place], key=lambda edge: edge.source)
    waits = dict.fromkeys(_definition(graph, edge) for edge in edges)
    return f"waits for {', '.join(waits)}" if waits else ""


def _definition(graph: Idg, edge: Edge) -> str:
    iterations, condition = ", ".join(_iterations(graph, edge)), _condition(edge)
    of = f" [{iterations}]" if iterations else ""
    through = "" if edge.through == Dependence.DATA else f" ({edge.through})"
    return f"{edge.source}{of}{through}{f' if {condition}' if condition else ''}"


def _iterations(graph: Idg, edge: Edge) -> Iterator[str]:
    """Yield the iterations of the source of *edge* that are not the target's own, e.g. ``"k - 1"`` or ``"k = 15"``."""
    for loop, iteration in zip(graph.loops_around[edge.source], edge.iterations, strict=False):
        earlier = lag(iteration, loop.name)
        if earlier is None:
            yield f"{loop.name} = {iteration}"
        elif earlier:
            yield f"{loop.name} - {earlier}"


def _condition(edge: Edge) -> str:
    """Return the condition of *edge*, empty if none, without tests that only require the source iteration to exist."""
    condition = edge.condition
    parts: tuple[Any, ...] = condition.children if isinstance(condition, prim.LogicalAnd) else (condition,)
    return " and ".join(str(part) for part in parts if part is not None and not _only_requires_iteration(part, edge))


def _only_requires_iteration(condition: Any, edge: Edge) -> bool:
    match condition:
        case prim.Comparison(left=left, operator=operator, right=0):
            return str(operator) == ">=" and Affine.around(left) in edge.iterations
        case _:
            return False
