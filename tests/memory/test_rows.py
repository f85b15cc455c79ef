"""Rows of sparse matrices: what warps ask of memory and what launches touch, against matrices that are made up."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.memory.footprints import working_sets
from loopyperf.memory.kernel_profile import LaunchProfile
from tests.idg.patterns import flat

SECTOR, LANES = 32, 32
ROWS = 1024
ELEMENT = 4
"""bytes"""


@dataclass(frozen=True)
class Matrix:
    """A sparse matrix of random columns, row after row."""

    row_start: np.ndarray[tuple[int], np.dtype[np.int64]]
    column: np.ndarray[tuple[int], np.dtype[np.int64]]

    @classmethod
    def of(cls, lengths: np.ndarray[tuple[int], np.dtype[np.int64]], columns: int = 2**24) -> "Matrix":
        """Make up a matrix whose rows have *lengths*."""
        row_start = np.concatenate([[0], np.cumsum(lengths)])
        return cls(row_start, np.random.default_rng(1).integers(0, columns, row_start[-1]))

    def places(self, row: int) -> range:
        """Return where the elements of *row* are."""
        return range(int(self.row_start[row]), int(self.row_start[row + 1]))


def sectors(elements: "list[int]") -> int:
    return len({element * ELEMENT // SECTOR for element in elements})


def lane_per_row(matrix: Matrix) -> Iterator[list[int]]:
    """Yield where the active lanes of each warp are in the matrix, in each pass of their loop."""
    for first in range(0, ROWS, LANES):
        rows = [matrix.places(row) for row in range(first, first + LANES)]
        for number in range(max(map(len, rows))):
            yield [row[number] for row in rows if number < len(row)]


def warp_per_row(matrix: Matrix) -> Iterator[list[int]]:
    """Yield the same where each warp has a row, each pass the next 32 of its elements."""
    for row in map(matrix.places, range(ROWS)):
        for first in range(0, len(row), LANES):
            yield list(row[first : first + LANES])


def by_bounds() -> lp.TranslationUnit:
    return made(
        "[start, end] -> {[j]: start <= j < end}",
        """
        <> start = row_start[i]
        <> end = row_start[i+1]
        y[i] = sum(j, a[j]*x[column[j]])
        """,
    )


def by_length() -> lp.TranslationUnit:
    return made(
        "[length] -> {[j]: 0 <= j < length}",
        """
        <> start = row_start[i]
        <> length = row_start[i+1] - start
        y[i] = sum(j, a[start + j]*x[column[start + j]])
        """,
    )


def by_gathered_columns() -> lp.TranslationUnit:
    """Columns stand in a variable."""
    return made(
        "[start, end] -> {[j]: start <= j < end}",
        """
        for i
            <> start = row_start[i]
            <> end = row_start[i+1]
            <> total = 0.0f
            for j
                <> place = column[j]
                total = total + a[j]*x[place]
            end
            y[i] = total
        end
        """,
    )


def made(domain: str, code: str) -> lp.TranslationUnit:
    """Return the product of one work-item for each row, in groups of 128."""
    arguments = [flat("a"), flat("x"), flat("column", np.int32), lp.GlobalArg("row_start", np.int32, shape="n+1")]
    unit = lp.make_kernel(
        ["{[i]: 0 <= i < n}", domain],
        code,
        [*arguments, lp.GlobalArg("y", np.float32, shape="n"), lp.ValueArg("n", np.int32), ...],
        seq_dependencies=True,
        lang_version=(2018, 2),
    )
    return lp.split_iname(lp.assume(unit, "n >= 1"), "i", 128, outer_tag="g.0", inner_tag="l.0")


def by_warps() -> lp.TranslationUnit:
    """Return sums of the product's elements 32 apart, one warp for each row."""
    code = """
        <> start = row_start[i] {inames=i:lane}
        <> length = row_start[i+1] - start {inames=i:lane}
        <> total = 0.0f {inames=i:lane}
        total = total + a[start + 32*t + lane]*x[column[start + 32*t + lane]] {inames=i:lane:t}
        part[i, lane] = total {inames=i:lane}
        """
    unit = lp.make_kernel(
        ["{[i, lane]: 0 <= i < n and 0 <= lane < 32}", "[length, lane] -> {[t]: 0 <= t and lane + 32*t < length}"],
        code,
        [
            *(flat("a"), flat("x"), flat("column", np.int32)),
            lp.GlobalArg("row_start", np.int32, shape="n+1"),
            lp.GlobalArg("part", np.float32, shape="n,32"),
            ...,
        ],
        seq_dependencies=True,
        lang_version=(2018, 2),
    )
    return lp.tag_inames(unit, {"i": "g.0", "lane": "l.0"})


