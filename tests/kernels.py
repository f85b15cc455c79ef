"""Small kernels that several tests use, with their counts."""

from typing import Any

import loopy as lp
import numpy as np


def make_kernel(domains: Any, code: Any, *arguments: Any, **options: Any) -> lp.TranslationUnit:
    """Return Loopy's kernel of *code* with *arguments*, in the language version that all tests use."""
    given = [list(arguments)] if arguments else []
    return lp.make_kernel(domains, code, *given, lang_version=(2018, 2), **options)


def floats(names: str, shape: Any, **layout: Any) -> lp.GlobalArg:
    """Return arrays of 32-bit floats in global memory."""
    return lp.GlobalArg(names, np.float32, shape=shape, **layout)


def integers(names: str) -> lp.ValueArg:
    """Return arguments that are 32-bit integers, mostly sizes."""
    return lp.ValueArg(names, np.int32)


def doubled(size: str = "n", group: int = 16, dtype: type[np.integer] | None = np.int32) -> lp.TranslationUnit:
    """b[i] = 2 a[i] for *size* elements, with a multiplication, a load and a store each; ⌈size/group⌉ work-groups."""
    knl = lp.make_kernel(
        f"{{[i]: 0 <= i < {size}}}",
        "b[i] = 2*a[i]",
        [lp.GlobalArg("a,b", np.float32, shape=size), lp.ValueArg(size, dtype)],
        name="doubled",
        assumptions=f"{size} >= 1",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")


def outer_product(rows: str = "n", columns: str = "m") -> lp.TranslationUnit:
    """c[i, j] = a[i] b[j]: a multiplication, a store and two loads each; all lanes load the same element of a."""
    knl = lp.make_kernel(
        f"{{[i, j]: 0 <= i < {rows} and 0 <= j < {columns}}}",
        "c[i, j] = a[i]*b[j]",
        [
            lp.GlobalArg("a", np.float32, shape=rows),
            lp.GlobalArg("b", np.float32, shape=columns),
            lp.GlobalArg("c", np.float32, shape=f"{rows}, {columns}"),
            lp.ValueArg(f"{rows}, {columns}", np.int32),
        ],
        name="outer_product",
        assumptions=f"{rows} >= 1 and {columns} >= 1 and {columns} mod 16 = 0",
        lang_version=(2018, 2),
    )
    knl = lp.tag_inames(knl, {"i": "g.1"})
    return lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")


def triangle(group: int = 16) -> lp.TranslationUnit:
    """out[i] = sum over j ≤ i of a[j]: work-item i executes i + 1 loads and additions, and a store."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j <= i}",
        "out[i] = sum(j, a[j])",
        [lp.GlobalArg("a, out", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        name="triangle",
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")


def two_launches() -> lp.TranslationUnit:
    """c = 2a, then b = c reversed: one launch of n/16 groups and one of n/32."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        c[i] = 2*a[i]       {id=write}
        ... gbarrier        {id=barrier, dep=write}
        b[j] = c[n-1-j]     {dep=barrier}
        """,
        [lp.GlobalArg("a, b, c", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        name="pair",
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(knl, "j", 32, outer_tag="g.0", inner_tag="l.0")


def gathered() -> lp.TranslationUnit:
    """b[i] = a[index[i]]: indirect accesses of a; ⌈n/16⌉ work-groups."""
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "b[i] = a[index[i]]",
        [
            lp.GlobalArg("a, b", np.float32, shape="n"),
            lp.GlobalArg("index", np.int32, shape="n"),
            lp.ValueArg("n", np.int32),
        ],
        name="gathered",
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def summed(terms: int) -> lp.TranslationUnit:
    """b[i] = a[i] + 1/(a[i] + 2) + ..., with *terms* divisions."""
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "b[i] = a[i]" + "".join(f" + 1/(a[i] + {term}.0f)" for term in range(2, terms + 2)),
        [lp.GlobalArg("a,b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        name=f"summed_{terms}",
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")
