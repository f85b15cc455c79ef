"""Speckle-reducing diffusion, first half: gradients of an image and its diffusion coefficients, n × n, float32.

    d_k[i,j] = u_k − u[i,j]      for the neighbors u_k above, below, left and right; at the border, the point itself
    g = Σ_k d_k² / u²,    l = Σ_k d_k / u,    r = (g/2 − l²/16) / (1 + l/4)²
    c[i,j] = 1 / (1 + (r − q) / (q·(1 + q))),    clipped to [0, 1]      for 0 ≤ i, j < n

opt_srad1 from Lemeire, table 9 (Yu and Acton, Speckle reducing anisotropic diffusion, 2002). q is the speckle's
variance over its squared mean, the same for all points. The four differences are stored for the second half. A
work-item computes one point; the group of 256 is part of a row.

The kernel tests divisions, of which a point has five in a chain, and five stores for five loads, of which caches serve
all but one. The coefficient is clipped by selection, without a branch.

Counts per point, of which there are n²: 5 loads, 5 stores, 5 divisions, 15 additions and subtractions, 11
multiplications, 2 comparisons.
"""

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._groups import in_groups_of

NAME = "opt_srad1"

GROUP = 256
"""eight warps"""

LARGEST = 2**13
"""the largest n, with six arrays of 256 MiB"""

VARIANCE = 0.05


def configurations(limits: DeviceLimits, group: int = GROUP) -> list[Configuration]:
    """Return the kernel for groups of *group* work-items, if the device supports them."""
    return in_groups_of(group, limits, gradients, arguments, coefficients, LARGEST)


def gradients(group: int = GROUP) -> lp.TranslationUnit:
    """Return the kernel for groups of *group* work-items."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        for i, j
            <> here = u[i, j]
            <> north = u[if(i > 0, i - 1, 0), j] - here
            <> south = u[if(i < n - 1, i + 1, i), j] - here
            <> west = u[i, if(j > 0, j - 1, 0)] - here
            <> east = u[i, if(j < n - 1, j + 1, j)] - here
            <> g = (north*north + south*south + west*west + east*east) / (here*here)
            <> l = (north + south + west + east) / here
            <> root = 1 + 0.25f*l
            <> r = (0.5f*g - 0.0625f*(l*l)) / (root*root)
            <> coefficient = 1 / (1 + (r - q) / (q*(1 + q)))
            d_north[i, j] = north
            d_south[i, j] = south
            d_west[i, j] = west
            d_east[i, j] = east
            c[i, j] = fmin(fmax(coefficient, 0.0f), 1.0f)
        end
        """,
        [
            lp.GlobalArg("u, d_north, d_south, d_west, d_east, c", np.float32, shape="n, n"),
            lp.ValueArg("q", np.float32),
            lp.ValueArg("n", np.int32),
        ],
        name="opt_srad1",
        seq_dependencies=True,
        assumptions=f"n mod {group} = 0 and n >= {group}",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "j", group, outer_tag="g.0", inner_tag="l.0")
    return lp.tag_inames(knl, {"i": "g.1"})


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random image between 1 and 2, for which all coefficients are finite, and zeros for the other arrays."""
    n = sizes["n"]
    written = ("d_north", "d_south", "d_west", "d_east", "c")
    return {
        "u": 1 + rng.random((n, n), dtype=np.float32),
        **{name: np.zeros((n, n), dtype=np.float32) for name in written},
        "q": np.float32(VARIANCE),
        "n": np.int32(n),
    }


def coefficients(arguments: Arguments) -> dict[str, Array]:
    """Return the differences and c."""
    u, q = np.asarray(arguments["u"], dtype=np.float64), float(arguments["q"])
    padded = np.pad(u, 1, mode="edge")
    shifted = {"d_north": padded[:-2, 1:-1], "d_south": padded[2:, 1:-1]}
    shifted |= {"d_west": padded[1:-1, :-2], "d_east": padded[1:-1, 2:]}
    differences = {name: neighbour - u for name, neighbour in shifted.items()}
    gradient = sum(each**2 for each in differences.values()) / u**2
    laplacian = sum(differences.values()) / u
    r = (gradient / 2 - laplacian**2 / 16) / (1 + laplacian / 4) ** 2
    c = np.clip(1 / (1 + (r - q) / (q * (1 + q))), 0, 1)
    return {name: each.astype(np.float32) for name, each in {**differences, "c": c}.items()}
