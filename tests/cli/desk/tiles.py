"""The variants that the examples of the commands speak of."""

from functools import partial

from matmul import tiled

variants = {f"tiles of {tile}": partial(tiled, tile) for tile in (8, 16, 64)}
