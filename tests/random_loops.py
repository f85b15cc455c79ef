"""Random loops: rectangles, triangles, bands, holes and diagonals, in one domain or in a tree of domains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st

CROOKED = frozenset({"strided", "divided", "flat triangle", "checkerboard", "band", "cut band"})
"""kinds of loops for which counting is slow if they are tiled, and prefetching in Loopy may take minutes"""


@dataclass(frozen=True)
class Linear:
    """Σ coefficient · name + constant, with integer coefficients."""

    coefficients: Mapping[str, int] = field(default_factory=dict)
    constant: int = 0

    def __add__(self, other: "Linear") -> "Linear":
        names = [*self.coefficients, *(name for name in other.coefficients if name not in self.coefficients)]
        sums = {name: self.coefficients.get(name, 0) + other.coefficients.get(name, 0) for name in names}
        return Linear(sums, self.constant + other.constant)

    def __mul__(self, factor: int) -> "Linear":
        return Linear({name: factor * value for name, value in self.coefficients.items()}, factor * self.constant)

    def __str__(self) -> str:
        terms = [f"{value}*{name}" if value != 1 else name for name, value in self.coefficients.items() if value]
        return " + ".join([*terms, str(self.constant)] if self.constant or not terms else terms).replace("+ -", "- ")


def number(value: int) -> Linear:
    return Linear({}, value)


def name(called: str) -> Linear:
    return Linear({called: 1})


Width = Literal["constant", "narrow", "wide"]


@dataclass(frozen=True)
class Loop:
    """A loop and the bounds of its variable over all iterations of the loops around it."""

    name: str
    ancestors: tuple["Loop", ...]
    kind: str
    constraints: str
    low: Linear = field(compare=False)
    high: Linear = field(compare=False)
    width: Width
    length: int | None = None
    """if it is constant"""
    reduces: bool = False

    @property
    def path(self) -> tuple["Loop", ...]:
        """Return the loop and those around it, outermost first."""
        return (*self.ancestors, self)


# {{{ one loop

Shape = tuple[str, Linear, Linear, Width]
"""constraints on x, its minimum and maximum, and how its length grows with the sizes"""


def loop_shapes(x: str, outer: Loop | None, size: str) -> dict[str, Shape]:
    """Return kind -> shape of the loops over *x* up to about *size* that are possible inside *outer*."""
    zero, last = number(0), name(size) + number(-1)
    shapes: dict[str, Shape] = {
        "rectangle": (f"0 <= {x} < {size}", zero, last, "wide"),
        "offset": (f"2 <= {x} <= {size}", number(2), name(size), "wide"),
        "longer": (f"-1 <= {x} < {size} + 2", number(-1), last + number(2), "wide"),
        "strided": (f"0 <= {x} < {size} and {x} mod 3 = 1", zero, last, "wide"),
        "divided": (f"0 <= {x} and 3*{x} <= {size} + 1", zero, name(size), "wide"),
    }
    if outer is not None:
        shapes |= _shapes_inside(x, outer, size)
    return shapes


def _shapes_inside(x: str, outer: Loop, size: str) -> dict[str, Shape]:
    zero, last, y = number(0), name(size) + number(-1), outer.name
    return {
        "triangle": (f"{outer.low} <= {x} <= {y}", outer.low, outer.high, outer.width),
        "upper triangle": (f"{y} < {x} <= {outer.high}", outer.low, outer.high, outer.width),
        "flat triangle": (f"0 <= {x} and 2*{x} <= {y}", zero, outer.high, outer.width),
        "band": (f"{y} - 1 <= {x} <= {y} + 1", outer.low + number(-1), outer.high + number(1), "narrow"),
        "cut band": (f"{y} <= {x} < {y} + 3 and {x} <= {outer.high}", outer.low, outer.high, "narrow"),
        "skewed": (f"0 <= {x} - {y} < {size}", outer.low, outer.high + last, "wide"),
        "antidiagonal": (f"0 <= {x} and {x} + {y} < {size}", zero, last + outer.low * -1, "wide"),
        "checkerboard": (f"0 <= {x} < {size} and ({x} + {y}) mod 2 = 0", zero, last, "wide"),
    }


def constant_loop(draw: Any, x: str, ancestors: tuple[Loop, ...]) -> Loop:
    length = draw(st.sampled_from([2, 3, 4, 8]))
    return Loop(x, ancestors, "constant", f"0 <= {x} < {length}", number(0), number(length - 1), "constant", length)


def draw_loop(draw: Any, x: str, ancestors: tuple[Loop, ...], parameters: Sequence[str], smooth: bool) -> Loop:
    """Draw a loop inside *ancestors*; at most two nested loops are as long as a size."""
    crowded = sum(loop.width == "wide" for loop in ancestors) >= 2
    if draw(st.integers(0, 3)) == 0:
        return constant_loop(draw, x, ancestors)
    outer = draw(st.sampled_from(ancestors)) if ancestors else None
    shapes = loop_shapes(x, outer, draw(st.sampled_from(parameters)))
    possible = shapes.keys() - (CROOKED if smooth else frozenset())
    kinds = sorted(kind for kind in possible if shapes[kind][3] != "wide" or not crowded)
    if not kinds:
        return constant_loop(draw, x, ancestors)
    inside = [kind for kind in kinds if outer is not None and kind in _shapes_inside(x, outer, "n")]
    kind = draw(st.sampled_from(inside) if inside and draw(st.booleans()) else st.sampled_from(kinds))
    constraints, low, high, width = shapes[kind]
    return Loop(x, ancestors, kind, constraints, low, high, width)


# }}}


# {{{ several loops


def draw_loops(draw: Any, parameters: Sequence[str], smooth: bool) -> tuple[Loop, ...]:
    """Draw one to three loops, nested or in sequence; with *smooth*, without crooked ones."""
    loops: list[Loop] = []
    for x in "ijk"[: draw(st.sampled_from([1, 2, 2, 3, 3]))]:
        around = draw(st.sampled_from([*loops, *loops, None])) if loops else None
        loops.append(draw_loop(draw, x, around.path if around else (), parameters, smooth))
    return _with_reduction(draw, loops)


def _with_reduction(draw: Any, loops: list[Loop]) -> tuple[Loop, ...]:
    """Possibly turn the last loop into a reduction."""
    *others, last = loops
    if draw(st.integers(0, 2)) == 0:
        last = Loop(
            last.name,
            last.ancestors,
            last.kind,
            last.constraints,
            last.low,
            last.high,
            last.width,
            last.length,
            reduces=True,
        )
    return (*others, last)


def draw_domains(draw: Any, loops: Sequence[Loop], parameters: Sequence[str], together: bool) -> tuple[str, ...]:
    """Draw which loops share a domain, or all with *together*; outer loops of other domains are parameters."""
    groups: list[list[Loop]] = []
    for loop in loops:
        if groups and (together or draw(st.booleans())):
            groups[-1].append(loop)
        else:
            groups.append([loop])
    return tuple(_domain(group, parameters) for group in _nested(groups))


def _nested(groups: Sequence[list[Loop]]) -> list[list[Loop]]:
    """Return *groups* with each directly after one around it: Loopy treats a domain after another one as a root."""
    ordered: list[list[Loop]] = []
    for group in groups:
        outer = {ancestor.name for loop in group for ancestor in loop.ancestors}
        around = [place for place, other in enumerate(ordered) if any(loop.name in outer for loop in other)]
        ordered.insert(max(around) + 1 if around else len(ordered), group)
    return ordered


def _domain(group: Sequence[Loop], parameters: Sequence[str]) -> str:
    names = [loop.name for loop in group]
    around = sorted({outer.name for loop in group for outer in loop.ancestors} - set(names))
    constraints = " and ".join(loop.constraints for loop in group)
    return f"[{', '.join([*parameters, *around])}] -> {{ [{', '.join(names)}]: {constraints} }}"


# }}}
