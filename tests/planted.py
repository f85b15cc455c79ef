"""Kernels that are slow for one planted cause each, and the same kernels with the cause mended by hand."""

from collections.abc import Callable, Mapping

import loopy as lp
import numpy as np

LANG = (2018, 2)
ROW = 256
"""work-items that add up a row in :func:`reduction`"""
STAGES = range(1, 9)
"""of its tree"""


def copy(*, mended: bool = False) -> lp.TranslationUnit:
    """Return out = a, whose work-items that are neighbors are in one column or, mended, in one row."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "out[i, j] = a[i, j]",
        assumptions="n >= 256 and n mod 256 = 0",
        name="copy",
        lang_version=LANG,
    )
    knl = lp.add_dtypes(knl, {"a": np.float32})
    within, across = ("j", "i") if mended else ("i", "j")
    knl = lp.split_iname(knl, within, 256, outer_tag="g.0", inner_tag="l.0")
    return lp.tag_inames(knl, {across: "g.1"})


def product(*, mended: bool = False) -> lp.TranslationUnit:
    """Return c = a·bᵀ, whose tile of b has bank conflicts or, mended, a column of padding."""
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k]*b[j, k])",
        assumptions="n >= 16 and n mod 16 = 0",
        name="product",
        lang_version=LANG,
    )
    knl = lp.add_dtypes(knl, {"a": np.float32, "b": np.float32})
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    knl = lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", 16)
    outer = "i_outer, j_outer, k_outer"
    knl = lp.add_prefetch(knl, "a", ["i_inner", "k_inner"], fetch_outer_inames=outer, default_tag="l.auto")
    knl = lp.add_prefetch(knl, "b", ["j_inner", "k_inner"], fetch_outer_inames=outer, default_tag="l.auto")
    return lp.tag_array_axes(knl, "b_fetch", "stride:17, stride:1") if mended else knl


def contraction(*, mended: bool = False) -> lp.TranslationUnit:
    """Return c = a·b, with 120 or, mended, 60 accumulators in a work-item: the former do not fit into registers."""
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i < n and 0 <= j < 240 and 0 <= k < m}",
        "c[j, i] = sum(k, a[k, i]*b[k, j])",
        assumptions="n >= 128 and n mod 128 = 0 and m >= 1",
        name="contraction",
        lang_version=LANG,
    )
    knl = lp.add_dtypes(knl, {"a": np.float64, "b": np.float64})
    knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "j", 60 if mended else 120, outer_tag="g.1", inner_tag="ilp")


def reduction(*, mended: bool = False) -> lp.TranslationUnit:
    """Return sums of rows: work-items add up in a tree in each iteration of k or, mended, once behind that loop."""
    inames = "" if mended else "inames=g:k:i{stage}, "
    tree = "\n".join(
        f"t{stage}[i{stage}] = t{stage - 1}[i{stage}] + t{stage - 1}[i{stage} + {ROW >> stage}]"
        f" {{{inames.format(stage=stage)}id=stage{stage}, dep=stage{stage - 1}}}"
        for stage in STAGES
    )
    in_each_iteration = f"""
        <> acc = 0 {{id=init, inames=g:w}}
        t0[l] = a[g, k, l] {{id=stage0, inames=g:k:l}}
        {tree}
        acc = acc + t8[0] {{id=update, dep=stage8:init, inames=g:k:w}}
        out[g, w] = acc {{dep=update}}
        """
    once = f"""
        <> acc = 0 {{id=init, inames=g:w}}
        acc = acc + a[g, k, w] {{id=update, dep=init}}
        t0[w] = acc {{id=stage0, dep=update}}
        {tree}
        out[g, w] = t8[0] {{dep=stage8}}
        """
    trees = [f"{{[i{stage}]: 0 <= i{stage} < {ROW >> stage}}}" for stage in STAGES]
    knl = lp.make_kernel(
        [f"{{[g, k, w]: 0 <= g < n and 0 <= k < m and 0 <= w < {ROW}}}", *trees]
        + ([] if mended else [f"{{[l]: 0 <= l < {ROW}}}"]),
        once if mended else in_each_iteration,
        [
            *(
                lp.TemporaryVariable(
                    f"t{stage}", shape=(ROW >> stage,), dtype=np.float32, address_space=lp.AddressSpace.LOCAL
                )
                for stage in (0, *STAGES)
            ),
            ...,
        ],
        assumptions="n >= 1 and m >= 1",
        name="reduction",
        lang_version=LANG,
    )
    tags = {f"i{stage}": "l.0" for stage in STAGES} | {"g": "g.0", "w": "l.0"} | ({} if mended else {"l": "l.0"})
    return lp.tag_inames(lp.add_dtypes(knl, {"a": np.float32}), tags)


def tail(*, mended: bool = False) -> lp.TranslationUnit:
    """Return sums of sines, in groups so large that few more than cores are executed or, mended, in smaller ones."""
    knl = lp.make_kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < m}",
        "out[i] = sum(k, sin(a[i]*k))",
        assumptions="n >= 1024 and n mod 1024 = 0 and m >= 1",
        name="tail",
        lang_version=LANG,
    )
    knl = lp.add_dtypes(knl, {"a": np.float32})
    return lp.split_iname(knl, "i", 128 if mended else 1024, outer_tag="g.0", inner_tag="l.0")


PLANTED: Mapping[str, tuple[Callable[..., lp.TranslationUnit], Mapping[str, int]]] = {
    "copy": (copy, {"n": 4096}),
    "product": (product, {"n": 1024}),
    "contraction": (contraction, {"n": 20480, "m": 512}),
    "reduction": (reduction, {"n": 2048, "m": 64}),
    "tail": (tail, {"n": 1024 * 84, "m": 1000}),
}
"""name -> what builds the kernel, and its sizes"""
