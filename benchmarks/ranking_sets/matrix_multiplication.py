"""Variants of the product of two n × n matrices, c[i,j] = Σₖ a[i,k]·b[k,j], in float32.

The variants differ in the group shape, the depth of tiles, the operands that are fetched into local memory, unrolling,
and the block of rows × columns elements that a work-item computes, whose sums are in private memory. All variants are
measured, to evaluate rankings. If *members* is greater than 1, b and c are arrays of vectors with that many members
along their rows, and a work-item computes *columns* vectors per row. Only `benchmarks/searches` has such variants; none
is measured here.
"""

from functools import partial
from itertools import product
from typing import NamedTuple

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes
from loopyperf.measurement.kernel_files import with_local_tile

NAME = "ranking of matrix multiplications"
SIZES = (256, 512, 1024, 2048)


class Form(NamedTuple):
    """A variant: group shape, block of a work-item, and tiles, which have *depth* elements along k."""

    width: int
    height: int
    depth: int
    columns: int = 1
    rows: int = 1
    tiles: str = "ab"
    is_unrolled: bool = False
    members: int = 1
    """elements of a vector"""

    @property
    def label(self) -> str:
        unrolled = ", unrolled" if self.is_unrolled else ""
        vectors = f", vectors of {self.members}" if self.members > 1 else ""
        return (
            f"group {self.width}x{self.height}, depth {self.depth}, block {self.columns}x{self.rows}, "
            f"tiles of {self.tiles or 'nothing'}{unrolled}{vectors}"
        )

    @property
    def bytes_of_tiles(self) -> int:
        across = {"a": self.height * self.rows, "b": self.width * self.columns * self.members}
        return sum(4 * self.depth * across[array] for array in self.tiles)


FORMS = (
    *(Form(side, side, side, tiles=tiles) for side, tiles in product((8, 16, 32), ("", "a", "b", "ab"))),
    *(Form(width, height, 16, tiles=tiles) for width, height in ((32, 8), (64, 4), (8, 32)) for tiles in ("", "ab")),
    *(Form(16, 16, depth) for depth in (4, 8, 32)),
    *(Form(16, 16, 16, tiles=tiles, is_unrolled=True) for tiles in ("", "ab")),
    *(Form(16, 16, 16, columns, rows) for columns, rows in ((2, 1), (1, 2), (2, 2), (4, 1), (4, 2), (2, 4), (4, 4))),
    *(Form(8, 8, 8, columns, rows) for columns, rows in ((2, 2), (4, 4), (8, 4))),
)


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return the variants that fit on the device."""
    forms = [each for each in FORMS if each.width * each.height <= limits.group_size]
    return [configuration(each) for each in forms if each.bytes_of_tiles <= limits.local_memory]


def configuration(form: Form) -> Configuration:
    return Configuration(
        label=form.label,
        build=partial(matrix_multiplication, form),
        sizes=tuple({"n": n} for n in SIZES),
        arguments=arguments,
        reference=reference,
        steps=1,
    )


def matrix_multiplication(form: Form) -> lp.TranslationUnit:
    """Return the variant *form* of the product."""
    knl = product_of_matrices()
    knl = lp.split_iname(knl, "i", form.height * form.rows, outer_tag="g.1")
    knl = lp.split_iname(knl, "j", form.width * form.columns * form.members, outer_tag="g.0")
    if form.members > 1:
        knl = in_vectors(knl, form.members)
    knl = lp.split_iname(knl, "i_inner", form.height, inner_iname="it", outer_iname="ir", inner_tag="l.1")
    column = "vector" if form.members > 1 else "j_inner"
    knl = lp.split_iname(knl, column, form.width, inner_iname="jt", outer_iname="jr", inner_tag="l.0")
    knl = lp.split_iname(knl, "k", form.depth, inner_tag="unr" if form.is_unrolled else None)
    knl = with_tiles(knl, form)
    blocks = {"ir": "unr", "jr": "unr"} | ({"member": "vec"} if form.members > 1 else {})
    knl = lp.tag_inames(lp.realize_reduction(knl), blocks)
    for name in blocks:  # one at a time, because Loopy adds the axes of several inames in arbitrary order
        knl = lp.privatize_temporaries_with_inames(knl, name)
    names = ", ".join(blocks)
    knl = lp.duplicate_inames(knl, names, within="id:*_init", tags=blocks)
    knl = lp.duplicate_inames(knl, names, within="writes:c", tags=blocks)
    return lp.prioritize_loops(knl, "k_outer, k_inner, ir, jr")


def product_of_matrices() -> lp.TranslationUnit:
    return lp.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b, c", np.float32, shape="n, n"), lp.ValueArg("n", np.int32)],
        name="matrix_multiplication",
        assumptions="n mod 128 = 0 and n >= 128",
        lang_version=(2018, 2),
    )


def in_vectors(knl: lp.TranslationUnit, members: int) -> lp.TranslationUnit:
    """Return *knl* with the rows of b and c stored as vectors, and a loop over the members of a vector."""
    knl = lp.split_iname(knl, "j_inner", members, outer_iname="vector", inner_iname="member")
    knl = lp.split_array_dim(knl, [("b", 1), ("c", 1)], members, auto_split_inames=False)
    return lp.tag_array_axes(knl, "b, c", "C,C,vec")


def with_tiles(knl: lp.TranslationUnit, form: Form) -> lp.TranslationUnit:
    outer, is_vector = "i_outer, j_outer, k_outer", form.members > 1
    if "a" in form.tiles:
        axes: dict[str, str | None] = {"a_row": "l.1", "a_column": "l.0"}
        knl = with_local_tile(knl, "a", swept="it, ir, k_inner", outer=outer, axes=axes)
    if "b" in form.tiles:
        axes = {"b_row": "l.1", "b_column": "l.0"} | ({"b_member": None} if is_vector else {})
        swept = "k_inner, jt, jr, member" if is_vector else "k_inner, jt, jr"
        knl = with_local_tile(knl, "b", swept=swept, outer=outer, axes=axes)
    if "b" in form.tiles and is_vector:
        knl = lp.tag_array_axes(lp.tag_inames(knl, {"b_member": "vec"}), "b_tile", "C,C,vec")
    return knl


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random matrices with non-negative elements, so that no cancellation occurs in sums."""
    shape = sizes["n"], sizes["n"]
    return {
        "a": rng.random(shape, dtype=np.float32),
        "b": rng.random(shape, dtype=np.float32),
        "c": np.zeros(shape, dtype=np.float32),
        "n": np.int32(sizes["n"]),
    }


def reference(arguments: Arguments) -> dict[str, Array]:
    """Return c = a·b."""
    return {"c": np.matmul(arguments["a"], arguments["b"])}
