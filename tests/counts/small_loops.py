"""Small kernels that test domains: loops of every shape, and conditions."""

import loopy as lp
import numpy as np

from tests.counts.small_kernels import FROM_ZERO, LARGE, array, at, kernel, lanes, sizes, sizes_of_n

# {{{ loops


@at(*FROM_ZERO, classes=LARGE)
def a_sequential_loop() -> lp.TranslationUnit:
    """A launch without axes: one work-item executes all iterations."""
    return kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]", a=np.float32)


@at(*FROM_ZERO, classes=LARGE)
def a_tiled_loop() -> lp.TranslationUnit:
    """Tiles of 16; n need not be a multiple of 16, so the last group may be partial."""
    return lanes(a_sequential_loop())


@at(*sizes_of_n(16, 32, 80), classes=LARGE)
def a_divisible_loop() -> lp.TranslationUnit:
    """An assumed remainder turns floors into fractions."""
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
    """If the sizes are equal, the loop is empty, however large they are."""
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
    """A wavefront: the points of a square along its diagonals."""
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
    """If one loop is empty, so is the domain: Loopy guards the other loop with ``if (m >= 1)``."""
    return kernel("{[i,j]: 0<=i<n and 0<=j<m}", "a[i] = 2\nb[j] = 3", array("a", "n"), array("b", "m"), sizes("n,m"))


@at({}, classes={})
def a_fixed_size() -> lp.TranslationUnit:
    """No parameters: three lanes with four elements each."""
    return lanes(kernel("{[i,j]: 0<=i<3 and 0<=j<4}", "out[i] = sum(j, a[4*i+j])", a=np.float32))


@at({"n": 0}, {"n": 3}, classes=LARGE)
def nothing_to_do() -> lp.TranslationUnit:
    """The paper's empty kernel: groups are launched, but execute nothing."""
    return lanes(kernel("{[i]: 0<=i<n}", "... nop {id=nop, inames=i}", sizes("n")))


@at({}, classes={})
def no_loops() -> lp.TranslationUnit:
    """An instruction outside of all loops executes once."""
    return kernel("{:}", "out[0] = 2*a[1]", array("a,out", "2"))


# }}}


# {{{ conditions


@at(*FROM_ZERO, classes=LARGE)
def an_affine_predicate() -> lp.TranslationUnit:
    """Only the first five points execute."""
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
    """An access that never executes has no stride."""
    return lanes(kernel("{[i]: 0<=i<n}", "if i < 0\nout[i] = a[2*i]\nend", array("a", "2*n"), array("out", "n")))


@at(*sizes_of_n(0, 1, 17, 40), classes={"n": 1})
def a_loop_that_is_empty_at_large_sizes() -> lp.TranslationUnit:
    """At large sizes, the loop is empty."""
    return lanes(kernel("{[i]: 0<=i<n and n<=1}", "out[i] = a[2*i]", array("a", "2*n"), array("out", "n")))


@at(*FROM_ZERO, classes=LARGE)
def an_affine_choice() -> lp.TranslationUnit:
    """A conditional expression: the operations of each branch execute where it is selected."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = if(i < 5, 2*a[i], b[i])", array("a,b,out", "n")))


@at(*FROM_ZERO, classes=LARGE)
def nested_choices() -> lp.TranslationUnit:
    """Nested conditional expressions; a condition contains or."""
    code = "out[i] = if(i < 3 or i >= n - 2, if(i == 0, a[i] + 1, 2*a[i]), b[i]/3)"
    return lanes(kernel("{[i]: 0<=i<n}", code, array("a,b,out", "n")))


# }}}


@at(*({"n": n} for n in (1, 5, 20, 41)), classes={"n": 64})
def lanes_of_an_inner_domain() -> lp.TranslationUnit:
    """The outer loop starts at zero in all lanes; a condition inside it selects the lanes that execute."""
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
def elements_of_tiles_around_lanes() -> lp.TranslationUnit:
    """The start of the tile loop depends on the loop over tile elements, but not on the lanes inside both."""
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
def nested_loops_with_lane_dependent_starts() -> lp.TranslationUnit:
    """In the same iteration of i, its value differs between lanes; the same holds for k, which starts at i."""
    unit = kernel(
        "{[j,i,k]: 0<=j<n and j<=i<n and i<=k<i+3}",
        "out[j] = sum((i, k), a[k])",
        array("a", "n+2"),
        array("out", "n"),
        sizes("n"),
    )
    return lanes(unit, "j")


@at(*({"n": n} for n in (1, 4, 5, 20)), classes={"n": 64})
def elements_of_tiles_of_a_triangle() -> lp.TranslationUnit:
    """The loop over tile elements starts where there is a tile, which depends on the lane."""
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
    """The loop over the halves of a tile has the same start in all groups; a condition inside it selects the groups."""
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
def a_parametric_number_of_copies() -> lp.TranslationUnit:
    """Loopy cannot generate n copies of the body, but their counts are known."""
    unit = kernel("{[i,j]: 0<=i,j<n}", "a[i,j] = 5 + i + j", array("a", "n,n"), sizes("n"))
    return lp.tag_inames(unit, {"j": "ilp"})
