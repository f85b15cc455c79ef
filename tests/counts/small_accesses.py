"""Small kernels that test instructions: types, address spaces and access patterns."""

import loopy as lp
import numpy as np

from tests.counts.small_kernels import FROM_ZERO, LARGE, array, at, kernel, lanes, sizes, sizes_of_n

# {{{ types and address spaces


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def double_precision() -> lp.TranslationUnit:
    """An operation on f32 and f64 is in f64."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[i]*a[i] + b[i]", a=np.float32, b=np.float64))


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def integer_arrays() -> lp.TranslationUnit:
    """Integer accesses count, by size; integer arithmetic is free in the paper's model."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = 3*a[i] + b[i]", a=np.int32, b=np.int64))


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def every_operation() -> lp.TranslationUnit:
    """Each kind of operation once: x**2 is one pow; unary minus, a factor of -1 and abs are free."""
    code = "out[i] = -1*a[i]**2 + exp(a[i])/b[i] - abs(a[i]) + (-a[i]) + fmin(a[i], b[i])"
    return lanes(kernel("{[i]: 0<=i<n}", code, a=np.float32, b=np.float32))


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def scalar_temporaries() -> lp.TranslationUnit:
    """Scalars in registers: neither loads nor stores."""
    return lanes(kernel("{[i]: 0<=i<n}", "<> x = a[i]\n<> y = x*x\nout[i] = y + x", a=np.float32))


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def private_arrays() -> lp.TranslationUnit:
    """Private arrays are in registers too."""
    code = "<> p[j] = a[i] + j {id=fill, inames=i:j}\nout[i] = sum(k, p[k]) {dep=fill}"
    return lanes(kernel("{[i,j,k]: 0<=i<n and 0<=j,k<4}", code, a=np.float32))


@at(*sizes_of_n(0, 1, 5), classes=LARGE)
def arrays_without_axes() -> lp.TranslationUnit:
    """A scalar in global memory is loaded and stored; a scalar argument is not."""
    return kernel("{[i]: 0<=i<n}", "s = s + b*a[i] {inames=i}", array("s", ()), a=np.float32, b=np.float32)


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def unrolled_and_interleaved_loops() -> lp.TranslationUnit:
    """Unrolling and instruction-level parallelism do not change the counts."""
    unit = kernel("{[i,j,k]: 0<=i<n and 0<=j<4 and 0<=k<2}", "out[i,j,k] = 2*a[i,j,k]", array("a,out", "n,4,2"))
    return lp.tag_inames(lanes(unit), {"j": "unr", "k": "ilp"})


# }}}


# {{{ patterns of global accesses


@at(*FROM_ZERO, classes=LARGE)
def every_other_cell() -> lp.TranslationUnit:
    """The kernel uses half the elements between lanes."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[2*i]", a=np.float32))


@at(*FROM_ZERO, classes=LARGE)
def pairs_of_cells() -> lp.TranslationUnit:
    """Two accesses of stride 2 that together use all elements."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[2*i] + a[2*i+1]", a=np.float32))


@at(*FROM_ZERO, classes=LARGE)
def pairs_of_cells_at_computed_places() -> lp.TranslationUnit:
    """Scalar temporaries hold the indices; a third index is i divided by four."""
    code = "<> odd = 2*i + 1\n<> even = odd - 1\n<> four = i // 4\nout[i] = a[odd] + a[even] + b[3*four]"
    return lanes(kernel("{[i]: 0<=i<n}", code, a=np.float32, b=np.float32))


