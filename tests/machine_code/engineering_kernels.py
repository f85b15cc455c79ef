"""Kernels as in typical engineering codes: reductions, masks, recurrences, mixed types, functions."""

import loopy as lp
import numpy as np

from .compiler_rule_kernels import by_groups

M = lp.ValueArg("m", np.int32)


def tree_sum(length: int = 128) -> lp.TranslationUnit:
    """Return the sums of rows of *length* numbers, one row per group, by a tree reduction in local memory."""
    knl = lp.make_kernel(
        f"{{[g, i]: 0 <= g < n and 0 <= i < {length}}}",
        "out[g] = sum(i, a[g, i])",
        [_array("a", f"n, {length}"), _array("out", "n"), lp.ValueArg("n", np.int32)],
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(knl, {"g": "g.0", "i": "l.0"})


def tree_of_products() -> lp.TranslationUnit:
    """Return the dot products of vectors of 2048 numbers: each work-item sums eight, a tree reduction the rest."""
    knl = lp.make_kernel(
        "{[g, i]: 0 <= g < n and 0 <= i < 2048}",
        "out[g] = sum(i, a[g, i]*b[g, i])",
        [_array("a, b", "n, 2048"), _array("out", "n"), lp.ValueArg("n", np.int32)],
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    knl = lp.split_reduction_outward(lp.split_iname(knl, "i", 256), "i_inner")
    return lp.tag_inames(knl, {"g": "g.0", "i_inner": "l.0"})


def prefix_sums() -> lp.TranslationUnit:
    """Return the sums of each of 128 numbers and up to seven before it, in three stages through local memory."""
    stages = "\n".join(_stage(number) for number in range(3))
    code = f"""
        for g, i
            t0[i] = a[g, i] {{id=s0}}
            ... lbarrier {{id=b0, dep=s0}}
            {stages}
            out[g, i] = t3[i] {{dep=b3}}
        end
        """
    local = [
        lp.TemporaryVariable(f"t{s}", np.float32, shape=(128,), address_space=lp.AddressSpace.LOCAL) for s in range(4)
    ]
    knl = lp.make_kernel(
        "{[g, i]: 0 <= g < n and 0 <= i < 128}",
        code,
        [_array("a, out", "n, 128"), lp.ValueArg("n", np.int32), *local],
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(knl, {"g": "g.0", "i": "l.0"})


def _stage(number: int) -> str:
    apart, before, after = 1 << number, number, number + 1
    return f"""
        t{after}[i] = t{before}[i] + (t{before}[i-{apart}] if i >= {apart} else 0) {{id=s{after}, dep=b{before}}}
        ... lbarrier {{id=b{after}, dep=s{after}}}
        """


def softmax() -> lp.TranslationUnit:
    """Return the softmax of each row of an n × m matrix, one row per work-item."""
    code = """
        for i
            <float32> top = -1e30 {id=lowest}
            for j
                top = fmax(top, a[i, j]) {id=top, dep=lowest}
            end
            <float32> total = 0 {id=nothing, dep=top}
            for k
                total = total + exp(a[i, k] - top) {id=total, dep=nothing}
            end
            for l
                out[i, l] = exp(a[i, l] - top)/total {dep=total}
            end
        end
        """
    return by_groups("{[i, j, k, l]: 0 <= i < n and 0 <= j, k, l < m}", code, [_array("a, out", "n, m"), M])


def layer_normalization() -> lp.TranslationUnit:
    """Return each row with mean 0 and variance 1, scaled and shifted; a literal makes part double precision."""
    code = """
        for i
            <> mean = sum(j, a[i, j])/m {id=mean}
            <> variance = sum(k, (a[i, k] - mean)*(a[i, k] - mean))/m {id=variance, dep=mean}
            for l
                out[i, l] = (a[i, l] - mean)*rsqrt(variance + 1e-5)*scale[l] + shift[l] {dep=variance}
            end
        end
        """
    arrays = [_array("a, out", "n, m"), _array("scale, shift", "m"), M]
    return by_groups("{[i, j, k, l]: 0 <= i < n and 0 <= j, k, l < m}", code, arrays)


def mixed_precision() -> lp.TranslationUnit:
    """Return products of a matrix in single precision with a vector, summed in double precision."""
    code = """
        for i
            <float64> s = 0 {id=zero}
            for k
                s = s + a[k, i]*b[k] {id=sum, dep=zero}
            end
            out[i] = s {dep=sum}
        end
        """
    arrays = [_array("a", "m, n"), _array("b", "m"), _array("out", "n", np.float64), M]
    return by_groups("{[i, k]: 0 <= i < n and 0 <= k < m}", code, arrays)


def masked_rows() -> lp.TranslationUnit:
    """Return sums over all k <= i."""
    code = """
        for i
            <> s = 0 {id=zero}
            for k
                if k <= i
                    s = s + a[i, k]*b[k, i] {id=sum, dep=zero}
                end
            end
            out[i] = s {dep=sum}
        end
        """
    arrays = [_array("a", "n, m"), _array("b", "m, n"), "out", M]
    return by_groups("{[i, k]: 0 <= i < n and 0 <= k < m}", code, arrays)


def sums_where() -> lp.TranslationUnit:
    """Return sums of products over the pairs whose first number is greater."""
    code = """
        for i
            <> s = 0 {id=zero}
            for k
                if a[k, i] > b[k]
                    s = s + a[k, i]*b[k] {id=sum, dep=zero}
                end
            end
            out[i] = s {dep=sum}
        end
        """
    arrays = [_array("a", "m, n"), _array("b", "m"), "out", M]
    return by_groups("{[i, k]: 0 <= i < n and 0 <= k < m}", code, arrays)


def triangle() -> lp.TranslationUnit:
    """Return the product of a lower triangular matrix with a vector."""
    domain = "{[i, j]: 0 <= i < n and 0 <= j <= i}"
    return by_groups(domain, "y[i] = sum(j, a[i, j]*x[j])", [_array("a", "n, n"), "x, y"], group=64)


def by_columns() -> lp.TranslationUnit:
    """Return the product of a matrix that is stored by columns with a vector; the sum is split by 32."""
    arrays = [_array("a", "n, n"), "x, y"]
    knl = by_groups("{[i, k]: 0 <= i < n and 0 <= k < n}", "y[i] = sum(k, a[k, i]*x[k])", arrays)
    return lp.split_iname(knl, "k", 32)


def activation() -> lp.TranslationUnit:
    """Return a/2·(1 + tanh(...)) of each number, in double precision because Loopy's literals are."""
    polynomial = "0.79788456*(a[i] + 0.044715*a[i]*a[i]*a[i])"
    return by_groups("{[i]: 0 <= i < n}", f"out[i] = 0.5*a[i]*(1 + tanh({polynomial}))", ["a, out"])


def waves() -> lp.TranslationUnit:
    """Return a·sin(b)."""
    return by_groups("{[i]: 0 <= i < n}", "out[i] = a[i]*sin(b[i])", ["a, b, out"])


def polynomial() -> lp.TranslationUnit:
    """Return a polynomial of degree six in double precision."""
    terms = "1 + x*(0.1 + x*(0.3 + x*(0.7 + x*(0.9 + x*(1.1 + x*1.3)))))"
    return by_groups("{[i]: 0 <= i < n}", f"<> x = a[i]\nout[i] = {terms}", [_array("a, out", "n", np.float64)])


def chain() -> lp.TranslationUnit:
    """Return three vectors, each computed from the previous ones."""
    code = "b[i] = 2*a[i] + 1 {id=b}\nc[i] = b[i]*b[i] + a[i] {id=c, dep=b}\nd[i] = c[i] - b[i] {dep=c}"
    return by_groups("{[i]: 0 <= i < n}", code, ["a, b, c, d"])


def two_sources() -> lp.TranslationUnit:
    """Return three times a vector, except for its last five numbers, which are copied from another vector."""
    return by_groups("{[i]: 0 <= i < n}", "out[i] = (3*a[i] if i < n - 5 else b[i])", ["a, b, out"])


def remainders() -> lp.TranslationUnit:
    """Return sums of remainders of quotients of integers."""
    arrays = [_array("a, y", "n", np.int32)]
    return by_groups("{[i, k]: 0 <= i < n and 0 <= k < 32}", "y[i] = sum(k, (a[i] // (k + 1)) % 7)", arrays)


def _array(names: str, shape: str, dtype: type = np.float32) -> lp.GlobalArg:
    return lp.GlobalArg(names, dtype, shape=shape)
