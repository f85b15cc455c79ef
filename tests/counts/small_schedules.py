"""Small kernels that test the schedule: reductions, prefetches, launches and barriers."""

from collections.abc import Sequence

import loopy as lp
import numpy as np

from tests.counts.small_kernels import FROM_ZERO, LARGE, array, at, kernel, lanes, sizes, sizes_of_n

# {{{ reductions, substitution rules, prefetches


@at(*FROM_ZERO, classes={"n": 80})
def a_reduction() -> lp.TranslationUnit:
    """A matrix-vector product: each iteration of a sum is one addition."""
    unit = kernel("{[i,j]: 0<=i,j<n}", "y[i] = sum(j, a[i,j]*x[j])", array("a", "n,n"), array("x,y", "n"), sizes("n"))
    return lanes(unit)


@at(*sizes_of_n(1, 2, 3, 5), classes={"n": 80})
def a_reduction_over_lanes() -> lp.TranslationUnit:
    """The lanes of a group add 16 numbers with a tree in local memory."""
    unit = kernel("{[g,l]: 0<=g<n and 0<=l<16}", "out[g] = sum(l, a[16*g+l])", array("a", "16*n"), array("out", "n"))
    return lp.tag_inames(unit, {"g": "g.0", "l": "l.0"})


@at(*sizes_of_n(0, 1, 5), classes=LARGE)
def an_argmax() -> lp.TranslationUnit:
    """A reduction of pairs: Loopy turns it into calls of a function with two results."""
    return kernel("{[i]: 0<=i<n}", "top, place = argmax(i, a[i], i)", array("top", ()), a=np.float32)


@at(*sizes_of_n(0, 1, 17, 40), classes=LARGE)
def substitution_rules() -> lp.TranslationUnit:
    """A rule used twice is counted twice."""
    return lanes(
        kernel(
            "{[i]: 0<=i<n}",
            "scaled(x) := 3*a[x]\nout[i] = scaled(i) + scaled(i+1)",
            array("a", "n+1"),
            array("out", "n"),
        )
    )


@at(*sizes_of_n(4, 8, 20), classes={"n": 40})
def prefetched_tiles() -> lp.TranslationUnit:
    """A tiled matrix multiplication with both factors in local memory."""
    unit = kernel(
        "{[i,j,k]: 0<=i,j,k<n}",
        "c[i,j] = sum(k, a[i,k]*b[k,j])",
        array("a,b,c", "n,n"),
        sizes("n"),
        assumptions="n>=4 and n mod 4 = 0",
    )
    unit = lp.split_iname(lanes(lanes(unit, "i", 4, axis=1), "j", 4), "k", 4)
    around = "i_outer, j_outer, k_outer"
    unit = lp.add_prefetch(unit, "a", ["i_inner", "k_inner"], fetch_outer_inames=around, default_tag="l.auto")
    return lp.add_prefetch(unit, "b", ["k_inner", "j_inner"], fetch_outer_inames=around, default_tag="l.auto")


@at(*sizes_of_n(8, 16, 40), classes={"n": 80})
def a_prefetch_by_some_lanes() -> lp.TranslationUnit:
    """Groups of 8 x 4 load 8 numbers along one axis; along the other, four work-items load the same ones."""
    unit = kernel(
        "{[i,j]: 0<=i,j<n}",
        "out[i,j] = 2*x[j]",
        array("x", "n"),
        array("out", "n,n"),
        sizes("n"),
        assumptions="n>=8 and n mod 8 = 0",
    )
    unit = lanes(lanes(unit, "j", 8), "i", 4, axis=1)
    return lp.add_prefetch(unit, "x", ["j_inner"], fetch_outer_inames="i_outer, j_outer", default_tag="l.0")


# }}}


# {{{ launches and barriers


@at(*sizes_of_n(0, 1, 2, 7), classes={"n": 80})
def a_number_for_each_group() -> lp.TranslationUnit:
    """The load does not depend on the lane: all lanes of a group execute it."""
    unit = kernel(
        "{[g,l]: 0<=g<n and 0<=l<16}",
        "<> s = 2*a[g]\nout[g,l] = s {inames=g:l}",
        array("a", "n"),
        array("out", "n,16"),
        sizes("n"),
    )
    return lp.tag_inames(unit, {"g": "g.0", "l": "l.0"})