@at(*FROM_ZERO, classes=LARGE)
def two_of_three_cells() -> lp.TranslationUnit:
    """Two accesses of stride 3."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[3*i] + a[3*i+1]", a=np.float32))


@at(*FROM_ZERO, classes=LARGE)
def every_other_cell_and_an_edge() -> lp.TranslationUnit:
    """One more element at the edge does not change the class from half to full."""
    code = "out[i] = a[2*i] + if(i < 1, a[2*i+1], 0)"
    return lanes(kernel("{[i]: 0<=i<n}", code, array("a", "2*n"), array("out", "n"), sizes("n")))


@at(*FROM_ZERO, classes=LARGE)
def backwards() -> lp.TranslationUnit:
    """Negative strides."""
    code = "out[n-1-i] = a[2*n-2*i-1] + a[2*n-2*i-2]"
    return lanes(kernel("{[i]: 0<=i<n}", code, array("a", "2*n"), array("out", "n"), sizes("n")))


@at(*FROM_ZERO, classes=LARGE)
def a_broadcast() -> lp.TranslationUnit:
    """All lanes load the same element."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[n-1]", array("a,out", "n"), sizes("n")))


@at(*sizes_of_n(0, 1, 17, 40), classes={"n": 200})
def rows_and_columns() -> lp.TranslationUnit:
    """The lanes access one array along its rows and the other along its columns."""
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
    """The same kernel, with the first axis contiguous."""
    unit = kernel("{[i,j]: 0<=i,j<n}", "out[i,j] = a[i,j] + b[j,i]", array("a,b,out", "n,n", order="F"), sizes("n"))
    return lanes(unit)


@at(*sizes_of_n(1, 17, 40), classes={"n": 200})
def half_a_matrix_by_columns() -> lp.TranslationUnit:
    """The lower triangle with its diagonal: slightly more than half the elements, which counts as half."""
    return lanes(kernel("{[i,j]: 0<=j<=i<n}", "out[i,j] = 2*a[i,j]", array("a,out", "n,n"), sizes("n")))


@at(*sizes_of_n(1, 17, 40), classes={"n": 200})
def one_column() -> lp.TranslationUnit:
    """One element of each row."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[i,0]", array("a", "n,n"), array("out", "n"), sizes("n")))


@at(*sizes_of_n(1, 17, 40), classes={"n": 200})
def the_diagonal() -> lp.TranslationUnit:
    """Both indices change."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[i,i]", array("a", "n,n"), array("out", "n"), sizes("n")))


@at(*sizes_of_n(0, 1, 17, 40), classes=LARGE)
def three_of_four_members() -> lp.TranslationUnit:
    """An array of structures with four members, of which three are used."""
    return lanes(
        kernel("{[i]: 0<=i<n}", "out[i] = a[i,0] + a[i,1] + a[i,3]", array("a", "n,4"), array("out", "n"), sizes("n"))
    )


@at(*sizes_of_n(0, 1, 17, 40), classes=LARGE)
def structures_with_padding() -> lp.TranslationUnit:
    """Structures of three members padded to four: a quarter of the memory is never used."""
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
    """A third of the elements, which rounds up to two quarters."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[6*i] + a[6*i+3]", a=np.float32))


@at(*sizes_of_n(0, 1, 17), classes=LARGE)
def an_axis_of_length_one() -> lp.TranslationUnit:
    """Both axes have the same stride."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i,0] = a[2*i,0]", array("a", "2*n,1"), array("out", "n,1"), sizes("n")))


@at(*({"n": n, "s": s} for n, s in [(1, 1), (17, 7), (40, 7)]), classes={"n": 80, "s": 9})
def a_stride_that_is_a_size() -> lp.TranslationUnit:
    """The stride is classified at large sizes."""
    unit = kernel(
        "[n,s] -> {[i]: 0<=i<n}",
        "out[i] = a[i,0]",
        array("a", "n,s", strides=("s", 1)),
        array("out", "n"),
        sizes("n,s"),
        assumptions="s>=1 and n>=1",
    )
    return lanes(unit)


@at(*sizes_of_n(0, 1, 17, 40), classes=LARGE)
def a_ring() -> lp.TranslationUnit:
    """Only the last or the first lane of the launch wraps around: an edge."""
    code = "out[i] = a[(i+1) % n] + a[(i-1) % n] + a[(i+n-1) % n] + a[if(i < n-1, i+1, 0)]"
    return lanes(kernel("{[i]: 0<=i<n}", code, array("a,out", "n"), sizes("n")))


