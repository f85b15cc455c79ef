"""Kernels with one known performance problem each, besides those of :mod:`tests.slow_kernels`."""

from collections.abc import Callable, Mapping
from typing import Any

import loopy as lp
import numpy as np

from tests import slow_kernels

LANG = (2018, 2)


def _along_groups(domain: str, text: str, arguments: list[Any], size: int = 256, **options: Any) -> lp.TranslationUnit:
    """Return a kernel with the iname i in groups of *size*."""
    knl = lp.make_kernel(domain, text, [*arguments, ...], lang_version=LANG, **options)
    return lp.split_iname(knl, "i", size, outer_tag="g.0", inner_tag="l.0")


def diverging() -> lp.TranslationUnit:
    """Sums of sines for even rows and of exponentials for odd ones: both halves of each warp wait for the other."""
    text = """
    for i
        if i % 2 == 0
            out[i] = sum(k, sin(a[i]*k)) {id=even}
        else
            out[i] = sum(q, exp(a[i]*q)) {id=odd}
        end
    end"""
    return _along_groups(
        "{[i, k, q]: 0 <= i < n and 0 <= k, q < m}",
        text,
        [lp.GlobalArg("a, out", np.float32, shape="n")],
        assumptions="n >= 256 and n mod 256 = 0 and m >= 1",
        seq_dependencies=True,
        name="diverging",
    )


def accidentally_double() -> lp.TranslationUnit:
    """A polynomial of single-precision numbers with a coefficient in double precision."""
    horner = "c"
    for _ in range(64):
        horner = f"({horner}*a[i] + c)"
    return _along_groups(
        "{[i]: 0 <= i < n}",
        f"out[i] = {horner}",
        [lp.GlobalArg("a, out", np.float32, shape="n"), lp.ValueArg("c", np.float64)],
        assumptions="n >= 256 and n mod 256 = 0",
        name="polynomial",
    )


def contended() -> lp.TranslationUnit:
    """The sum of a vector by an atomic update of each work-item."""
    return _along_groups(
        "{[i]: 0 <= i < n}",
        "out[0] = out[0] + a[i] {atomic}",
        [lp.GlobalArg("a", np.float32, shape="n"), lp.GlobalArg("out", np.float32, shape="1", for_atomic=True)],
        assumptions="n >= 256 and n mod 256 = 0",
        silenced_warnings=["write_race*"],
        name="total",
    )


def histogram() -> lp.TranslationUnit:
    """A histogram of few bins, which all work-items update in global memory."""
    return _along_groups(
        "{[i]: 0 <= i < n}",
        "h[b[i]] = h[b[i]] + 1 {atomic}",
        [lp.GlobalArg("b", np.int32, shape="n"), lp.GlobalArg("h", np.int32, shape="64", for_atomic=True)],
        assumptions="n >= 256 and n mod 256 = 0",
        name="histogram",
    )


def nested_sums() -> lp.TranslationUnit:
    """Sums over sums of a group's work-items, with barriers in each iteration of the outer sum."""
    knl = lp.make_kernel(
        "{[g, k, l]: 0 <= g < n and 0 <= k < m and 0 <= l < 256}",
        "out[g] = sum(k, sum(l, a[g, k, l]))",
        [lp.GlobalArg("a", np.float32, shape="n, m, 256"), ...],
        assumptions="n >= 1 and m >= 1",
        name="sums",
        lang_version=LANG,
    )
    return lp.tag_inames(knl, {"g": "g.0", "l": "l.0"})


def chained() -> lp.TranslationUnit:
    """A long sum in each work-item of a small grid: each addition waits for the one before."""
    return _along_groups(
        "{[i, k]: 0 <= i < n and 0 <= k < m}",
        "out[i] = sum(k, a[i]*b[k])",
        [lp.GlobalArg("a, out", np.float32, shape="n"), lp.GlobalArg("b", np.float32, shape="m")],
        size=32,
        assumptions="n >= 32 and n mod 32 = 0 and m >= 16",
        name="chain",
    )


