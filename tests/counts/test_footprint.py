"""Test the sizes at which stride classes are computed, and how densities round to classes."""

from fractions import Fraction

import islpy as isl
import pytest

from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.counts.stride_classes import large_sizes, spacious_sizes, stride_class
from loopyperf.kernel import Kernel, load_kernel
from tests.counts.small_kernels import array, kernel, lanes, sizes


def assuming(condition: str, names: str = "m,n") -> Kernel:
    """Return a kernel with parameters *names* that assumes *condition*."""
    unit = kernel(f"[{names}] -> {{[i]: 0<=i<4}}", "out[i] = 1", array("out", "4"), sizes(names), assumptions=condition)
    return load_kernel(unit)


# {{{ sizes


def admits(kernel: Kernel, sizes: dict[str, int]) -> bool:
    """Return whether the kernel's assumptions hold at *sizes*."""
    point = " and ".join(f"{name} = {size}" for name, size in sizes.items())
    return isl.BasicSet(f"[{', '.join(sizes)}] -> {{ : {point} }}").params().is_subset(kernel.assumptions)


@pytest.mark.parametrize(
    ("condition", "least"),
    [
        ("", {"m": 2**20, "n": 2**20}),
        ("n >= 1 and m >= 1", {"m": 2**20, "n": 2**20}),
        # The first of 2^20, 2^16, 2^12, 2^10, 2^8, ... that is admissible.
        ("n <= 1000", {"m": 2**20, "n": 2**8}),
        ("n <= 0 and m = 3", {"m": 3, "n": -(2**20)}),
        ("n mod 16 = 3", {"m": 2**20, "n": 2**20 + 3}),
        ("n = 2*m + 1", {"m": 2**20, "n": 2**21 + 1}),
        ("n = 16*m and n <= 100000", {"m": 2**12, "n": 2**16}),
        ("m < n and n <= 70", {"m": 2**6, "n": 2**6 + 1}),
    ],
)
def test_sizes_are_large_if_the_assumptions_allow(condition: str, least: dict[str, int]) -> None:
    kernel = assuming(condition)
    large = large_sizes(kernel)
    assert admits(kernel, large)
    assert {name: max(size, least[name]) for name, size in large.items()} == large


def test_kernel_without_sizes_has_no_large_sizes() -> None:
    unit = kernel("{[i]: 0<=i<4}", "out[i] = 1", array("out", "4"))
    assert large_sizes(load_kernel(unit)) == {}


@pytest.mark.parametrize(
    ("low", "high", "condition", "reach"),
    [
        ("m", "n", "", 2**20),
        ("m", "n", "m >= 0 and n <= 1000", 2**8),
        ("m", "n", "n <= 1000", 2**8),
        ("0", "100 - n", "n >= 0", 2**6),
        ("n", "n", "", 0),
    ],
)
def test_spacious_sizes_leave_room_between_bounds(low: str, high: str, condition: str, reach: int) -> None:
    kernel = assuming(condition)
    sizes = spacious_sizes(kernel, isl.Set(f"[m, n] -> {{ [i] : {low} <= i <= {high} }}"))
    assert admits(kernel, sizes)
    assert min(sizes.values()) >= 0
    assert eval(high, {}, sizes) - eval(low, {}, sizes) >= reach


# }}}


# {{{ classes


def test_densities_round_up_to_their_class(subtests: pytest.Subtests) -> None:
    for stride, density, name in [
        (0, Fraction(1), "0"),
        (1, Fraction(1), "1"),
        (2, Fraction(1, 2), "1/2"),
        (2, Fraction(3, 4), "2/2"),
        (2, Fraction(1), "2/2"),
        (3, Fraction(1, 3), "1/3"),
        (3, Fraction(2, 3), "2/3"),
        (3, Fraction(1), "3/3"),
        (4, Fraction(1, 4), "1/4"),
        (4, Fraction(3, 4), "3/4"),
        (5, Fraction(1, 5), "1/>4"),
        (5, Fraction(2, 5), "2/>4"),
        (5, Fraction(4, 5), "4/>4"),
        (1000, Fraction(1, 1000), "1/>4"),
        (2**40, Fraction(1), "4/>4"),
        # Slightly more than a half is still a half; an excess of 1/64 is not.
        (2, Fraction(1, 2) + Fraction(1, 2**20), "1/2"),
        (2, Fraction(1, 2) + Fraction(1, 64), "2/2"),
        # The numerator is at least 1, even if almost nothing is used.
        (8, Fraction(1, 10**6), "1/>4"),
    ]:
        with subtests.test(stride=stride, density=density, name=name):
            assert name == stride_class(stride, density)


def test_density_combines_all_loads_of_an_array() -> None:
    # One instruction loads the even elements of a and another the odd ones; only even elements of b are loaded.
    unit = kernel(
        "{[i]: 0<=i<n}",
        "out[i] = a[2*i] + b[2*i] {id=even}\nout[i] = out[i] + a[2*i+1] {id=odd}",
        array("a,b", "2*n"),
        array("out", "n"),
        sizes("n"),
    )
    shares = count_kernel(load_kernel(lanes(unit))).shares({"n": 40})
    assert shares["global load 32-bit stride 2/2"] == {"even": 40, "odd": 40}
    assert shares["global load 32-bit stride 1/2"] == {"even": 40}


def test_density_combines_loads_and_stores_of_an_array() -> None:
    unit = kernel("{[i]: 0<=i<n}", "a[2*i] = 2*a[2*i+1]", array("a", "2*n"), sizes("n"))
    counts = count_kernel(load_kernel(lanes(unit))).properties().evaluate(n=40)
    assert (counts["global load 32-bit stride 2/2"], counts["global store 32-bit stride 2/2"]) == (40, 40)


def test_density_of_a_conditional_load() -> None:
    # The first half of the lanes loads pairs, the other half every other element. The conditional load spans only
    # used elements; the other load uses three quarters of those that it spans, which round up to 2/2.
    unit = kernel(
        "{[i]: 0<=i<n}", "out[i] = a[2*i] + if(2*i < n, a[2*i+1], 0)", array("a", "2*n"), array("out", "n"), sizes("n")
    )
    counts = count_kernel(load_kernel(lanes(unit))).properties().evaluate(n=40)
    assert counts["global load 32-bit stride 2/2"] == 40 + 20


# }}}
