"""A neural network's layer, forward: sums over blocks of 16 inputs for each of 16 hidden units, float32.

    out[b,j] = Σ_{k<16} w[16b+k+1, j+1] · x[16b+k+1]      for 0 ≤ b < n/16 and 0 ≤ j < 16

bpnn_layerforward_ocl from Lemeire, table 9. w is (n+1) × 17: its first row and column are those of the biases, which
the host adds. A group of 16 × 16 work-items stores a block of weights in local memory, with units along l.0, multiplies
them by the inputs, and adds them up in four steps, each of which halves the number of rows and ends with a barrier.

The kernel tests barriers, trees with a decreasing number of active work-items, and rows of memory that are not aligned
with sectors: a row of w has 17 elements.

Counts per group: 256 + 16 loads; 16 local stores of inputs, 256 of products, and 15·16 of sums; 256 + 2·15·16 + 16
local loads; 256 multiplications, 15·16 additions; 16 stores; 6 barriers per work-item.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "bpnn_layerforward_ocl"

UNITS = 16
"""hidden units, inputs of a block, and work-items of a group along both axes; a power of two"""

LARGEST = 2**22
"""the largest n, with weights of 272 MiB"""


def configurations(limits: DeviceLimits, units: int = UNITS) -> list[Configuration]:
    """Return the kernel for groups of (units, units) work-items, if the device supports them."""
    if units**2 > limits.group_size or 4 * units * (units + 1) > limits.local_memory:
        return []
    return [
        Configuration(
            label=f"group {units}x{units}",
            build=partial(forward, units),
            sizes=tuple({"n": n} for n in doubling(at_least=64, multiple_of=units, at_most=LARGEST)),
            arguments=partial(arguments, units),
            reference=partial(sums, units),
        )
    ]


def forward(units: int = UNITS) -> lp.TranslationUnit:
    """Return the sums for *units* hidden units and blocks of as many inputs."""
    knl = lp.make_kernel(
        f"{{[b, k, j]: 0 <= b < n//{units} and 0 <= k, j < {units}}}",
        f"""
        for b, k, j
            if j == 0
                input[k] = x[{units}*b + k + 1]
            end
            ... lbarrier {{mem_kind=local}}
            product[k, j] = w[{units}*b + k + 1, j + 1]*input[k]
            ... lbarrier {{mem_kind=local}}{halving(units)}
            if k == 0
                out[b, j] = product[0, j]
            end
        end
        """,
        [
            lp.GlobalArg("w", np.float32, shape=f"n + 1, {units + 1}"),
            lp.GlobalArg("x", np.float32, shape="n + 1"),
            lp.GlobalArg("out", np.float32, shape=f"n//{units}, {units}"),
            lp.ValueArg("n", np.int32),
            lp.TemporaryVariable("input", np.float32, shape=(units,), address_space=lp.AddressSpace.LOCAL),
            lp.TemporaryVariable("product", np.float32, shape=(units, units), address_space=lp.AddressSpace.LOCAL),
        ],
        name="bpnn_layerforward_ocl",
        seq_dependencies=True,
        assumptions=f"n mod {units} = 0 and n >= {units}",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(knl, {"b": "g.0", "k": "l.1", "j": "l.0"})


def halving(units: int) -> str:
    """Return the steps of the sum over k: neighbors first, so that the distance between the remaining rows grows."""
    step = """
            if k % {pair} == 0
                product[k, j] = product[k, j] + product[k + {half}, j]
            end
            ... lbarrier {{mem_kind=local}}"""
    halves = [2**level for level in range(units.bit_length() - 1)]
    return "".join(step.format(pair=2 * half, half=half) for half in halves)


def arguments(units: int, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random weights and inputs, and zeros for out; all are non-negative, which avoids cancellation."""
    n = sizes["n"]
    return {
        "w": rng.random((n + 1, units + 1), dtype=np.float32),
        "x": rng.random(n + 1, dtype=np.float32),
        "out": np.zeros((n // units, units), dtype=np.float32),
        "n": np.int32(n),
    }


def sums(units: int, arguments: Arguments) -> dict[str, Array]:
    """Return out."""
    w, x = (np.asarray(arguments[name], dtype=np.float64) for name in "wx")
    products = w[1:, 1:] * x[1:, None]
    return {"out": products.reshape(-1, units, units).sum(axis=1).astype(np.float32)}
