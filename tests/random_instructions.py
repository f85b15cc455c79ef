"""Random instructions: statements in loops, their order and their conditions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from tests.random_expressions import (
    Array,
    Value,
    draw_accesses,
    draw_array,
    draw_combined,
    draw_condition,
    draw_uneven_access,
)
from tests.random_loops import CROOKED, Loop, name, number
from tests.random_schedules import Mapping as LoopMapping
from tests.random_schedules import Step

Path = tuple[Loop, ...]


class InstructionWriter:
    """Draws the instructions of one kernel and records their arrays and features."""

    def __init__(
        self, draw: Any, loops: Sequence[Loop], mappings: Mapping[str, LoopMapping], parameters: Sequence[str]
    ) -> None:
        self.draw, self.loops, self.mappings, self.parameters = draw, loops, mappings, parameters
        self.loaded = [
            draw_array(draw, f"a{place}", draw(st.integers(1, 2))) for place in range(draw(st.integers(1, 2)))
        ]
        self.stored: list[Array] = []
        self.uneven: list[Array] = []
        self.masks: list[Array] = []
        self.steps: list[Step] = []
        self.features: set[str] = set()
        self.temporaries = 0
        self.wanted = draw(st.integers(1, 4))
        """number of statements in addition to the minimum of each loop"""
        self.barrier_path = self._draw_barrier_path()

    # {{{ bodies of loops

    def code(self) -> tuple[str, ...]:
        """Draw all instructions."""
        return tuple(self._body((), []))

    def _body(self, path: Path, values: list[Value]) -> Iterator[str]:
        inner = [loop for loop in self.loops if loop.ancestors == path]
        barrier_here = self.barrier_path is not None and self.barrier_path == path
        if path or self._one_in(8):
            yield from self._statements(path, values, least=0 if inner else 1)
        for loop in inner:
            yield from self._inner(path, loop, values)
            if barrier_here:
                yield from self._global_barrier(values)
            elif self.barrier_path is not None and loop in self.barrier_path:
                values.clear()
        if inner and (self._one_in(3) or barrier_here):
            yield from self._statements(path, values, least=1)

    def _inner(self, path: Path, loop: Loop, values: list[Value]) -> Iterator[str]:
        if loop.reduces:
            yield from self._reduction(path, loop, values)
        else:
            yield f"for {loop.name}"
            here = [] if self.barrier_path is not None and loop in self.barrier_path else list(values)
            yield from (f"    {line}" for line in self._body(loop.path, here))
            yield "end"

    def _statements(self, path: Path, values: list[Value], least: int) -> Iterator[str]:
        for place in range(self.draw(st.integers(least, 2))):
            if place >= least and not self.wanted:
                return
            self.wanted = max(self.wanted - 1, 0)
            kinds = ["store", "store", "temporary", "temporary", "update", "guarded"]
            kinds += ["accumulate"] * 8 if self._accumulators(path, values) else []
            kinds += ["exchange", "exchange", "exchange"] if self._lanes(path) else []
            yield from self._statement(self.draw(st.sampled_from(kinds)), path, values)

    # }}}

    # {{{ statements

    def _statement(self, kind: str, path: Path, values: list[Value]) -> Iterator[str]:
        self.features.add(kind)
        match kind:
            case "temporary":
                yield self._temporary(path, values)
            case "update":
                target = self._target(path)
                yield f"{target} = {target} + {self._expression(path, values).source}"
            case "accumulate":
                total = self.draw(st.sampled_from(self._accumulators(path, values)))
                yield f"{total} = {total} + {self._expression(path, []).source}"
            case "guarded":
                yield from self._guarded(path, values)
            case "exchange":
                yield from self._exchange(path, values)
            case _:
                yield f"{self._target(path)} = {self._expression(path, values).source}"

    def _temporary(self, path: Path, values: list[Value]) -> str:
        expression = self._expression(path, values)
        temporary = f"t{self.temporaries}"
        self.temporaries += 1
        values.append(Value(temporary, is_real=True))
        return f"<{self.draw(st.sampled_from(['float32', 'float64']))}> {temporary} = {expression.source}"

    def _guarded(self, path: Path, values: list[Value], around: tuple[str, ...] = ()) -> Iterator[str]:
        condition = self._condition(path)
        assume(condition not in around)  # Loopy mistakes the else of the inner one for that of the outer one
        yield f"if {condition}"
        yield from self._branch(path, list(values), (*around, condition))
        if self.draw(st.booleans()):
            self.features.add("else")
            yield "else"
            yield from self._branch(path, list(values), (*around, condition))
        yield "end"

    def _branch(self, path: Path, values: list[Value], around: tuple[str, ...]) -> Iterator[str]:
        if len(around) == 1 and self._one_in(4):
            self.features.add("nested if")
            yield from (f"    {line}" for line in self._guarded(path, values, around))
        kind = self.draw(st.sampled_from(["store", "update"]))
        yield from (f"    {line}" for line in self._statement(kind, path, values))

    def _reduction(self, path: Path, loop: Loop, values: list[Value]) -> Iterator[str]:
        self.features.add("parallel reduction" if not self.mappings[loop.name].is_sequential else "reduction")
        yield f"{self._target(path)} = sum({loop.name}, {self._expression(loop.path, values).source})"

    def _exchange(self, path: Path, values: list[Value]) -> Iterator[str]:
        """Exchange numbers between lanes through local memory."""
        lanes = self.draw(st.sampled_from(self._lanes(path)))
        local, last = f"c{self.temporaries}", number(lanes.length - 1) if lanes.length else number(0)
        self.temporaries += 1
        self.steps.append(Step("set_temporary_address_space", (local, "local")))
        yield f"<float32> {local}[{lanes.name}] = {self._expression(path, values).source}"
        yield f"{self._target(path)} = {local}[{last + name(lanes.name) * -1}]"

    def _global_barrier(self, values: list[Value]) -> Iterator[str]:
        self.features.add("launches")
        values.clear()
        yield "... gbarrier"

    # }}}

    # {{{ parts of statements

    def _expression(self, path: Path, values: Sequence[Value]) -> Value:
        leaves = [leaf for _ in range(self.draw(st.integers(1, 2))) for leaf in self._leaves(path, values)]
        if len(leaves) > 1 and self._one_in(4):
            self.features.add("choice")
            condition = self._condition(path)
            chosen = f"if({condition}, {draw_combined(self.draw, leaves[:1]).source}, {leaves[1].source})"
            leaves = [Value(chosen, leaves[0].is_real or leaves[1].is_real), *leaves[2:]]
            return (
                leaves[0]
                if len(leaves) == 1
                else Value(f"{chosen} + {draw_combined(self.draw, leaves[1:]).source}", is_real=True)
            )
        return draw_combined(self.draw, leaves)

    def _condition(self, path: Path) -> str:
        # Counting time grows with the common period of holes, tiles and conditions.
        holes = any(loop.kind in CROOKED for loop in path)
        tiled = any(len(self.mappings[loop.name].parts) > 1 for loop in path)
        if path and len(self.masks) < 3 and self._one_in(6):
            return self._condition_on_data(path)
        return draw_condition(self.draw, path, self.parameters, () if holes else (2,) if tiled else (2, 3))

    def _condition_on_data(self, path: Path) -> str:
        """Draw a condition on an array that nothing else uses.

        It is not combined with others: if one part of a condition depends on data, each part has its own stride class.
        """
        self.features.add("condition on data")
        mask = Array(f"m{len(self.masks)}", "int32", "C", [number(0)], statements={"conditions"})
        self.masks.append(mask)
        cell = mask.cell([name(self.draw(st.sampled_from(path)).name)], path)
        return self.draw(st.sampled_from([f"{cell} > 0", f"not ({cell} > 0)", f"0.1*{cell} > 0.3"]))

    def _leaves(self, path: Path, values: Sequence[Value]) -> list[Value]:
        match self.draw(st.integers(0, 9)):
            case 0 if path:
                return [Value(self.draw(st.sampled_from(path)).name, is_real=False)]
            case 1 | 2 if values:
                return [self.draw(st.sampled_from(values))]
            case 3 if path:
                array, cell = draw_uneven_access(self.draw, f"u{len(self.uneven)}", path)
                self.uneven.append(array)
                self.features.add("uneven access")
                return [Value(cell, array.dtype.startswith("f"))]
            case _:
                array = self.draw(st.sampled_from(self.loaded))
                family, cells = draw_accesses(self.draw, array, path)
                array.statements.add(str(len(self.stored)))
                self.features.add(f"{family} access")
                return [Value(cell, array.dtype.startswith("f")) for cell in cells]

    def _target(self, path: Path) -> str:
        """Return a cell of a new array, whose axes are a random permutation of the loops."""
        loops = self.draw(st.permutations(path))
        array = draw_array(self.draw, f"out{len(self.stored)}", max(len(loops), 1))
        self.stored.append(array)
        return array.cell([name(loop.name) for loop in loops] or [number(0)], path)

    def _accumulators(self, path: Path, values: Sequence[Value]) -> list[str]:
        """Return the temporaries to which the innermost loop can add, if it is sequential."""
        sequential = bool(path) and self.mappings[path[-1].name].is_sequential
        return [value.source for value in values if value.source.startswith("t")] if sequential else []

    def _lanes(self, path: Path) -> list[Loop]:
        return [loop for loop in path if self.mappings[loop.name].kind == "whole l.0"]

    def _draw_barrier_path(self) -> Path | None:
        """Draw the sequential loops around a global barrier, or None for no barrier."""
        paths = {loop.ancestors for loop in self.loops} | {loop.path for loop in self.loops if not loop.reduces}
        host = [path for path in sorted(paths, key=str) if all(self._runs_on_host(loop) for loop in path)]
        return self.draw(st.sampled_from(host)) if self._one_in(5) else None

    def _runs_on_host(self, loop: Loop) -> bool:
        return all(part.tag is None for part in self.mappings[loop.name].parts)

    def _one_in(self, number_of_cases: int) -> bool:
        return self.draw(st.integers(1, number_of_cases)) == number_of_cases

    # }}}
