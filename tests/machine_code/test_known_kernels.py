"""Test the executed instructions of kernels against counts derived by hand."""

from itertools import product

import loopy as lp
import numpy as np
import pytest

from test_kernels.convolution import convolution
from test_kernels.finite_difference import finite_difference

from .constant_bank import POINTERS, SPACING
from .cuda_source import cuda_source
from .instruction_counts import Tally
from .kernels import n_body, naive_multiplication, tiled_multiplication, transposition
from .launch import FAST_MATH, Launch, build

ARCHITECTURES = ("sm_80", "sm_90")


def elements(machine: Launch, opcode: str, array: int, **where: object) -> list[tuple[int, ...]]:
    """Return which float32 elements of the *array*-th argument each access of *opcode* touches, lane by lane."""
    base = POINTERS + SPACING * array
    return [
        tuple((address - base) // 4 for address in access.addresses.values())
        for access in machine.accesses(**where)
        if access.instruction.base == opcode and base <= next(iter(access.addresses.values())) < base + SPACING
    ]


def difference(longer: Tally, shorter: Tally) -> dict[str, int]:
    """Return the differences of the counts by class."""
    return {name: longer[name] - shorter[name] for name in {*longer.counts, *shorter.counts}}


def test_tiled_multiplication_counts(subtests: pytest.Subtests, launch) -> None:
    for tile, architecture in product((8, 16, 32), ARCHITECTURES):
        with subtests.test(tile=tile, architecture=architecture):
            machine = launch(tiled_multiplication(tile), architecture)
            first, second = (machine.run({"n": 32 * size}) for size in (2, 4))
            one = {name: tile * count / 64 for name, count in difference(second, first).items()}
            # The row of a is read four elements at a time, the column of b one by one.
            expected = {"FFMA": tile, "LDS": tile, "LDS.128": tile // 4, "LDG": 2, "STS": 2, "BAR": 2, "STG": 0}
            assert {name: one[name] for name in expected} == expected
            # A loop's counter, comparison, pointers and branch.
            assert 6 <= one["integer"] + one["control"] <= 14
            n, warps = 64, range(-(-(tile**2) // 32))
            runs = (machine.run({"n": n}, *where) for where in product(machine.groups({"n": n}), warps))
            tally = sum(runs, start=Tally.nothing())
            assert [tally.lanes[name] for name in ("FFMA", "STG", "LDG")] == [n**3, n**2, 2 * n**3 // tile]


def test_tiled_multiplication_reads_the_expected_rows_and_columns(launch) -> None:
    machine, n = launch(tiled_multiplication(16)), 64
    where = {"sizes": {"n": n}, "group": (1, 2, 0), "warp": 3}
    lanes = [(lane // 16 + 6, lane % 16) for lane in range(32)]  # warp 3 has rows 6 and 7 of the tile
    a, b, c = (elements(machine, opcode, array, **where) for array, opcode in enumerate(["LDG", "LDG", "STG"]))
    assert a == [tuple(n * (32 + y) + 16 * k + x for y, x in lanes) for k in range(4)]
    assert b == [tuple(n * (16 * k + y) + 16 + x for y, x in lanes) for k in range(4)]
    assert c == [tuple(n * (32 + y) + 16 + x for y, x in lanes)]


def test_n_body_counts_per_pair(subtests: pytest.Subtests, launch) -> None:
    for group, architecture in ((64, "sm_80"), (128, "sm_90"), (256, "sm_90")):
        with subtests.test(group=group, architecture=architecture):
            n, blocks = 4 * group, 4
            exact, fast = (launch(n_body(group), architecture, options).run({"n": n}) for options in ((), FAST_MATH))
            # Three differences, adding ε and adding to the sum; a square and two squares added; three loads per four
            # pairs.
            expected = {"FADD": 5 * n, "FMUL": n, "FFMA": 2 * n, "MUFU": n, "LDS.128": 3 * n // 4}
            assert {name: fast[name] for name in expected} == expected
            # A reciprocal root that is accurate for denormals too: a comparison, and scaling before and after.
            expected |= {"FMUL": 3 * n, "float comparison": n}
            assert {name: exact[name] for name in expected} == expected
            assert [exact[name] for name in ("LDG", "STS", "BAR", "STG")] == [3 + 3 * blocks, 3 * blocks, 2 * blocks, 1]


def test_transposition_reads_rows_and_writes_rows(launch) -> None:
    for tile, architecture in ((16, "sm_90"), (32, "sm_80")):
        machine, n = launch(transposition(tile), architecture), 128
        where = {"sizes": {"n": n}, "group": (1, 3, 0), "warp": 2}
        lanes = [divmod(64 + lane, tile) for lane in range(32)]
        assert elements(machine, "LDG", 0, **where) == [tuple(n * (tile + y) + 3 * tile + x for y, x in lanes)]
        assert elements(machine, "STG", 1, **where) == [tuple(n * (3 * tile + y) + tile + x for y, x in lanes)]
        tally = machine.run(**where)
        assert [tally[name] for name in ("LDG", "STS", "BAR", "LDS", "STG")] == [1] * 5


def test_naive_multiplication_and_convolution_count_products(launch) -> None:
    for n in (16, 48, 1040):
        tally = launch(naive_multiplication()).run({"n": n})
        assert [tally[name] for name in ("FFMA", "LDG", "STG")] == [n, 2 * n, 1]
    # 3 images, one point each under one filter: 7 · 7 · 3 products, each of an element of the image and of the filter.
    tally = launch(convolution()).run({"n": 32}, (1, 0, 2), 5)
    assert [tally[name] for name in ("FFMA", "LDG", "STG")] == [3 * 147, 2 * 3 * 147, 3]


def test_finite_difference_fetches_each_element_of_its_tile_once(launch) -> None:
    n = 64
    machine = launch(finite_difference())
    warps = [machine.run({"n": n}, (1, 2, 0), warp) for warp in range(8)]
    assert [sum(tally.lanes[name] for tally in warps) for name in ("LDG", "STS")] == [18**2, 18**2]
    assert sum(tally.lanes["STG"] for tally in warps) == 16**2
    touched = {
        element
        for warp in range(8)
        for access in elements(machine, "LDG", 0, sizes={"n": n}, group=(1, 2, 0), warp=warp)
        for element in access
    }
    assert touched == {(n + 2) * (32 + y) + 16 + x for y, x in product(range(18), repeat=2)}


def two_launches() -> lp.TranslationUnit:
    """Return b = 1/√a, then c = b reversed, with a global barrier between them."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        b[i] = rsqrt(a[i]) {id=first}
        ... gbarrier {id=barrier, dep=first}
        c[j] = b[n - 1 - j] {dep=barrier}
        """,
        [lp.GlobalArg("a, b, c", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        name="two_launches",
        lang_version=(2018, 2),
    )
    for iname in "ij":
        knl = lp.split_iname(knl, iname, 32, outer_tag="g.0", inner_tag="l.0")
    return knl


def test_launches_of_a_program_are_executed_separately(listings) -> None:
    source = cuda_source(two_launches())
    assert [[parameter.name for parameter in function.parameters] for function in source.functions] == [
        ["a", "b", "n"],
        ["b", "c", "n"],
    ]
    assert [source.code.count(f" {function.name}(") for function in source.functions] == [1, 1]
    assert [(each.grid({"n": 100}), each.group({"n": 100})) for each in source.functions] == [
        ((4, 1, 1), (32, 1, 1))
    ] * 2
    first, second = build(two_launches(), cache=listings)
    sizes = {"n": 40}
    assert [launch.run(sizes, (1, 0, 0)).lanes["STG"] for launch in (first, second)] == [8, 8]
    assert [launch.run(sizes)["MUFU"] for launch in (first, second)] == [1, 0]
