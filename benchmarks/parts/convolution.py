"""A two-dimensional convolution whose groups copy their input to local memory, with the tiles of a tuned CUDA kernel.

This is the kernel of ``ktt-convolution-rtx-2080-ti.csv.xz`` in ../shared/data, written in Loopy. Each work-item
computes several outputs, spaced by the width and height of a group. An output is a sum over all taps of a filter in
constant memory.
"""

from dataclasses import dataclass

import loopy as lp
import numpy as np
from numpy.typing import NDArray

RADIUS = 7
"""of the filter, which has 15 × 15 taps"""
INSTRUCTIONS = """
    for gy, gx, ly, lx
        for j, i
            if {y} + {row} < {height} + 2*{radius} and {x} + {column} < {width} + 2*{radius}
                tile[{row}, {column}] = image[{y} + {row}, {x} + {column}] {{id=copy}}
            end
        end
        ... lbarrier {{id=copied, dep=copy}}
        total[a, b] = 0 {{id=begin}}
        for ky, kx
            total[c, d] = total[c, d] + tile[ly + {block_y}*c + ky, lx + {block_x}*d + kx]*taps[ky, kx] \
                {{id=add, dep=copied:begin}}
        end
        if {y} + ly + {block_y}*e < {height} and {x} + lx + {block_x}*f < {width}
            out[{y} + ly + {block_y}*e, {x} + lx + {block_x}*f] = total[e, f] {{dep=add}}
        end
    end
"""
TAGS = "gx:g.0, gy:g.1, lx:l.0, ly:l.1, ky:unr, kx:unr, a:unr, b:unr, c:unr, d:unr, e:unr, f:unr"


@dataclass(frozen=True)
class Shape:
    """The tuning parameters of the kernel."""

    block: tuple[int, int]
    """work-items of a group along x and y"""
    tile: tuple[int, int]
    """outputs of a work-item along x and y"""

    @property
    def outputs(self) -> tuple[int, int]:
        """Return the number of outputs of a group along x and y."""
        return self.block[0] * self.tile[0], self.block[1] * self.tile[1]


def filter_taps(number: int) -> NDArray[np.float32]:
    """Return a filter of *number* × *number* taps, which is compiled into the kernel, in constant memory."""
    return np.random.default_rng(0).uniform(0.5, 1.0, (number, number)).astype(np.float32)


def convolution(shape: Shape, width: int = 4096, height: int = 4096, radius: int = RADIUS) -> lp.TranslationUnit:
    """Return the kernel that convolves an image of (*height* + 2 *radius*) × (*width* + 2 *radius*) numbers."""
    (block_x, block_y), (tile_x, tile_y), (group_x, group_y) = shape.block, shape.tile, shape.outputs
    columns, rows, taps = group_x + 2 * radius, group_y + 2 * radius, 2 * radius + 1
    y, x, row, column = f"gy*{group_y}", f"gx*{group_x}", f"ly + {block_y}*j", f"lx + {block_x}*i"
    groups = f"0 <= gx < {-(-width // group_x)} and 0 <= gy < {-(-height // group_y)}"
    domains = [
        f"{{[gx, gy, lx, ly]: {groups} and 0 <= lx < {block_x} and 0 <= ly < {block_y}}}",
        f"[lx, ly] -> {{[j, i]: 0 <= j, i and {row} < {rows} and {column} < {columns}}}",
        f"{{[ky, kx]: 0 <= ky, kx < {taps}}}",
        *(f"{{[{i}, {j}]: 0 <= {i} < {tile_y} and 0 <= {j} < {tile_x}}}" for i, j in ("ab", "cd", "ef")),
    ]
    constant, local, private = lp.AddressSpace.GLOBAL, lp.AddressSpace.LOCAL, lp.AddressSpace.PRIVATE
    names = {"y": y, "x": x, "row": row, "column": column, "width": width, "height": height, "radius": radius}
    kernel = lp.make_kernel(
        domains,
        INSTRUCTIONS.format(**names, block_x=block_x, block_y=block_y),
        [
            lp.GlobalArg("image", np.float32, (height + 2 * radius, width + 2 * radius)),
            lp.GlobalArg("out", np.float32, (height, width), is_input=False),
            lp.TemporaryVariable("taps", address_space=constant, initializer=filter_taps(taps), read_only=True),
            lp.TemporaryVariable("tile", np.float32, (rows, columns), local),
            lp.TemporaryVariable("total", np.float32, (tile_y, tile_x), private),
        ],
        name="convolution",
        lang_version=(2018, 2),
    )
    kernel = lp.tag_inames(kernel, TAGS)
    return lp.prioritize_loops(lp.prioritize_loops(kernel, "j,i"), "ky,kx,c,d")
