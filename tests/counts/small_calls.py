"""Small kernels with calls whose arguments bound loops, and with loops bounded by scalar temporaries."""

import loopy as lp

from tests.counts.small_kernels import array, at, kernel, lanes, sizes, sizes_of_n

ASSUMED = "n >= 0 and n <= 64"


def _calling(argument: str, code: str, domain: str) -> lp.TranslationUnit:
    """Return a kernel that calls *code* with *argument* for each of n rows; the callee's parameter is also named n."""
    callee = lp.make_function(
        domain,
        code,
        [array("x", "64"), array("y", "16"), sizes("n"), ...],
        name="called",
        lang_version=(2018, 2),
        target=lp.PyOpenCLTarget(),
    )
    caller = kernel(
        "{[i,j,k]: 0<=i<n and 0<=j<64 and 0<=k<16}",
        f"[k]: out[i,k] = called([j]: a[i,j], {argument})",
        array("a", "n,64"),
        array("out", "n,16"),
        sizes("n"),
        assumptions=ASSUMED,
    )
    return lp.merge([lanes(caller), callee])


@at(*sizes_of_n(0, 1, 17, 40), classes={"n": 64})
def a_call_up_to_a_size() -> lp.TranslationUnit:
    """Each call adds max(n - 3, 0) numbers."""
    return _calling("n - 3", "y[0] = sum(j, x[j])", "{[j]: 0<=j<n}")


@at(*sizes_of_n(0, 1, 17, 40), classes={"n": 64})
def a_call_up_to_a_loop_variable() -> lp.TranslationUnit:
    """The call for row i adds 1 + i numbers."""
    return _calling("1 + i", "y[0] = sum(j, x[j])", "{[j]: 0<=j<n}")


@at(*sizes_of_n(0, 1, 17, 40), classes={"n": 64})
def a_call_with_a_condition() -> lp.TranslationUnit:
    """The call for row i executes for the first i + 1 of 16 elements."""
    return _calling("i + 1", "if j < n\ny[j] = 2*x[j]\nend", "{[j]: 0<=j<16}")


@at(*sizes_of_n(0, 1, 17, 40), classes={"n": 64})
def a_call_from_a_place() -> lp.TranslationUnit:
    """Each call starts at element 7 of its row."""
    return _calling("5 + 2", "y[j] = 2*x[j+n]", "{[j]: 0<=j<16}")


@at(*sizes_of_n(0, 1, 17, 40), classes={"n": 64})
def a_loop_up_to_a_register() -> lp.TranslationUnit:
    """The kernel computes the loop bound of row i."""
    unit = kernel(
        ["[n] -> {[i]: 0<=i<n}", "[last] -> {[j]: 0<=j<=last}"],
        "for i\n<> half = i + n\n<> last = 2*half + 1\nout[i] = sum(j, a[j])\nend",
        array("a", "400"),
        array("out", "n"),
        sizes("n"),
        assumptions=ASSUMED,
    )
    return lanes(unit)
