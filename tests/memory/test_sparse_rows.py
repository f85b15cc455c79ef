"""Memory accesses and footprints of sparse matrix-vector products, compared with random matrices."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.memory.footprints import working_sets
from loopyperf.memory.kernel_profile import LaunchProfile
from tests.idg.patterns import flat
from tests.kernels import floats, integers, make_kernel

SECTOR, LANES = 32, 32
ROWS = 1024
ELEMENT = 4
"""bytes"""


@dataclass(frozen=True)
class Matrix:
    """A sparse matrix in CSR format with random column indices."""

    row_start: np.ndarray[tuple[int], np.dtype[np.int64]]
    column: np.ndarray[tuple[int], np.dtype[np.int64]]

    @classmethod
    def of(cls, lengths: np.ndarray[tuple[int], np.dtype[np.int64]], columns: int = 2**24) -> "Matrix":
        """Return a random matrix with rows of *lengths*."""
        row_start = np.concatenate([[0], np.cumsum(lengths)])
        return cls(row_start, np.random.default_rng(1).integers(0, columns, row_start[-1]))

    def indices(self, row: int) -> range:
        """Return the indices of the elements of *row*."""
        return range(int(self.row_start[row]), int(self.row_start[row + 1]))


def sectors(elements: "list[int]") -> int:
    return len({element * ELEMENT // SECTOR for element in elements})


def lane_per_row(matrix: Matrix) -> Iterator[list[int]]:
    """Yield the element indices of the active lanes of each warp, for each iteration of the loop."""
    for first in range(0, ROWS, LANES):
        rows = [matrix.indices(row) for row in range(first, first + LANES)]
        for number in range(max(map(len, rows))):
            yield [row[number] for row in rows if number < len(row)]


def warp_per_row(matrix: Matrix) -> Iterator[list[int]]:
    """Yield the same for one warp per row, which accesses 32 elements of its row in each iteration."""
    for row in map(matrix.indices, range(ROWS)):
        for first in range(0, len(row), LANES):
            yield list(row[first : first + LANES])


def by_bounds() -> lp.TranslationUnit:
    return product_kernel(
        "[start, end] -> {[j]: start <= j < end}",
        """
        <> start = row_start[i]
        <> end = row_start[i+1]
        y[i] = sum(j, a[j]*x[column[j]])
        """,
    )


def by_length() -> lp.TranslationUnit:
    return product_kernel(
        "[length] -> {[j]: 0 <= j < length}",
        """
        <> start = row_start[i]
        <> length = row_start[i+1] - start
        y[i] = sum(j, a[start + j]*x[column[start + j]])
        """,
    )


def by_column_variable() -> lp.TranslationUnit:
    """Return a product that stores the column index in a variable."""
    return product_kernel(
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


def product_kernel(domain: str, code: str) -> lp.TranslationUnit:
    """Return a product with one work-item per row, in groups of 128."""
    arguments = [flat("a"), flat("x"), flat("column", np.int32), lp.GlobalArg("row_start", np.int32, shape="n+1")]
    unit = make_kernel(
        ["{[i]: 0 <= i < n}", domain], code, *arguments, floats("y", "n"), integers("n"), ..., seq_dependencies=True
    )
    return lp.split_iname(lp.assume(unit, "n >= 1"), "i", 128, outer_tag="g.0", inner_tag="l.0")


def by_warps() -> lp.TranslationUnit:
    """Return a kernel with one warp per row; each lane sums every 32nd element of the product."""
    code = """
        <> start = row_start[i] {inames=i:lane}
        <> length = row_start[i+1] - start {inames=i:lane}
        <> total = 0.0f {inames=i:lane}
        total = total + a[start + 32*t + lane]*x[column[start + 32*t + lane]] {inames=i:lane:t}
        part[i, lane] = total {inames=i:lane}
        """
    unit = make_kernel(
        ["{[i, lane]: 0 <= i < n and 0 <= lane < 32}", "[length, lane] -> {[t]: 0 <= t and lane + 32*t < length}"],
        code,
        *(flat("a"), flat("x"), flat("column", np.int32)),
        lp.GlobalArg("row_start", np.int32, shape="n+1"),
        floats("part", "n,32"),
        ...,
        seq_dependencies=True,
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


LANE_PER_ROW = {"bounds": by_bounds, "length": by_length, "columns in a variable": by_column_variable}


def test_one_lane_per_row_requests_the_sectors_of_a_matrix(subtests: pytest.Subtests) -> None:
    for length in [1, 2, 4, 8, 27]:
        for name in sorted(LANE_PER_ROW):
            with subtests.test(length=length, name=name):
                matrix = Matrix.of(np.full(ROWS, length))
                found = launch(LANE_PER_ROW[name](), j=length)
                iterations = list(lane_per_row(matrix))
                # Exact for rows of equal length; random columns of 16 million rarely share one of 2 million sectors.
                real = np.mean([sectors(indices) for indices in iterations])
                assert (mean_sectors(found, "a"), mean_sectors(found, "column")) == (real, real)
                expected = np.mean([sectors(matrix.column[indices].tolist()) for indices in iterations])
                assert mean_sectors(found, "x") == pytest.approx(expected, rel=0.01)


def test_sectors_per_lane_for_rows_of_different_lengths() -> None:
    lengths = np.random.default_rng(2).poisson(6, ROWS)
    iterations = list(lane_per_row(Matrix.of(lengths)))
    found = launch(by_bounds(), j=6)
    # The model assumes that all lanes are active, so we compare sectors per active lane. Rows of different lengths
    # share slightly fewer sectors.
    per_lane = sum(map(sectors, iterations)) / sum(map(len, iterations))
    assert mean_sectors(found, "a") / LANES == pytest.approx(per_lane, rel=0.1)


@pytest.mark.parametrize("length", [32, 54, 100])
def test_one_warp_per_row_is_coalesced(length: int) -> None:
    matrix = Matrix.of(np.full(ROWS, length))
    iterations = list(warp_per_row(matrix))
    found = launch(by_warps(), length=length)
    # One warp represents all warps, although their rows have different alignments.
    assert mean_sectors(found, "a") == pytest.approx(np.mean([sectors(each) for each in iterations]), rel=0.15)
    expected = np.mean([sectors(matrix.column[each].tolist()) for each in iterations])
    assert mean_sectors(found, "x") == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("build", "keyword"), [(by_bounds, "j"), (by_length, "length"), (by_column_variable, "j"), (by_warps, "length")]
)
@pytest.mark.parametrize("length", [3, 27])
def test_a_launch_touches_every_element_of_its_rows(
    build: Callable[[], lp.TranslationUnit], keyword: str, length: int
) -> None:
    sets = working_sets(launch(build(), **{keyword: length}).footprints)
    whole = sets.touched(sets.program, {})
    assert whole["a"] == whole["column"]
    assert whole["a"].sectors == ROWS * length * ELEMENT / SECTOR
    # Random indirect accesses: a new sector for each element.
    assert whole["x"].sectors == ROWS * length


def test_iteration_of_a_group_touches_one_element_per_row() -> None:
    length = 27
    sets = working_sets(launch(by_bounds(), j=length).footprints)
    window = {**sets.footprints.window({0: range(3, 4)}, {}), "j": range(5, 6)}
    rows = range(3 * 128, 4 * 128)
    assert sets.touched(sets.program, window)["a"].sectors == sectors([row * length + 5 for row in rows])


def test_footprint_is_limited_to_the_array() -> None:
    unit = by_bounds()
    kernel = unit.default_entrypoint
    short = [arg.copy(shape=(64,)) if arg.name in ("a", "x") else arg for arg in kernel.args]
    sets = working_sets(launch(unit.with_kernel(kernel.copy(args=short)), j=27).footprints)
    whole = sets.touched(sets.program, {})
    assert (whole["a"].sectors, whole["x"].sectors) == (64 * ELEMENT / SECTOR, 64 * ELEMENT / SECTOR)
    assert [sentence for sentence in sets.footprints.assumed if "'x'" in sentence] == []


def test_rows_that_exceed_the_array_are_reported(subtests: pytest.Subtests) -> None:
    for spare, is_reported in [(-1, True), (0, False), (1, False), (10**6, False)]:
        for build in [by_bounds, by_length, by_column_variable, by_warps]:
            with subtests.test(spare=spare, is_reported=is_reported, build=build):
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
                reported = sorted(note for note in found.notes if "accessed memory is limited to the array" in note)
                assert reported == [
                    f"rows of {array!r} have {elements:,} elements by typical values, but the array has "
                    f"{elements + spare:,} by its shape; accessed memory is limited to the array; check both values"
                    for array in (("a", "column") if is_reported else ())
                ]


def by_order() -> lp.TranslationUnit:
    """Return a product that processes rows in a loaded order."""
    return product_kernel(
        "[start, length] -> {[j]: 0 <= j < length}",
        """
        <> row = order[i]
        <> start = row_start[row]
        <> length = row_start[row+1] - start
        y[i] = sum(j, a[start + j]*x[column[start + j]])
        """,
    )


def test_rows_in_loaded_order_are_scattered() -> None:
    found = launch(lp.add_dtypes(by_order(), {"order": np.int32}), length=6)
    assert mean_sectors(found, "a") == LANES
    sets = working_sets(found.footprints)
    # 24 bytes that start at any multiple of 4: one sector for 3 of 8 alignments, two for the others.
    assert sets.touched(sets.program, {})["a"].sectors == ROWS * (1 * 3 + 2 * 5) / 8


@pytest.mark.parametrize(
    ("build", "keyword"), [(by_bounds, "j"), (by_length, "length"), (by_column_variable, "j"), (by_warps, "length")]
)
def test_traffic_is_at_least_the_compulsory_traffic(build: Callable[[], lp.TranslationUnit], keyword: str) -> None:
    rows, length = 2**22, 27
    found = lpp.roofline(build(), n=rows, device="nvidia-v100", typical={keyword: length})
    compulsory = rows * length * (ELEMENT + ELEMENT) + (rows + 1) * ELEMENT + rows * ELEMENT
    (moved,) = (each.moved for each in found.launches)
    assert moved["DRAM"] >= compulsory
    assert any("accessed part of 'x' depends on data" in note for note in found.notes)


def test_throughput_bounds_exclude_indirect_accesses() -> None:
    found = lpp.throughput_bounds(by_bounds(), device="nvidia-v100", typical={"j": 27})
    assert any("traffic of a: indirect accesses are not included" in sentence for sentence in found.left_out)
