"""Small kernels that try the domains: loops of every shape, and conditions."""

import loopy as lp
import numpy as np

from tests.counts.small_kernels import FROM_ZERO, LARGE, array, at, kernel, lanes, sizes, sizes_of_n

# {{{ loops


@at(*FROM_ZERO, classes=LARGE)
def a_sequential_loop() -> lp.TranslationUnit:
    """A launch without axes: one work-item does it all."""
    return kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]", a=np.float32)


@at(*FROM_ZERO, classes=LARGE)
def a_tiled_loop() -> lp.TranslationUnit:
    """Tiles of 16, of which n need not be a multiple: the last group runs only in part."""
    return lanes(a_sequential_loop())


@at(*sizes_of_n(16, 32, 80), classes=LARGE)
def a_divisible_loop() -> lp.TranslationUnit:
    """An assumption of a remainder makes floors into fractions."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]", assumptions="n>=16 and n mod 16 = 0", a=np.float32))


@at(*FROM_ZERO, classes=LARGE)
def a_triangular_loop() -> lp.TranslationUnit:
    """The inner loop's trip count depends on the lane."""
    unit = kernel(
        "{[i,j]: 0<=i<n and 0<=j<=i}",
        "out[i] = sum(j, a[i,j]*x[j])",
        array("a", "n,n"),
        array("x,out", "n"),
        sizes("n"),
    )
    return lanes(unit)


@at(*({"n": n, "m": m} for n, m in [(0, 0), (1, 0), (5, 2), (9, 8), (8, 9), (40, 3)]), classes={"n": 200, "m": 20})
def a_loop_between_two_sizes() -> lp.TranslationUnit:
    """Equal sizes leave nothing of it, however large."""
    return lanes(
        kernel(
            "{[i]: m<=i<n}", "out[i] = a[2*i]", array("a", "2*n"), array("out", "n"), sizes("n,m"), assumptions="m>=0"
        )
    )


@at(*sizes_of_n(0, 1, 2, 3, 4, 15, 16, 17, 40), classes=LARGE)
def a_loop_with_holes() -> lp.TranslationUnit:
    """Every third point: the domain has an existential variable."""
    return kernel("{[i]: 0<=i<n and i mod 3 = 1}", "out[i] = a[i] + 1", a=np.float32)


@at(*sizes_of_n(1, 2, 5, 20), classes={"n": 40})
def a_skewed_loop() -> lp.TranslationUnit:
    """A wavefront: points of a square by diagonals."""
    return kernel("{[t,i]: 0<=t-i<n and 0<=i<n}", "out[i,t-i] = 2*a[i,t-i]", array("a,out", "n,n"), sizes("n"))


@at(*sizes_of_n(0, 1, 2, 7), classes={"n": 40})
def a_tree_of_domains() -> lp.TranslationUnit:
    """The inner domain has the outer loop variable as a parameter."""
    return kernel(
        ["[n] -> {[i]: 0<=i<n}", "[n,i] -> {[j]: i<=j<n and j<i+3}"],
        "<> s = sum(j, a[j]) {inames=i}\nout[i] = 2*s",
        array("a,out", "n"),
        sizes("n"),
    )


@at(*({"n": n, "m": m} for n, m in [(0, 0), (5, 0), (0, 5), (5, 7)]), classes={"n": 5, "m": 7})
def two_loops_of_one_domain() -> lp.TranslationUnit:
    """Where one loop is empty there is no point at all: Loopy guards the other by ``if (m >= 1)``."""
    return kernel("{[i,j]: 0<=i<n and 0<=j<m}", "a[i] = 2\nb[j] = 3", array("a", "n"), array("b", "m"), sizes("n,m"))


@at({}, classes={})
def a_fixed_size() -> lp.TranslationUnit:
    """No parameters at all: three lanes, four cells each."""
    return lanes(kernel("{[i,j]: 0<=i<3 and 0<=j<4}", "out[i] = sum(j, a[4*i+j])", a=np.float32))


@at({"n": 0}, {"n": 3}, classes=LARGE)
def nothing_to_do() -> lp.TranslationUnit:
    """The paper's empty kernel: groups are launched, nothing runs."""
    return lanes(kernel("{[i]: 0<=i<n}", "... nop {id=nop, inames=i}", sizes("n")))


@at({}, classes={})
def no_loops() -> lp.TranslationUnit:
    """An instruction outside of all loops runs once."""
    return kernel("{:}", "out[0] = 2*a[1]", array("a,out", "2"))


# }}}


# {{{ conditions


@at(*FROM_ZERO, classes=LARGE)
def an_affine_predicate() -> lp.TranslationUnit:
    """Only the first five points run."""
    return lanes(kernel("{[i]: 0<=i<n}", "if i < 5\nout[i] = 2*a[i]\nend", array("a,out", "n")))


@at(*FROM_ZERO, classes=LARGE)
def nested_predicates() -> lp.TranslationUnit:
    """A condition inside an else."""
    code = """
    if i < 5
        out[i] = 2*a[i]
    else
        if i % 2 == 0 and i != n - 1
            out[i] = 3*b[i]
        end
    end
    """
    return lanes(kernel("{[i]: 0<=i<n}", code, array("a,b,out", "n")))


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def a_condition_that_never_holds() -> lp.TranslationUnit:
    """What never runs has no stride."""
    return lanes(kernel("{[i]: 0<=i<n}", "if i < 0\nout[i] = a[2*i]\nend", array("a", "2*n"), array("out", "n")))


