"""A neural network's layer, backward: the weights of 16 hidden units move along their gradient, float32.

    v[k,j] ← η·δ[j]·x[k] + μ·v[k,j],    w[k,j] ← w[k,j] + v[k,j]      for 0 ≤ k ≤ n and 0 < j ≤ 16

bpnn_adjust_weights_ocl from Lemeire, table 9. The weights w and their previous change v are (n+1) × 17; δ are the
errors of the units, x the inputs, of which the first is that of the biases, 1. A group of 16 × 16 work-items has 16
inputs, with units along l.0. The first row of the first group also updates the biases.

The kernel tests bandwidth for rows that are not aligned with sectors, loads that are the same for rows or columns of a
group, and a single warp of the launch that has more work than the others.

Counts per weight, of which there are 16(n+1): 4 loads, 2 stores, 3 multiplications, 2 additions.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "bpnn_adjust_weights_ocl"

UNITS = 16
"""hidden units, and work-items of a group along both axes"""

LARGEST = 2**22
"""the largest n, with two arrays of 272 MiB"""

RATE, MOMENTUM = 0.3, 0.3
"""η and μ"""


def configurations(limits: DeviceLimits, units: int = UNITS) -> list[Configuration]:
    """Return the kernel for groups of (units, units) work-items, if the device supports them."""
    if units**2 > limits.group_size:
        return []
    return [
        Configuration(
            label=f"group {units}x{units}",
            build=partial(adjustment, units),
            sizes=tuple({"n": n} for n in doubling(at_least=64, multiple_of=units, at_most=LARGEST)),
            arguments=partial(arguments, units),
            reference=adjusted,
        )
    ]


def adjustment(units: int = UNITS) -> lp.TranslationUnit:
    """Return the update for *units* hidden units, for groups of as many inputs."""
    row = f"{units}*b + k + 1"
    knl = lp.make_kernel(
        f"{{[b, k, j]: 0 <= b < n//{units} and 0 <= k, j < {units}}}",
        f"""
        for b, k, j
            <> change = eta*delta[j + 1]*x[{row}] + mu*v[{row}, j + 1] {{id=change, nosync=biases}}
            v[{row}, j + 1] = change {{id=moved, nosync=biases}}
            w[{row}, j + 1] = w[{row}, j + 1] + change
            if b == 0 and k == 0
                <> of_bias = eta*delta[j + 1] + mu*v[0, j + 1] {{id=of_bias, nosync=moved:biases}}
                v[0, j + 1] = of_bias {{id=biases, nosync=change:moved:of_bias}}
                w[0, j + 1] = w[0, j + 1] + of_bias
            end
        end
        """,
        [
            lp.GlobalArg("w, v", np.float32, shape=f"n + 1, {units + 1}"),
            lp.GlobalArg("x", np.float32, shape="n + 1"),
            lp.GlobalArg("delta", np.float32, shape=(units + 1,)),
            lp.ValueArg("eta, mu", np.float32),
            lp.ValueArg("n", np.int32),
        ],
        name="bpnn_adjust_weights_ocl",
        seq_dependencies=True,
        assumptions=f"n mod {units} = 0 and n >= {units}",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(knl, {"b": "g.0", "k": "l.1", "j": "l.0"})


def arguments(units: int, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random weights, changes, errors and inputs; all are non-negative, which avoids cancellation."""
    n = sizes["n"]
    x = rng.random(n + 1, dtype=np.float32)
    x[0] = 1
    return {
        "w": rng.random((n + 1, units + 1), dtype=np.float32),
        "v": rng.random((n + 1, units + 1), dtype=np.float32),
        "x": x,
        "delta": rng.random(units + 1, dtype=np.float32),
        "eta": np.float32(RATE),
        "mu": np.float32(MOMENTUM),
        "n": np.int32(n),
    }


def adjusted(arguments: Arguments) -> dict[str, Array]:
    """Return v and w after the update."""
    w, v, x, delta = (np.array(arguments[name], dtype=np.float64) for name in ("w", "v", "x", "delta"))
    v[:, 1:] = float(arguments["eta"]) * np.outer(x, delta[1:]) + float(arguments["mu"]) * v[:, 1:]
    w[:, 1:] += v[:, 1:]
    return {"v": v.astype(np.float32), "w": w.astype(np.float32)}
