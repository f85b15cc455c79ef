"""Kernels with a private array, by the kind of its index. All process columns of x and y in groups of 32."""

from collections.abc import Callable, Mapping
from functools import partial

import loopy as lp
import numpy as np

from tests.kernels import floats, integers, make_kernel

F64 = np.float64


def _kernel(domains: list[str], code: str, length: int) -> lp.TranslationUnit:
    unit = make_kernel(
        domains,
        code,
        lp.GlobalArg("x,y", F64, shape=lp.auto, dim_tags="stride:n,stride:1"),
        lp.GlobalArg("which", np.int32, shape=32),
        lp.TemporaryVariable("a", F64, shape=(length,), address_space=lp.AddressSpace.PRIVATE),
        integers("n"),
        ...,
        assumptions="n >= 1",
        seq_dependencies=True,
        name="columns",
    )
    return lp.tag_inames(unit, {"t": "l.0"})


def copied(length: int) -> lp.TranslationUnit:
    """Return a kernel that loads *length* elements and stores them doubled: two loops of *length* iterations."""
    domain = f"[n] -> {{[t, i, o]: 0<=t<32 and 0<=i,o<{length}}}"
    return _kernel([domain], "a[i] = x[i, t]\ny[o, t] = 2*a[o]", length)


def written_out(length: int) -> lp.TranslationUnit:
    """Return :func:`copied` with both loops unrolled by Loopy."""
    return lp.tag_inames(copied(length), {"i": "unr", "o": "unr"})


def up_to_size(length: int) -> lp.TranslationUnit:
    """Return a kernel whose second loop has n iterations, at most *length*."""
    domain = f"[n] -> {{[t, i, o]: 0<=t<32 and 0<=i<{length} and 0<=o<n and o<{length}}}"
    return _kernel([domain], "a[i] = x[i, t]\ny[o, t] = 2*a[o]", length)


def up_to_lane(length: int) -> lp.TranslationUnit:
    """Return a kernel whose second loop has fewer iterations in later work-items."""
    domain = f"[n] -> {{[t, i, o]: 0<=t<32 and 0<=i<{length} and 0<=o and 16*o <= {16 * length} - 1 - t}}"
    return _kernel([domain], "a[i] = x[i, t]\ny[o, t] = 2*a[o]", length)


def in_tiles(total: int, tile: int) -> lp.TranslationUnit:
    """Return a kernel that sums *total* rows in tiles of *tile*: one sum for each position in the tiles."""
    domain = f"[n] -> {{[t, i, o, s, p]: 0<=t<32 and 0<=i,o,p<{tile} and 0<=s and {tile}*s + p < {total}}}"
    code = f"a[i] = x[i, t]\na[p] = a[p] + x[{tile}*s + p, t]\ny[o, t] = a[o]"
    return lp.prioritize_loops(_kernel([domain], code, tile), "s,p")


def in_triangle(length: int) -> lp.TranslationUnit:
    """Return a kernel that accumulates the first element, then the first two, and so on."""
    domain = f"[n] -> {{[t, i, o, p]: 0<=t<32 and 0<=i,o<{length} and 0<=p<=o}}"
    return lp.prioritize_loops(_kernel([domain], "a[i] = x[i, t]\ny[p, t] = y[p, t] + o*a[p]", length), "o,p")


def in_square(index: str, domain: str, columns: int, *, written_out: bool = True) -> lp.TranslationUnit:
    """Return a kernel that uses the elements *index* of a private array of 16 rows: those of i and j in *domain*."""
    inames = f"0<=t<32 and 0<=i,o<16 and 0<=j,p<18 and {domain} and {domain.replace('i', 'o').replace('j', 'p')}"
    unit = make_kernel(
        f"[n] -> {{[t, i, j, o, p]: {inames}}}",
        f"""
        for t
            for i, j
                a[{index}] = x[i, j, t]
            end
            for o, p
                y[o, p, t] = 2*a[{index.replace("i", "o").replace("j", "p")}]
            end
        end
        """,
        floats("x,y", "16,18,n"),
        lp.TemporaryVariable("a", np.float32, shape=(16, columns), address_space=lp.AddressSpace.PRIVATE),
        integers("n"),
        assumptions="n >= 32",
        seq_dependencies=True,
        name="square",
    )
    unit = lp.prioritize_loops(lp.prioritize_loops(unit, "i,j"), "o,p")
    return lp.tag_inames(unit, {"t": "l.0"} | dict.fromkeys("ijop" if written_out else "", "unr"))


