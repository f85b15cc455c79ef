"""Speckle-reducing diffusion, second half: update of an image along its gradients, n × n, row-major, float32.

    u[i,j] ← u[i,j] + λ/4·(c[i,j]·d_north + c[i+1,j]·d_south + c[i,j]·d_west + c[i,j+1]·d_east)      for 0 ≤ i, j < n

opt_srad2 from Lemeire, table 9 (Yu and Acton, Speckle reducing anisotropic diffusion, 2002). The differences d to the
four neighbors and the coefficients c are stored by the first half; at the border, a point is its own neighbor. A
work-item computes one point; the group of 256 is part of a row.

The kernel tests bandwidth: it streams seven arrays, one of which is read at three positions.

Counts per point, of which there are n²: 8 loads, 1 store, 6 multiplications, 4 additions.
"""

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._groups import in_groups_of

NAME = "opt_srad2"

GROUP = 256
"""eight warps"""

LARGEST = 2**13
"""the largest n, with six arrays of 256 MiB"""

STEP = 0.5
"""λ, the length of a time step"""


def configurations(limits: DeviceLimits, group: int = GROUP) -> list[Configuration]:
    """Return the kernel for groups of *group* work-items, if the device supports them."""
    return in_groups_of(group, limits, diffusion, arguments, diffused, LARGEST)


def diffusion(group: int = GROUP) -> lp.TranslationUnit:
    """Return the kernel for groups of *group* work-items."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        for i, j
            <> here = c[i, j]
            <> south = c[if(i < n - 1, i + 1, i), j]*d_south[i, j]
            <> east = c[i, if(j < n - 1, j + 1, j)]*d_east[i, j]
            u[i, j] = u[i, j] + 0.25f*step*(here*d_north[i, j] + south + here*d_west[i, j] + east)
        end
        """,
        [
            lp.GlobalArg("u, d_north, d_south, d_west, d_east, c", np.float32, shape="n, n"),
            lp.ValueArg("step", np.float32),
            lp.ValueArg("n", np.int32),
        ],
        name="opt_srad2",
        seq_dependencies=True,
        assumptions=f"n mod {group} = 0 and n >= {group}",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "j", group, outer_tag="g.0", inner_tag="l.0")
    return lp.tag_inames(knl, {"i": "g.1"})


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random image, differences and coefficients; all are non-negative, which avoids cancellation."""
    n = sizes["n"]
    names = ("u", "d_north", "d_south", "d_west", "d_east", "c")
    return {
        **{name: rng.random((n, n), dtype=np.float32) for name in names},
        "step": np.float32(STEP),
        "n": np.int32(n),
    }


def diffused(arguments: Arguments) -> dict[str, Array]:
    """Return u after the step."""
    names = ("u", "c", "d_north", "d_south", "d_west", "d_east")
    u, c, north, south, west, east = (np.asarray(arguments[name], dtype=np.float64) for name in names)
    padded = np.pad(c, ((0, 1), (0, 1)), mode="edge")
    divergence = c * north + padded[1:, :-1] * south + c * west + padded[:-1, 1:] * east
    return {"u": (u + float(arguments["step"]) / 4 * divergence).astype(np.float32)}
