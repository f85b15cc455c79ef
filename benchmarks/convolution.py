"""A two-dimensional convolution whose groups copy their input to local memory, in the tiles of a tuned CUDA kernel.

It is the kernel of ``ktt-convolution-rtx-2080-ti.csv.xz`` in ../shared/data, written in Loopy: each work-item makes
some sums, a group's width and height apart, of all taps of a filter in constant memory.
"""

from dataclasses import dataclass

import loopy as lp
import numpy as np

RADIUS = 7
"""of the filter: it has 15 × 15 taps"""


@dataclass(frozen=True)
class Shape:
    """What is tuned of the kernel."""

    block: tuple[int, int]
    """work-items of a group along x and y"""
    tile: tuple[int, int]
    """sums of a work-item along x and y"""

    @property
    def outputs(self) -> tuple[int, int]:
        """Return how many sums a group makes along x and y."""
        return self.block[0] * self.tile[0], self.block[1] * self.tile[1]


def filter_taps(number: int) -> np.ndarray:
    """Return a filter of *number* × *number* taps; the kernel is compiled with it, in constant memory."""
    return np.random.default_rng(0).uniform(0.5, 1.0, (number, number)).astype(np.float32)


def convolution(shape: Shape, width: int = 4096, height: int = 4096, radius: int = RADIUS) -> lp.TranslationUnit:
    """Return the kernel that convolves an image of (*height* + 2 *radius*) × (*width* + 2 *radius*) numbers."""
    (block_x, block_y), (tile_x, tile_y), (group_x, group_y) = shape.block, shape.tile, shape.outputs
    columns, rows, taps = group_x + 2 * radius, group_y + 2 * radius, 2 * radius + 1
    domains = (
        f"{{[gx, gy, lx, ly]: 0 <= gx < {-(-width // group_x)} and 0 <= gy < {-(-height // group_y)}"
        f" and 0 <= lx < {block_x} and 0 <= ly < {block_y}}}",
        f"[lx, ly] -> {{[j, i]: 0 <= j, i and ly + {block_y}*j < {rows} and lx + {block_x}*i < {columns}}}",
        f"{{[ky, kx]: 0 <= ky, kx < {taps}}}",
        *(f"{{[{y}, {x}]: 0 <= {y} < {tile_y} and 0 <= {x} < {tile_x}}}" for y, x in ("ab", "cd", "ef")),
    )
    y, x = f"gy*{group_y}", f"gx*{group_x}"
    row, column = f"ly + {block_y}*j", f"lx + {block_x}*i"
    instructions = f"""
        for gy, gx, ly, lx
            for j, i
                if {y} + {row} < {height + 2 * radius} and {x} + {column} < {width + 2 * radius}
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
    kernel = lp.make_kernel(
        domains,
        instructions,
        [
            lp.GlobalArg("image", np.float32, shape=(height + 2 * radius, width + 2 * radius)),
            lp.TemporaryVariable(
                "taps",
                initializer=filter_taps(taps),
                address_space=lp.AddressSpace.GLOBAL,
                read_only=True,
            ),
            lp.GlobalArg("out", np.float32, shape=(height, width), is_input=False),
            lp.TemporaryVariable("tile", np.float32, (rows, columns), lp.AddressSpace.LOCAL),
            lp.TemporaryVariable("total", np.float32, (tile_y, tile_x), lp.AddressSpace.PRIVATE),
        ],
        name="convolution",
        lang_version=(2018, 2),
    )
    kernel = lp.tag_inames(kernel, "gx:g.0, gy:g.1, lx:l.0, ly:l.1")
    kernel = lp.tag_inames(kernel, "ky:unr, kx:unr, a:unr, b:unr, c:unr, d:unr, e:unr, f:unr")
    return lp.prioritize_loops(lp.prioritize_loops(kernel, "j,i"), "ky,kx,c,d")
