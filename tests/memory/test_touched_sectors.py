"""Sectors and lines touched by boxes of elements, compared with enumerated addresses."""

from functools import reduce
from itertools import product

import islpy as isl
import loopy as lp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import loopyperf as lpp
from loopyperf.memory.touched_sectors import touched, touched_by

WIDTHS = st.sampled_from((4, 8))


def blocks(first: int, axes: list[tuple[int, int]], width: int, block: int) -> int:
    """Return the number of blocks that contain at least one byte of an element."""
    places = product(*(range(number) for _, number in axes))
    starts = (first + sum(distance * at for (distance, _), at in zip(axes, place, strict=True)) for place in places)
    return len({byte // block for start in starts for byte in range(start, start + width)})


@given(st.integers(0, 40), st.integers(1, 60), st.integers(1, 9), WIDTHS)
def test_rows_of_equal_alignment_are_exact(first: int, length: int, rows: int, width: int) -> None:
    # Rows 1024 bytes apart all start at the same offset in a line.
    axes = [(width, length), (1024, rows)]
    found = touched(first * width, axes, width)
    assert (found.sectors, found.lines) == tuple(blocks(first * width, axes, width, block) for block in (32, 128))


@given(st.integers(0, 40), st.integers(1, 60), WIDTHS)
def test_a_dense_matrix_is_exact(first: int, length: int, width: int) -> None:
    # Contiguous rows form one run.
    axes = [(width, length), (width * length, 7)]
    found = touched(first * width, axes, width)
    assert (found.sectors, found.lines) == tuple(blocks(first * width, axes, width, block) for block in (32, 128))


@given(st.integers(1, 30), st.integers(1, 30), st.integers(40, 90))
def test_rows_of_all_alignments_are_exact(first: int, length: int, apart: int) -> None:
    # 16 rows, an odd number of doubles apart, start at each of the 16 offsets in a line once.
    axes = [(8, length), (8 * (2 * apart + 1), 16)]
    found = touched(8 * first, axes, 8)
    assert (found.sectors, found.lines) == tuple(blocks(8 * first, axes, 8, block) for block in (32, 128))


@given(st.integers(0, 99), st.lists(st.tuples(st.integers(0, 90), st.integers(1, 6)), max_size=3), WIDTHS)
def test_disjoint_boxes_are_within_a_factor_of_two(first: int, gaps: list[tuple[int, int]], width: int) -> None:
    # Each axis steps over the extent of the previous axes and a gap. A few runs have few alignments: less exact.
    axes, extent = list[tuple[int, int]](), width
    for gap, number in gaps:
        distance = extent + width * gap
        axes.append((distance, number))
        extent += distance * (number - 1)
    found = touched(width * first, axes, width)
    for number, block in ((found.sectors, 32), (found.lines, 128)):
        expected = blocks(width * first, axes, width, block)
        assert expected / 2 <= number <= 2 * expected


def test_sectors_and_lines_derived_by_hand() -> None:
    # 10 doubles from byte 24: bytes 24 to 103, sectors 0 to 3, one line.
    assert touched(24, [(8, 10)], 8).sectors == 4
    assert touched(24, [(8, 10)], 8).lines == 1
    # 5 doubles at a stride of 17: each in its own line.
    assert touched(0, [(17 * 8, 5)], 8).lines == 5
    # A negative stride is equivalent to a positive one from the lowest address.
    assert touched(0, [(-8, 10)], 8) == touched(0, [(8, 10)], 8)


RECORDS = st.tuples(st.integers(1, 80), st.sets(st.integers(0, 79), min_size=1, max_size=4), st.integers(1, 40))


@given(RECORDS, WIDTHS)
def test_record_fields_touch_their_sectors(found: tuple[int, set[int], int], width: int) -> None:
    # Contiguous records, of which some fields are accessed.
    length, fields, number = found
    offsets = {member % length for member in fields}
    rows = [f"{{[i]: exists k: i = {length}*k + {offset} and 0 <= k < {number}}}" for offset in sorted(offsets)]
    cells = reduce(isl.Set.union, map(isl.Set, rows))
    counted = touched_by(cells, [width], width)
    elements = [length * record + offset for record in range(number) for offset in offsets]
    expected = {block: len({width * each // block for each in elements}) for block in (32, 128)}
    for size, near in ((32, counted.sectors), (128, counted.lines)):
        if length * width % size == 0 or len(offsets) == length:
            assert near == expected[size]
        assert expected[size] / 2 <= near <= 2 * expected[size] + 1


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("j = i", id="diagonal"),
        pytest.param("j = 63 - i", id="antidiagonal"),
        pytest.param("-1 <= i - j <= 1", id="three diagonals"),
        pytest.param("0 <= j - i < 8", id="band"),
        pytest.param("40 <= i + j < 50", id="wavefront"),
        pytest.param("(i + j) mod 2 = 0", id="checkerboard"),
        pytest.param("j mod 8 = 3 or j mod 8 = 5", id="two columns of eight"),
        pytest.param("(i = 7 or j = 9)", id="cross"),
        pytest.param("1 <= i < 63 or 1 <= j < 63", id="without corners"),
    ],
)
def test_matrix_regions_touch_their_sectors(where: str) -> None:
    cells = isl.Set(f"{{[i, j]: 0 <= i, j < 64 and ({where})}}")
    points = [(i, j) for i, j in product(range(64), repeat=2) if isl.Set(f"{{[{i}, {j}]}}").is_subset(cells)]
    counted = touched_by(cells, [256, 4], 4)
    for size, near in ((32, counted.sectors), (128, counted.lines)):
        assert near == pytest.approx(len({(256 * i + 4 * j) // size for i, j in points}), rel=0.01)


ELEMENT_MATRIX = """{ [i, j] : (exists (e, f, g: 0 <= e, f, g <= 4 and 0 <= i - 25e - 5f <= 4 and i = j - 5g)) or
    (0 <= i <= 124 and -24 + j <= 25*floor(i/25) <= j) or (exists (e, f, g: 0 <= e, f, g <= 4 and
    5g >= -4 + i - 25e and -4 + j - 25f <= 5g <= j - 25f and 5g <= i - 25e)) or
    ((i - j) mod 25 = 0 and 0 <= j <= 124 and -i + j <= 25*floor(j/25) <= 100 - i + j) }"""
"""the elements of the matrix of a cube of order 4 that share two of their three indices, as TSFC stores them"""


@pytest.mark.parametrize(
    "cells",
    [
        ELEMENT_MATRIX,
        "{ [i, j]: 0 <= i, j < 90 and (i = j or i + j = 50 or 5i = 2j) }",
        "{ [i, j]: 0 <= i, j < 90 and (i + 3j) mod 7 <= 2 }",
    ],
)
def test_enumeration_and_counting_agree(monkeypatch: pytest.MonkeyPatch, cells: str) -> None:
    found = touched_by(isl.Set(cells), [1000, 8], 8)
    monkeypatch.setattr("loopyperf.memory.touched_sectors.TESTED_CELLS", 0)
    monkeypatch.setattr("loopyperf.memory.touched_sectors.TESTED_CELLS_OF_ONE", 0)
    assert touched_by(isl.Set(cells), [1000, 8], 8) == found


def test_a_triangle_is_half_of_its_square() -> None:
    cells = isl.Set("{[i, j]: 0 <= i < 256 and 0 <= j <= i}")
    expected = sum(-(-(i + 1) // 8) for i in range(256))
    assert touched_by(cells, [1024, 4], 4).sectors == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(("row", "old_row"), [(16, 12), (32, 24), (3, 6)])
def test_reshape_touches_the_same_memory_as_a_copy(row: int, old_row: int) -> None:
    def seconds(load: str, shape: str, rows: int) -> float:
        unit = lp.make_kernel(
            f"{{[i, j]: 0 <= i < m and 0 <= j < {row}}}",
            f"out[i, j] = {load}",
            [lp.GlobalArg("x", np.float64, shape=shape), lp.GlobalArg("out", np.float64, shape=f"m,{row}"), ...],
            assumptions=f"m mod {old_row} = 0 and m >= {old_row}",
            lang_version=(2018, 2),
        )
        unit = lp.split_iname(unit, "i", 128, outer_tag="g.0", inner_tag="l.0")
        return lpp.estimate(unit, model="roofline", device="nvidia-v100", m=rows).seconds

    element = f"{row}*i + j"
    for rows in (240, 240_000):  # enumerating cells took a minute for the larger size
        reshaped = seconds(f"x[({element})//{old_row}, ({element}) % {old_row}]", f"{row}*m//{old_row},{old_row}", rows)
        assert reshaped == seconds("x[i, j]", f"m,{row}", rows)
