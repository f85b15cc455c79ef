"""Three 7 × 7 filters applied to three n × n RGB images, row-major, float32, w = 3.

    r[i,j,x,y] = Σ_{−w≤ξ,η≤w} Σ_{c<3} m[i, w+x−ξ, w+y−η, c] · f[j, w+ξ, w+η, c]      for 0 ≤ i, j < 3 and 0 ≤ x, y < n

Stevens and Klöckner, section 5, third test kernel. Each image of m has a margin of w points on every side: m is 3 ×
(n+6) × (n+6) × 3, with colors innermost. A work-item computes the point (x, y) of the three images under one filter: x
is along l.0 and g.0, y along l.1 and g.1, the filter j is g.2, the image i is the outermost loop. Nothing is
prefetched.

With x along l.0, the lanes of a group read m at a stride of 3(n+6) elements and store r at a stride of n: neither is
coalesced, but caches serve the remaining elements (fraction 4/>4). f is the same for all lanes (stride 0). The kernel
tests the reuse of data by caches.

Counts: 9n² points of r, each with 147 multiplications, 147 additions, 147 loads of m, 147 loads of f and one store.
"""

from functools import partial
from math import lcm

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Group, Sizes, doubling

NAME = "convolution"

GROUP = (16, 16)
"""the paper's only group size: 256 work-items, as (extent of l.0, extent of l.1)"""

LARGEST = 2**11
"""the paper's largest n: 2^(p+t) with p = 8, t = 3"""

W = 3
"""the paper's w: the filters extend from −w to w"""


def configurations(limits: DeviceLimits, group: Group = GROUP) -> list[Configuration]:
    """Return the kernel for groups of (extent of l.0, extent of l.1) work-items, if the device supports them."""
    if group[0] * group[1] > limits.group_size:
        return []
    return [
        Configuration(
            label=f"group {group[0]}x{group[1]}",
            build=partial(convolution, group),
            sizes=tuple({"n": n} for n in doubling(at_least=16, multiple_of=lcm(*group), at_most=LARGEST)),
            arguments=arguments,
            reference=filtered,
        )
    ]


def convolution(group: Group = GROUP) -> lp.TranslationUnit:
    """Return the convolution for groups of (extent of l.0, extent of l.1) work-items."""
    columns, rows = group
    knl = lp.make_kernel(
        f"{{[i, j, x, y, xi, eta, c]: 0 <= i, j, c < 3 and 0 <= x, y < n and -{W} <= xi, eta <= {W}}}",
        f"r[i, j, x, y] = sum((xi, eta, c), m[i, {W}+x-xi, {W}+y-eta, c]*f[j, {W}+xi, {W}+eta, c])",
        [
            lp.GlobalArg("m", np.float32, shape=f"3, n + {2 * W}, n + {2 * W}, 3"),
            lp.GlobalArg("f", np.float32, shape=(3, 2 * W + 1, 2 * W + 1, 3)),
            lp.GlobalArg("r", np.float32, shape="3, 3, n, n"),
            lp.ValueArg("n", np.int32),
        ],
        name="convolution",
        assumptions=f"n mod {lcm(columns, rows)} = 0 and n >= {lcm(columns, rows)}",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "x", columns, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "y", rows, outer_tag="g.1", inner_tag="l.1")
    knl = lp.tag_inames(knl, {"j": "g.2"})
    return lp.prioritize_loops(knl, "i, xi, eta, c")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random images and filters, and zeros for r; all are non-negative, which avoids cancellation."""
    n = sizes["n"]
    return {
        "m": rng.random((3, n + 2 * W, n + 2 * W, 3), dtype=np.float32),
        "f": rng.random((3, 2 * W + 1, 2 * W + 1, 3), dtype=np.float32),
        "r": np.zeros((3, 3, n, n), dtype=np.float32),
        "n": np.int32(n),
    }


def filtered(arguments: Arguments) -> dict[str, Array]:
    """Return r, summed over one shift of the images after another."""
    images, filters, r = (np.array(arguments[name], dtype=np.float32) for name in "mfr")
    n = int(arguments["n"])
    for xi in range(-W, W + 1):
        for eta in range(-W, W + 1):
            shifted = images[:, W - xi : W - xi + n, W - eta : W - eta + n, :]
            r += np.einsum("ixyc,jc->ijxy", shifted, filters[:, W + xi, W + eta, :])
    return {"r": r}
