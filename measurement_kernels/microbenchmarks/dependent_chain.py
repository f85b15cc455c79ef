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

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.configuration import Arguments, Array, Configuration, Limits, Sizes

from ._rounds import configuration, integers, occupied, rounds, written_out

NAME = "dependent chain"

LONG, SHORT = 128, 32
"""steps of a round: so many that the loop's own instructions are lost among them, or fewer where a step is many"""

NUMPY_TYPES = {"f32": np.float32, "f64": np.float64, "u32": np.uint32}


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of instructions of one kind."""

    statements: tuple[str, ...]
    """steps, taken in turns"""
    dtype: str
    scalars: Mapping[str, float]
    """the arguments, if it has them"""
    steps: int = LONG


CHAINS: Mapping[str, Chain] = {
    "add f32": Chain(("x = x + p",), "f32", {"p": 1}),
    "mul f32": Chain(("x = x*p", "x = x*q"), "f32", {"p": 2, "q": 0.5}),
    "fma f32": Chain(("x = x*p + q",), "f32", {"p": 0.5, "q": 1}),
    "div f32": Chain(("x = p/x",), "f32", {"p": 2}, SHORT),
    "special f32": Chain(("x = rsqrt(x)",), "f32", {}, SHORT),
    "sqrt f32": Chain(("x = sqrt(x)",), "f32", {}, SHORT),
    "exp f32": Chain(("x = exp(-x)",), "f32", {}, SHORT),
    "add f64": Chain(("x = x + p",), "f64", {"p": 1}),
    "mul f64": Chain(("x = x*p", "x = x*q"), "f64", {"p": 2, "q": 0.5}),
    "fma f64": Chain(("x = x*p + q",), "f64", {"p": 0.5, "q": 1}),
    "div f64": Chain(("x = p/x",), "f64", {"p": 2}, SHORT),
    "sqrt f64": Chain(("x = sqrt(x)",), "f64", {}, SHORT),
    "add i32": Chain(("x = x + y", "y = y + x"), "u32", {}),
    "mul i32": Chain(("x = x*y", "y = y*x"), "u32", {}),
}
"""by what the instruction is called in a device description"""

FUNCTIONS = {"sqrt": np.sqrt, "exp": np.exp, "rsqrt": lambda x: 1 / np.sqrt(x)}


def configurations(limits: Limits) -> list[Configuration]:
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
    """Return out, step by step."""
    out = np.asarray(arguments["out"])
    names = {**arguments, **FUNCTIONS, "x": arguments["start"] + np.arange(out.shape[1], dtype=out.dtype)}
    names["y"] = names["x"] + out.dtype.type(1)
    for step in range(int(arguments["rounds"]) * CHAINS[kind].steps):
        statements = CHAINS[kind].statements
        target, _, value = statements[step % len(statements)].partition(" = ")
        names[target] = eval(value, {}, names)
    last = names["x"] + names["y"] if "y" in CHAINS[kind].statements[0] else names["x"]
    return {"out": np.tile(last, (out.shape[0], 1))}