def product_tile(width: int, dtype: type) -> lp.TranslationUnit:
    """Return a matrix product in which each work-item keeps *width* x *width* sums, in loops that Loopy unrolls."""
    unrolled, tile = "ijabcdef", 16 * width
    unit = make_kernel(
        f"{{[gi, gj, ti, tj, k, {','.join(unrolled)}]: 0 <= gi, gj < n/{tile} and 0 <= ti, tj < 16 and 0 <= k < n"
        f" and 0 <= {','.join(unrolled)} < {width}}}",
        f"""
        for gi, gj, ti, tj
            for a, b
                acc[a, b] = 0
            end
            for k
                for c
                    left[c] = A[k, {tile}*gi + {width}*ti + c]
                end
                for d
                    right[d] = B[k, {tile}*gj + {width}*tj + d]
                end
                for i, j
                    acc[i, j] = acc[i, j] + left[i]*right[j]
                end
            end
            for e, f
                C[{tile}*gi + {width}*ti + e, {tile}*gj + {width}*tj + f] = acc[e, f]
            end
        end
        """,
        lp.GlobalArg("A,B,C", dtype, shape="n,n"),
        lp.TemporaryVariable("acc", dtype, shape=(width, width)),
        *(lp.TemporaryVariable(name, dtype, shape=(width,)) for name in ("left", "right")),
        integers("n"),
        assumptions=f"n >= {tile} and n mod {tile} = 0",
        seq_dependencies=True,
        name="product",
        target=lp.CudaTarget(),
    )
    return lp.tag_inames(unit, {"gi": "g.1", "gj": "g.0", "ti": "l.1", "tj": "l.0"} | dict.fromkeys(unrolled, "unr"))


def by_data(length: int) -> lp.TranslationUnit:
    """Return a kernel that reads the element whose index it loads from memory."""
    domain = f"[n] -> {{[t, i]: 0<=t<32 and 0<=i<{length}}}"
    return _kernel([domain], "a[i] = x[i, t]\n<> w = which[t]\ny[0, t] = a[w]", length)


def by_lane() -> lp.TranslationUnit:
    """Return a kernel in which each work-item reads the element with its own index."""
    return _kernel(["[n] -> {[t, i]: 0<=t,i<32}"], "a[i] = x[i, t]\ny[0, t] = 2*a[t]", 32)


def accumulated(rows: str, columns: int, length: int, order: str = "r,k") -> lp.TranslationUnit:
    """Return a kernel that accumulates *rows* sums of *columns* products each; *order* is that of the loops."""
    domain = f"[n] -> {{[t, i, r, k, o]: 0<=t<32 and 0<=i,r,o<{rows} and i,r,o<{length} and 0<=k<{columns}}}"
    code = "a[i] = x[i, t]\na[r] = a[r] + x[r, k]*x[k, t]\ny[o, t] = a[o]"
    return lp.prioritize_loops(_kernel([domain], code, length), order)


