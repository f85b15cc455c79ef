"""Small Loopy kernels, one for each construct that counting has to get right, with sizes to count them at.

Each function builds one kernel; what makes it interesting stands in its docstring. ``SMALL_KERNELS`` lists them all.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import loopy as lp
import numpy as np

Sizes = Mapping[str, int]
KernelBuilder = Callable[[], lp.TranslationUnit]


@dataclass(frozen=True)
class SmallKernel:
    """A kernel, the sizes to count it at, and a larger size at which its stride classes can be seen."""

    build: KernelBuilder
    sizes: Sequence[Sizes]
    class_sizes: Sizes

    @property
    def name(self) -> str:
        """Return the name of the function that builds it."""
        return self.build.__name__


SMALL_KERNELS: list[SmallKernel] = []


def at(*sizes: Sizes, classes: Sizes) -> Callable[[KernelBuilder], KernelBuilder]:
    """Enter a kernel into the list, to be counted at *sizes*, its stride classes seen at *classes*."""

    def enter(build: KernelBuilder) -> KernelBuilder:
        SMALL_KERNELS.append(SmallKernel(build, sizes, classes))
        return build

    return enter


def sizes_of_n(*values: int) -> Iterator[Sizes]:
    """Yield each of *values* as the size n."""
    return ({"n": value} for value in values)


FROM_ZERO = tuple(sizes_of_n(0, 1, 2, 3, 15, 16, 17, 40))
"""around the tile of 16"""
LARGE = {"n": 320}


def kernel(
    domains: str | Sequence[str], code: str, *arguments: object, assumptions: str = "", **dtypes: type
) -> lp.TranslationUnit:
    """Return a kernel whose arguments are *arguments*, arrays of the *dtypes* named, and what Loopy infers."""
    unit = lp.make_kernel(
        domains,
        code,
        [*arguments, ...],
        assumptions=assumptions or None,
        lang_version=(2018, 2),
        target=lp.PyOpenCLTarget(),
        seq_dependencies=True,
        name="small",
    )
    return lp.add_and_infer_dtypes(unit, dict(dtypes)) if dtypes else unit


def array(name: str, shape: str, dtype: type = np.float32, **layout: object) -> lp.GlobalArg:
    """Return a global array argument."""
    return lp.GlobalArg(name, dtype, shape=shape, **layout)


def sizes(names: str) -> lp.ValueArg:
    """Return integer arguments."""
    return lp.ValueArg(names, np.int32)


def lanes(unit: lp.TranslationUnit, iname: str = "i", width: int = 16, axis: int = 0) -> lp.TranslationUnit:
    """Return *unit* with *iname* spread over groups of *width* work-items."""
    return lp.split_iname(unit, iname, width, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")


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


# {{{ reductions, substitution rules, prefetches


@at(*FROM_ZERO, classes={"n": 80})
def a_reduction() -> lp.TranslationUnit:
    """A matrix-vector product: each step of a sum is one addition."""
    unit = kernel("{[i,j]: 0<=i,j<n}", "y[i] = sum(j, a[i,j]*x[j])", array("a", "n,n"), array("x,y", "n"), sizes("n"))
    return lanes(unit)


@at(*sizes_of_n(1, 2, 3, 5), classes={"n": 80})
def a_reduction_over_lanes() -> lp.TranslationUnit:
    """The lanes of a group add up 16 numbers by a tree in local memory."""
    unit = kernel("{[g,l]: 0<=g<n and 0<=l<16}", "out[g] = sum(l, a[16*g+l])", array("a", "16*n"), array("out", "n"))
    return lp.tag_inames(unit, {"g": "g.0", "l": "l.0"})


@at(*sizes_of_n(0, 1, 5), classes=LARGE)
def an_argmax() -> lp.TranslationUnit:
    """A reduction of pairs: Loopy makes it a call of a function of two results."""
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
    """Groups of 8 x 4 fetch 8 numbers along one axis: along the other, four work-items fetch the same."""
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
    """Loaded without regard to lanes: all lanes of a group load it."""
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
    """The host repeats a launch over fewer and fewer points, of groups as many as ever."""
    unit = kernel(
        ["[t] -> {[step]: 0<=step<t}", "[n,step] -> {[i]: 0<=i<n-step}"],
        "for step\n... gbarrier {id=first}\na[i+step] = 2*a[i] {dep=first}\nend",
        array("a", "n+t"),
        sizes("n,t"),
        assumptions="n>=t",
    )
    return lanes(unit)


def _exchanged(domains: str | Sequence[str], groups: str, assumptions: str = "") -> lp.TranslationUnit:
    """Return a kernel whose groups pass numbers from lane to lane through local memory, k times."""
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
    """Group g goes round g + 1 times."""
    return _exchanged("{[g,k,l]: 0<=g<n and 0<=l<16 and 0<=k<=g}", "g")


@at(*sizes_of_n(0, 1, 2, 3, 5), classes={"n": 5})
def barriers_in_a_loop_of_an_inner_domain() -> lp.TranslationUnit:
    """Group g goes round g times: the first group meets no barrier."""
    return _exchanged(["[n] -> {[g,l]: 0<=g<n and 0<=l<16}", "[g] -> {[k]: 0<=k<g}"], "g")


@at(*sizes_of_n(1, 2, 5), classes={"n": 5})
def barriers_in_a_loop_that_two_group_axes_shorten_together() -> lp.TranslationUnit:
    """Whatever g, some h lets k be anything; only g and h together say how often a group goes round."""
    return _exchanged("{[g,h,k,l]: 0<=g,h<n and 0<=l<16 and 0<=k<n and k<=3*g+3*h}", "g:h", assumptions="n>=1")


@at(*sizes_of_n(1, 2, 5), classes={"n": 5})
def barriers_in_a_triangle_of_groups() -> lp.TranslationUnit:
    """n² groups are launched; those above the diagonal return at once."""
    return _exchanged("{[g,h,k,l]: 0<=h<=g<n and 0<=k<n and 0<=l<16}", "g:h", assumptions="n>=1")


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


# {{{ types and places


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def double_precision() -> lp.TranslationUnit:
    """f32 and f64 meet in f64."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[i]*a[i] + b[i]", a=np.float32, b=np.float64))


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def integer_arrays() -> lp.TranslationUnit:
    """Accesses count, by their bytes; integer arithmetic is free in the paper's model."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = 3*a[i] + b[i]", a=np.int32, b=np.int64))


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def every_operation() -> lp.TranslationUnit:
    """Each kind once: x**2 is one pow; unary minus, a factor of -1 and abs are free."""
    code = "out[i] = -1*a[i]**2 + exp(a[i])/b[i] - abs(a[i]) + (-a[i]) + fmin(a[i], b[i])"
    return lanes(kernel("{[i]: 0<=i<n}", code, a=np.float32, b=np.float32))


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def scalar_temporaries() -> lp.TranslationUnit:
    """Registers: neither loads nor stores."""
    return lanes(kernel("{[i]: 0<=i<n}", "<> x = a[i]\n<> y = x*x\nout[i] = y + x", a=np.float32))


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def private_arrays() -> lp.TranslationUnit:
    """Registers too."""
    code = "<> p[j] = a[i] + j {id=fill, inames=i:j}\nout[i] = sum(k, p[k]) {dep=fill}"
    return lanes(kernel("{[i,j,k]: 0<=i<n and 0<=j,k<4}", code, a=np.float32))


@at(*sizes_of_n(0, 1, 5), classes=LARGE)
def arrays_without_axes() -> lp.TranslationUnit:
    """A scalar in global memory is loaded and stored; a scalar argument is not."""
    return kernel("{[i]: 0<=i<n}", "s = s + b*a[i] {inames=i}", array("s", ()), a=np.float32, b=np.float32)


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def unrolled_and_interleaved_loops() -> lp.TranslationUnit:
    """Unrolling and instruction-level parallelism do not change what is done."""
    unit = kernel("{[i,j,k]: 0<=i<n and 0<=j<4 and 0<=k<2}", "out[i,j,k] = 2*a[i,j,k]", array("a,out", "n,4,2"))
    return lp.tag_inames(lanes(unit), {"j": "unr", "k": "ilp"})


# }}}


# {{{ patterns of global accesses


@at(*FROM_ZERO, classes=LARGE)
def every_other_cell() -> lp.TranslationUnit:
    """Half the cells between lanes are used."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[2*i]", a=np.float32))


