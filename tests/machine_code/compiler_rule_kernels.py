"""Kernels of many kinds, including short ones that mostly execute code outside of loops."""

import loopy as lp
import numpy as np

from loopyperf.measurement.kernel_files import with_local_tile

GROUP = 128
N = lp.ValueArg("n", np.int32)


def scaled_sum(is_bounded: bool = False) -> lp.TranslationUnit:
    """Return y = a·x + y; if *is_bounded*, n need not be a multiple of the group."""
    return by_groups("{[i]: 0 <= i < n}", "y[i] = a*x[i] + y[i]", ["x, y", lp.ValueArg("a", np.float32)], is_bounded)


def gather() -> lp.TranslationUnit:
    """Return out[i] = b[index[i]]."""
    return by_groups("{[i]: 0 <= i < n}", "out[i] = b[index[i]]", ["b, out", _integers("index", "n")])


def sparse_rows(length: int | str = 8) -> lp.TranslationUnit:
    """Return y = A·x for a sparse matrix with *length* elements per row, stored row by row."""
    arrays = [lp.GlobalArg("a", np.float32, shape=f"n, {length}"), _integers("column", f"n, {length}"), "x, y"]
    sizes = [lp.ValueArg("m", np.int32)] if length == "m" else []
    domain = f"{{[i, k]: 0 <= i < n and 0 <= k < {length}}}"
    return by_groups(domain, "y[i] = sum(k, a[i, k]*x[column[i, k]])", [*arrays, *sizes])


def small_products(length: int = 8, dtype: type = np.float32) -> lp.TranslationUnit:
    """Return y = A·x for many small matrices, interleaved element by element in memory; the sums are unrolled."""
    arrays = [
        lp.GlobalArg("a", dtype, shape=f"{length}, {length}, n"),
        lp.GlobalArg("x, y", dtype, shape=f"{length}, n"),
    ]
    domain = f"{{[i, j, k]: 0 <= i < n and 0 <= j, k < {length}}}"
    return lp.tag_inames(by_groups(domain, "y[j, i] = sum(k, a[j, k, i]*x[k, i])", arrays), {"k": "unr"})


def sums_of_rows() -> lp.TranslationUnit:
    """Return the sums of the rows of an n × m matrix, one row per work-item."""
    arrays = [lp.GlobalArg("a", np.float32, shape="n, m"), "out", lp.ValueArg("m", np.int32)]
    return by_groups("{[i, j]: 0 <= i < n and 0 <= j < m}", "out[i] = sum(j, a[i, j])", arrays)


def sums_of_columns() -> lp.TranslationUnit:
    """Return the sums of the columns of an m × n matrix, one column per work-item."""
    arrays = [lp.GlobalArg("a", np.float32, shape="m, n"), "out", lp.ValueArg("m", np.int32)]
    return by_groups("{[i, j]: 0 <= i < n and 0 <= j < m}", "out[i] = sum(j, a[j, i])", arrays)


def products_of_vectors() -> lp.TranslationUnit:
    """Return out[r, i] = sum(k, a[k, i]·b[r, k]): nested loops with trip counts known at run time."""
    arrays = [
        lp.GlobalArg("a", np.float32, shape="m, n"),
        lp.GlobalArg("b", np.float32, shape="p, m"),
        lp.GlobalArg("out", np.float32, shape="p, n"),
        lp.ValueArg("m, p", np.int32),
    ]
    domain = "{[i, r, k]: 0 <= i < n and 0 <= r < p and 0 <= k < m}"
    return lp.prioritize_loops(by_groups(domain, "out[r, i] = sum(k, a[k, i]*b[r, k])", arrays), "r, k")


def forces() -> lp.TranslationUnit:
    """Return a sum over all pairs of n points in the plane, in double precision, without local memory."""
    arrays = [lp.GlobalArg("x, y, force", np.float64, shape="n")]
    square = "(x[j] - x[i])*(x[j] - x[i]) + (y[j] - y[i])*(y[j] - y[i]) + 1e-3"
    domain = "{[i, j]: 0 <= i, j < n}"
    return by_groups(domain, f"force[i] = sum(j, (x[j] - x[i])*rsqrt({square}))", arrays)


