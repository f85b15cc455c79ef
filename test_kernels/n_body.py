"""Sums of the inverse distances between n positions in space, float32.

    out[i] = Σⱼ 1/√(|x[:,i] − x[:,j]|² + ε)      for 0 ≤ i < n, with x a 3 × n array, column-major

Stevens and Klöckner, section 5, fourth test kernel. A work-item computes the sum for one position, which it keeps in
registers; the group of g work-items fetches the positions into local memory in blocks of 3 × g, one coordinate after
another, with columns along l.0: loads of stride 3 that use every element (fraction 3/3).

The kernel tests arithmetic, rsqrt and local loads that are the same for all lanes.

The paper's "every other position" excludes j = i. Here ε = 2⁻¹⁰ keeps that term finite instead, as in simulations: one
more addition per pair, and out[i] is larger by 1/√ε = 32. A condition would make one lane of each group diverge for a
term that does not matter.

Counts per pair, of which there are n²: 3 subtractions, 3 exponentiations (squares, for which Loopy's C code is ``d*d``
with the difference d written twice: the compiler has to merge them), 3 additions, 1 rsqrt, 1 addition of the sum, 3
local loads. Per work-item: 3 + 3n/g loads, 3n/g local stores, 2n/g barriers, one store.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling
from loopyperf.measurement.kernel_files import with_local_tile

NAME = "n-body"

GROUP = 256
"""the paper's only group size, in work-items"""

LARGEST = 2**14
"""the paper's largest n: 2^(p+t) with p = 11, t = 3"""

EPSILON = 2.0**-10


def configurations(limits: DeviceLimits, group: int = GROUP) -> list[Configuration]:
    """Return the kernel for groups of *group* work-items, if the device supports them."""
    if group > limits.group_size or 4 * 3 * group > limits.local_memory:
        return []
    return [
        Configuration(
            label=f"group {group}",
            build=partial(n_body, group),
            sizes=tuple({"n": n} for n in doubling(at_least=1, multiple_of=group, at_most=LARGEST)),
            arguments=arguments,
            reference=inverse_distances,
        )
    ]


def n_body(group: int = GROUP) -> lp.TranslationUnit:
    """Return the sums for groups of *group* work-items."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        f"""
        for i
            <> x0 = x[0, i]
            <> x1 = x[1, i]
            <> x2 = x[2, i]
            out[i] = sum(j, rsqrt((x0 - x$far[0, j])**2 + (x1 - x$far[1, j])**2 + (x2 - x$far[2, j])**2 + {EPSILON}))
        end
        """,
        [
            lp.GlobalArg("x", np.float32, shape="3, n", order="F"),
            lp.GlobalArg("out", np.float32, shape="n"),
            lp.ValueArg("n", np.int32),
        ],
        name="n_body",
        assumptions=f"n mod {group} = 0 and n >= {group}",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "j", group)
    axes = {"coordinate": None, "position": "l.0"}
    knl = with_local_tile(knl, "x$far", swept="j_inner", outer="i_outer, j_outer", axes=axes, name="x_block")
    return lp.prioritize_loops(knl, "j_outer, coordinate")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random positions in the unit cube, column-major, and zeros for out."""
    n = sizes["n"]
    return {"x": rng.random((n, 3), dtype=np.float32).T, "out": np.zeros(n, dtype=np.float32), "n": np.int32(n)}


def inverse_distances(arguments: Arguments) -> dict[str, Array]:
    """Return out, one block of positions at a time to save memory."""
    x = np.asarray(arguments["x"], dtype=np.float64)
    out = np.zeros(x.shape[1])
    for block in np.array_split(x, max(1, x.shape[1] // 256), axis=1):
        squares = np.sum((x[:, :, None] - block[:, None, :]) ** 2, axis=0)
        out += np.sum(1 / np.sqrt(squares + EPSILON), axis=1)
    return {"out": out.astype(np.float32)}
