"""Kernels whose instruction counts are derived by hand: matrix multiplication, n-body, transposition."""

import loopy as lp
import numpy as np

from loopyperf.measurement.kernel_files import with_local_tile
from test_kernels.n_body import n_body

__all__ = ["n_body", "naive_multiplication", "tiled_multiplication", "transposition"]


def tiled_multiplication(tile: int = 16, dtype: type = np.float32) -> lp.TranslationUnit:
    """Return c = a·b for n × n matrices in groups of tile × tile work-items, with tiles of a and b in local memory."""
    knl = lp.split_iname(naive_product(dtype, tile), "i", tile, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", tile, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", tile)
    for array, swept in ("a", "i_inner, k_inner"), ("b", "k_inner, j_inner"):
        axes = {f"{array}_row": "l.1", f"{array}_column": "l.0"}
        knl = with_local_tile(knl, array, swept=swept, outer="i_outer, j_outer, k_outer", axes=axes)
    return lp.prioritize_loops(knl, "k_outer, k_inner")


def naive_multiplication(group: int = 16, dtype: type = np.float32) -> lp.TranslationUnit:
    """Return c = a·b for n × n matrices in groups of group × group work-items, without local memory."""
    knl = lp.split_iname(naive_product(dtype, group), "i", group, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", group, outer_tag="g.0", inner_tag="l.0")


def naive_product(dtype: type, divisor: int) -> lp.TranslationUnit:
    """Return c = a·b for n × n matrices with n a multiple of *divisor*, with no iname mapped to work-items."""
    return lp.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b, c", dtype, shape="n, n"), lp.ValueArg("n", np.int32)],
        name="multiplication",
        assumptions=f"n mod {divisor} = 0 and n >= {divisor}",
        lang_version=(2018, 2),
    )


def transposition(tile: int = 16, dtype: type = np.float32) -> lp.TranslationUnit:
    """Return b = aᵀ for n × n matrices through a tile × tile tile in local memory; all accesses are coalesced."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "b[j, i] = a[i, j]",
        [lp.GlobalArg("a, b", dtype, shape="n, n"), lp.ValueArg("n", np.int32)],
        name="transposition",
        assumptions=f"n mod {tile} = 0 and n >= {tile}",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", tile, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "j", tile, outer_tag="g.1", inner_tag="l.1")
    axes = {"a_row": "l.1", "a_column": "l.0"}
    return with_local_tile(knl, "a", swept="i_inner, j_inner", outer="i_outer, j_outer", axes=axes)
