"""Footprints of stencils with clamped, mirrored and periodic boundaries, compared with an enumeration of the cells."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
import pytest

import loopyperf as lpp
from loopyperf.counts.lanes import index_values
from loopyperf.memory.footprints import WorkingSets, working_sets
from loopyperf.memory.kernel_profile import LaunchProfile
from tests.kernels import floats, integers, make_kernel

GROUP = (16, 4)
"""work-items of a group along the last two axes"""
BOUNDARIES = ("clamped", "limited", "mirrored", "periodic", "chosen")


def within(boundary: str, place: Any, length: Any) -> Any:
    """Return the index at *place*, which may be outside of an axis of *length* elements."""
    match boundary:
        case "clamped":
            return prim.Min((prim.Max((place, 0)), length - 1))
        case "limited":  # only one end can be reached
            return prim.Max((place, 0))
        case "mirrored":
            last = length - 1 - prim.Max((place, -place))
            return length - 1 - prim.Max((last, -last))
        case "periodic":
            return place % length
        case _:
            return prim.If(
                prim.Comparison(place, "<", 0), 0, prim.If(prim.Comparison(place, "<", length), place, length // 2)
            )


@dataclass(frozen=True)
class Stencil:
    """Loads of an array at offsets from each point."""

    shape: tuple[int, ...]
    loads: tuple[tuple[Any, ...], ...]
    """indices of each load"""

    @classmethod
    def drawn(cls, seed: int) -> "Stencil":
        """Return a random stencil."""
        draw = random.Random(seed)
        axes = draw.randint(1, 3)
        shape = tuple([draw.randint(5, 24) for _ in range(axes - 1)] + [draw.choice([32, 64, 96])])
        radius, kinds = draw.randint(1, 4), [draw.choice(BOUNDARIES) for _ in shape]
        loads: list[tuple[Any, ...]] = []
        for _ in range(draw.randint(1, 5)):
            offsets = [draw.randint(-radius, radius if kind != "limited" else 0) for kind in kinds]
            places = zip(kinds, map(prim.Variable, "ijk"[:axes]), offsets, shape, strict=True)
            loads.append(tuple(within(kind, name + by, length) if by else name for kind, name, by, length in places))
        return cls(shape, tuple(loads))

    def launch(self) -> LaunchProfile:
        """Return the launch with a group of work-items along the last two axes."""
        names = "ijk"[: len(self.shape)]
        x = prim.Variable("x")
        limits = " and ".join(f"0 <= {name} < {length}" for name, length in zip(names, self.shape, strict=True))
        unit = make_kernel(
            f"{{[{', '.join(names)}]: {limits}}}",
            [lp.Assignment(prim.Variable("y")[tuple(map(prim.Variable, names))], sum(x[load] for load in self.loads))],
            floats("x, y", self.shape),
        )
        for axis, (name, size) in enumerate(zip(reversed(names), GROUP, strict=False)):
            unit = lp.split_iname(unit, name, size, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
        (launch,) = lpp.kernel_profile(unit).launches
        return launch

    def touched(self, groups: Sequence[range], block: int) -> int:
        """Return the number of blocks of *block* bytes that *groups*, a range for each axis of the grid, load."""
        sides = [np.arange(length) for length in self.shape]
        for axis, (values, size) in enumerate(zip(groups, GROUP, strict=False)):
            sides[-1 - axis] = sides[-1 - axis][values.start * size : values.stop * size]
        at = dict(zip("ijk", np.meshgrid(*sides, indexing="ij"), strict=False))
        loads = [np.ravel_multi_index([index_values(index, at) for index in load], self.shape) for load in self.loads]
        return len(np.unique(np.concatenate([4 * load.reshape(-1) // block for load in loads])))


def windows(grid: Sequence[int]) -> Iterator[list[range]]:
    """Yield all groups of *grid*, groups at its corners and in its middle, and a row of groups."""
    yield [range(length) for length in grid]
    yield [range(length) if axis == 0 else range(length // 2, length // 2 + 1) for axis, length in enumerate(grid)]
    for places in (0.0, 0.5, 1.0), (1.0, 0.0, 0.0):
        corners = (int(place * (length - 1)) for place, length in zip(places, grid, strict=False))
        yield [range(corner, corner + 1) for corner in corners]


def footprint(sets: WorkingSets, launch: LaunchProfile, groups: Sequence[range]) -> tuple[float, float]:
    found = sets.touched(sets.program, launch.footprints.window(dict(enumerate(groups)), {}), "x", "load")["x"]
    return float(found.sectors), float(found.lines)


def test_piecewise_stencils_touch_the_enumerated_memory() -> None:
    # As for plain stencils, boxes are counted with the mean alignment of their rows.
    errors: list[float] = []
    for seed in range(30):
        stencil = Stencil.drawn(seed)
        launch = stencil.launch()
        sets = working_sets(launch.footprints)
        for groups in windows([launch.grid[axis] for axis in sorted(launch.grid)]):
            for found, block in zip(footprint(sets, launch, groups), (32, 128), strict=True):
                expected = stencil.touched(groups, block)
                assert found == pytest.approx(expected, rel=0.15), (seed, stencil, groups, block)
                errors.append(abs(found / expected - 1))
    assert sum(errors) / len(errors) < 0.01


def rows(code: Any) -> lp.TranslationUnit:
    """Return a kernel whose groups of 32 x 8 work-items compute o[i, j] from a square t."""
    unit = make_kernel("{[i, j]: 0 <= i, j < n}", code, floats("o, t", "n, n"), integers("n"), seq_dependencies=True)
    unit = lp.split_iname(unit, "j", 32, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(unit, "i", 8, outer_tag="g.1", inner_tag="l.1")


def sectors_read(unit: lp.TranslationUnit) -> tuple[float, float]:
    """Return the sectors that DRAM and L2 deliver for a square of 1000 x 1000 floats."""
    found = {row["metric"]: row["value"] for row in lpp.counters(unit, n=1000, device="nvidia-v100").records()}
    return found["dram__sectors_read.sum"], found["lts__t_sectors_srcunit_tex_op_read.sum"]


def test_an_array_is_read_once_whatever_its_boundary() -> None:
    i, j, n, t = map(prim.Variable, "ijnt")
    for boundary in BOUNDARIES:

        def at(place: Any, boundary: str = boundary) -> Any:
            return within(boundary, place, n)

        for value in (
            t[at(i - 1), j],
            t[i, at(j - 1)] + t[i, at(j)],
            t[at(i - 1), j] + t[at(i - 2), j] + t[i, at(j - 1)] + t[i, j],
        ):
            dram, _ = sectors_read(rows([lp.Assignment(prim.Variable("o")[i, j], value)]))
            assert 125_000 <= dram <= 130_000, (boundary, value)


def test_neighbors_in_temporaries_share_rows() -> None:
    # A group of 8 rows reads 10 of them, 4 sectors each; 32 x 125 groups.
    for below, above in (
        ("if(i > 0, i - 1, 0)", "if(i + 1 < n, i + 1, n - 1)"),
        ("(i - 1) % n", "(i + 1) % n"),
        ("abs(i - 1)", "n - 1 - abs(n - 2 - i)"),
    ):
        dram, requested = sectors_read(rows(f"<> a = {below}\n<> b = {above}\no[i, j] = t[a, j] + t[b, j]"))
        assert 125_000 <= dram <= 130_000
        assert requested == pytest.approx(40 * 32 * 125, rel=0.01)


def test_indices_of_rows_and_of_elements_share_memory() -> None:
    dram, _ = sectors_read(rows("o[i, j] = t[(i*n + j) // 1000, (i*n + j) % 1000] + t[i, j]"))
    assert dram == 125_000


def test_other_indices_touch_at_most_the_array() -> None:
    unit = rows("o[i, j] = t[(i*j) % n, j] + t[i ^ j, j]")
    assert sectors_read(unit)[0] == 125_000
    notes = lpp.estimate(unit, n=1000, device="nvidia-v100", model="roofline").notes
    assert any("are not affine on pieces" in note for note in notes)
