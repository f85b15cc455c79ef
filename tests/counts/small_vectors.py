"""Small kernels with vectorized loops, and with work-items whose loop does not start at zero."""

import loopy as lp

from tests.counts.small_kernels import array, at, kernel, lanes, sizes, sizes_of_n

SIZES = tuple(sizes_of_n(0, 1, 17))
LARGE = {"n": 320}

# {{{ vectors


def in_vectors(code: str) -> lp.TranslationUnit:
    """Return a kernel that executes *code* on rows of 4; a and out have a vector layout along the rows, b does not."""
    arguments = (array("a,out", "n,4"), array("b", "n"), sizes("n"))
    unit = lanes(kernel("{[i,j]: 0<=i<n and 0<=j<4}", code, *arguments))
    return lp.tag_inames(lp.tag_array_axes(unit, "a,out", "C,vec"), {"j": "vec"})


@at(*SIZES, classes=LARGE)
def a_vectorized_loop() -> lp.TranslationUnit:
    """The kernel accesses whole vectors."""
    return in_vectors("out[i,j] = 2*a[i,j]")


@at(*SIZES, classes=LARGE)
def a_scalar_among_vectors() -> lp.TranslationUnit:
    """The scalar is loaded once per vector, and operations on scalars alone execute once."""
    return in_vectors("out[i,j] = a[i,j]*sqrt(b[i] + 1)")


@at(*SIZES, classes=LARGE)
def a_vector_of_a_scalar() -> lp.TranslationUnit:
    """All components of the result are equal."""
    return in_vectors("out[i,j] = b[i] + 1")


@at(*SIZES, classes=LARGE)
def a_scalar_computed_in_a_vectorized_loop() -> lp.TranslationUnit:
    """The instruction does not depend on the vectorized loop, so it executes once."""
    return in_vectors("<> t = 2*b[i] {inames=i:j}\nout[i,j] = a[i,j]*t")


@at(*SIZES, classes=LARGE)
def a_function_of_vectors() -> lp.TranslationUnit:
    """Loopy calls functions once per component."""
    return in_vectors("out[i,j] = sqrt(a[i,j])")


@at(*SIZES, classes=LARGE)
def vectors_of_the_loop_variable() -> lp.TranslationUnit:
    """The loop variable is not a vector, so Loopy unrolls the loop."""
    return in_vectors("out[i,j] = j*a[i,j]")


def tiles_in_vectors(assumptions: str) -> lp.TranslationUnit:
    """Return a kernel over n elements, in vectors of 4."""
    unit = kernel("{[i]: 0<=i<n}", "out[i] = 2*a[i]", array("a,out", "n"), sizes("n"), assumptions=assumptions)
    unit = lp.split_array_dim(lp.split_iname(unit, "i", 4), [("a", 0), ("out", 0)], 4, auto_split_inames=False)
    return lp.tag_inames(lp.tag_array_axes(unit, "a,out", "C,vec"), {"i_outer": "g.0", "i_inner": "vec"})


@at(*sizes_of_n(0, 4, 16), classes=LARGE)
def full_vectors() -> lp.TranslationUnit:
    """An assumption ensures that the last vector is full."""
    return tiles_in_vectors("n>=0 and n mod 4 = 0")


@at(*SIZES, classes={"n": 321})
def a_partial_last_vector() -> lp.TranslationUnit:
    """Loopy guards each component, because the last vector may be partial."""
    return tiles_in_vectors("n>=0")


@at(*SIZES, classes=LARGE)
def a_function_call_after_a_vector() -> lp.TranslationUnit:
    """After a vector operand, Loopy does not check other operands, and calls the function with a vector."""
    return in_vectors("out[i,j] = a[i,j] + sqrt(a[i,j])")


# }}}


# {{{ work-items


@at(*SIZES, classes=LARGE)
def work_items_from_two() -> lp.TranslationUnit:
    """Work-item 0 executes the first point, i = 2, so 32 points are one sub-group of 32."""
    unit = kernel("{[g,i]: 0<=g<n and 2<=i<34}", "out[g,i] = 2*a[g,i]", array("a,out", "n,34"), sizes("n"))
    return lp.tag_inames(unit, {"g": "g.0", "i": "l.0"})


# }}}
