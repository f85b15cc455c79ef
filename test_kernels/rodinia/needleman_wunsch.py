"""Needleman-Wunsch alignment of two sequences: the scores of tiles on one antidiagonal of the matrix, int32.

    s[i,j] = max(s[i−1,j−1] + r[i,j], s[i,j−1] − p, s[i−1,j] − p)      for 0 < i, j ≤ n

nw_kernel1 from Lemeire, table 9. r is the similarity of the i-th letter of one sequence and the j-th of the other, p
the penalty of a gap; the first row and column of s are given. A launch computes the tiles (T, d−1−T) for 0 ≤ T < d, of
16 × 16 scores, from those above and to the left of them. A group of 16 work-items computes a tile in local memory, one
antidiagonal after another, with a barrier after each: work-item l has row l, and on antidiagonal k column k − l.

The kernel tests barriers and local memory with few lanes to hide their latency: the group is half a warp, and on the
average antidiagonal half of it is active. Rows have 17 scores, so those of an antidiagonal are 16 words apart, on two
banks. The scores are integers, as in Rodinia.

Counts per tile: 256 loads of r and 33 of s, and as many local stores; 256 additions, 512 subtractions and 512 maxima,
with 4·256 local loads and 256 local stores; 256 local loads and 256 stores; 32 barriers per work-item.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "nw_kernel1"

TILE = 16
"""rows and columns of a tile, and work-items of a group"""

LARGEST = 2**15
"""the largest n, with two matrices of 4 GiB"""

PENALTY = 10


def configurations(limits: DeviceLimits, tile: int = TILE) -> list[Configuration]:
    """Return the main antidiagonal of tiles, the longest one, for groups of *tile* work-items."""
    if tile > limits.group_size or 4 * ((tile + 1) ** 2 + tile**2) > limits.local_memory:
        return []
    return [
        Configuration(
            label=f"group {tile}",
            build=partial(antidiagonal_of_tiles, tile),
            sizes=tuple({"d": d, "p": PENALTY} for d in doubling(at_least=2, multiple_of=1, at_most=LARGEST // tile)),
            arguments=partial(arguments, tile),
            reference=partial(aligned, tile),
        )
    ]


def antidiagonal_of_tiles(tile: int = TILE) -> lp.TranslationUnit:
    """Return the scores of d tiles of *tile* rows and columns, in a matrix of d × d tiles."""
    top, left = f"{tile}*T", f"{tile}*(d - 1 - T)"
    knl = lp.make_kernel(
        f"{{[T, l, i, row, k]: 0 <= T < d and 0 <= l, i, row < {tile} and 0 <= k < {2 * tile - 1}}}",
        f"""
        for T, l
            score[0, l + 1] = s[{top}, {left} + l + 1]
            score[l + 1, 0] = s[{top} + l + 1, {left}]
            if l == 0
                score[0, 0] = s[{top}, {left}]
            end
            for i
                alike[i, l] = r[{top} + i, {left} + l]
            end
            for k
                ... lbarrier {{mem_kind=local}}
                if l <= k and k < l + {tile}
                    <> diagonal = score[l, k - l] + alike[l, k - l] {{id=diagonal}}
                    <> across = score[l + 1, k - l] - p {{id=across}}
                    <> down = score[l, k - l + 1] - p {{id=down}}
                    <> gap = if(across > down, across, down)
                    score[l + 1, k - l + 1] = if(diagonal > gap, diagonal, gap) {{nosync=diagonal:across:down}}
                end
            end
            ... lbarrier {{mem_kind=local}}
            for row
                s[{top} + row + 1, {left} + l + 1] = score[row + 1, l + 1]
            end
        end
        """,
        _arrays(tile),
        name="nw_kernel1",
        seq_dependencies=True,
        assumptions="d >= 1",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(knl, {"T": "g.0", "l": "l.0"})


def _arrays(tile: int) -> list[lp.ArrayArg | lp.TemporaryVariable | lp.ValueArg]:
    return [
        lp.GlobalArg("s", np.int32, shape=f"{tile}*d + 1, {tile}*d + 1"),
        lp.GlobalArg("r", np.int32, shape=f"{tile}*d, {tile}*d"),
        lp.ValueArg("d, p", np.int32),
        lp.TemporaryVariable("score", np.int32, shape=(tile + 1, tile + 1), address_space=lp.AddressSpace.LOCAL),
        lp.TemporaryVariable("alike", np.int32, shape=(tile, tile), address_space=lp.AddressSpace.LOCAL),
    ]


def arguments(tile: int, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random similarities and scores of realistic size; only the scores around the tiles are used."""
    n = tile * sizes["d"]
    return {
        "s": rng.integers(-PENALTY, PENALTY, size=(n + 1, n + 1), dtype=np.int32),
        "r": rng.integers(-4, 12, size=(n, n), dtype=np.int32),
        **{name: np.int32(size) for name, size in sizes.items()},
    }


def aligned(tile: int, arguments: Arguments) -> dict[str, Array]:
    """Return s with the tiles of the antidiagonal, which are computed simultaneously."""
    s, r = (np.array(arguments[name], dtype=np.int32) for name in "sr")
    d, penalty = int(arguments["d"]), int(arguments["p"])
    top = tile * np.arange(d)
    left = top[::-1]
    for i in range(tile):
        for j in range(tile):
            row, column = top + i, left + j
            along = np.maximum(s[row + 1, column], s[row, column + 1]) - penalty
            s[row + 1, column + 1] = np.maximum(s[row, column] + r[row, column], along)
    return {"s": s}
