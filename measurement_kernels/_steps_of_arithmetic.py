"""Steps of arithmetic by kind and type, shared by the classes of arithmetic kernels.

| kind | alternating steps | values |
|---|---|---|
| add | x + p, x + q with q = −p | return every second step |
| mul | x·p, x·q with q = 1/p | return every second step |
| div | p/x | return every second step |
| pow | q − x² | tend to 0.366 with q = 1/2: a square and an addition |
| special | 1/√x | tend to 1 |
| integer | x·x + p, modulo 2³² | wrap around: a multiplication and an addition |

The compiler cannot simplify them: p and q are arguments, floating-point operations are not associative, and a square
cannot be folded. The initial values differ between work-items and are in (0, 1/2]; each step keeps them small.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

import numpy as np
from loopy.kernel.data import ValueArg

from loopyperf.measurement.environment import Arguments, Array

GROUP = 256
"""work-items; the only size in all of the paper's 1-D sets"""
FIRST = 1 / 1024
"""initial value of lane 0; that of lane l is l + 1 times as large, plus this much for each preceding value"""

Step = Callable[[Array, Any, Any], Array]
"""returns the next values for the current ones, p and q"""


@dataclass(frozen=True, slots=True)
class Kind:
    """Steps of one kind of arithmetic."""

    templates: tuple[str, ...]
    """Loopy expressions of the next value in terms of ``{x}``, used in turn"""
    steps: tuple[Step, ...]
    """the same steps in NumPy"""
    scalars: Mapping[str, float] = field(default_factory=dict[str, float])
    """values of p and q, if the kind has them"""


KINDS: Mapping[str, Kind] = {
    "add": Kind(("{x} + p", "{x} + q"), (lambda x, p, q: x + p, lambda x, p, q: x + q), {"p": 1.5, "q": -1.5}),
    "mul": Kind(("{x}*p", "{x}*q"), (lambda x, p, q: x * p, lambda x, p, q: x * q), {"p": 2, "q": 0.5}),
    "div": Kind(("p/{x}",), (lambda x, p, q: p / x,), {"p": 2}),
    "pow": Kind(("q - {x}**2",), (lambda x, p, q: q - x * x,), {"q": 0.5}),
    "special": Kind(("rsqrt({x})",), (lambda x, p, q: 1 / np.sqrt(x),)),
}
INTEGER = Kind(("{x}*{x} + p",), (lambda x, p, q: x * x + p,), {"p": 12345})


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Steps of one kind and type."""

    name: str
    """name, such as ``"f32 add"``"""
    kind: Kind
    dtype: type[np.generic]

    def statements(self, values: int, steps: int) -> list[str]:
        """Return the statements of *steps* steps on each of *values* independent values x0, x1, ..."""
        turns = islice(cycle(self.kind.templates), steps)
        return [f"x{value} = {turn.format(x=f'x{value}')}" for turn in turns for value in range(values)]

    def declarations(self, values: int) -> list[str]:
        """Return the statements that initialize *values* values from ``first`` and the lane l."""
        return [f"<{np.dtype(self.dtype).name}> x{value} = first*(l + {1 + value})" for value in range(values)]

    def data(self) -> list[ValueArg]:
        """Return the declarations of the scalars in the statements."""
        return [ValueArg(name, self.dtype) for name in ("first", *self.kind.scalars)]

    def scalars(self) -> Arguments:
        """Return the values of the scalars."""
        first = 1 if self.kind is INTEGER else FIRST
        return {name: self.dtype(value) for name, value in {"first": first, **self.kind.scalars}.items()}

    def firsts(self, values: int) -> Array:
        """Return the initial values, (values × lanes of a group)."""
        numbers: Array = np.add.outer(np.arange(values), np.arange(1, GROUP + 1)).astype(self.dtype)
        return numbers * self.scalars()["first"]

    def after(self, first: Array, steps: int) -> Array:
        """Return the values after *steps* steps from *first*, computed in the same type."""
        given = self.scalars()
        zero = self.dtype(0)
        p, q = (given.get(name, zero) for name in "pq")
        last = first
        for step in islice(cycle(self.kind.steps), steps):
            last = step(last, p, q)
        return last


FLOATS = tuple(
    Arithmetic(f"{name} {kind}", KINDS[kind], dtype)
    for name, dtype in (("f32", np.float32), ("f64", np.float64))
    for kind in KINDS
)
INTEGERS = (Arithmetic("i32 multiply-add", INTEGER, np.uint32),)


def in_all_groups(row: Array, out: Array) -> Array:
    """Return the expected *out*: the same *row* in each group of work-items."""
    return np.tile(row.astype(out.dtype), out.size // row.size)
