"""Small kernels whose counts depend on data, or on code that Loopy does not parse."""

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
from loopy.target.opencl import vec

from tests.counts.small_kernels import array, kernel, lanes, sizes

ROW_POINTERS = lp.GlobalArg("start", np.int32, shape="n+1")
COLUMNS = lp.GlobalArg("column", np.int32, shape=None, strides=(1,))
VALUES = lp.GlobalArg("a", np.float32, shape=None, strides=(1,))


def sparse_rows() -> lp.TranslationUnit:
    """The bounds of the inner loop are loaded from memory."""
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
    """A loaded value determines whether the statement executes."""
    return lanes(kernel("{[i]: 0<=i<n}", "if m[i] > 0\nout[i] = 2*a[i] {id=some}\nend", a=np.float32, m=np.int32))


def data_dependent_choice() -> lp.TranslationUnit:
    """A loaded value selects between two expressions of different cost."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = if(a[i] > 0, 2*a[i], a[i]/3) {id=some}", a=np.float32))


def condition_on_a_real_argument() -> lp.TranslationUnit:
    """The condition depends on a floating-point argument, which is not a size."""
    code = "out[i] = if(x > 0, 2*a[i], a[i]/3) {id=some}"
    return lanes(kernel("{[i]: 0<=i<n}", code, a=np.float32, x=np.float32))


def nonlinear_condition() -> lp.TranslationUnit:
    """The condition depends only on the loop variable and a size, but it is not affine."""
    return lanes(kernel("{[i]: 0<=i<n}", "if i*i < n\nout[i] = 2*a[i] {id=some}\nend", array("a,out", "n"), sizes("n")))


def foreign_code() -> lp.TranslationUnit:
    """C code that Loopy copies without parsing it."""
    instruction = lp.CInstruction("i", "out[i] = 2;", assignees=("out[i]",), id="text")
    return lp.make_kernel("{[i]: 0<=i<n}", [instruction], [array("out", "n"), sizes("n")], lang_version=(2018, 2))


class MatrixVector(lp.ScalarCallable):
    """A matrix-vector product, as in BLAS."""

    def with_types(self, arg_id_to_dtype, clbl_inf_ctx):
        dtypes = dict.fromkeys((-1, 0, 1), arg_id_to_dtype[0])
        return self.copy(name_in_target="cblas_sgemv", arg_id_to_dtype=dtypes), clbl_inf_ctx

    def with_descrs(self, arg_id_to_descr, clbl_inf_ctx):
        return self.copy(arg_id_to_descr=arg_id_to_descr), clbl_inf_ctx


def call_with_arrays() -> lp.TranslationUnit:
    """A call of a function that takes a matrix and a vector and returns a vector."""
    arrays = [array("m", "n, 10, 10"), array("x,out", "n, 10"), sizes("n")]
    unit = kernel("{[i]: 0<=i<n}", "out[i, :] = matvec(m[i, :, :], x[i, :]) {id=call}", *arrays)
    return lanes(lp.register_callable(unit, "matvec", MatrixVector(name="matvec")))


def random_numbers() -> lp.TranslationUnit:
    """A call of a function with several results, which executes many operations."""
    four, two = vec.types[np.dtype(np.uint32), 4], vec.types[np.dtype(np.uint32), 2]
    return kernel(
        "{[i]: 0<=i<n}",
        "out[i], counter[i] = philox4x32_f32(counter[i], key[i]) {id=draw}",
        array("counter", "n", four),
        array("key", "n", two),
        sizes("n"),
    )


def complex_minimum() -> lp.TranslationUnit:
    """The minimum of complex numbers, which have no order."""
    here = prim.Variable("i")
    least = prim.Min((prim.Variable("a")[here], prim.Variable("b")[here]))
    return lp.make_kernel(
        "{[i]: 0<=i<n}",
        [lp.Assignment(prim.Variable("out")[here], least, id="least", within_inames=frozenset(["i"]))],
        [array("a,b,out", "n", np.complex64), ...],
        lang_version=(2018, 2),
    )


def image() -> lp.TranslationUnit:
    """A load from texture memory."""
    image = lp.ImageArg("a", np.float32, shape="n,n")
    return kernel("{[i]: 0<=i<n}", "out[i] = a[i,i] {id=look}", image, array("out", "n"), sizes("n"))


def structure() -> lp.TranslationUnit:
    """Loads of structure members; the second member is loaded in every third iteration."""
    points = lp.GlobalArg("p", np.dtype([("x", np.float32), ("y", np.float32)]), shape="n")
    code = "out[i] = 2*p[i].x + if(i % 3 == 0, p[i].y, 0) {id=point}"
    return kernel("{[i]: 0<=i<n}", code, points, array("out", "n"), sizes("n"))
