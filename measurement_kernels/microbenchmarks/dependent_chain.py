"""Chains of dependent instructions of one kind: x ← x + p, x·p, x·p + q, p/x, 1/√x, ..., again and again.

Cornelis, section III.B: as each instruction waits for the one before, a core with W warps takes NΛ + (W − 1)λ cycles
for N of them while W < Λ/λ, and Λ + (NW − 1)λ from there on. The times over W have the shape of a boat's hull, of which
the flat part tells the completion latency Λ and the rising one the issue latency λ.

What keeps the compiler from shortening a chain: p and q are arguments; operations in floating point are not
associative; of integers, each value is used by the two that follow, so that none can be left out (sums of one argument
would become a product with their number). What keeps values from growing: products by 2 and by 1/2 in turns, fixed
points of x/2 + 1, p/x, √x, 1/√x and exp(−x); integers are unsigned, and wrap around. The table of nvcc's machine code
for each kind is a test, ``tests/machine_code/test_microbenchmarks.py``.

``special f32`` is 1/√x, of all functions the one with least around the hardware's own (for operands that are denormal
numbers). What a division or function is made of, the compiler decides: the latencies are those of the whole.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._rounds import (
    Values,
    configuration,
    in_all_groups,
    integers,
    numbers_in_group,
    occupied,
    rounds,
    written_out,
)

NAME = "dependent chain"

LONG, SHORT = 128, 32
"""steps of a round: so many that the loop's own instructions are lost among them, or fewer where a step is many"""

NUMPY_TYPES = {"f32": np.float32, "f64": np.float64, "u32": np.uint32}


Last = Callable[[Values, int], Values]
"""returns the last values, given the first ones and the number of steps, a whole number of turns"""
OMEGA = 0.5671432904097838
"""exp(−x) = x"""
WRAP = 2**32


def fibonacci(number: int) -> int:
    """Return F(number), of 0, 1, 1, 2, 3, 5, ..."""
    before, following = 0, 1
    for _ in range(number):
        before, following = following, before + following
    return before


def sum_of_sums(x: Values, steps: int) -> Values:
    """Return aₙ + aₙ₊₁ of aₙ = aₙ₋₁ + aₙ₋₂ modulo 2³², from x and x + 1 on."""
    one, other = fibonacci(steps + 1), fibonacci(steps + 2)
    return np.array([(one * int(first) + other * (int(first) + 1)) % WRAP for first in x], np.float64)


