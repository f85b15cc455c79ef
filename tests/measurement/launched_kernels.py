"""Small kernels that each need one feature of a backend or target, with arguments and references."""

from typing import Any

import loopy as lp
import numpy as np
from loopy.target.cuda import vec

from .synthetic import configuration


def make(domains: Any, instructions: Any, data: Any, **options: Any) -> lp.TranslationUnit:
    options = {"target": lp.PyOpenCLTarget(), "lang_version": (2018, 2), "assumptions": "n >= 1"} | options
    return lp.make_kernel(domains, instructions, data, **options)


def in_groups(unit: lp.TranslationUnit, size: int = 32, iname: str = "i") -> lp.TranslationUnit:
    return lp.split_iname(unit, iname, size, outer_tag="g.0", inner_tag="l.0")


def pointwise(expression: str, dtype: Any = np.float32, result: Any = None) -> lp.TranslationUnit:
    """b[i] = *expression* of a[i] and i."""
    arrays = [lp.GlobalArg("a", dtype, shape="n"), lp.GlobalArg("b", result or dtype, shape="n")]
    return in_groups(make("{[i]: 0 <= i < n}", f"b[i] = {expression}", [*arrays, lp.ValueArg("n", np.int32)]))


def reduced(operation: str, dtype: Any) -> lp.TranslationUnit:
    """b[i] = the minimum or maximum of row i."""
    arrays = [lp.GlobalArg("a", dtype, shape="n, 64"), lp.GlobalArg("b", dtype, shape="n")]
    code = f"b[i] = {operation}(j, a[i, j])"
    return in_groups(make("{[i, j]: 0 <= i < n and 0 <= j < 64}", code, [*arrays, lp.ValueArg("n", np.int32)]))


def reversal() -> lp.TranslationUnit:
    """t = 2 a in the first launch, b = reversed t + s in the second: t is a temporary in global memory."""
    unit = make(
        "{[i, j]: 0 <= i, j < n}",
        """
        t[i] = 2*a[i]           {id=write}
        ... gbarrier            {id=barrier, dep=write}
        b[j] = t[n-1-j] + s     {dep=barrier}
        """,
        [
            lp.GlobalArg("a,b", np.float32, shape="n"),
            lp.TemporaryVariable("t", np.float32, shape="n", address_space=lp.AddressSpace.GLOBAL),
            lp.ValueArg("s", np.float32),
            lp.ValueArg("n", np.int32),
        ],
        name="reversal",
    )
    return in_groups(in_groups(unit, 16), 32, "j")


def relaxation() -> lp.TranslationUnit:
    """Two launches in a host loop over k: t = a shifted by one, plus k; then a = t."""
    unit = make(
        ["{[k]: 0 <= k < steps}", "{[i, j]: 0 <= i, j < n}"],
        """
        for k
            ... gbarrier                {id=before}
            t[i] = a[(i+1) % n] + k     {id=shift, dep=*before}
            ... gbarrier                {id=between, dep=*shift}
            a[j] = t[j]                 {id=back, dep=*between}
        end
        """,
        [
            lp.GlobalArg("a", np.float32, shape="n"),
            lp.TemporaryVariable("t", np.float32, shape="n", address_space=lp.AddressSpace.GLOBAL),
            lp.ValueArg("n, steps", np.int32),
        ],
        name="relaxation",
        assumptions="n >= 1 and steps >= 1",
        seq_dependencies=False,
    )
    return in_groups(in_groups(unit, 16), 16, "j")


def table() -> lp.TranslationUnit:
    """b[i] = a[i % 4] c[i % 8]: a is initialized in the program, c is an argument in constant memory."""
    return in_groups(
        make(
            "{[i]: 0 <= i < n}",
            "b[i] = a[i % 4]*c[i % 8]",
            [
                lp.TemporaryVariable(
                    "a",
                    np.float32,
                    shape=(4,),
                    initializer=np.arange(4, dtype=np.float32),
                    read_only=True,
                    address_space=lp.AddressSpace.GLOBAL,
                ),
                lp.ConstantArg("c", np.float32, shape=(8,)),
                lp.GlobalArg("b", np.float32, shape="n"),
                lp.ValueArg("n", np.int32),
            ],
        )
    )


def calling() -> lp.TranslationUnit:
    """b[i, :] = 2 a[i, :], computed by a callee."""
    callee = lp.make_function(
        "{[j]: 0 <= j < 8}",
        "y[j] = 2*x[j]",
        [lp.GlobalArg("x, y", np.float32, shape=(8,))],
        name="twice",
        target=lp.PyOpenCLTarget(),
        lang_version=(2018, 2),
    )
    caller = make(
        "{[i, k]: 0 <= i < n and 0 <= k < 8}",
        "[k]: b[i, k] = twice([k]: a[i, k])",
        [lp.GlobalArg("a, b", np.float32, shape="n, 8"), lp.ValueArg("n", np.int32)],
        name="caller",
    )
    return lp.merge([in_groups(caller), callee])


def pairs() -> lp.TranslationUnit:
    """b[i] = the dot product of a[i] with itself; a[i] is a CUDA float4."""
    arrays = [lp.GlobalArg("a", vec.float4, shape="n"), lp.GlobalArg("b", np.float32, shape="n")]
    data = [*arrays, lp.ValueArg("n", np.int32)]
    return in_groups(make("{[i]: 0 <= i < n}", "b[i] = dot(a[i], a[i])", data, target=lp.CudaTarget()))


def vector(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.random(n, dtype=np.float32)


REVERSAL = configuration(
    "two launches",
    build=reversal,
    arguments=lambda rng, sizes: {
        "a": vector(rng, sizes["n"]),
        "b": np.zeros(sizes["n"], np.float32),
        "s": np.float32(0.25),
        "n": np.int32(sizes["n"]),
    },
    reference=lambda arguments: {"b": (2 * arguments["a"])[::-1] + arguments["s"]},
)


def relaxed(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a shifted by the number of steps, plus the sum of all k."""
    steps = int(arguments["steps"])
    return {"a": np.roll(arguments["a"], -steps) + steps * (steps - 1) / 2}


RELAXATION = configuration(
    "launches in a loop",
    build=relaxation,
    arguments=lambda rng, sizes: {
        "a": vector(rng, sizes["n"]),
        "n": np.int32(sizes["n"]),
        "steps": np.int32(sizes["steps"]),
    },
    reference=relaxed,
)
