"""Chains of dependent instructions of one kind: x ← x + p, x·p, x·p + q, p/x, 1/√x, ..., repeatedly.

Cornelis, section III.B: as each instruction depends on the previous one, a core with W warps takes NΛ + (W − 1)λ cycles
for N instructions if W < Λ/λ, and Λ + (NW − 1)λ otherwise. The times as a function of W are the latency-throughput
curve ("boat hull"), whose flat part shows the completion latency Λ and whose rising part shows the issue latency λ.

The compiler cannot shorten a chain: p and q are arguments; floating-point operations are not associative; each integer
is used by the two following ones, so that none can be omitted (repeated sums of one argument would become a product).
Values do not grow: products alternate between 2 and 1/2; x/2 + 1, p/x, √x, 1/√x and exp(−x) have fixed points; integers
are unsigned and wrap around. The test ``tests/machine_code/test_microbenchmarks.py`` has the table of nvcc's machine
code for each kind.

``special f32`` is 1/√x, the function with the fewest instructions in addition to the hardware's own (for denormal
operands). The compiler decides how a division or function is implemented: the latencies are those of the whole.
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
"""steps per round: enough to make the loop overhead negligible, or fewer where a step has many instructions"""

NUMPY_TYPES = {"f32": np.float32, "f64": np.float64, "u32": np.uint32}


Last = Callable[[Values, int], Values]
"""returns the last values for the initial ones and a number of steps that is a multiple of the statements"""
OMEGA = 0.5671432904097838
"""solution of exp(−x) = x"""
WRAP = 2**32


def fibonacci(number: int) -> int:
    """Return F(number) of the Fibonacci numbers 0, 1, 1, 2, 3, 5, ..."""
    before, following = 0, 1
    for _ in range(number):
        before, following = following, before + following
    return before


def sum_of_sums(x: Values, steps: int) -> Values:
    """Return aₙ + aₙ₊₁ of aₙ = aₙ₋₁ + aₙ₋₂ modulo 2³², starting with x and x + 1."""
    one, other = fibonacci(steps + 1), fibonacci(steps + 2)
    return np.array([(one * int(first) + other * (int(first) + 1)) % WRAP for first in x], np.float64)


def sum_of_products(x: Values, steps: int) -> Values:
    """Return aₙ + aₙ₊₁ of aₙ = aₙ₋₁·aₙ₋₂ modulo 2³², starting with x and x + 1."""
    powers = [fibonacci(steps + number) for number in (-1, 0, 0, 1)]

    def term(first: int, one: int, other: int) -> int:
        return pow(first, one, WRAP) * pow(first + 1, other, WRAP)

    sums = [term(int(first), *powers[:2]) + term(int(first), *powers[2:]) for first in x]
    return np.array([each % WRAP for each in sums], np.float64)


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of instructions of one kind."""

    statements: tuple[str, ...]
    """steps, used in turn"""
    dtype: str
    scalars: Mapping[str, float]
    """values of the arguments, if the kind has them"""
    last: Last
    steps: int = LONG


def added(x: Values, steps: int) -> Values:
    """Return x + steps."""
    return x + steps


def unchanged(x: Values, steps: int) -> Values:
    """Return x, because consecutive steps are inverse to each other."""
    return x


def halved(x: Values, steps: int) -> Values:
    """Return the result of repeated x/2 + 1: x/2ⁿ + 2·(1 − 1/2ⁿ)."""
    left = 0.5 ** min(steps, 1000)
    return x * left + 2 * (1 - left)


def rooted(x: Values, steps: int) -> Values:
    """Return x^(1/2ⁿ), for reciprocal roots too, as their number is even."""
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
"""by the name of the instruction in device parameters"""


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
    """Return the chain of one kind for groups of *lanes* work-items."""
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
    """Return the initial value, p and q if the kind has them, and zeros for out; nothing is random."""
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