def launch(unit: lp.TranslationUnit, **typical: int) -> LaunchProfile:
    (found,) = lpp.instruction_graph(unit, n=ROWS, typical=typical).launches
    return found


def mean_sectors(found: LaunchProfile, array: str) -> float:
    """Return the sectors of one execution of the one load of *array*."""
    kind = found.representative
    references = [(number, each.reference) for number, each in enumerate(kind.graph.instructions)]
    (number,) = (number for number, reference in references if reference is not None and reference.array == array)
    return float(kind.access(number).mean("sectors"))


LANE_PER_ROW = {"bounds": by_bounds, "length": by_length, "columns in a variable": by_gathered_columns}


def test_lanes_in_rows_of_their_own_ask_for_as_much_as_in_a_matrix(subtests: pytest.Subtests) -> None:
    for length in [1, 2, 4, 8, 27]:
        for name in sorted(LANE_PER_ROW):
            with subtests.test(length=length, name=name):
                matrix = Matrix.of(np.full(ROWS, length))
                found = launch(LANE_PER_ROW[name](), j=length)
                passes = list(lane_per_row(matrix))
                # Rows of equal lengths are exact; random columns of 16 million seldom share one of 2 million sectors.
                real = np.mean([sectors(places) for places in passes])
                assert (mean_sectors(found, "a"), mean_sectors(found, "column")) == (real, real)
                gathered = np.mean([sectors(matrix.column[places].tolist()) for places in passes])
                assert mean_sectors(found, "x") == pytest.approx(gathered, rel=0.01)


def test_rows_of_different_lengths_ask_for_nearly_as_much_for_each_lane() -> None:
    lengths = np.random.default_rng(2).poisson(6, ROWS)
    passes = list(lane_per_row(Matrix.of(lengths)))
    found = launch(by_bounds(), j=6)
    # The model has all lanes in each pass: per active lane. Rows that are not equally far apart share a little less.
    for_each_lane = sum(map(sectors, passes)) / sum(map(len, passes))
    assert mean_sectors(found, "a") / LANES == pytest.approx(for_each_lane, rel=0.1)


@pytest.mark.parametrize("length", [32, 54, 100])
def test_lanes_of_a_row_lie_together(length: int) -> None:
    matrix = Matrix.of(np.full(ROWS, length))
    passes = list(warp_per_row(matrix))
    found = launch(by_warps(), length=length)
    # One warp stands for all: where its row begins in a sector is one of several places.
    assert mean_sectors(found, "a") == pytest.approx(np.mean([sectors(each) for each in passes]), rel=0.15)
    gathered = np.mean([sectors(matrix.column[each].tolist()) for each in passes])
    assert mean_sectors(found, "x") == pytest.approx(gathered, rel=0.01)


@pytest.mark.parametrize(
    ("build", "keyword"), [(by_bounds, "j"), (by_length, "length"), (by_gathered_columns, "j"), (by_warps, "length")]
)
@pytest.mark.parametrize("length", [3, 27])
def test_a_launch_touches_every_element_of_its_rows(
    build: Callable[[], lp.TranslationUnit], keyword: str, length: int
) -> None:
    sets = working_sets(launch(build(), **{keyword: length}).footprints)
    whole = sets.touched(sets.program, {})
    assert whole["a"] == whole["column"]
    assert whole["a"].sectors == ROWS * length * ELEMENT / SECTOR
    # A random gather: another sector for every element.
    assert whole["x"].sectors == ROWS * length