def sum_of_products(x: Values, steps: int) -> Values:
    """Return aₙ + aₙ₊₁ of aₙ = aₙ₋₁·aₙ₋₂ modulo 2³², from x and x + 1 on."""
    powers = [fibonacci(steps + number) for number in (-1, 0, 0, 1)]

    def term(first: int, one: int, other: int) -> int:
        return pow(first, one, WRAP) * pow(first + 1, other, WRAP)

    sums = [term(int(first), *powers[:2]) + term(int(first), *powers[2:]) for first in x]
    return np.array([each % WRAP for each in sums], np.float64)


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of instructions of one kind."""

    statements: tuple[str, ...]
    """steps, taken in turns"""
    dtype: str
    scalars: Mapping[str, float]
    """the arguments, if it has them"""
    last: Last
    steps: int = LONG


def added(x: Values, steps: int) -> Values:
    """Return x + steps."""
    return x + steps


def unchanged(x: Values, steps: int) -> Values:
    """Return x: what one step does, the next one undoes."""
    return x


def halved(x: Values, steps: int) -> Values:
    """Return x/2ⁿ + 2·(1 − 1/2ⁿ), of x/2 + 1 again and again."""
    left = 0.5 ** min(steps, 1000)
    return x * left + 2 * (1 - left)


def rooted(x: Values, steps: int) -> Values:
    """Return x^(1/2ⁿ); of reciprocal roots too, as their number is even."""
    return x ** (0.5 ** min(steps, 1000))


def settled(x: Values, steps: int) -> Values:
    """Return the fixed point of exp(−x)."""
    return np.full_like(x, OMEGA)


CHAINS: Mapping[str, Chain] = {
    "add f32": Chain(("x = x + p",), "f32", {"p": 1}, added),
    "mul f32": Chain(("x = x*p", "x = x*q"), "f32", {"p": 2, "q": 0.5}, unchanged),
    "fma f32": Chain(("x = x*p + q",), "f32", {"p": 0.5, "q": 1}, halved),
    "div f32": Chain(("x = p/x",), "f32", {"p": 2}, unchanged, SHORT),
    "special f32": Chain(("x = rsqrt(x)",), "f32", {}, rooted, SHORT),
    "sqrt f32": Chain(("x = sqrt(x)",), "f32", {}, rooted, SHORT),
    "exp f32": Chain(("x = exp(-x)",), "f32", {}, settled, SHORT),
    "add f64": Chain(("x = x + p",), "f64", {"p": 1}, added),
    "mul f64": Chain(("x = x*p", "x = x*q"), "f64", {"p": 2, "q": 0.5}, unchanged),
    "fma f64": Chain(("x = x*p + q",), "f64", {"p": 0.5, "q": 1}, halved),
    "div f64": Chain(("x = p/x",), "f64", {"p": 2}, unchanged, SHORT),
    "sqrt f64": Chain(("x = sqrt(x)",), "f64", {}, rooted, SHORT),
    "add i32": Chain(("x = x + y", "y = y + x"), "u32", {}, sum_of_sums),
    "mul i32": Chain(("x = x*y", "y = y*x"), "u32", {}, sum_of_products),
}
"""by what the instruction is called in a device description"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return each kind in groups of one and of several warps."""
    return [
        configuration(
            f"{kind}, group {lanes}",
            partial(dependent_chain, kind, lanes),
            tuple(rounds({"groups": number, "lanes": lanes, "steps": chain.steps}) for number in groups),
            partial(arguments, kind),
            partial(last_values, kind),
        )
        for kind, chain in CHAINS.items()
        for lanes, groups in occupied(limits)
    ]


def dependent_chain(kind: str, lanes: int) -> lp.TranslationUnit:
    """Return the chain of one kind, in groups of *lanes* work-items."""
    chain = CHAINS[kind]
    numpy_type = NUMPY_TYPES[chain.dtype]
    body, turns = "\n".join(chain.statements), chain.steps // len(chain.statements)
    second = f"<{np.dtype(numpy_type).name}> y = x + 1" if "y" in chain.statements[0] else ""
    unit = lp.make_kernel(
        f"{{[g, l, r, s]: 0 <= g < groups and 0 <= l < {lanes} and 0 <= r < rounds and 0 <= s < {turns}}}",
        f"""
        for g, l
            <{np.dtype(numpy_type).name}> x = start + l
            {second}
            for r, s
                {body}
            end
            out[g, l] = {"x + y" if second else "x"}
        end
        """,
        [
            lp.GlobalArg("out", numpy_type, shape=f"groups, {lanes}"),
            *(lp.ValueArg(name, numpy_type) for name in ("start", *chain.scalars)),
            lp.ValueArg("groups, rounds", np.int32),
        ],
        name="dependent_chain",
        seq_dependencies=True,
        assumptions="groups >= 1 and rounds >= 1",
        lang_version=(2018, 2),
    )
    return written_out(unit)


def arguments(kind: str, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return the first value, p and q where the kind has them, and an out of zeros; nothing is random."""
    chain = CHAINS[kind]
    numpy_type = NUMPY_TYPES[chain.dtype]
    return {
        **{name: numpy_type(value) for name, value in {"start": 1, **chain.scalars}.items()},
        **integers("groups, rounds", sizes),
        "out": np.zeros((sizes["groups"], sizes["lanes"]), numpy_type),
    }


def last_values(kind: str, arguments: Arguments) -> dict[str, Array]:
    """Return out."""
    out = np.asarray(arguments["out"])
    steps = int(arguments["rounds"]) * CHAINS[kind].steps
    return in_all_groups(CHAINS[kind].last(1 + numbers_in_group(out), steps), out)
