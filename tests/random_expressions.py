"""Random expressions: accesses, conditions and arithmetic."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.random_loops import Linear, Loop, name, number

TYPES = ("float32", "float32", "float64", "int32")


@dataclass
class Array:
    """An array and the highest indices accessed so far, which determine its shape."""

    name: str
    dtype: str
    order: str
    highest: list[Linear]
    """the highest index of each axis"""
    padding: int = 0
    statements: set[str] = field(default_factory=set[str])
    """statements that access it"""
    loops: set[str] = field(default_factory=set[str])
    """loops in its indices"""
    is_bounded: bool = True
    """if False, it has one axis of unknown length"""

    def cell(self, index: Sequence[Linear], loops: Sequence[Loop]) -> str:
        """Return the source of an access at *index*, shifted so that no index is negative."""
        moved = [_moved(axis, loops) for axis in index]
        highest = [_bound(axis, loops, least=False) for axis in moved]
        self.highest = [_at_least(*pair) for pair in zip(self.highest, highest, strict=True)]
        self.loops |= {loop.name for loop in loops for axis in index if axis.coefficients.get(loop.name)}
        return f"{self.name}[{', '.join(map(str, moved))}]"

    @property
    def shape(self) -> tuple[str, ...]:
        """Return the length of each axis as source code; empty if it is unknown."""
        if not self.is_bounded:
            return ()
        *slow, fast = self.highest
        return (*(str(axis + number(1)) for axis in slow), str(fast + number(1 + self.padding)))


def _bound(index: Linear, loops: Sequence[Loop], least: bool) -> Linear:
    """Return the minimum (*least*) or maximum of *index* over *loops*."""
    bound = Linear({}, index.constant)
    for called, factor in index.coefficients.items():
        loop = next((loop for loop in loops if loop.name == called), None)
        if loop is None:
            bound += name(called) * factor
        else:
            bound += (loop.low if (factor > 0) == least else loop.high) * factor
    return bound


def _moved(index: Linear, loops: Sequence[Loop]) -> Linear:
    low = _bound(index, loops, least=True)
    below = {size: -value for size, value in low.coefficients.items() if value < 0}
    return index + Linear(below, max(-low.constant, 0))


def _at_least(left: Linear, right: Linear) -> Linear:
    names = sorted({*left.coefficients, *right.coefficients})
    return Linear(
        {size: max(left.coefficients.get(size, 0), right.coefficients.get(size, 0)) for size in names},
        max(left.constant, right.constant),
    )


# {{{ accesses


def draw_array(draw: Any, called: str, axes: int) -> Array:
    """Draw the type and layout of an array without accesses."""
    dtype, order = draw(st.sampled_from(TYPES)), draw(st.sampled_from("CCF"))
    return Array(called, dtype, order, [number(0)] * axes, draw(st.sampled_from([0, 0, 1, 5])))


FAMILIES = ("plain", "plain", "strided", "strided", "members", "stencil", "transposed", "reversed", "diagonal", "fixed")


def draw_accesses(draw: Any, array: Array, loops: Sequence[Loop]) -> tuple[str, list[str]]:
    """Draw a family of accesses; return its name and the source code of the accesses."""
    family = draw(st.sampled_from(FAMILIES)) if loops else "fixed"
    base = [name(loop.name) for loop in _axes(draw, len(array.highest), loops)] if loops else []
    indices = [number(draw(st.integers(0, 2))) for _ in array.highest] if family == "fixed" else base
    several = _FAMILY.get(family, lambda draw, index, loops: [index])(draw, indices, loops)
    return family, [array.cell(index, loops) for index in several]


def _axes(draw: Any, number_of_axes: int, loops: Sequence[Loop]) -> list[Loop]:
    if len(loops) < number_of_axes:
        return [draw(st.sampled_from(loops)) for _ in range(number_of_axes)]
    return draw(st.permutations(loops))[:number_of_axes]


Index = list[Linear]


def _strided(draw: Any, base: Index, loops: Sequence[Loop]) -> list[Index]:
    stride = draw(st.sampled_from([2, 2, 3, 3, 4, 4, 5, 6]))
    offsets = draw(st.lists(st.integers(0, stride - 1), min_size=1, max_size=3, unique=True))
    return [[*base[:-1], base[-1] * stride + number(offset)] for offset in offsets]


def _members(draw: Any, base: Index, loops: Sequence[Loop]) -> list[Index]:
    inner = next((loop for loop in reversed(loops) if loop.length is not None), None)
    if inner is None:
        return _strided(draw, base, loops)
    stride = inner.length + draw(st.sampled_from([0, 0, 1]))
    return [[*base[:-1], base[-1] * stride + name(inner.name)]]


def _stencil(draw: Any, base: Index, loops: Sequence[Loop]) -> list[Index]:
    axis, reach = draw(st.integers(0, len(base) - 1)), draw(st.integers(1, 2))
    return [[*base[:axis], base[axis] + number(step), *base[axis + 1 :]] for step in range(reach + 1)]


def _transposed(draw: Any, base: Index, loops: Sequence[Loop]) -> list[Index]:
    return [base, base[::-1]] if len(base) > 1 else [base]


def _reversed(draw: Any, base: Index, loops: Sequence[Loop]) -> list[Index]:
    return [[*base[:-1], base[-1] * draw(st.sampled_from([-1, -2]))]]


def _diagonal(draw: Any, base: Index, loops: Sequence[Loop]) -> list[Index]:
    other = draw(st.sampled_from(loops))
    return [[*base[:-1], base[-1] + name(other.name) * draw(st.sampled_from([1, 1, 2, -1]))]]


_FAMILY = {
    "strided": _strided,
    "members": _members,
    "stencil": _stencil,
    "transposed": _transposed,
    "reversed": _reversed,
    "diagonal": _diagonal,
}

UNEVEN = (
    *("({0})//3", "({0})//4", "({0}) % 8", "2*(({0}) % 4)", "(({0}) % 2)*1000", "{0} + ({1})//4"),
    *("({0}) << 1", "(({0}) << 1) | 1", "({0}) >> 1", "({0}) & 7", "({0}) ^ 1", "(({0}) & -4) + 3 - (({0}) & 3)"),
    *("if({0} < 5, {0}, 5)", "if({0} < 3, {0} + 20, {0} - 3)", "({0} + 13) % 64"),
)
"""indices that are not affine, or have an offset that is not"""
RESHAPED = (
    "({e})//{a}, ({e}) % {a}",
    "({e})//{ab}, ({e})//{b} % {a}, ({e}) % {b}",
    "({e})//{ab}, ({e}) % {ab}//{b}, ({e}) % {b}",
)
"""indices into the same elements in an array with other axis lengths"""


def draw_uneven_access(draw: Any, called: str, loops: Sequence[Loop]) -> tuple[Array, str]:
    """Draw an array and the source code of its only access, which has such indices."""
    first, second = (draw(st.sampled_from(loops)) for _ in range(2))
    moved = [_moved(name(loop.name), loops) for loop in (first, second)]
    dtype = draw(st.sampled_from(TYPES))
    if draw(st.booleans()):
        source = draw(st.sampled_from(UNEVEN)).format(*moved)
        return Array(called, dtype, "C", [], statements={"its own"}, is_bounded=False), f"{called}[{source}]"
    a, b = (draw(st.sampled_from([2, 3, 4, 6])) for _ in range(2))
    element = moved[0] * draw(st.sampled_from([1, 2, 3, 4])) + moved[1]
    source = draw(st.sampled_from(RESHAPED)).format(e=element, a=a, b=b, ab=a * b)
    lengths = [4095, a - 1] if source.count(",") == 1 else [4095, a - 1, b - 1]
    array = Array(
        called, dtype, draw(st.sampled_from("CCF")), [number(each) for each in lengths], statements={"its own"}
    )
    return array, f"{called}[{source}]"


# }}}


# {{{ conditions


def draw_condition(draw: Any, loops: Sequence[Loop], parameters: Sequence[str], moduli: Sequence[int]) -> str:
    """Draw an affine condition, possibly with a modulo (of *moduli*), or a combination of two."""
    simple = _comparisons(draw, loops, parameters, moduli)
    first = draw(simple)
    match draw(st.integers(0, 7)):
        case 0:
            return f"{first} and {draw(simple)}"
        case 1:
            return f"{first} or {draw(simple)}"
        case 2:
            return f"not ({first})"
        case _:
            return first


def _comparisons(
    draw: Any, loops: Sequence[Loop], parameters: Sequence[str], moduli: Sequence[int]
) -> st.SearchStrategy[str]:
    size = draw(st.sampled_from(parameters))
    if not loops:
        return st.sampled_from([f"{size} > 3", f"{size} % 2 == 0"])
    x, y = (draw(st.sampled_from(loops)).name for _ in range(2))
    return st.sampled_from(
        [f"{x} < 5", f"{x} >= 1", f"{x} < {size} - 2", f"2*{x} < {size}", f"{x} != {size} - 1", f"{x} == 2"]
        + [f"{x} + {y} <= {size}"]
        + ([f"{x} % 2 == 0", f"({x} + {y}) % 2 == 0", f"{x} // 2 < 3"] if 2 in moduli else [])
        + ([f"{x} % 3 != 1"] if 3 in moduli else [])
        + ([f"{x} <= {y}", f"{x} < 2*{y}"] if x != y else [])
    )


# }}}


# {{{ arithmetic


@dataclass(frozen=True)
class Value:
    """Source code of an expression."""

    source: str
    is_real: bool


def draw_combined(draw: Any, values: Sequence[Value]) -> Value:
    """Draw an expression of all *values*, to each of which an operation may be applied first."""
    result = _changed(draw, values[0])
    for value in values[1:]:
        result = _joined(draw, result, _changed(draw, value))
    return result


def _changed(draw: Any, value: Value) -> Value:
    changes = ["{}", "{}", "{}", "2*{}", "-{}", "-1*{}", "({} + 3)"]
    changes += ["exp({})", "sqrt({})", "{}**2", "{}**3", "{}/3", "fabs({})", "1/{}"] if value.is_real else []
    become_real = ["0.1*{}", "({} + 0.1)", "{}*0.25", "({})/7"]
    change = draw(st.sampled_from(changes + become_real))
    return Value(change.format(value.source), value.is_real or change in become_real)


def _joined(draw: Any, left: Value, right: Value) -> Value:
    joints = ["({} + {})", "({} - {})", "({})*{}", "{}*({})", "({} + {} + 1)", "(2*{}*{})"]
    joints += ["({})/({})", "fmax({}, {})", "({})**({})"] if left.is_real and right.is_real else []
    return Value(draw(st.sampled_from(joints)).format(left.source, right.source), left.is_real or right.is_real)


# }}}
