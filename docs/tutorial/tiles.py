# tiles.py
from functools import partial

from matmul import tiled

variants = {f"tiles of {tile}": partial(tiled, tile) for tile in (4, 8, 16)}
