"""Variants of a seven-point stencil on n × n × n points, in float64.

    out[i,j,k] = u[i,j+1,k+1] + u[i+2,j+1,k+1] + u[i+1,j,k+1] + u[i+1,j+2,k+1] + u[i+1,j+1,k] + u[i+1,j+1,k+2]
                 − 6·u[i+1,j+1,k+1]

The variants differ in the group shape. A work-item computes either one point, or several points along the slowest axis,
one after another ("walk").
"""

from functools import partial
from typing import NamedTuple

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

NAME = "ranking of stencils"
SIZES = (64, 128, 256, 512)


class Form(NamedTuple):
    """A variant: a group computes a block of *width* × *height* × *depth* points along k, j and i."""

    width: int
    height: int
    depth: int
    walks: bool
    """whether a work-item computes all *depth* points along i"""

    @property
    def label(self) -> str:
        return f"{'walk' if self.walks else 'block'} of {self.width}x{self.height}x{self.depth}"

    @property
    def work_items(self) -> int:
        return self.width * self.height * (1 if self.walks else self.depth)


BLOCKS = ((32, 4, 2), (32, 8, 1), (16, 4, 4), (64, 4, 1), (8, 8, 8), (4, 8, 8), (32, 1, 8), (64, 1, 1), (16, 16, 1))
WALKS = ((32, 8, 8), (32, 8, 32), (64, 4, 16), (64, 2, 32), (16, 16, 16), (32, 4, 64), (64, 1, 64), (8, 8, 16))
FORMS = (*(Form(*each, walks=False) for each in BLOCKS), *(Form(*each, walks=True) for each in WALKS))


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return the variants that fit on the device."""
    return [
        Configuration(
            label=form.label,
            build=partial(stencil, form),
            sizes=tuple({"n": n} for n in SIZES),
            arguments=arguments,
            reference=reference,
            steps=1,
            tolerance=1e-10,
        )
        for form in FORMS
        if form.work_items <= limits.group_size
    ]


def stencil(form: Form) -> lp.TranslationUnit:
    """Return the variant *form* of the stencil."""
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        """
        out[i, j, k] = u[i, j+1, k+1] + u[i+2, j+1, k+1] + u[i+1, j, k+1] + u[i+1, j+2, k+1] \
            + u[i+1, j+1, k] + u[i+1, j+1, k+2] - 6.0*u[i+1, j+1, k+1]
        """,
        [
            lp.GlobalArg("u", np.float64, shape="n + 2, n + 2, n + 2"),
            lp.GlobalArg("out", np.float64, shape="n, n, n"),
            lp.ValueArg("n", np.int32),
        ],
        name="stencil",
        assumptions="n mod 64 = 0 and n >= 64",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "k", form.width, outer_tag="g.0", inner_tag="l.0")
    knl = lp.split_iname(knl, "j", form.height, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "i", form.depth, outer_tag="g.2", inner_tag=None if form.walks else "l.2")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random points with a halo."""
    n = sizes["n"]
    return {"u": rng.random((n + 2,) * 3), "out": np.zeros((n,) * 3), "n": np.int32(n)}


def reference(arguments: Arguments) -> dict[str, Array]:
    """Return the stencil computed with NumPy slices."""
    u = np.asarray(arguments["u"])
    inside, low, high = slice(1, -1), slice(None, -2), slice(2, None)
    around = [(end, inside, inside) for end in (low, high)]
    around += [(inside, end, inside) for end in (low, high)] + [(inside, inside, end) for end in (low, high)]
    return {"out": sum(u[each] for each in around) - 6.0 * u[inside, inside, inside]}
