"""Catalog of kernels, with sizes at which each loop executes a few iterations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

import loopy as lp

from test_kernels.convolution import convolution
from test_kernels.finite_difference import finite_difference
from test_kernels.skinny_matrix_multiplication import skinny_matrix_multiplication

from . import compiler_rule_kernels as varied
from . import engineering_kernels as engineering
from .kernels import n_body, naive_multiplication, tiled_multiplication, transposition


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel: how to build it, and the sizes at which it is executed."""

    program: Callable[[], lp.TranslationUnit]
    sizes: Mapping[str, int]
    typical: Mapping[str, float] = field(default_factory=dict[str, float])
    """probabilities of data-dependent conditions"""


CATALOG: Mapping[str, Entry] = MappingProxyType(
    {
        **{f"tiled {tile}": Entry(partial(tiled_multiplication, tile), {"n": 512}) for tile in (8, 16, 32)},
        **{f"n-body {group}": Entry(partial(n_body, group), {"n": 1024}) for group in (64, 128, 256)},
        **{f"transposition {tile}": Entry(partial(transposition, tile), {"n": 512}) for tile in (16, 32)},
        "naive": Entry(naive_multiplication, {"n": 512}),
        "convolution": Entry(convolution, {"n": 512}),
        "finite difference": Entry(finite_difference, {"n": 512}),
        "skinny": Entry(skinny_matrix_multiplication, {"n": 64, "m": 512, "l": 64}),
    }
)
VARIED: Mapping[str, Entry] = MappingProxyType(
    {
        "finite difference 32x8": Entry(partial(finite_difference, (32, 8)), {"n": 512}),
        "finite difference 64x4": Entry(partial(finite_difference, (64, 4)), {"n": 512}),
        "scaled sum": Entry(varied.scaled_sum, {"n": 4096}),
        "bounded scaled sum": Entry(partial(varied.scaled_sum, is_bounded=True), {"n": 4000}),
        "gather": Entry(varied.gather, {"n": 4096}),
        "sparse rows of 8": Entry(varied.sparse_rows, {"n": 4096}),
        "sparse rows": Entry(partial(varied.sparse_rows, "m"), {"n": 4096, "m": 32}),
        "small products": Entry(varied.small_products, {"n": 4096}),
        "sums of rows": Entry(varied.sums_of_rows, {"n": 4096, "m": 64}),
        "sums of columns": Entry(varied.sums_of_columns, {"n": 4096, "m": 64}),
        "products of vectors": Entry(varied.products_of_vectors, {"n": 4096, "m": 64, "p": 4}),
        "forces": Entry(varied.forces, {"n": 512}),
        "pointwise": Entry(varied.pointwise, {"n": 4096}),
        "integer products": Entry(varied.integer_products, {"n": 4096}),
        "recurrence": Entry(varied.recurrence, {"n": 4096, "m": 64}),
        "invariant loop": Entry(varied.invariant_loop, {"n": 4096}),
        "four neighbours": Entry(varied.four_neighbours, {"n": 512}),
        "bounded tiles": Entry(varied.bounded_tiles, {"n": 500}),
        **{f"line stencil {halo}": Entry(partial(varied.line_stencil, halo), {"n": 4096}) for halo in (1, 3)},
        "line stencil 40": Entry(partial(varied.line_stencil, 40, 64), {"n": 4096}),
        "written-out line stencil": Entry(partial(varied.line_stencil, is_written_out=True), {"n": 4096}),
    }
)
"""kernels that each demonstrate one rule of the compiler model"""
ENGINEERING: Mapping[str, Entry] = MappingProxyType(
    {
        "tree sum": Entry(engineering.tree_sum, {"n": 64}),
        "tree of products": Entry(engineering.tree_of_products, {"n": 64}),
        "prefix sums": Entry(engineering.prefix_sums, {"n": 64}),
        "softmax": Entry(engineering.softmax, {"n": 256, "m": 64}),
        "layer normalization": Entry(engineering.layer_normalization, {"n": 512, "m": 64}),
        "mixed precision": Entry(engineering.mixed_precision, {"n": 4096, "m": 32}),
        "masked rows": Entry(engineering.masked_rows, {"n": 256, "m": 64}),
        "sums where": Entry(engineering.sums_where, {"n": 4096, "m": 64}, {"sum": 0.25}),
        "triangle": Entry(engineering.triangle, {"n": 256}),
        "by columns": Entry(engineering.by_columns, {"n": 1024}),
        "activation": Entry(engineering.activation, {"n": 4096}),
        "waves": Entry(engineering.waves, {"n": 4096}),
        "polynomial": Entry(engineering.polynomial, {"n": 4096}),
        "chain": Entry(engineering.chain, {"n": 4096}),
        "two sources": Entry(engineering.two_sources, {"n": 4096}),
        "remainders": Entry(engineering.remainders, {"n": 4096}),
    }
)
"""kernels as in typical engineering codes"""
KNOWN: Mapping[str, Entry] = MappingProxyType({**CATALOG, **VARIED, **ENGINEERING})