@at(*FROM_ZERO, classes=LARGE)
def pairs_of_cells() -> lp.TranslationUnit:
    """Two accesses of stride 2 that together use all."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[2*i] + a[2*i+1]", a=np.float32))


@at(*FROM_ZERO, classes=LARGE)
def two_of_three_cells() -> lp.TranslationUnit:
    """Two accesses of stride 3."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[3*i] + a[3*i+1]", a=np.float32))


@at(*FROM_ZERO, classes=LARGE)
def every_other_cell_and_an_edge() -> lp.TranslationUnit:
    """One more cell at the edge does not make half into all."""
    code = "out[i] = a[2*i] + if(i < 1, a[2*i+1], 0)"
    return lanes(kernel("{[i]: 0<=i<n}", code, array("a", "2*n"), array("out", "n"), sizes("n")))


@at(*FROM_ZERO, classes=LARGE)
def backwards() -> lp.TranslationUnit:
    """Negative strides."""
    code = "out[n-1-i] = a[2*n-2*i-1] + a[2*n-2*i-2]"
    return lanes(kernel("{[i]: 0<=i<n}", code, array("a", "2*n"), array("out", "n"), sizes("n")))


@at(*FROM_ZERO, classes=LARGE)
def a_broadcast() -> lp.TranslationUnit:
    """All lanes load the same cell."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[n-1]", array("a,out", "n"), sizes("n")))


@at(*sizes_of_n(0, 1, 17, 40), classes={"n": 200})
def rows_and_columns() -> lp.TranslationUnit:
    """Lanes along the rows of one array are lanes along the columns of the other."""
    unit = kernel(
        "{[i,j]: 0<=i,j<n}",
        "out[i,j] = a[i,j] + b[j,i]",
        array("a,out", "n,n", order="C"),
        array("b", "n,n", order="C"),
        sizes("n"),
    )
    return lanes(unit)


@at(*sizes_of_n(0, 1, 17, 40), classes={"n": 200})
def rows_and_columns_in_fortran_order() -> lp.TranslationUnit:
    """The same with the first axis contiguous."""
    unit = kernel("{[i,j]: 0<=i,j<n}", "out[i,j] = a[i,j] + b[j,i]", array("a,b,out", "n,n", order="F"), sizes("n"))
    return lanes(unit)


@at(*sizes_of_n(1, 17, 40), classes={"n": 200})
def half_a_matrix_by_columns() -> lp.TranslationUnit:
    """Below the diagonal, and the diagonal: a little more than half the cells, which counts as half."""
    return lanes(kernel("{[i,j]: 0<=j<=i<n}", "out[i,j] = 2*a[i,j]", array("a,out", "n,n"), sizes("n")))


@at(*sizes_of_n(1, 17, 40), classes={"n": 200})
def one_column() -> lp.TranslationUnit:
    """One cell of each row."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[i,0]", array("a", "n,n"), array("out", "n"), sizes("n")))


