"""Heat in a chip with layers: a time step of a seven-point stencil on n × n × m points, row-major, float32.

    u'[z,y,x] = a·u[z,y,x] + w·(u[z,y,x−1] + u[z,y,x+1]) + s·(u[z,y−1,x] + u[z,y+1,x]) + v·(u[z−1,y,x] + u[z+1,y,x])
                + d·q[z,y,x] + e      for 0 ≤ x, y < n and 0 ≤ z < m

hotspot from Lemeire, table 9. q is the power that is turned into heat, e the contribution of the surroundings. At the
border, a point is its own neighbor. A work-item proceeds along z and keeps the point and those below and above it in
registers; the group of gx × gy work-items has x along l.0.

The kernel tests stencils that depend on caches: four of the six neighbors are also loaded for other points, by other
lanes or other groups. The neighbors in x and y are the same in all layers, so that a compiler selects them once.

Counts per point, of which there are n²·m: 5 multiplications, 8 additions, 6 loads, 1 store; in addition n² loads of the
lowest layer. The highest layer is loaded twice, as its own upper neighbor.
"""

from functools import partial
from math import lcm

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Group, Sizes, doubling

NAME = "hotspot"

GROUP = (64, 4)
"""(extent of l.0, extent of l.1): eight warps"""

LAYERS = 8
"""number of layers, as in Rodinia"""

LARGEST = 2**12
"""the largest n, with three arrays of 512 MiB"""

WEIGHTS = {"a": 0.38, "w": 0.1, "s": 0.12, "v": 0.09, "d": 0.5, "e": 0.2}
"""coefficients; those of neighbors and of the point itself add up to 1"""


def configurations(limits: DeviceLimits, group: Group = GROUP) -> list[Configuration]:
    """Return the kernel for groups of (extent of l.0, extent of l.1) work-items, if the device supports them."""
    columns, rows = group
    if columns * rows > limits.group_size:
        return []
    sides = doubling(at_least=64, multiple_of=lcm(*group), at_most=LARGEST)
    return [
        Configuration(
            label=f"group {columns}x{rows}",
            build=partial(heat_step, group),
            sizes=tuple({"n": n, "m": LAYERS} for n in sides),
            arguments=arguments,
            reference=heated,
        )
    ]


def heat_step(group: Group = GROUP) -> lp.TranslationUnit:
    """Return the time step for groups of (extent of l.0, extent of l.1) work-items."""
    columns, rows = group
    knl = lp.make_kernel(
        "{[x, y, z]: 0 <= x, y < n and 0 <= z < m}",
        """
        for x, y
            <> here = u[0, y, x]
            <> above = here
            for z
                <> below = here
                here = above
                above = u[if(z < m - 1, z + 1, z), y, x]
                <> across = u[z, y, if(x > 0, x - 1, 0)] + u[z, y, if(x < n - 1, x + 1, x)]
                <> along = u[z, if(y > 0, y - 1, 0), x] + u[z, if(y < n - 1, y + 1, y), x]
                out[z, y, x] = a*here + w*across + s*along + v*(below + above) + d*q[z, y, x] + e
            end
        end
        """,
        [
            lp.GlobalArg("u, q, out", np.float32, shape="m, n, n"),
            lp.ValueArg(", ".join(WEIGHTS), np.float32),
            lp.ValueArg("n, m", np.int32),
        ],
        name="hotspot",
        seq_dependencies=True,
        assumptions=f"n mod {lcm(columns, rows)} = 0 and n >= {lcm(columns, rows)} and m >= 1",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "x", columns, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "y", rows, outer_tag="g.1", inner_tag="l.1")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random temperatures and powers, and zeros for out; all are non-negative, which avoids cancellation."""
    shape = (sizes["m"], sizes["n"], sizes["n"])
    return {
        "u": rng.random(shape, dtype=np.float32),
        "q": rng.random(shape, dtype=np.float32),
        "out": np.zeros(shape, dtype=np.float32),
        **{name: np.float32(weight) for name, weight in WEIGHTS.items()},
        **{name: np.int32(size) for name, size in sizes.items()},
    }


def heated(arguments: Arguments) -> dict[str, Array]:
    """Return out."""
    u, q = (np.asarray(arguments[name], dtype=np.float64) for name in "uq")
    a, w, s, v, d, e = (float(arguments[name]) for name in WEIGHTS)
    padded = np.pad(u, 1, mode="edge")
    across = padded[1:-1, 1:-1, :-2] + padded[1:-1, 1:-1, 2:]
    along = padded[1:-1, :-2, 1:-1] + padded[1:-1, 2:, 1:-1]
    between = padded[:-2, 1:-1, 1:-1] + padded[2:, 1:-1, 1:-1]
    return {"out": (a * u + w * across + s * along + v * between + d * q + e).astype(np.float32)}