@at({}, classes={})
def a_ring_of_fixed_length() -> lp.TranslationUnit:
    """One of 64 groups wraps around."""
    return lanes(kernel("{[i]: 0<=i<1024}", "out[i] = a[(i+1) % 1024]", array("a,out", "1024")))


@at(*sizes_of_n(1, 17, 40), classes={"n": 160})
def a_torus() -> lp.TranslationUnit:
    """Neighbors in both directions, and every other element along the lanes."""
    code = "out[i,j] = a[(i+1) % n,2*j] + a[(i-1) % n,2*j] + a[i,2*((j+1) % n)] + a[i,2*((j-1) % n)]"
    unit = kernel("{[i,j]: 0<=i,j<n}", code, array("a", "n,2*n"), array("out", "n,n"), sizes("n"))
    return lp.tag_inames(lanes(unit, "j"), {"i": "g.1"})


@at(*sizes_of_n(1, 17, 40), classes={"n": 160})
def a_column_of_a_ring() -> lp.TranslationUnit:
    """One element of each row; the last lane wraps around."""
    unit = kernel("{[i]: 0<=i<n}", "out[i] = a[(i+1) % n,0]", array("a", "n,n"), array("out", "n"), sizes("n"))
    return lanes(unit)


@at(*sizes_of_n(0, 1, 17, 40), classes={"n": 640})
def wraps_in_some_groups() -> lp.TranslationUnit:
    """Every fourth group wraps around in a, and 16 of 17 groups in b; all elements between their lanes are used."""
    arrays = array("a", "64"), array("b", "17"), array("out", "n")
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[(i+1) % 64] + b[(i+1) % 17]", *arrays, sizes("n")))


# }}}


# {{{ addresses that are affine only as a whole


def _of_rows(index: str, shape: str, order: str = "C", lane: str = "i") -> lp.TranslationUnit:
    """Return a kernel over rows of 16 that evaluates *index*, loads from an array a, at each point."""
    unit = kernel(
        "{[i,j]: 0<=i<n and 0<=j<16}",
        f"out[i,j] = {index}",
        array("a", shape, order=order),
        array("out", "n,16"),
        sizes("n"),
        assumptions="n <= 256",
    )
    return lanes(unit, lane)


RESHAPED = {"n": 256}


@at(*sizes_of_n(1, 17, 40), classes=RESHAPED)
def rows_of_16_in_rows_of_12() -> lp.TranslationUnit:
    """All elements between lanes are used: the address is 16*i + j."""
    return _of_rows("a[(16*i+j)//12, (16*i+j) % 12]", "512,12")


@at(*sizes_of_n(1, 17, 40), classes=RESHAPED)
def rows_of_16_in_two_axes_more() -> lp.TranslationUnit:
    """The same elements with axes of length 4 and 3, and lanes along a row."""
    index = "a[(16*i+j)//12, (16*i+j)//3 % 4, (16*i+j) % 3] + a[i, (16*i+j) % 12 // 3, 0]"
    return _of_rows(index, "512,4,3", lane="j")


@at(*sizes_of_n(1, 17, 40), classes=RESHAPED)
def rows_of_16_in_columns_of_12() -> lp.TranslationUnit:
    """In column-major order, lanes wrap from column to column."""
    return _of_rows("a[(16*i+j)//12, (16*i+j) % 12]", "512,12", order="F")


@at(*sizes_of_n(1, 17, 40), classes=RESHAPED)
def every_other_element_of_other_rows() -> lp.TranslationUnit:
    """Half of the elements; another access of the array is affine along its axes."""
    return _of_rows("a[(32*i+2*j)//12, (32*i+2*j) % 12] + a[i, 5]", "1024,12")


@at(*sizes_of_n(1, 17, 40), classes=RESHAPED)
def rolled_rows() -> lp.TranslationUnit:
    """Each row starts at its sixth element; the rows are rolled too."""
    return _of_rows("a[i, (j+5) % 16] + a[(i+20) % n, j]", "n,16")


