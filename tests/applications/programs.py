"""Small applications that are recorded: what they execute is known."""

import loopy as lp
import numpy as np


def axpy(target: lp.TargetBase | None = None) -> lp.TranslationUnit:
    """Return y[i] = y[i] + s x[i], sequential."""
    return lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "y[i] = y[i] + s*x[i]",
        [lp.GlobalArg("x,y", np.float64, shape="n"), lp.ValueArg("s", np.float64), lp.ValueArg("n", np.int32)],
        name="axpy",
        assumptions="n >= 1",
        target=target,
        lang_version=(2018, 2),
    )


def row_sums() -> lp.TranslationUnit:
    """Return b[i] = Σ_j 2 a[i, j] in groups of 16 rows, with types that the caller gives."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "b[i] = sum(j, 2*a[i, j])",
        name="row_sums",
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def in_groups(program: lp.TranslationUnit) -> lp.TranslationUnit:
    """Return *program* with its loop i in groups of 128."""
    return lp.split_iname(program, "i", 128, outer_tag="g.0", inner_tag="l.0")
