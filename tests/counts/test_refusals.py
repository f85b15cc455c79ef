"""What has no exact count is refused by the name of the instruction and of the construct, never counted as nothing."""

from typing import Any

import loopy as lp
import numpy as np
import pytest
from loopy.target.opencl import vec
from small_kernels import array, kernel, lanes, sizes

from loopyperf.errors import ParameterError, UnboundedDomainError, UncountableError
from loopyperf.kernel import load_kernel
from loopyperf.properties.counted_kernel import count_properties

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


def indirect_load() -> lp.TranslationUnit:
    """The address is loaded."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[column[i]] {id=gather}", VALUES, COLUMNS))


def indirect_store() -> lp.TranslationUnit:
    """The address is loaded."""
    return lanes(
        kernel("{[i]: 0<=i<n}", "out[column[i]] = a[i] {id=scatter}", array("out", "n"), COLUMNS, a=np.float32)
    )


def indirect_through_a_register() -> lp.TranslationUnit:
    """The address does not name the lane, but each lane has its own."""
    return lanes(kernel("{[i]: 0<=i<n}", "<> place = column[i]\nout[i] = a[place] {id=gather}", VALUES, COLUMNS))


def strided_and_indirect() -> lp.TranslationUnit:
    """How densely the cells lie that are touched is not known."""
    code = "out[i] = a[2*i] {id=even}\nout[i] = out[i] + a[column[0]] {id=one}"
    return lanes(kernel("{[i]: 0<=i<n}", code, array("a", "2*n"), array("out", "n"), COLUMNS))


def strided_from_an_unknown_place() -> lp.TranslationUnit:
    """All lanes start from the same place, which is loaded."""
    code = "<> place = column[0] {inames=i_outer}\nout[i_outer,i_inner] = a[place + 2*i_inner] {id=even}"
    unit = kernel(
        "{[i_outer,i_inner]: 0<=i_outer<n and 0<=i_inner<16}", code, VALUES, COLUMNS, array("out", "n,16"), sizes("n")
    )
    return lp.tag_inames(unit, {"i_outer": "g.0", "i_inner": "l.0"})


def linear_subscript() -> lp.TranslationUnit:
    """A subscript in storage."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[[2*i]] {id=linear}", array("a", "2*n"), array("out", "n")))


def constant_memory() -> lp.TranslationUnit:
    """The paper has no property for it."""
    return lanes(
        kernel("{[i]: 0<=i<n}", "out[i] = c[0] {id=look}", lp.ConstantArg("c", np.float32, shape="3"), sizes("n"))
    )