def redundant() -> lp.TranslationUnit:
    """A matrix-vector product on a grid with an axis on which nothing depends."""
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i, k < n and 0 <= j < m}",
        "c[j] = sum(k, a[j, k]*b[k]) {inames=i:j}",
        [lp.GlobalArg("a", np.float32, shape="m, n"), lp.GlobalArg("b", np.float32, shape="n"), ...],
        assumptions="n >= 32 and n mod 32 = 0 and m >= 32 and m mod 32 = 0",
        silenced_warnings=["write_race*"],
        name="product",
        lang_version=LANG,
    )
    knl = lp.split_iname(knl, "i", 8, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "j", 32, outer_tag="g.1", inner_tag="l.1")


def transposed() -> lp.TranslationUnit:
    """A transposition whose stores write a part of a sector each."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "b[j, i] = a[i, j]",
        [lp.GlobalArg("a, b", np.float32, shape="n, n"), ...],
        assumptions="n >= 32 and n mod 32 = 0",
        name="transposition",
        lang_version=LANG,
    )
    knl = lp.split_iname(knl, "i", 8, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")


def spilling() -> lp.TranslationUnit:
    """An outer product with 16 × 16 accumulators in each work-item."""
    knl = lp.make_kernel(
        "{[i, p, q, k]: 0 <= i < n and 0 <= p, q < 16 and 0 <= k < m}",
        "c[p, q, i] = sum(k, a[k, p, i]*b[k, q, i])",
        assumptions="n >= 128 and n mod 128 = 0 and m >= 1",
        name="outer_products",
        lang_version=LANG,
    )
    knl = lp.add_dtypes(knl, {"a": np.float32, "b": np.float32})
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    return lp.tag_inames(knl, {"p": "ilp", "q": "ilp"})


def beyond_the_cache() -> lp.TranslationUnit:
    """A stencil over neighboring rows that are longer than any last-level cache."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i < m and 0 <= j < n}",
        "b[i, j] = a[i, j] + a[i + 1, j] + a[i + 2, j]",
        [lp.GlobalArg("a", np.float32, shape="m + 2, n"), lp.GlobalArg("b", np.float32, shape="m, n"), ...],
        assumptions="n >= 256 and n mod 256 = 0 and m >= 1",
        name="stencil",
        lang_version=LANG,
    )
    knl = lp.split_iname(knl, "j", 256, outer_tag="g.0", inner_tag="l.0")
    return lp.tag_inames(knl, {"i": "g.1"})


def short() -> lp.TranslationUnit:
    """A copy of so few elements that launching it takes longer."""
    return _along_groups(
        "{[i]: 0 <= i < n}",
        "out[i] = 2*a[i]",
        [lp.GlobalArg("a, out", np.float32, shape="n")],
        size=64,
        assumptions="n >= 64 and n mod 64 = 0",
        name="doubled",
    )


def tiled() -> lp.TranslationUnit:
    """A product of matrices through tiles in local memory, with two loads from them per multiply-add."""
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        assumptions="n >= 16 and n mod 16 = 0",
        name="matmul",
        lang_version=LANG,
    )
    knl = lp.add_dtypes(knl, {"a": np.float32, "b": np.float32})
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", 16)
    outer = "i_outer, j_outer, k_outer"
    knl = lp.add_prefetch(knl, "a", ["i_inner", "k_inner"], fetch_outer_inames=outer, default_tag="l.auto")
    return lp.add_prefetch(knl, "b", ["k_inner", "j_inner"], fetch_outer_inames=outer, default_tag="l.auto")


def by_rows() -> lp.TranslationUnit:
    """Sums of the rows of a matrix, one row for each work-item: lanes access different rows."""
    return _along_groups(
        "{[i, k]: 0 <= i < n and 0 <= k < m}",
        "out[i] = sum(k, a[i, k])",
        [lp.GlobalArg("a", np.float32, shape="n, m")],
        size=128,
        assumptions="n >= 128 and n mod 128 = 0 and m >= 16 and m mod 16 = 0",
        name="rows",
    )


def swapped() -> lp.TranslationUnit:
    """A product of matrices whose lanes are along the slower axis of the result."""
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b, c", np.float32, shape="n, n"), ...],
        assumptions="n >= 16 and n mod 16 = 0",
        name="product",
        lang_version=LANG,
    )
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "j", 16, outer_tag="g.1", inner_tag="l.1")