def test_a_pass_of_a_group_touches_an_element_of_each_row() -> None:
    length = 27
    sets = working_sets(launch(by_bounds(), j=length).footprints)
    window = {**sets.footprints.window({0: range(3, 4)}, {}), "j": range(5, 6)}
    rows = range(3 * 128, 4 * 128)
    assert sets.touched(sets.program, window)["a"].sectors == sectors([row * length + 5 for row in rows])


def test_no_more_is_touched_than_the_whole_array() -> None:
    unit = by_bounds()
    kernel = unit.default_entrypoint
    short = [arg.copy(shape=(64,)) if arg.name in ("a", "x") else arg for arg in kernel.args]
    sets = working_sets(launch(unit.with_kernel(kernel.copy(args=short)), j=27).footprints)
    whole = sets.touched(sets.program, {})
    assert (whole["a"].sectors, whole["x"].sectors) == (64 * ELEMENT / SECTOR, 64 * ELEMENT / SECTOR)
    assert [sentence for sentence in sets.footprints.assumed if "'x'" in sentence] == []


def test_rows_that_an_array_has_no_room_for_are_said(subtests: pytest.Subtests) -> None:
    for spare, is_said in [(-1, True), (0, False), (1, False), (10**6, False)]:
        for build in [by_bounds, by_length, by_gathered_columns, by_warps]:
            with subtests.test(spare=spare, is_said=is_said, build=build):
                unit, typical = build(), {"t": 1} if build is by_warps else {"j": 27}
                kernel, elements = unit.default_entrypoint, ROWS * (32 if build is by_warps else 27)
                sized = [
                    arg.copy(shape=(elements + spare,)) if arg.name in ("a", "column") else arg for arg in kernel.args
                ]
                found = lpp.estimate(
                    unit.with_kernel(kernel.copy(args=sized)),
                    n=ROWS,
                    device="nvidia-v100",
                    model="roofline",
                    typical=typical,
                )
                said = sorted(note for note in found.notes if "accessed memory is limited to the array" in note)
                assert said == [
                    f"rows of {array!r} have {elements:,} elements by typical values, but the array has "
                    f"{elements + spare:,} by its shape; accessed memory is limited to the array; check both values"
                    for array in (("a", "column") if is_said else ())
                ]


def by_order() -> lp.TranslationUnit:
    """Rows are taken in an order that is loaded."""
    return made(
        "[start, length] -> {[j]: 0 <= j < length}",
        """
        <> row = order[i]
        <> start = row_start[row]
        <> length = row_start[row+1] - start
        y[i] = sum(j, a[start + j]*x[column[start + j]])
        """,
    )


def test_rows_in_an_order_that_is_loaded_lie_apart() -> None:
    found = launch(lp.add_dtypes(by_order(), {"order": np.int32}), length=6)
    assert mean_sectors(found, "a") == LANES
    sets = working_sets(found.footprints)
    # 24 bytes that begin at any multiple of 4: one sector at 3 of 8 places, two at the others.
    assert sets.touched(sets.program, {})["a"].sectors == ROWS * (1 * 3 + 2 * 5) / 8


@pytest.mark.parametrize(
    ("build", "keyword"), [(by_bounds, "j"), (by_length, "length"), (by_gathered_columns, "j"), (by_warps, "length")]
)
def test_no_less_is_moved_than_has_to_be(build: Callable[[], lp.TranslationUnit], keyword: str) -> None:
    rows, length = 2**22, 27
    found = lpp.roofline(build(), n=rows, device="nvidia-v100", typical={keyword: length})
    compulsory = rows * length * (ELEMENT + ELEMENT) + (rows + 1) * ELEMENT + rows * ELEMENT
    (moved,) = (each.moved for each in found.launches)
    assert moved["DRAM"] >= compulsory
    assert any("accessed part of 'x' depends on data" in note for note in found.notes)


def test_bounds_of_throughput_do_not_take_all_rows_for_the_first() -> None:
    found = lpp.throughput_bounds(by_bounds(), device="nvidia-v100", typical={"j": 27})
    assert any("traffic of a: indirect accesses are not included" in sentence for sentence in found.left_out)
