"""Random schedules: tilings of loops and their mapping to the hardware."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.random_loops import CROOKED, Loop

TILES = (2, 3, 4, 8, 16)
SMALL_TILES = (2, 4)
"""for nests that already have a tiled or crooked loop: counting time grows with the common period"""


@dataclass(frozen=True)
class Step:
    """A Loopy transformation and its arguments."""

    name: str
    arguments: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        arguments = [*map(repr, self.arguments), *(f"{name}={value!r}" for name, value in self.options)]
        return f"unit = lp.{self.name}(unit, {', '.join(arguments)})"


@dataclass(frozen=True)
class Part:
    """One of the loops that result from tiling a loop."""

    name: str
    tag: str | None
    length: int | None
    """if it is constant"""

    @property
    def is_parallel(self) -> bool:
        """Return whether work-items or work-groups share the loop, or Loopy treats it as parallel."""
        return self.tag is not None and self.tag != "unr"


@dataclass(frozen=True)
class Mapping:
    """The tiling and the tags of one loop."""

    kind: str
    steps: tuple[Step, ...]
    parts: tuple[Part, ...]

    @property
    def is_sequential(self) -> bool:
        """Return whether one work-item executes all iterations in sequence."""
        return not any(part.is_parallel for part in self.parts)


def draw_mappings(draw: Any, loops: Sequence[Loop]) -> dict[str, Mapping]:
    """Draw the mapping of each of *loops*; nested loops get different axes."""
    mappings: dict[str, Mapping] = {}
    for loop in draw(st.permutations(loops)):
        taken = {part.tag for other in loops if _nested(loop, other) for part in _parts(mappings, other)}
        groups, items = (_free_axis(kind, taken) for kind in "gl")
        # Group axes have no gaps: a loop has the second only if a loop has the first.
        items = items if items == "l.0" or any("l.0" in _tags(mappings, other) for other in loops) else None
        nest = [loop, *(other for other in loops if _nested(loop, other))]
        crooked = sum(other.kind in CROOKED for other in nest)
        crooked += sum(len(_parts(mappings, other)) - 1 for other in nest if other.name in mappings)
        choices = _choices(loop, groups, items, (TILES, SMALL_TILES, ())[min(crooked, 2)])
        mappings[loop.name] = draw(st.sampled_from(list(choices)))
    return mappings


def _nested(loop: Loop, other: Loop) -> bool:
    return loop in other.ancestors or other in loop.ancestors


def _parts(mappings: dict[str, Mapping], loop: Loop) -> tuple[Part, ...]:
    return mappings[loop.name].parts if loop.name in mappings else ()


def _tags(mappings: dict[str, Mapping], loop: Loop) -> set[str | None]:
    return {part.tag for part in _parts(mappings, loop)}


def _free_axis(kind: str, taken: set[str | None]) -> str | None:
    return next((axis for axis in (f"{kind}.0", f"{kind}.1") if axis not in taken), None)


# {{{ mappings of one loop


def _choices(loop: Loop, groups: str | None, items: str | None, tiles: Sequence[int]) -> Iterator[Mapping]:
    yield _whole(loop, None)
    if loop.length is not None:
        yield from _of_constant_loop(loop, groups, items)
    elif loop.reduces:
        if tiles:
            yield _split(loop, 4, None, None)
            yield _split(loop, tiles[1], None, "unr")
    else:
        yield from _of_long_loop(loop, groups, items, tiles)


def _of_constant_loop(loop: Loop, groups: str | None, items: str | None) -> Iterator[Mapping]:
    yield _whole(loop, "unr")
    if items:
        yield _whole(loop, items)
        yield _whole(loop, items)
    if not loop.reduces:
        yield _whole(loop, "ilp")
        if groups:
            yield _whole(loop, groups)


def _of_long_loop(loop: Loop, groups: str | None, items: str | None, tiles: Sequence[int]) -> Iterator[Mapping]:
    for tile in tiles:
        if groups and items:
            yield _split(loop, tile, groups, items)
            yield _split(loop, tile, groups, items, slabs=(0, 1))
        if items:
            yield _split(loop, tile, None, items)
    if groups:
        yield _whole(loop, groups)
    if groups and items and tiles == TILES:
        yield from _nested_tiles(loop, groups, items)
    if tiles:
        yield _split(loop, 4, groups, None)
        yield _split(loop, 4, None, "unr")
        yield _split(loop, 2, None, "ilp")
        yield _split(loop, tiles[1], None, None, slabs=(1, 1))


def _whole(loop: Loop, tag: str | None) -> Mapping:
    steps = (Step("tag_inames", ({loop.name: tag},)),) if tag else ()
    return Mapping(f"whole {tag}" if tag else "plain", steps, (Part(loop.name, tag, loop.length),))


def _split(loop: Loop, tile: int, outer: str | None, inner: str | None, slabs: tuple[int, int] = (0, 0)) -> Mapping:
    step = _split_step(loop.name, tile, outer, inner, slabs)
    parts = (Part(f"{loop.name}_outer", outer, None), Part(f"{loop.name}_inner", inner, tile))
    return Mapping("slabs" if any(slabs) else "split", (step,), parts)


def _nested_tiles(loop: Loop, groups: str, items: str) -> Iterator[Mapping]:
    inner, last = f"{loop.name}_inner", f"{loop.name}_inner_inner"
    first = _split_step(loop.name, 8, groups, None, (0, 0))
    outermost, middle = Part(f"{loop.name}_outer", groups, None), f"{loop.name}_inner_outer"
    for tags in ((items, None), (None, items), (items, "unr"), ("ilp", items)):
        step = _split_step(inner, 4, *tags, (0, 0))
        yield Mapping("nested tiles", (first, step), (outermost, Part(middle, tags[0], 2), Part(last, tags[1], 4)))


def _split_step(iname: str, tile: int, outer: str | None, inner: str | None, slabs: tuple[int, int]) -> Step:
    options = (("outer_tag", outer), ("inner_tag", inner), ("slabs", slabs if any(slabs) else None))
    return Step("split_iname", (iname, tile), tuple((name, value) for name, value in options if value is not None))


# }}}
