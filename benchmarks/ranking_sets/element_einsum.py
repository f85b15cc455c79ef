"""Variants of a batched product of discontinuous Galerkin elements, out[e,i] = Σⱼ D[i,j]·u[e,j], in float64.

An element has 35 nodes. The variants differ in the index along the lanes, the number of elements per group, the
operands that are fetched into local memory, and the memory layout of u and out.
"""

from functools import partial
from typing import Literal, NamedTuple

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes
from loopyperf.measurement.kernel_files import with_local_tile

NAME = "ranking of element products"
NODES = 35
SIZES = tuple(2**power for power in range(12, 21, 2))
Lanes = Literal["elements", "nodes", "elements alone"]


class Form(NamedTuple):
    """A variant. With "elements alone", a work-item computes all nodes of an element."""

    lanes: Lanes
    elements: int
    tiles: str
    layout: Literal["C", "F"]

    @property
    def label(self) -> str:
        return f"{self.lanes}, {self.elements} a group, tiles of {self.tiles or 'nothing'}, {self.layout} order"

    @property
    def work_items(self) -> int:
        return self.elements * (1 if self.lanes == "elements alone" else NODES)

    @property
    def bytes_of_tiles(self) -> int:
        return 8 * NODES * sum({"D": NODES, "u": self.elements}[array] for array in self.tiles)


FORMS = (
    *(
        Form("elements alone", each, tiles, layout)
        for each in (64, 256)
        for tiles in ("", "D")
        for layout in ("C", "F")
    ),
    *(Form("nodes", each, tiles, "C") for each in (2, 4, 16) for tiles in ("", "D", "u", "Du")),
    *(Form("elements", 16, tiles, layout) for tiles, layout in (("", "F"), ("u", "F"), ("Du", "F"), ("", "C"))),
)


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return the variants that fit on the device."""
    forms = [each for each in FORMS if each.work_items <= limits.group_size]
    return [
        Configuration(
            label=form.label,
            build=partial(element_product, form),
            sizes=tuple({"n": n} for n in SIZES),
            arguments=partial(arguments, form.layout),
            reference=reference,
            steps=1,
            tolerance=1e-10,
        )
        for form in forms
        if form.bytes_of_tiles <= limits.local_memory
    ]


def element_product(form: Form) -> lp.TranslationUnit:
    """Return the variant *form* of the product."""
    knl = lp.make_kernel(
        f"{{[e, i, j]: 0 <= e < n and 0 <= i, j < {NODES}}}",
        "out[e, i] = sum(j, D[i, j]*u[e, j])",
        [
            lp.GlobalArg("D", np.float64, shape=(NODES, NODES)),
            lp.GlobalArg("u, out", np.float64, shape=f"n, {NODES}", order=form.layout),
            lp.ValueArg("n", np.int32),
        ],
        name="element_product",
        assumptions="n mod 256 = 0 and n >= 256",
        lang_version=(2018, 2),
    )
    axes = {"elements": ("l.0", "l.1"), "nodes": ("l.1", "l.0"), "elements alone": ("l.0", None)}[form.lanes]
    knl = lp.split_iname(knl, "e", form.elements, outer_tag="g.0", inner_tag=axes[0])
    if axes[1]:
        knl = lp.tag_inames(knl, {"i": axes[1]})
    first, second = ("l.1" if axes[1] else None), "l.0"
    if "D" in form.tiles:
        knl = with_local_tile(knl, "D", swept="i, j", outer="e_outer", axes={"D_row": first, "D_column": second})
    if "u" in form.tiles:
        spread = {"u_element": axes[0], "u_node": axes[1]}
        knl = with_local_tile(knl, "u", swept="e_inner, j", outer="e_outer", axes=spread)
    return knl


def arguments(layout: Literal["C", "F"], rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random operator and random nodes."""
    n = sizes["n"]
    return {
        "D": rng.random((NODES, NODES)),
        "u": np.asarray(rng.random((n, NODES)), order=layout),
        "out": np.zeros((n, NODES), order=layout),
        "n": np.int32(n),
    }


def reference(arguments: Arguments) -> dict[str, Array]:
    """Return out = u·Dᵀ."""
    return {"out": np.asarray(arguments["u"]) @ np.asarray(arguments["D"]).T}