def pointwise() -> lp.TranslationUnit:
    """Return out = exp(a)/(1 + b²) + sqrt(a)."""
    return by_groups("{[i]: 0 <= i < n}", "out[i] = exp(a[i])/(1 + b[i]*b[i]) + sqrt(a[i])", ["a, b, out"])


def integer_products() -> lp.TranslationUnit:
    """Return y = A·x for an n × 64 matrix of integers."""
    arrays = [_integers("a", "n, 64"), _integers("x", "64"), _integers("y", "n")]
    return by_groups("{[i, j]: 0 <= i < n and 0 <= j < 64}", "y[i] = sum(j, a[i, j]*x[j])", arrays)


def invariant_loop() -> lp.TranslationUnit:
    """Return twice each number, recomputed in each of eight iterations of a loop, and stored after it."""
    steps = """
        <> t = 2*a[i] {id=twice, inames=i:j}
        out[i] = t {dep=twice}
        """
    return by_groups("{[i, j]: 0 <= i < n and 0 <= j < 8}", steps, ["a, out"])


def recurrence() -> lp.TranslationUnit:
    """Return s after m steps of s = s·w[t] + b[i], starting from a[i]."""
    steps = """
        for i
            <> s = a[i] {id=first}
            for t
                s = s*w[t] + b[i] {id=step, dep=first}
            end
            out[i] = s {dep=step}
        end
        """
    arrays = ["a, b, out", lp.GlobalArg("w", np.float32, shape="m"), lp.ValueArg("m", np.int32)]
    return by_groups("{[i, t]: 0 <= i < n and 0 <= t < m}", steps, arrays)


def line_stencil(halo: int = 1, group: int = GROUP, is_written_out: bool = False) -> lp.TranslationUnit:
    """Return weighted sums of 2·halo + 1 neighbors, through local memory; *is_written_out* unrolls the fetch loop."""
    terms = " + ".join(f"{place + 0.5}*u[i + {place}]" for place in range(2 * halo + 1))
    arrays = [lp.GlobalArg("u", np.float32, shape=f"n + {2 * halo}"), "out"]
    knl = by_groups("{[i]: 0 <= i < n}", f"out[i] = {terms}", arrays, group=group)
    knl = with_local_tile(knl, "u", swept="i_inner", outer="i_outer", axes={"place": "l.0"})
    return lp.tag_inames(knl, {"place_outer": "unr"}) if is_written_out else knl


def four_neighbours() -> lp.TranslationUnit:
    """Return the means of four neighbors on a grid, read from global memory."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "out[i+1, j+1] = 0.25*(u[i, j+1] + u[i+2, j+1] + u[i+1, j] + u[i+1, j+2])",
        [lp.GlobalArg("u, out", np.float32, shape="n + 2, n + 2"), N],
        assumptions="n mod 32 = 0 and n >= 32",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")


def bounded_tiles(tile: int = 16) -> lp.TranslationUnit:
    """Return c = a·b by tiles in local memory for n × n matrices where n need not be a multiple of the tile."""
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b, c", np.float32, shape="n, n"), N],
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", tile, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", tile, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", tile)
    for array, swept in ("a", "i_inner, k_inner"), ("b", "k_inner, j_inner"):
        axes = {f"{array}_row": "l.1", f"{array}_column": "l.0"}
        knl = with_local_tile(knl, array, swept=swept, outer="i_outer, j_outer, k_outer", axes=axes)
    return lp.prioritize_loops(knl, "k_outer, k_inner")


def _integers(name: str, shape: str) -> lp.GlobalArg:
    return lp.GlobalArg(name, np.int32, shape=shape)


def by_groups(
    domain: str, instructions: str, arguments: list, is_bounded: bool = False, group: int = GROUP
) -> lp.TranslationUnit:
    """Return a kernel with i split into groups; arguments given as strings are vectors of n numbers."""
    arguments = [lp.GlobalArg(each, np.float32, shape="n") if isinstance(each, str) else each for each in arguments]
    knl = lp.make_kernel(
        domain,
        instructions,
        [*arguments, N],
        assumptions="n >= 1" if is_bounded else f"n mod {group} = 0 and n >= {group}",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")
