"""LU decomposition in place: update of all blocks beyond the row and column of block t, row-major, float32.

    A_ij ← A_ij − L_it · U_tj      for t < i, j < n/16, in blocks of 16 × 16

lud_internal from Lemeire, table 9. A group of 16 × 16 work-items has L_it and U_tj in local memory, and updates one
block of A, one element per work-item. The sizes are those of first steps, t = 0, which are the longest.

The kernel tests local memory and short sums: a single tile is fetched, so that the latencies of loads, of a barrier and
of a chain of 16 dependent additions are hidden by other groups or not at all. All lanes of a row load the same element
of L_it.

Counts per element, of which there are (n−16(t+1))²: 3 loads, 2 local stores, 1 barrier, 2·16 local loads, 16
multiplications, 16 additions, 1 subtraction, 1 store.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "lud_internal"

BLOCK = 16
"""rows and columns of a block, and work-items of a group along both axes"""

LARGEST = 2**13
"""the largest n, with a matrix of 256 MiB"""


def configurations(limits: DeviceLimits, block: int = BLOCK) -> list[Configuration]:
    """Return the kernel for groups of (block, block) work-items, if the device supports them."""
    if block**2 > limits.group_size or 4 * 2 * block**2 > limits.local_memory:
        return []
    return [
        Configuration(
            label=f"group {block}x{block}",
            build=partial(internal, block),
            sizes=tuple({"n": n, "t": 0} for n in doubling(at_least=64, multiple_of=block, at_most=LARGEST)),
            arguments=arguments,
            reference=partial(updated, block),
        )
    ]


def internal(block: int = BLOCK) -> lp.TranslationUnit:
    """Return the update of blocks of *block* rows and columns."""
    first, row, column = f"{block}*t", f"{block}*(t + 1 + i) + r", f"{block}*(t + 1 + j) + c"
    knl = lp.make_kernel(
        f"{{[i, j, r, c, k]: 0 <= i, j < n//{block} - t - 1 and 0 <= r, c, k < {block}}}",
        f"""
        for i, j, r, c
            lower[r, c] = a[{row}, {first} + c]
            upper[r, c] = a[{first} + r, {column}]
            ... lbarrier {{mem_kind=local}}
            a[{row}, {column}] = a[{row}, {column}] - sum(k, lower[r, k]*upper[k, c])
        end
        """,
        [
            lp.GlobalArg("a", np.float32, shape="n, n"),
            lp.ValueArg("n, t", np.int32),
            *(
                lp.TemporaryVariable(name, np.float32, shape=(block, block), address_space=lp.AddressSpace.LOCAL)
                for name in ("lower", "upper")
            ),
        ],
        name="lud_internal",
        seq_dependencies=True,
        assumptions=f"n mod {block} = 0 and t >= 0 and n >= {block}*(t + 2)",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(knl, {"i": "g.1", "j": "g.0", "r": "l.1", "c": "l.0"})


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random matrix, whose first blocks are used as those of its factors."""
    n = sizes["n"]
    return {
        "a": rng.random((n, n), dtype=np.float32),
        **{name: np.int32(size) for name, size in sizes.items()},
    }


def updated(block: int, arguments: Arguments) -> dict[str, Array]:
    """Return a after the update."""
    a = np.array(arguments["a"], dtype=np.float64)
    first = block * int(arguments["t"])
    rest = first + block
    a[rest:, rest:] -= a[rest:, first:rest] @ a[first:rest, rest:]
    return {"a": a.astype(np.float32)}