@at(*sizes_of_n(0, 1, 17, 40), classes={"n": 1})
def a_loop_that_is_there_at_one_size() -> lp.TranslationUnit:
    """At no large size is there anything to see."""
    return lanes(kernel("{[i]: 0<=i<n and n<=1}", "out[i] = a[2*i]", array("a", "2*n"), array("out", "n")))


@at(*FROM_ZERO, classes=LARGE)
def an_affine_choice() -> lp.TranslationUnit:
    """A conditional expression: each side's operations run where its side is chosen."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = if(i < 5, 2*a[i], b[i])", array("a,b,out", "n")))


@at(*FROM_ZERO, classes=LARGE)
def nested_choices() -> lp.TranslationUnit:
    """Choices inside choices, of conditions joined by or."""
    code = "out[i] = if(i < 3 or i >= n - 2, if(i == 0, a[i] + 1, 2*a[i]), b[i]/3)"
    return lanes(kernel("{[i]: 0<=i<n}", code, array("a,b,out", "n")))


# }}}


@at(*({"n": n} for n in (1, 5, 20, 41)), classes={"n": 64})
def lanes_of_an_inner_domain() -> lp.TranslationUnit:
    """The loop around starts at zero in all lanes: which lanes run is a condition inside it."""
    unit = kernel(
        ["[n] -> {[i]: 0<=i<n}", "[n,i] -> {[j]: 0<=j<=i and i+j<n+3}"],
        "out[i,j] = 2*a[j] {inames=i:j}",
        array("a", "n"),
        array("out", "n,n"),
        sizes("n"),
        assumptions="n>=1",
    )
    return lanes(unit, "j", 8)


@at(*({"n": n} for n in (1, 5, 20, 41)), classes={"n": 64})
def members_of_tiles_around_lanes() -> lp.TranslationUnit:
    """Where the outer of two loops starts depends on the inner one, and on nothing of the lanes inside both."""
    unit = kernel(
        ["[n] -> {[i]: 2<=i<=n}", "[n,i] -> {[j]: 0<=j and j+i<n}"],
        "out[i,j] = 2*a[j] {inames=i:j}",
        array("a", "n"),
        array("out", "n+1,n"),
        sizes("n"),
        assumptions="n>=1",
    )
    unit = lp.prioritize_loops(lp.split_iname(unit, "i", 4), "i_inner,i_outer")
    return lanes(unit, "j", 8)


@at(*({"n": n} for n in (1, 5, 20, 41)), classes={"n": 64})
def a_loop_that_starts_from_one_that_starts_from_the_lane() -> lp.TranslationUnit:
    """In the same pass of i, lanes are at different values of it, and in that of k at different values again."""
    unit = kernel(
        "{[j,i,k]: 0<=j<n and j<=i<n and i<=k<i+3}",
        "out[j] = sum((i, k), a[k])",
        array("a", "n+2"),
        array("out", "n"),
        sizes("n"),
    )
    return lanes(unit, "j")


@at(*({"n": n} for n in (1, 4, 5, 20)), classes={"n": 64})
def members_of_tiles_of_a_triangle() -> lp.TranslationUnit:
    """The loop over the members of tiles starts where there is a tile, which depends on the lane."""
    unit = kernel(
        ["[n] -> {[i]: 2<=i<=n}", "[n,i] -> {[j]: 2<=j<=i}"],
        "out[i] = sum(j, a[j])",
        array("a", "n+1"),
        array("out", "n+1"),
        sizes("n"),
        assumptions="n>=1",
    )
    return lanes(lp.prioritize_loops(lp.split_iname(unit, "j", 4), "j_inner,j_outer"), "i", 8)


@at(*({"n": n} for n in (1, 5, 6, 20)), classes={"n": 64})
def groups_of_an_inner_domain() -> lp.TranslationUnit:
    """The loop over two halves of a tile starts alike in all groups: which of these run is a condition inside it."""
    unit = kernel(
        ["[n] -> {[i]: 0<=i<n}", "[n,i] -> {[k]: 0<=k-i<n}"],
        "out[i,k] = 2*a[k] {inames=i:k}",
        array("a", "2*n"),
        array("out", "n,2*n"),
        sizes("n"),
        assumptions="n>=1",
    )
    unit = lp.split_iname(lp.split_iname(unit, "i", 8, outer_tag="g.0"), "i_inner", 4, inner_tag="l.0")
    return lp.tag_inames(unit, {"k": "g.1"})


@at(*({"n": n} for n in (0, 1, 5)), classes={"n": 40})
def copies_of_unknown_number() -> lp.TranslationUnit:
    """Loopy cannot write so many copies of the body as n; what they would do is known."""
    unit = kernel("{[i,j]: 0<=i,j<n}", "a[i,j] = 5 + i + j", array("a", "n,n"), sizes("n"))
    return lp.tag_inames(unit, {"j": "ilp"})
