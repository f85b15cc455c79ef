"""Test integer instructions against CUDA's rules, by the addresses to which lanes store."""

from collections.abc import Callable
from itertools import product

import pytest

from tests import sample_and_all

from .constant_bank import POINTERS
from .cuda_source import CudaSource, DeviceFunction, Parameter

GROUP = (8, 12, 1)
"""three warps, each with several rows"""
POSITION = (3, 2, 1)
SIZES = {"n": 1234567, "m": -89, "k": 7}
PARAMETERS = (Parameter("out", 8, is_pointer=True), *(Parameter(name, 4, is_pointer=False) for name in SIZES))


def towards_zero(dividend: int, divisor: int) -> int:
    """Return the quotient rounded toward zero, as in C."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def wrapped(value: int) -> int:
    """Return *value* as a signed integer of 32 bits."""
    return (value + 2**31) % 2**32 - 2**31


EXPRESSIONS: dict[str, Callable[[int, int, int, int, int], int]] = {
    # C in x, y, n, m, k, with x and y the indices of the work-item in the grid -> the same in Python
    "x + 100*y": lambda x, y, n, m, k: x + 100 * y,
    "n*y - m*x": lambda x, y, n, m, k: n * y - m * x,
    "(n + x) / (k + y)": lambda x, y, n, m, k: (n + x) // (k + y),
    "(m*x - y) / (k + y)": lambda x, y, n, m, k: towards_zero(m * x - y, k + y),
    "(n - x) % (m - y)": lambda x, y, n, m, k: (n - x) - (m - y) * towards_zero(n - x, m - y),
    "(m*x) / 7 + (m*y) % 16 + (m*x) / 16": lambda x, y, n, m, k: (
        towards_zero(m * x, 7) + (m * y) - 16 * towards_zero(m * y, 16) + towards_zero(m * x, 16)
    ),
    "(unsigned) (n*x + y) / (unsigned) (y + 3)": lambda x, y, n, m, k: (n * x + y) % 2**32 // (y + 3),
    "(unsigned) (m*x) / 11u % 1000u": lambda x, y, n, m, k: (m * x) % 2**32 // 11 % 1000,
    "min(m*x, -y*k) + max(x, y) + abs(m + x*y)": lambda x, y, n, m, k: min(m * x, -y * k) + max(x, y) + abs(m + x * y),
    "(n ^ x) & ~y | (x << 3)": lambda x, y, n, m, k: (n ^ x) & ~y | x << 3,
    "(m >> (x & 7)) + (n >> y) + (x << (y & 15))": lambda x, y, n, m, k: (m >> (x & 7)) + (n >> y) + (x << (y & 15)),
    "(int) (((long long) n * (m + x) - y) >> 5)": lambda x, y, n, m, k: wrapped((n * (m + x) - y) >> 5),
    "(int) (((long long) n * n * (x + 1) + m) >> 17)": lambda x, y, n, m, k: wrapped((n * n * (x + 1) + m) >> 17),
    "(x < y) + 2*(m*x >= -n) + 4*(x % 3 == y % 3)": lambda x, y, n, m, k: (
        (x < y) + 2 * (m * x >= -n) + 4 * (x % 3 == y % 3)
    ),
    "(long long) n * y > (long long) m * m * x * 50000 ? x : y": lambda x, y, n, m, k: (
        x if n * y > m * m * x * 50000 else y
    ),
    "__popc(n + x) + __clz(x + 1) * 100 + __ffs(y + 8) * 10000": lambda x, y, n, m, k: (
        (n + x).bit_count() + (32 - (x + 1).bit_length()) * 100 + ((y + 8) & -(y + 8)).bit_length() * 10000
    ),
}


def stored(expression: str) -> CudaSource:
    """Return a kernel that stores one byte at index *expression* of its array."""
    code = f"""
    extern "C" __global__ void __launch_bounds__(96) stored(char *out, int n, int m, int k)
    {{
        int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 12 + threadIdx.y;
        out[(long long) (int) ({expression})] = 1;
    }}"""
    return CudaSource(code, (DeviceFunction("stored", PARAMETERS, lambda sizes: (9, 9, 9), lambda sizes: GROUP),))


@sample_and_all(3)
def test_lanes_store_at_the_value_of_the_expression(subtests: pytest.Subtests, launch, step: int) -> None:
    for expression, architecture in list(product(EXPRESSIONS, ["sm_80", "sm_90"]))[::step]:
        with subtests.test(architecture=architecture, expression=expression):
            machine = launch(stored(expression), architecture)
            found = {}
            for warp in range(machine.warps(SIZES)):
                (access,) = machine.accesses(SIZES, POSITION, warp)
                found |= {32 * warp + lane: address - POINTERS for lane, address in access.addresses.items()}
            places = {lane: (8 * 3 + lane % 8, 12 * 2 + lane // 8) for lane in range(96)}
            assert found == {lane: EXPRESSIONS[expression](x, y, **SIZES) for lane, (x, y) in places.items()}
