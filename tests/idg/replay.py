"""Replay the instructions that one warp executes, and find the last writer of each value that an instruction reads.

This is an independent implementation of the flat graph: it lists every execution with the values of its loop
variables, sorts the executions into the order of the schedule, and keeps the last writer of each cell in a dictionary.
It derives nothing symbolically, and isl only lists points.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import islpy as isl
from pymbolic import evaluate

from loopyperf.idg.executions import WarpExecutions
from loopyperf.idg.launch_program import LaunchProgram
from loopyperf.idg.warp_classes import iname_values

Execution = tuple[int, dict[str, int]]
"""the number of an instruction, and the values of the variables of the loops around it"""


class Replay:
    """The executions of one warp, and the edges between them as pairs of positions."""

    def __init__(self, program: LaunchProgram, executions: WarpExecutions) -> None:
        self.program, self.drafts = program, program.drafts
        inames = frozenset().union(*(draft.statement.inames for draft in self.drafts))
        lanes = iname_values(program.kernel, executions.warp, inames, executions.sizes)
        self.uniform = {**executions.sizes, **executions.host, **{name: int(each[0]) for name, each in lanes.items()}}
        found = [
            (self._time(place, values), place, values)
            for place, draft in enumerate(self.drafts)
            for values in _listed(executions.run(draft.statement, draft.step.conditions).values.set)
        ]
        self.executions: list[Execution] = []
        self.edges: set[tuple[int, int]] = set()
        self._written: dict[Any, int] = {}
        self._stored: dict[int, int] = {}
        alive = {place for _, place, _ in found}
        stores = [self.drafts[place] for place in alive if self.drafts[place].step.kind == "store"]
        local = {draft.reference.array for draft in stores if draft.reference and draft.reference.space == "local"}
        self.exchanged = local if any(self.drafts[place].step.kind == "barrier" for place in alive) else set()
        self._latest: dict[tuple[int, tuple[int, ...]], int] = {}
        for _, place, values in sorted(found, key=lambda each: (each[0], each[1])):
            self._execute(place, values)

    def _time(self, place: int, values: tuple[int, ...]) -> tuple[int, ...]:
        statement = self.drafts[place].statement
        places = self.program.places[statement.number]
        return tuple(part for pair in zip(places, (*values, 0), strict=True) for part in pair)

    def _execute(self, place: int, values: tuple[int, ...]) -> None:
        here = len(self.executions)
        draft = self.drafts[place]
        loops = dict(zip((nest.iname for nest in draft.statement.loops), values, strict=True))
        self.executions.append((place, loops))
        data = {value.node for value in draft.step.operands}
        present = {self._find(node, values) for node in data} - {None}
        if not any(self._executes(node) for node in data):
            present |= {self._find(value.node, values) for value in draft.controls} - {None}
        self.edges |= {(source, here) for source in present}
        for cell in self._reads(place, loops):
            if cell in self._written:
                self.edges.add((self._written[cell], here))
        for cell in self._writes(place, loops):
            self._written[cell] = here
        self._before_barrier(here, place)
        self._latest[place, values] = here

    def _executes(self, node: int | None) -> bool:
        return node is not None and any(place == node for place, _ in self._latest)

    def _find(self, node: int | None, values: tuple[int, ...]) -> int | None:
        """Return the execution of *node* in the iteration with these *values*, or in that of the loops around both."""
        if node is None:
            return None
        depth = len(self.drafts[node].statement.loops)
        return self._latest.get((node, values[:depth]))

    # {{{ cells

    def _cell(self, array: str, index: tuple[Any, ...], loops: Mapping[str, int]) -> tuple[Any, ...]:
        return (array, *(int(evaluate(each, {**self.uniform, **loops})) for each in index))

    def _reads(self, place: int, loops: Mapping[str, int]) -> Iterator[Any]:
        draft = self.drafts[place]
        for value in (*draft.step.operands, *draft.controls):
            for read in value.reads:
                yield self._cell(read.variable, read.index, loops)
        yield from self._in_memory(place, loops, "load")

    def _writes(self, place: int, loops: Mapping[str, int]) -> Iterator[Any]:
        for definition in self.program.translator.walk.definitions:
            if definition.node == place:
                yield self._cell(definition.variable, definition.index, loops)
        yield from self._in_memory(place, loops, "store")

    def _in_memory(self, place: int, loops: Mapping[str, int], direction: str) -> Iterator[Any]:
        ref = self.drafts[place].reference
        if ref is not None and ref.direction == direction and not self._is_exchanged(ref):
            yield self._cell(ref.array, ref.index, loops)
        elif self.drafts[place].step.kind == "barrier" or (
            ref is not None and (ref.direction, direction) == ("load", "load")
        ):
            yield "handed on"

    def _is_exchanged(self, ref: Any) -> bool:
        return ref.array in self.exchanged

    def _before_barrier(self, here: int, place: int) -> None:
        """Record the last store of each instruction since the last barrier; the next barrier waits for all of them."""
        ref = self.drafts[place].reference
        if self.drafts[place].step.kind == "barrier":
            self.edges |= {(store, here) for store in self._stored.values()}
            self._stored.clear()
        elif ref is not None and ref.direction == "store" and self._is_exchanged(ref):
            self._stored[place] = here

    # }}}


def _listed(points: isl.Set) -> list[tuple[int, ...]]:
    axes = range(points.dim(isl.dim_type.set))
    found: list[Any] = []
    points.foreach_point(found.append)
    return [tuple(point.get_coordinate_val(isl.dim_type.set, at).to_python() for at in axes) for point in found]