@at(*({"n": n, "m": m} for n, m in [(1, 1), (17, 17), (70, 65), (40, 1)]), classes={"n": 320, "m": 320})
def two_launches() -> lp.TranslationUnit:
    """A launch of groups of 16 and, after a global barrier, one of groups of 64."""
    unit = kernel(
        "{[i,j]: 0<=i<n and 0<=j<m}",
        "a[i] = 2 {id=fill}\n... gbarrier {id=between, dep=fill}\nout[j] = 3*a[j] {dep=between}",
        array("a,out", "n"),
        sizes("n,m"),
        assumptions="n>=m and m>=1",
    )
    return lanes(lanes(unit), "j", 64)


@at(*({"n": n, "t": t} for n, t in [(0, 3), (1, 0), (1, 1), (40, 3)]), classes={"n": 320, "t": 2})
def a_loop_around_launches() -> lp.TranslationUnit:
    """The host repeats two launches t times."""
    unit = kernel(
        ["[t] -> {[step]: 0<=step<t}", "[n] -> {[i,j]: 0<=i,j<n}"],
        """
        for step
            ... gbarrier {id=first}
            b[i] = 2*a[i] {id=forth, dep=first}
            ... gbarrier {id=second, dep=forth}
            a[n-1-j] = b[j] + 1 {dep=second}
        end
        """,
        array("a,b", "n"),
        sizes("n,t"),
    )
    return lanes(lanes(unit), "j", 32)


@at(*({"n": n, "t": t} for n, t in [(3, 3), (1, 0), (1, 1), (40, 3)]), classes={"n": 320, "t": 2})
def a_shrinking_launch() -> lp.TranslationUnit:
    """The host repeats a launch over fewer and fewer points, with a constant number of groups."""
    unit = kernel(
        ["[t] -> {[step]: 0<=step<t}", "[n,step] -> {[i]: 0<=i<n-step}"],
        "for step\n... gbarrier {id=first}\na[i+step] = 2*a[i] {dep=first}\nend",
        array("a", "n+t"),
        sizes("n,t"),
        assumptions="n>=t",
    )
    return lanes(unit)


@at(*({"n": n} for n in (1, 2, 20, 41)), classes={"n": 64})
def a_growing_launch() -> lp.TranslationUnit:
    """The host repeats a launch, each time with one more lane; all lanes of a launch are in the same iteration."""
    unit = kernel(
        "{[step,i]: 0<=i<=step<n}",
        "for step\n... gbarrier {id=first}\na[i] = 2*a[i] + step {dep=first}\nend",
        array("a", "n"),
        sizes("n"),
        assumptions="n>=1",
    )
    return lanes(unit)


def _on_a_flag(target: lp.TargetBase) -> lp.TranslationUnit:
    unit = kernel("[n,flag] -> {[i]: 0<=i<n}", "if flag > 0\na[i] = 2*a[i]\nend", array("a", "n"), sizes("n,flag"))
    return lanes(unit.copy(target=target))


@at(*({"n": n, "flag": flag} for n in (0, 1, 40) for flag in (-1, 0, 1)), classes={"n": 320, "flag": 1})
def a_launch_on_a_condition() -> lp.TranslationUnit:
    """The host program in Python tests the flag, and launches the kernel only if it is positive."""
    return _on_a_flag(lp.PyOpenCLTarget())


@at(*({"n": n, "flag": flag} for n in (0, 1, 40) for flag in (-1, 0, 1)), classes={"n": 320, "flag": 1})
def a_condition_in_a_launch() -> lp.TranslationUnit:
    """Loopy generates no host program for this target, so the device code tests the flag."""
    return _on_a_flag(lp.OpenCLTarget())


@at(*({"n": n, "t": t} for n, t in [(0, 3), (1, 0), (1, 1), (40, 3), (40, 4)]), classes={"n": 320, "t": 2})
def launches_by_turns() -> lp.TranslationUnit:
    """The host executes one launch in even steps, and one with larger groups in odd steps."""
    unit = kernel(
        ["[t] -> {[step]: 0<=step<t}", "[n] -> {[i,j]: 0<=i,j<n}"],
        """
        for step
            ... gbarrier {id=first}
            if step % 2 == 0
                b[i] = 2*a[i] {id=even, dep=first}
            end
            ... gbarrier {id=second, dep=even}
            if step % 2 == 1
                a[n-1-j] = b[j] + 1 {dep=second}
            end
        end
        """,
        array("a,b", "n"),
        sizes("n,t"),
    )
    return lanes(lanes(unit), "j", 32)


