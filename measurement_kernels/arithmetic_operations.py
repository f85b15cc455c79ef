"""Sums of chains of eight operations of one kind: out[i,j] = Σ_{r=1..k} x₈(r + j), an n × n matrix, row-major, float32.

Stevens and Klöckner, section 4.1, eighth class. Purpose: kernels without global loads, one for each kind of arithmetic,
which distinguish the weights of the kinds. With x₀ = r + j:

| kind | xₘ₊₁, alternating | x₈ |
|---|---|---|
| addition and subtraction | xₘ + p, xₘ + q (q < 0) | x₀ + 4(p + q) |
| multiplication | xₘ·p, xₘ·q | x₀·(p·q)⁴ |
| division | p/xₘ, q/xₘ | x₀·(q/p)⁴ |
| exponentiation | xₘ² with x₀ = p + q·(r + j) | x₀²⁵⁶ |
| rsqrt | 1/√xₘ | x₀^(1/256) |

The compiler cannot simplify them: the chain starts with values that differ between work-items and between steps, so
that nothing can be hoisted out of either loop; p and q are arguments; float32 operations are not associative. Divisors
are values of the chain, because part of a division by p could be hoisted. Values stay between 10⁻⁴ and 10⁴.

In each of the k steps the device executes, in addition to the eight operations: the addition of the sum (which Loopy
also counts), an integer addition and a conversion of r + j to float32 (neither counted in the paper), and for
exponentiation one multiplication and one addition. The index is a separate integer variable because Loopy's C code
would compute it in floating point within a floating-point expression (``lid(0) + gid(0) * 16.0f``): two more
operations.

Exponentiation uses the literal 2, for which Loopy's C code is ``x*x``. Other exponents give other code: ``pow`` for a
real one, a loop of multiplications for another integer. The test kernels contain the square, and the paper can hardly
have measured anything else: its weight for exponentiation is below that for multiplication (Table 2).

Sizes: one configuration for each k = 256, 512, 728, which is a size parameter like n. The schedule of n doubles the
smallest multiple of lcm(gx, gy) that is at least 32, up to the paper's 2^(p+t). Three entries are measured.

Counts: 8k·n² operations of the kind, k·n² additions, n² stores of stride 1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import lcm

import loopy as lp
import numpy as np
from numpy.typing import NDArray

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Group, Sizes, doubling

NAME = "arithmetic operations"

Values = NDArray[np.float64]

OPERATIONS = 8
"""operations of a kind in each step of the sum; the paper has 6 to 10"""

STEPS = (256, 512, 728)
"""lengths of the sum in the paper"""

LARGEST = 2**10
"""the paper's largest n: 2^(p+t) with p = 8, t = 2"""


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of operations of one kind."""

    operations: tuple[str, ...]
    """Loopy expressions of the next value in terms of ``{x}``, used in turn"""
    scalars: Mapping[str, float]
    """values of the arguments p and q, if the kind has them"""
    result: Callable[[Values, float, float], Values]
    """the last value in closed form as a function of r + j, p and q"""
    start: str = "index"
    """the initial value"""


CHAINS = {
    "addition and subtraction": Chain(
        ("{x} + p", "{x} + q"), {"p": 2.5, "q": -1.5}, lambda index, p, q: index + 4 * (p + q)
    ),
    "multiplication": Chain(("{x}*p", "{x}*q"), {"p": 1.25, "q": 0.75}, lambda index, p, q: index * (p * q) ** 4),
    "division": Chain(("p/{x}", "q/{x}"), {"p": 1.25, "q": 1.5}, lambda index, p, q: index * (q / p) ** 4),
    "exponentiation": Chain(
        ("{x}**2",), {"p": 1.0, "q": 1e-5}, lambda index, p, q: (p + q * index) ** 256, start="p + q*index"
    ),
    "rsqrt": Chain(("rsqrt({x})",), {}, lambda index, p, q: index ** (1 / 256)),
}


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each kind, length of the sum and 2-D group size that the device supports."""
    return [configuration(kind, k, group) for kind in CHAINS for k in STEPS for group in limits.groups_2d()]


def configuration(kind: str, k: int, group: Group) -> Configuration:
    """Return sums of length *k* for groups of (extent of l.0, extent of l.1) work-items."""
    sides = doubling(at_least=32, multiple_of=lcm(*group), at_most=LARGEST)
    return Configuration(
        label=f"{kind}, k={k}, group {group[0]}x{group[1]}",
        build=partial(arithmetic_operations, kind, group),
        sizes=tuple({"n": n, "k": k} for n in sides),
        arguments=partial(arguments, kind),
        reference=partial(sums, kind),
        steps=3,
    )


def arithmetic_operations(kind: str, group: Group) -> lp.TranslationUnit:
    """Return the kernel of one kind for groups of (extent of l.0, extent of l.1) work-items."""
    columns, rows = group
    knl = lp.make_kernel(
        "{[i, j, r]: 0 <= i, j < n and 1 <= r <= k}",
        statements(CHAINS[kind]),
        [
            lp.GlobalArg("out", np.float32, shape="n, n"),
            *(lp.ValueArg(name, np.float32) for name in CHAINS[kind].scalars),
            lp.ValueArg("n, k", np.int32),
        ],
        name="arithmetic_operations",
        assumptions=f"n mod {lcm(columns, rows)} = 0 and n >= {lcm(columns, rows)} and k >= 1",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", rows, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", columns, outer_tag="g.0", inner_tag="l.0")


def statements(chain: Chain) -> str:
    """Return the sum over r of the chain's last value, one statement per operation, as Loopy code."""
    turns = [chain.operations[m % len(chain.operations)] for m in range(OPERATIONS)]
    values = "\n".join(f"<float32> x{m + 1} = {turn.format(x=f'x{m}')}" for m, turn in enumerate(turns))
    return f"""
        for i, j
            for r
                <int32> index = r + j
                <float32> x0 = {chain.start}
                {values}
            end
            out[i, j] = sum(r, x{OPERATIONS})
        end
        """


def arguments(kind: str, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return p and q if the kind has them, and zeros for out; nothing is random."""
    return {
        **{name: np.float32(value) for name, value in CHAINS[kind].scalars.items()},
        **{name: np.int32(size) for name, size in sizes.items()},
        "out": np.zeros((sizes["n"], sizes["n"]), dtype=np.float32),
    }


def sums(kind: str, arguments: Arguments) -> dict[str, Array]:
    """Return out, whose rows are equal."""
    n, k = int(arguments["n"]), int(arguments["k"])
    p, q = (float(arguments.get(name, np.float32(0))) for name in "pq")
    index = np.add.outer(np.arange(1, k + 1), np.arange(n)).astype(np.float64)
    row = CHAINS[kind].result(index, p, q).sum(axis=0)
    return {"out": np.tile(row.astype(np.float32), (n, 1))}