@at(*sizes_of_n(1, 17, 40), classes=RESHAPED)
def rows_by_shifts_and_masks() -> lp.TranslationUnit:
    """Every other row, a row modulo 16, a butterfly partner, and a row for two lanes."""
    return _of_rows("a[i << 1, j] + a[i & 15, j] + a[i ^ 4, j] + a[i >> 1, j]", "512,16")


@at(*sizes_of_n(1, 17, 40), classes=RESHAPED)
def rows_by_cases() -> lp.TranslationUnit:
    """Indices that count from the end, are clamped, are absolute values, or join two ranges."""
    cases = (
        "a[if(i >= 3, i - 3, i - 3 + n), j] + a[if(i < n-1, i+1, n-1), j] + a[abs(i-3), j] + a[if(i < 9, i, i-9), j]"
    )
    return _of_rows(cases, "n,16")


@at(*sizes_of_n(1, 17, 40), classes=RESHAPED)
def a_triangle_in_one_row() -> lp.TranslationUnit:
    """A product of loop variables shifts all lanes, by another distance in each iteration."""
    return _of_rows("a[i*(i+1)//2 + j]", "40000", lane="j")


# }}}


# {{{ layouts


def _from_layout(index: str, shape: str, **layout: object) -> lp.TranslationUnit:
    """Return a kernel that evaluates *index*, loads from an array with this *layout*."""
    return lanes(
        kernel("{[i]: 0<=i<n}", f"out[i] = {index}", array("a", shape, **layout), array("out", "n"), sizes("n"))
    )


@at(*sizes_of_n(0, 1, 17, 40), classes=LARGE)
def elements_far_apart() -> lp.TranslationUnit:
    """The stride of the array leaves seven of eight elements of memory unused."""
    return _from_layout("a[i]", "n", strides=(8,))


@at(*sizes_of_n(0, 1, 17, 40), classes=LARGE)
def elements_two_apart_backwards() -> lp.TranslationUnit:
    """Half the memory belongs to no element."""
    return _from_layout("a[i]", "n", strides=(-2,))


@at(*sizes_of_n(0, 1, 17, 40), classes=LARGE)
def elements_three_apart() -> lp.TranslationUnit:
    """Two thirds of the memory belong to no element; a tag gives the stride."""
    return _from_layout("a[i]", "n", dim_tags="stride:3")


@at(*sizes_of_n(1, 17, 40), classes={"n": 200})
def rows_with_gaps() -> lp.TranslationUnit:
    """A row occupies every other element of memory."""
    return _from_layout("a[0,i]", "n,n", strides="2*n,2")


@at(*sizes_of_n(1, 17, 40), classes={"n": 200})
def rows_in_reverse() -> lp.TranslationUnit:
    """One element of each row, the last row first."""
    return _from_layout("a[i,0]", "n,n", strides="-n,1")


@at(*sizes_of_n(0, 1, 17, 40), classes=LARGE)
def structures_with_gaps() -> lp.TranslationUnit:
    """Three members, two elements apart, in structures of five elements."""
    return _from_layout("a[i,0] + a[i,1] + a[i,2]", "n,3", strides=(5, 2))


@at(*sizes_of_n(1, 17, 40), classes={"n": 200})
def a_matrix_with_gaps() -> lp.TranslationUnit:
    """Lanes across rows that occupy every other element: half the memory, although all elements are used."""
    layout = array("a", "n,n", strides=("2*n", 2))
    return lanes(kernel("{[i,j]: 0<=i,j<n}", "out[j,i] = a[i,j]", layout, array("out", "n,n"), sizes("n")))


@at(*sizes_of_n(1, 2, 3), classes={"n": 17})
def four_axes() -> lp.TranslationUnit:
    """The array has 2^80 elements at the sizes where classes are computed."""
    return lanes(kernel("{[i,j,k,l]: 0<=i,j,k,l<n}", "out[i,j,k,l] = 2*a[i,j,k,l]", a=np.float32))


# }}}