def angles() -> lp.TranslationUnit:
    """Functions of angles that quotients of integers and a literal make double."""
    return _along_groups(
        "{[i]: 0 <= i < n}",
        """
        <> angle = 6.2831853*(i/n) {inames=i}
        out[i] = a[i]*cos(angle)*sin(angle)*exp(angle)
        """,
        [lp.GlobalArg("a, out", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        assumptions="n >= 256 and n mod 256 = 0",
        name="angles",
    )


def accumulated() -> lp.TranslationUnit:
    """A sum that a loop accumulates in a variable, in each work-item of a small grid."""
    text = """
    for i
        <> total = 0.0f {id=start}
        for k
            total = total + a[i]*b[k] {id=add, dep=start}
        end
        out[i] = total {dep=add}
    end"""
    return _along_groups(
        "{[i, k]: 0 <= i < n and 0 <= k < m}",
        text,
        [lp.GlobalArg("a, out", np.float32, shape="n"), lp.GlobalArg("b", np.float32, shape="m")],
        size=64,
        assumptions="n >= 64 and n mod 64 = 0 and m >= 16 and m mod 16 = 0",
        name="total",
    )


def records() -> lp.TranslationUnit:
    """An array of structures: work-items store the members of a structure one after the other."""
    return _along_groups(
        "{[i, k]: 0 <= i < n and 0 <= k < 8}",
        "out[i, k] = a[k, i]",
        [lp.GlobalArg("a", np.float32, shape="8, n"), lp.GlobalArg("out", np.float32, shape="n, 8")],
        assumptions="n >= 256 and n mod 256 = 0",
        name="records",
    )


def planes() -> lp.TranslationUnit:
    """A copy of a 3D array by work-items along its slowest axis, on a grid with three axes."""
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "out[i, j, k] = 2*a[i, j, k]",
        [lp.GlobalArg("a, out", np.float32, shape="n, n, n"), ...],
        assumptions="n >= 32 and n mod 32 = 0",
        name="volume",
        lang_version=LANG,
    )
    knl = lp.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "j", 8, outer_tag="g.1", inner_tag="l.1")
    return lp.tag_inames(knl, {"k": "g.2"})


def filtered() -> lp.TranslationUnit:
    """A convolution whose groups load the same elements once for each coefficient."""
    return _along_groups(
        "{[i, k]: 0 <= i < n and 0 <= k < 64}",
        "out[i] = sum(k, b[k]*a[i + k])",
        [lp.GlobalArg("a", np.float32, shape="n + 64"), lp.GlobalArg("b", np.float32, shape="64"), ...],
        assumptions="n >= 256 and n mod 256 = 0",
        name="filter",
    )


def tiny_groups() -> lp.TranslationUnit:
    """Sums of sines in groups that fill a quarter of a warp."""
    return _along_groups(
        "{[i, k]: 0 <= i < n and 0 <= k < 64}",
        "out[i] = sum(k, sin(a[i]*k))",
        [lp.GlobalArg("a, out", np.float32, shape="n")],
        size=8,
        assumptions="n >= 256 and n mod 256 = 0",
        name="tiny",
    )


PLANTED: Mapping[str, tuple[Callable[[], lp.TranslationUnit], Mapping[str, int]]] = {
    **slow_kernels.PLANTED,
    "diverging": (diverging, {"n": 2**20, "m": 256}),
    "accidentally double": (accidentally_double, {"n": 2**24}),
    "contended": (contended, {"n": 2**22}),
    "histogram": (histogram, {"n": 2**22}),
    "nested sums": (nested_sums, {"n": 2048, "m": 64}),
    "chained": (chained, {"n": 32 * 640, "m": 4096}),
    "redundant": (redundant, {"n": 1024, "m": 4096}),
    "transposed": (transposed, {"n": 4096}),
    "spilling": (spilling, {"n": 2**17, "m": 64}),
    "beyond the cache": (beyond_the_cache, {"n": 2**25, "m": 16}),
    "short": (short, {"n": 4096}),
    "tiled": (tiled, {"n": 2048}),
    "by rows": (by_rows, {"n": 2**16, "m": 1024}),
    "swapped": (swapped, {"n": 2048}),
    "angles": (angles, {"n": 2**24}),
    "accumulated": (accumulated, {"n": 64 * 320, "m": 4096}),
    "records": (records, {"n": 2**22}),
    "planes": (planes, {"n": 512}),
    "filtered": (filtered, {"n": 2**24}),
    "tiny groups": (tiny_groups, {"n": 2**20}),
}
"""name -> builder and sizes"""
