"""Small kernels that call kernels, with numbers that bound what these do, and registers that bound loops."""

import loopy as lp

from tests.counts.small_kernels import array, at, kernel, lanes, sizes, sizes_of_n

ASSUMED = "n >= 0 and n <= 64"


def _calling(argument: str, code: str, domain: str) -> lp.TranslationUnit:
    """Return a kernel that calls one of *code* with *argument* for each of n rows; its parameter is called n, too."""
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
    """Each call adds n - 3 numbers, if any."""
    return _calling("n - 3", "y[0] = sum(j, x[j])", "{[j]: 0<=j<n}")


@at(*sizes_of_n(0, 1, 17, 40), classes={"n": 64})
def a_call_up_to_a_loop_variable() -> lp.TranslationUnit:
    """The call for row i adds 1 + i numbers."""
    return _calling("1 + i", "y[0] = sum(j, x[j])", "{[j]: 0<=j<n}")


@at(*sizes_of_n(0, 1, 17, 40), classes={"n": 64})
def a_call_with_a_condition() -> lp.TranslationUnit:
    """The call for row i has i + 1 cells of all 16."""
    return _calling("i + 1", "if j < n\ny[j] = 2*x[j]\nend", "{[j]: 0<=j<16}")


@at(*sizes_of_n(0, 1, 17, 40), classes={"n": 64})
def a_call_from_a_place() -> lp.TranslationUnit:
    """The call for row i begins at cell 7 of all."""
    return _calling("5 + 2", "y[j] = 2*x[j+n]", "{[j]: 0<=j<16}")


@at(*sizes_of_n(0, 1, 17, 40), classes={"n": 64})
def a_loop_up_to_a_register() -> lp.TranslationUnit:
    """How far row i goes is computed."""
    unit = kernel(
        ["[n] -> {[i]: 0<=i<n}", "[last] -> {[j]: 0<=j<=last}"],
        "for i\n<> half = i + n\n<> last = 2*half + 1\nout[i] = sum(j, a[j])\nend",
        array("a", "400"),
        array("out", "n"),
        sizes("n"),
        assumptions=ASSUMED,
    )
    return lanes(unit)