@at(*({"n": n, "flag": flag} for n in (1, 40) for flag in (0, 1)), classes={"n": 320, "flag": 1})
def a_barrier_on_a_condition() -> lp.TranslationUnit:
    """There is a barrier between the guarded instructions, so the device code tests the flag."""
    unit = kernel(
        "[n,flag] -> {[g,l]: 0<=g<n and 0<=l<16}",
        "if flag > 0\n<> c[l] = 2*a[g,l] {inames=g:l}\nb[g,l] = c[15-l] {inames=g:l}\nend",
        array("a,b", "n,16"),
        sizes("n,flag"),
    )
    return lp.tag_inames(lp.set_temporary_address_space(unit, "c", "local"), {"g": "g.0", "l": "l.0"})


def _exchanged(domains: str | Sequence[str], groups: str, assumptions: str = "") -> lp.TranslationUnit:
    """Return a kernel whose lanes exchange numbers through local memory in each iteration of k."""
    index = groups.replace(":", ",")
    unit = kernel(
        domains,
        f"""
        <> c[l] = a[16*k+l] {{id=fill, inames={groups}:k:l}}
        out[{index},l] = out[{index},l] + c[15-l] {{dep=fill, inames={groups}:k:l}}
        """,
        array("a", "16*n"),
        array("out", f"{','.join('n' for _ in groups.split(':'))},16"),
        sizes("n"),
        assumptions=assumptions,
    )
    unit = lp.set_temporary_address_space(unit, "c", "local")
    tags = {iname: f"g.{axis}" for axis, iname in enumerate(groups.split(":"))}
    return lp.tag_inames(unit, {**tags, "l": "l.0"})


@at(*sizes_of_n(0, 1, 2, 5), classes={"n": 5})
def barriers_in_a_loop_that_differs_between_groups() -> lp.TranslationUnit:
    """Group g executes g + 1 iterations."""
    return _exchanged("{[g,k,l]: 0<=g<n and 0<=l<16 and 0<=k<=g}", "g")


@at(*sizes_of_n(0, 1, 2, 3, 5), classes={"n": 5})
def barriers_in_a_loop_of_an_inner_domain() -> lp.TranslationUnit:
    """Group g executes g iterations: the first group executes no barrier."""
    return _exchanged(["[n] -> {[g,l]: 0<=g<n and 0<=l<16}", "[g] -> {[k]: 0<=k<g}"], "g")


@at(*sizes_of_n(1, 2, 5), classes={"n": 5})
def barriers_in_a_loop_that_two_group_axes_shorten_together() -> lp.TranslationUnit:
    """For every g, some h allows all values of k; only g and h together determine the trip count of a group."""
    return _exchanged("{[g,h,k,l]: 0<=g,h<n and 0<=l<16 and 0<=k<n and k<=3*g+3*h}", "g:h", assumptions="n>=1")


@at(*sizes_of_n(1, 2, 5), classes={"n": 5})
def barriers_in_a_triangle_of_groups() -> lp.TranslationUnit:
    """n² groups are launched; those above the diagonal do nothing."""
    return _exchanged("{[g,h,k,l]: 0<=h<=g<n and 0<=k<n and 0<=l<16}", "g:h", assumptions="n>=1")


@at(*sizes_of_n(1, 2, 3, 8), classes={"n": 64})
def barriers_in_copies_of_which_each_loops_less() -> lp.TranslationUnit:
    """The loop over j has n iterations in the first copy of the unrolled loop, and n - 1 in the second."""
    unit = kernel(
        "{[i,j,k]: 0<=i<2 and 0<=j<n-i and 0<=k<2}",
        "out[i,j] = sum(k, 2*k) {inames=i:j}",
        array("out", "2,n"),
        sizes("n"),
        assumptions="n>=1",
    )
    return lp.prioritize_loops(lp.tag_inames(unit, {"i": "unr", "k": "l.0"}), "i,j")


# }}}