def lanes_modulo() -> lp.TranslationUnit:
    """Neighbouring lanes are not always equally far apart."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[i % 8] {id=wrap}", array("a", "8"), array("out", "n"), sizes("n")))


def quadratic_address() -> lp.TranslationUnit:
    """Not affine in the lane."""
    return lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[i*i] {id=square}", VALUES, array("out", "n"), sizes("n")))


def atomic_update() -> lp.TranslationUnit:
    """Its cost depends on who else updates."""
    return kernel(
        "{[i]: 0<=i<n}", "out[0] = out[0] + a[i] {id=update, atomic}", array("out", "1", for_atomic=True), a=np.float32
    )


def foreign_code() -> lp.TranslationUnit:
    """Text that Loopy hands on."""
    instruction = lp.CInstruction("i", "out[i] = 2;", assignees=("out[i]",), id="text")
    return lp.make_kernel("{[i]: 0<=i<n}", [instruction], [array("out", "n"), sizes("n")], lang_version=(2018, 2))


def called_kernel() -> lp.TranslationUnit:
    """A kernel that another calls."""
    callee = lp.make_function("{[i]: 0<=i<10}", "y[i] = 2*x[i]", name="double", lang_version=(2018, 2))
    return lp.merge(
        [kernel("{[j]: 0<=j<10}", "[j]: out[j] = double([j]: a[j]) {id=call}", array("a,out", "10")), callee]
    )


def complex_arithmetic() -> lp.TranslationUnit:
    """One complex operation is several real ones."""
    return kernel("{[i]: 0<=i<n}", "out[i] = a[i]*b[i] {id=product}", a=np.complex64, b=np.complex64)


def complex_function() -> lp.TranslationUnit:
    """Its result is real, its argument is not."""
    return kernel("{[i]: 0<=i<n}", "out[i] = abs(a[i]) {id=magnitude}", a=np.complex64)


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


def vectors() -> lp.TranslationUnit:
    """One operation on a vector is several on its members."""
    four = vec.types[np.dtype(np.float32), 4]
    return kernel("{[i]: 0<=i<n}", "out[i] = a[i] + a[i] {id=sum}", array("a,out", "n", four), sizes("n"))


def vector_axis() -> lp.TranslationUnit:
    """Four numbers in one access."""
    unit = kernel("{[i,j]: 0<=i<n and 0<=j<4}", "out[i,j] = 2*a[i,j] {id=vector}", array("a,out", "n,4"), sizes("n"))
    unit = lp.tag_array_axes(lanes(unit), "a,out", "C,vec")
    return lp.tag_inames(unit, {"j": "vec"})


def separate_arrays() -> lp.TranslationUnit:
    """One argument for each member."""
    unit = kernel("{[i,j]: 0<=i<n and 0<=j<3}", "out[i,j] = 2*a[i,j] {id=member}", array("a,out", "n,3"), sizes("n"))
    return lp.tag_inames(lp.tag_array_axes(lanes(unit), "a,out", "C,sep"), {"j": "unr"})


@pytest.mark.parametrize(
    ("build", "instruction", "construct"),
    [
        (sparse_rows, "row_j_update", r"its loops \(i_inner, i_outer, j\) have bounds that depend on data \(e, s\)"),
        (data_dependent_predicate, "some", r"the condition m\[i_inner \+ i_outer\*16\] > 0 is not an affine function"),
        (data_dependent_choice, "some", r"the condition a\[i_inner \+ i_outer\*16\] > 0 is not an affine function"),
        (condition_on_a_real_argument, "some", "the condition x > 0 is not an affine function"),
        (nonlinear_condition, "some", "the condition .* < n is not an affine function"),
        (indirect_load, "gather", r"array 'a': the index column\[.*\] is not an affine function of the lane i_inner"),
        (
            indirect_store,
            "scatter",
            r"array 'out': the index column\[.*\] is not an affine function of the lane i_inner",
        ),
        (indirect_through_a_register, "gather", "array 'a': the index place depends on place, .* by each work-item"),
        (strided_and_indirect, "one", "the cells of 'a' that it touches are not an affine function"),
        (strided_from_an_unknown_place, "even", "the cells of 'a' that it touches are not an affine function"),
        (linear_subscript, "linear", r"no count for LinearSubscript in a\[\["),
        (constant_memory, "look", "no count for accesses of 'c', a ConstantArg"),
        (lanes_modulo, "wrap", "array 'a': the index .* % 8 is not an affine function of the lane i_inner"),
        (quadratic_address, "square", "array 'a': the index .* is not an affine function of the lane i_inner"),
        (atomic_update, "update", "no count for an atomic update"),
        (foreign_code, "text", "no count for a CInstruction, whose text Loopy does not read"),
        (called_kernel, "call", "no count for a call of the kernel 'double'"),
        (complex_arithmetic, "product", "arithmetic on type np:dtype.'complex64'. is not counted"),
        (complex_function, "magnitude", "arithmetic on type np:dtype.'complex64'. is not counted"),
        (random_numbers, "draw", "no count for philox4x32_f32, a function of 2 results"),
        (vectors, "sum", r"arithmetic on type np:dtype\(.*\) is not counted"),
        (vector_axis, "vector", "array 'a': no count for accesses of 'a', whose axes are laid out as .*vec"),
        (separate_arrays, "member", "array 'a': no count for accesses of 'a', whose axes are laid out as .*sep"),
    ],
)
@pytest.mark.parametrize("counting", ["paper", "executed"])
def test_what_cannot_be_counted_is_refused_by_name(build: Any, instruction: str, construct: str, counting: Any) -> None:
    with pytest.raises(UncountableError, match=f"^instruction '{instruction}'(, |: ){construct}"):
        count_properties(load_kernel(build()), counting)


@pytest.mark.parametrize("domain", ["{[i]: 0<=i}", "[n] -> {[i]: i<n}", "[n] -> {[i,j]: 0<=i<n and j<=i}"])
def test_an_unbounded_loop_is_refused_by_the_name_of_the_instruction(domain: str) -> None:
    unit = kernel(domain, f"out[0] = 1 {{id=write, inames={'i:j' if 'j' in domain else 'i'}}}", array("out", "1"))
    with pytest.raises(UnboundedDomainError, match="instruction 'write': infinitely many points in"):
        count_properties(load_kernel(unit))


def test_an_unknown_counting_is_refused_with_those_known() -> None:
    unit = kernel("{[i]: 0<=i<n}", "out[i] = 1", array("out", "n"))
    with pytest.raises(ParameterError, match="unknown counting 'guessed'; choose one of: paper, executed"):
        count_properties(load_kernel(unit), "guessed")  # pyright: ignore[reportArgumentType]


def test_an_address_that_all_lanes_share_may_come_from_data() -> None:
    # Which cell is not known, but that all lanes load the same one is: stride 0.
    unit = lanes(kernel("{[i]: 0<=i<n}", "out[i] = a[column[0]]", VALUES, COLUMNS, array("out", "n"), sizes("n")))
    counts = count_properties(load_kernel(unit)).properties().evaluate(n=40)
    assert counts["global load 32-bit stride 0"] == 2 * 40