def vector_sums(
    width: int, rows: str | int, terms: str | int, *, dtype: type = np.float32, in_vectors: bool = True
) -> lp.TranslationUnit:
    """Return a kernel that accumulates *rows* vectors of *width* members in a private array, *terms* products each.

    If *rows* is "r", it is a size parameter of at most 8. Without *in_vectors*, members are scalars in unrolled loops.
    """
    tag, vector, most = ("vec", "vec", 8) if in_vectors else ("unr", "N0", 8)
    axes = ("N1,N0", "N0") if in_vectors else ("N2,N1", "N1")
    shape = most if rows == "r" else rows
    inames = f"0<=g,t<32 and 0<=k<{terms} and 0<=m,i,o<{rows} and 0<=u,v,w,s<{width}"
    unit = make_kernel(
        f"[n, r] -> {{[g, t, k, m, i, o, u, v, w, s]: {inames}}}",
        """
        for g, t
            acc[i, u] = z[i, 32*g + t, u] {id=first}
            for k
                row[s] = b[k, 32*g + t, s] {id=row, dep=first}
                acc[m, v] = acc[m, v] + a[m, k]*row[v] {id=sum, dep=row}
            end
            y[o, 32*g + t, w] = acc[o, w] {dep=sum}
        end
        """,
        lp.GlobalArg("a", dtype, shape=(shape, "n")),
        lp.GlobalArg("b", dtype, shape=("n", 1024, width), dim_tags=f"{axes[0]},{vector}"),
        lp.GlobalArg("y,z", dtype, shape=(shape, 1024, width), dim_tags=f"{axes[0]},{vector}"),
        lp.TemporaryVariable("acc", dtype, shape=(shape, width), dim_tags=f"{axes[1]},{vector}"),
        lp.TemporaryVariable("row", dtype, shape=(width,), dim_tags=vector),
        integers("n,r"),
        assumptions="n >= 8 and 1 <= r <= 8",
        name="vector_sums",
        preambles=[("10_vectors", CUDA_VECTORS)] if in_vectors else [],
        silenced_warnings="v1_scheduler_fallback",
    )
    tags = {"g": "g.0", "t": "l.0", "u": tag, "v": tag, "w": tag, "s": tag}
    return lp.tag_inames(unit, tags if rows == "r" else {**tags, "m": "unr", "i": "unr", "o": "unr"})


def _operator(scalar: str, width: int, sign: str, left: str) -> str:
    """Return an operator on vectors, which CUDA does not define; *left* is the type of its first operand."""
    vector = f"{scalar}{width}"
    parts = (f"a{'.' + m if left == vector else ''} {sign} b.{m}" for m in "xyzw"[:width])
    signature = f"inline __device__ {vector} operator{sign}({left} a, {vector} b)"
    return f"{signature} {{ return make_{vector}({', '.join(parts)}); }}"


_OPERATORS = "\n".join(
    _operator(scalar, width, *operator)
    for scalar, width in (("float", 2), ("float", 4), ("double", 2))
    for operator in (("+", f"{scalar}{width}"), ("*", scalar))
)
CUDA_VECTORS = f"#ifdef __CUDACC__\n{_OPERATORS}\n#endif"

Build = Callable[[], lp.TranslationUnit]
PARTS_OF_SQUARES: Mapping[str, tuple[Build, int]] = {
    "a diagonal": (partial(in_square, "i, i", "j=0", 16), 16),
    "the diagonal of a loop": (partial(in_square, "i, i", "j=0", 16, written_out=False), 16),
    "a triangle": (partial(in_square, "i, j", "j<=i", 16), 136),
    "two diagonals": (partial(in_square, "i, i + j", "j<=1", 17), 32),
    "two columns": (partial(in_square, "i, 15*j", "j<=1", 16), 32),
    "padding": (partial(in_square, "i, j", "j<=6", 18), 112),
    "everything": (partial(in_square, "i, j", "j<=16", 17), 272),
}
"""kernel, and the number of elements that it uses"""
REGISTERS: Mapping[str, Build] = {
    "two constant loops": partial(copied, 8),
    "longer constant loops": partial(copied, 64),
    "written out by Loopy": partial(written_out, 6),
    "a sum inside": partial(accumulated, "8", 64, 8),
    "4 or 8 passes": partial(in_tiles, 164, 8),
    "more than all registers": partial(copied, 128),
}
STACK_MEMORY: Mapping[str, Build] = {
    "a bound that is a size": partial(up_to_size, 4),
    "a bound that depends on the work-item": partial(up_to_lane, 4),
    "an index that is data": partial(by_data, 8),
    "an index that is the work-item": by_lane,
    "rows that are a size": partial(accumulated, "n", 16, 8),
}
UNSURE: Mapping[str, Build] = {
    "8 or 16 passes": partial(in_tiles, 328, 16),
    "3 or 9 passes": partial(in_tiles, 183, 9),
    "a triangle": partial(in_triangle, 6),
    "long loops": partial(accumulated, "16", 64, 16),
}