@at(*sizes_of_n(1, 17, 40), classes={"n": 200})
def the_diagonal() -> lp.TranslationUnit:
    """Both axes move."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[i,i]", array("a", "n,n"), array("out", "n"), sizes("n")))


@at(*sizes_of_n(0, 1, 17, 40), classes=LARGE)
def three_of_four_members() -> lp.TranslationUnit:
    """An array of structures of four, of which three are used."""
    return lanes(
        kernel("{[i]: 0<=i<n}", "out[i] = a[i,0] + a[i,1] + a[i,3]", array("a", "n,4"), array("out", "n"), sizes("n"))
    )


@at(*sizes_of_n(0, 1, 17, 40), classes=LARGE)
def structures_with_padding() -> lp.TranslationUnit:
    """Structures of three in the space of four: a quarter is never used."""
    unit = kernel(
        "{[i,j]: 0<=i<n and 0<=j<3}",
        "out[i] = sum(j, a[i,j])",
        array("a", "n,3", strides=(4, 1)),
        array("out", "n"),
        sizes("n"),
    )
    return lanes(unit)


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def two_of_six_members() -> lp.TranslationUnit:
    """A third of the cells, which rounds up to two quarters."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[6*i] + a[6*i+3]", a=np.float32))


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def an_axis_of_length_one() -> lp.TranslationUnit:
    """Both axes have the same stride."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i,0] = a[2*i,0]", array("a", "2*n,1"), array("out", "n,1"), sizes("n")))


@at(*({"n": n, "s": s} for n, s in [(1, 1), (17, 7), (40, 7)]), classes={"n": 80, "s": 9})
def a_stride_that_is_a_size() -> lp.TranslationUnit:
    """Its class is that of large sizes."""
    unit = kernel(
        "[n,s] -> {[i]: 0<=i<n}",
        "out[i] = a[i,0]",
        array("a", "n,s", strides=("s", 1)),
        array("out", "n"),
        sizes("n,s"),
        assumptions="s>=1 and n>=1",
    )
    return lanes(unit)


@at(*sizes_of_n(1, 2, 3), classes={"n": 17})
def four_axes() -> lp.TranslationUnit:
    """2^80 cells at the sizes where classes are seen."""
    return lanes(kernel("{[i,j,k,l]: 0<=i,j,k,l<n}", "out[i,j,k,l] = 2*a[i,j,k,l]", a=np.float32))


# }}}
