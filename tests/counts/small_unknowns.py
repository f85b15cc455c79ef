"""Small kernels whose source does not tell everything that they do."""

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
from loopy.target.opencl import vec

from tests.counts.small_kernels import array, kernel, lanes, sizes

ROW_POINTERS = lp.GlobalArg("start", np.int32, shape="n+1")
COLUMNS = lp.GlobalArg("column", np.int32, shape=None, strides=(1,))
VALUES = lp.GlobalArg("a", np.float32, shape=None, strides=(1,))


def sparse_rows() -> lp.TranslationUnit:
    """The bounds of the inner loop are loaded."""
    unit = kernel(
        ["[n] -> {[i]: 0<=i<n}", "[s,e] -> {[j]: s<=j<e}"],
        """
        <> s = start[i] {id=begin}
        <> e = start[i+1] {id=end}
        out[i] = sum(j, a[j]) {id=row, inames=i}
        """,
        ROW_POINTERS,
        VALUES,
        array("out", "n"),
        sizes("n"),
    )
    return lanes(unit)


def data_dependent_predicate() -> lp.TranslationUnit:
    """Whether it runs is loaded."""
    return lanes(kernel("{[i]: 0<=i<n}", "if m[i] > 0\nout[i] = 2*a[i] {id=some}\nend", a=np.float32, m=np.int32))


def data_dependent_choice() -> lp.TranslationUnit:
    """Which side is taken is loaded, and the sides cost different things."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = if(a[i] > 0, 2*a[i], a[i]/3) {id=some}", a=np.float32))


def condition_on_a_real_argument() -> lp.TranslationUnit:
    """A number that is no size."""
    code = "out[i] = if(x > 0, 2*a[i], a[i]/3) {id=some}"
    return lanes(kernel("{[i]: 0<=i<n}", code, a=np.float32, x=np.float32))


def nonlinear_condition() -> lp.TranslationUnit:
    """Known, but not affine."""
    return lanes(kernel("{[i]: 0<=i<n}", "if i*i < n\nout[i] = 2*a[i] {id=some}\nend", array("a,out", "n"), sizes("n")))


def foreign_code() -> lp.TranslationUnit:
    """Text that Loopy hands on."""
    instruction = lp.CInstruction("i", "out[i] = 2;", assignees=("out[i]",), id="text")
    return lp.make_kernel("{[i]: 0<=i<n}", [instruction], [array("out", "n"), sizes("n")], lang_version=(2018, 2))


class MatrixVector(lp.ScalarCallable):
    """A product of a matrix and a vector, as of BLAS."""

    def with_types(self, arg_id_to_dtype, clbl_inf_ctx):
        of_all = dict.fromkeys((-1, 0, 1), arg_id_to_dtype[0])
        return self.copy(name_in_target="cblas_sgemv", arg_id_to_dtype=of_all), clbl_inf_ctx

    def with_descrs(self, arg_id_to_descr, clbl_inf_ctx):
        return self.copy(arg_id_to_descr=arg_id_to_descr), clbl_inf_ctx


def call_with_arrays() -> lp.TranslationUnit:
    """A function that takes a matrix and a vector, and returns a vector."""
    arrays = [array("m", "n, 10, 10"), array("x,out", "n, 10"), sizes("n")]
    unit = kernel("{[i]: 0<=i<n}", "out[i, :] = matvec(m[i, :, :], x[i, :]) {id=call}", *arrays)
    return lanes(lp.register_callable(unit, "matvec", MatrixVector(name="matvec")))


def random_numbers() -> lp.TranslationUnit:
    """A function that returns several numbers, after many operations."""
    four, two = vec.types[np.dtype(np.uint32), 4], vec.types[np.dtype(np.uint32), 2]
    return kernel(
        "{[i]: 0<=i<n}",
        "out[i], counter[i] = philox4x32_f32(counter[i], key[i]) {id=draw}",
        array("counter", "n", four),
        array("key", "n", two),
        sizes("n"),
    )


def complex_minimum() -> lp.TranslationUnit:
    """Complex numbers have no order."""
    here = prim.Variable("i")
    least = prim.Min((prim.Variable("a")[here], prim.Variable("b")[here]))
    return lp.make_kernel(
        "{[i]: 0<=i<n}",
        [lp.Assignment(prim.Variable("out")[here], least, id="least", within_inames=frozenset(["i"]))],
        [array("a,b,out", "n", np.complex64), ...],
        lang_version=(2018, 2),
    )


def image() -> lp.TranslationUnit:
    """Texture memory."""
    image = lp.ImageArg("a", np.float32, shape="n,n")
    return kernel("{[i]: 0<=i<n}", "out[i] = a[i,i] {id=look}", image, array("out", "n"), sizes("n"))


def structure() -> lp.TranslationUnit:
    """Members of structures, of which one in three is loaded on a condition."""
    points = lp.GlobalArg("p", np.dtype([("x", np.float32), ("y", np.float32)]), shape="n")
    code = "out[i] = 2*p[i].x + if(i % 3 == 0, p[i].y, 0) {id=point}"
    return kernel("{[i]: 0<=i<n}", code, points, array("out", "n"), sizes("n"))
