"""LU decomposition in place: blocks in the row and in the column of the diagonal block t, row-major, float32.

    U_tj = L_tt⁻¹ · A_tj,    L_jt = A_jt · U_tt⁻¹      for t < j < n/16, in blocks of 16 × 16

lud_perimeter from Lemeire, table 9. The diagonal block contains its factors U_tt and L_tt, whose unit diagonal is not
stored. A group of 16 × 2 work-items, one warp, has both blocks of one j, and a copy of the diagonal block, in local
memory. The work-items with l.1 = 0 solve for a column of U_tj each, those with l.1 = 1 for a row of L_jt.

The kernel tests triangular loops, a warp whose halves execute different code, and local memory: the rows of L_jt are 16
words apart, so that each of its accesses has 8 lanes on a bank. The sizes are those of first steps, t = 0.

Counts per group: 3·256 loads and as many local stores; 2·16·120 multiplications and subtractions, with three local
loads and a local store each, and 256 divisions; 2·256 stores; two barriers per work-item.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "lud_perimeter"

BLOCK = 16
"""rows and columns of a block; a group has twice as many work-items"""

LARGEST = 2**15
"""the largest n, with a matrix of 4 GiB"""

SOLVES = """
if h == 0
    for i, k
        upper[i, c] = upper[i, c] - diagonal[i, k]*upper[k, c]
    end
end
if h == 1
    for p
        for q
            lower[c, p] = lower[c, p] - lower[c, q]*diagonal[q, p] {id=sum, nosync=quotient}
        end
        lower[c, p] = lower[c, p] / diagonal[p, p] {id=quotient, nosync=sum}
    end
end
"""
"""Each work-item has its own column or row, so no synchronization is needed between the instructions of a solve."""


def configurations(limits: DeviceLimits, block: int = BLOCK) -> list[Configuration]:
    """Return the kernel for groups of (block, 2) work-items, if the device supports them."""
    if 2 * block > limits.group_size or 4 * 3 * block**2 > limits.local_memory:
        return []
    sides = doubling(at_least=64, multiple_of=block, at_most=LARGEST)
    return [
        Configuration(
            label=f"group {block}x2",
            build=partial(perimeter, block),
            sizes=tuple({"n": n, "t": 0} for n in sides),
            arguments=arguments,
            reference=partial(solved, block),
        )
    ]


def perimeter(block: int = BLOCK) -> lp.TranslationUnit:
    """Return the solves with blocks of *block* rows and columns."""
    first, here = f"{block}*t", f"{block}*(t + 1 + j)"
    knl = lp.make_kernel(
        [
            f"{{[j, c, h]: 0 <= j < n//{block} - t - 1 and 0 <= c < {block} and 0 <= h < 2}}",
            f"{{[r, w]: 0 <= r, w < {block // 2}}}",
            f"{{[i, k]: 0 <= k < i < {block}}}",
            f"{{[p]: 0 <= p < {block}}}",
            "{[q]: 0 <= q < p}",
        ],
        f"""
        for j, c, h
            for r
                diagonal[2*r + h, c] = a[{first} + 2*r + h, {first} + c]
                upper[2*r + h, c] = a[{first} + 2*r + h, {here} + c]
                lower[2*r + h, c] = a[{here} + 2*r + h, {first} + c]
            end
            ... lbarrier {{mem_kind=local}}
            {SOLVES}
            ... lbarrier {{mem_kind=local}}
            for w
                a[{first} + 2*w + h, {here} + c] = upper[2*w + h, c]
                a[{here} + 2*w + h, {first} + c] = lower[2*w + h, c]
            end
        end
        """,
        [
            lp.GlobalArg("a", np.float32, shape="n, n"),
            lp.ValueArg("n, t", np.int32),
            *(
                lp.TemporaryVariable(name, np.float32, shape=(block, block), address_space=lp.AddressSpace.LOCAL)
                for name in ("diagonal", "upper", "lower")
            ),
        ],
        name="lud_perimeter",
        seq_dependencies=True,
        assumptions=f"n mod {block} = 0 and t >= 0 and n >= {block}*(t + 2)",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(knl, {"j": "g.0", "c": "l.0", "h": "l.1"})


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return a random matrix with a large diagonal, so that solving with its diagonal blocks is well-conditioned."""
    n = sizes["n"]
    a = rng.random((n, n), dtype=np.float32)
    np.fill_diagonal(a, BLOCK)
    return {"a": a, **{name: np.int32(size) for name, size in sizes.items()}}


def solved(block: int, arguments: Arguments) -> dict[str, Array]:
    """Return a after the step."""
    a = np.array(arguments["a"], dtype=np.float64)
    here = slice(block * int(arguments["t"]), block * (int(arguments["t"]) + 1))
    beyond = slice(here.stop, None)
    factors = a[here, here].copy()
    unit_lower = np.tril(factors, -1) + np.eye(block)
    a[here, beyond] = np.linalg.solve(unit_lower, a[here, beyond])
    a[beyond, here] = np.linalg.solve(np.triu(factors).T, a[beyond, here].T).T
    return {"a": a.astype(np.float32)}
