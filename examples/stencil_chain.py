"""Tune a chain of three smoothing steps of n × n points, whose fusion, tile and prefetch are options, in float32.

The steps are array expressions, as pytato's. An intermediate array is stored in global memory, computed for each tile
in local memory, or computed again wherever it is used ("inline"). No GPU is needed to predict the fastest on an H200:

    python examples/stencil_chain.py

With an OpenCL device, for example PoCL on a processor, it also measures there:

    python examples/stencil_chain.py opencl
"""

import sys
from typing import Any

import loopy as lp
import numpy as np
from pymbolic import var

import loopyperf as lpp

SPACE = {
    "first": ("global", "local", "inline"),
    "second": ("global", "local", "inline"),
    "width": (16, 32, 64),
    "height": (4, 8, 16),
    "rows": (1, 2, 4),
    "prefetch": (False, True),
}
MARGINS = {"v": 128, "w": 64, "out": 0}
"""additional points of each array along each axis: so many that all tiles are full"""


def step(array: str, i: str, j: str) -> str:
    """Return the smoothed value of *array*, which has a margin of one point on each side, as Loopy's expression."""
    around = " + ".join(f"{array}[{i}+{di}, {j}+{dj}]" for di, dj in ((0, 1), (1, 0), (1, 2), (2, 1)))
    return f"0.5*{array}[{i}+1, {j}+1] + 0.125*({around})"


def build(
    first: str = "global",
    second: str = "global",
    width: int = 32,
    height: int = 8,
    rows: int = 1,
    prefetch: bool = False,
) -> lp.TranslationUnit:
    """Return the chain u → v → w → out, with tiles of *width* × (*height*·*rows*) points.

    *first* and *second* are the places of v and w, and *prefetch* copies u to local memory.
    """
    knl = lp.make_kernel(
        [f"{{[{name}_i, {name}_j]: 0 <= {name}_i, {name}_j < n + {more}}}" for name, more in MARGINS.items()],
        f"""
        v[v_i, v_j] = {step("u", "v_i", "v_j")} {{id=v}}
        w[w_i, w_j] = {step("v", "w_i", "w_j")} {{id=w, dep=v}}
        out[out_i, out_j] = {step("w", "out_i", "out_j")} {{id=out, dep=w}}
        """,
        [
            lp.GlobalArg("u", np.float32, shape="n+130, n+130"),
            lp.GlobalArg("out", np.float32, shape="n, n"),
            lp.TemporaryVariable("v", np.float32, shape=(var("n") + 128,) * 2, address_space=lp.AddressSpace.GLOBAL),
            lp.TemporaryVariable("w", np.float32, shape=(var("n") + 64,) * 2, address_space=lp.AddressSpace.GLOBAL),
            lp.ValueArg("n", np.int32),
        ],
        name="stencil_chain",
        assumptions="n >= 64 and n mod 64 = 0",
        lang_version=(2018, 2),
    )
    places = {"out": "global", "w": second, "v": first, "u": "local" if prefetch else "argument"}
    for name in ("w", "v"):
        if places[name] != "global":
            knl = lp.assignment_to_subst(knl, name)
    points, groups, tiles = list[str](), frozenset[str](), list[str]()
    for name, place in places.items():  # from the last to the first
        if place == "global":
            knl = lp.split_iname(knl, f"{name}_j", width, outer_tag="g.0", inner_tag="l.0")
            knl = lp.split_iname(knl, f"{name}_i", height * rows, outer_tag="g.1")
            knl = lp.split_iname(knl, f"{name}_i_inner", height, inner_tag="l.1", outer_tag="unr")
            points = [f"{name}_i_inner_outer", f"{name}_i_inner_inner", f"{name}_j_inner"]
            groups = frozenset({f"{name}_i_outer", f"{name}_j_outer"})
        elif place == "local":
            knl = in_local_memory(knl, name, points, groups)
            points = [f"{name}_row", f"{name}_column"]
            tiles.append(name)
    for name in tiles:
        knl = lp.split_iname(knl, f"{name}_column", width, inner_tag="l.0")
        knl = lp.split_iname(knl, f"{name}_row", height, inner_tag="l.1")
    knl = lp.expand_subst(knl)
    for name in ("v", "w"):
        if places[name] == "global":
            knl = lp.add_barrier(knl, f"writes:{name}", f"reads:{name}", synchronization_kind="global")
    return knl


def in_local_memory(
    knl: lp.TranslationUnit, name: str, points: list[str], groups: frozenset[str]
) -> lp.TranslationUnit:
    """Return *knl* with what the inames *points* use of the array or rule *name* in local memory."""
    tile = [f"{name}_row", f"{name}_column"]
    if name == "u":
        return lp.add_prefetch(
            knl, "u", points, dim_arg_names=tile, fetch_outer_inames=groups, fetch_bounding_box=True, default_tag=None
        )
    return lp.precompute(
        knl,
        f"{name}_subst",
        points,
        precompute_inames=tile,
        precompute_outer_inames=groups,
        temporary_address_space=lp.AddressSpace.LOCAL,
        fetch_bounding_box=True,
        default_tag=None,
    )


def main(backend: str | None = None, n: int = 2**13, **options: Any) -> lpp.Tuning:
    """Return the tuning for an H200 by prediction or, with a *backend*, of what is measured there."""
    options |= {"backend": backend} if backend else {"device": "nvidia-h200", "model": "pipeline"}
    return lpp.tune(build, SPACE, n=n, **options)


if __name__ == "__main__":
    print(main(sys.argv[1] if len(sys.argv) > 1 else None))
