"""The kernels that ``python -m machine_code`` knows by name, and sizes at which each of its loops runs a few times."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import loopy as lp

from test_kernels.convolution import convolution
from test_kernels.finite_difference import finite_difference
from test_kernels.skinny_matrix_multiplication import skinny_matrix_multiplication

from .kernels import n_body, naive_multiplication, tiled_multiplication, transposition


@dataclass(frozen=True, slots=True)
class Entry:
    """One kernel, how to build it, and sizes to run it at."""

    program: Callable[[], lp.TranslationUnit]
    sizes: Mapping[str, int]


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
