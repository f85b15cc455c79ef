"""Stores that write a part of each sector: published times, our measurements on an H200, and traffic known by hand."""

from dataclasses import dataclass
from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.models.traffic import RequestedSectors

# {{{ times


def transposed(kind: str, dtype: type[np.generic], tile: int, rows: int) -> lp.TranslationUnit:
    """Return c = aᵀ in groups of *tile* × *rows* work-items, each of which moves a tile, and stores rows or columns."""
    per = tile // rows
    from_, to = f"{tile}*by + y + {rows}*q, {tile}*bx + x", f"{tile}*bx + x, {tile}*by + y + {rows}*q"
    code, names, more, tags, bounds = f"c[{to}] = a[{from_}]", "x, y, q", [], "", ""
    if kind == "tile":
        code = f"""
            s[y + {rows}*q, x] = a[{from_}] {{id=load}}
            c[{tile}*bx + y2 + {rows}*p, {tile}*by + x2] = s[x2, y2 + {rows}*p] {{dep=load}}
            """
        space, strides = lp.AddressSpace.LOCAL, (tile + 1, 1)
        more = [lp.TemporaryVariable("s", dtype, shape=(tile, tile), strides=strides, address_space=space)]
        names, tags = f"{names}, x2, y2, p", "x2:l.0,y2:l.1,p:unr,"
        bounds = f" and 0 <= x2 < {tile} and 0 <= y2 < {rows} and 0 <= p < {per}"
    groups = f"0 <= bx, by < n//{tile} and 0 <= x < {tile} and 0 <= y < {rows} and 0 <= q < {per}"
    unit = lp.make_kernel(
        f"{{[bx, by, {names}]: {groups}{bounds}}}",
        f"for bx, by\n{code}\nend",
        [lp.GlobalArg("a,c", dtype, shape="n, n"), lp.ValueArg("n", np.int32), *more],
        assumptions=f"n >= {tile} and n mod {tile} = 0",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(unit, f"bx:g.0,by:g.1,x:l.0,y:l.1,{tags}q:unr")


PUBLISHED = {
    "nvidia-rtx-a4000": (np.float64, 4096, 32, 32, 1559),  # an RTX 3070: the same chip and DRAM
    "nvidia-rtx-4090": (np.float32, 1024, 32, 8, 30.9),
    "nvidia-tesla-k40": (np.float32, 1024, 32, 8, 156),  # a K20m
    "amd-mi100": (np.float32, 4096, 32, 32, 418),
    "nvidia-h100": (np.float32, 8192, 32, 32, 1130),
}
"""device -> type, n, tile, rows of work-items, and microseconds of a transposition whose stores are not coalesced"""


def microseconds(unit: lp.TranslationUnit, device: str, **sizes: int) -> float:
    return 1e6 * float(lpp.estimate(unit, device=device, model="pipeline", parameters=sizes).seconds)


def test_transpositions_without_a_tile_take_the_published_times(subtests: pytest.Subtests) -> None:
    for device, (dtype, n, tile, rows, measured) in PUBLISHED.items():
        with subtests.test(device):
            columns, tiled = (
                microseconds(transposed(kind, dtype, tile, rows), device, n=n) for kind in ("columns", "tile")
            )
            assert columns == pytest.approx(measured, rel=0.2)
            assert columns > 1.5 * tiled


@dataclass(frozen=True)
class Strided:
    """Stores of the first *used* of *stride* rows of a column-major array, as in our measurement kernels."""

    dtype: type[np.generic]
    used: int
    stride: int
    groups: int

    def build(self) -> tuple[lp.TranslationUnit, dict[str, int]]:
        stores = "\n".join(f"out[{row}, l, k, g] = 0.75" for row in range(self.used))
        unit = lp.make_kernel(
            "{[g, l, k]: 0 <= g < groups and 0 <= l < 256 and 0 <= k < 16}",
            stores,
            [lp.GlobalArg("out", self.dtype, shape=f"{self.stride}, 256, 16, groups", order="F"), ...],
            assumptions="groups >= 1",
            lang_version=(2018, 2),
            target=lp.CudaTarget(),
        )
        return lp.tag_inames(unit, "g:g.0,l:l.0"), {"groups": self.groups}


STRIDED = {
    Strided(np.float32, 1, 1, 16384): 62,
    Strided(np.float32, 1, 2, 8192): 128,
    Strided(np.float32, 1, 4, 32768): 1036,
    Strided(np.float32, 1, 8, 16384): 1047,
    Strided(np.float32, 2, 3, 32768): 960,
    Strided(np.float32, 3, 3, 32768): 527,
    Strided(np.float32, 2, 4, 32768): 1315,
    Strided(np.float32, 4, 4, 32768): 1021,
    Strided(np.float64, 1, 2, 32768): 1034,
    Strided(np.float64, 2, 3, 16384): 1175,
    Strided(np.float64, 3, 3, 16384): 979,
    Strided(np.float64, 2, 4, 8192): 929,
    Strided(np.float64, 1, 8, 16384): 1522,
}
"""stores -> microseconds on an H200 (fits/nvidia-h200/raw/calibration.jsonl.xz)"""


def test_strided_stores_take_the_times_measured_on_an_h200(subtests: pytest.Subtests) -> None:
    errors: list[float] = []
    for strided, measured in STRIDED.items():
        unit, sizes = strided.build()
        predicted = microseconds(unit, "nvidia-h200", **sizes)
        errors.append(abs(np.log(predicted / measured)))
        with subtests.test(f"{strided}"):
            assert predicted == pytest.approx(measured, rel=0.2)
    assert np.median(errors) < 0.12


# }}}


# {{{ DRAM traffic


def of_stores(strided: Strided, device: str = "nvidia-h200") -> tuple[float, float]:
    """Return the sectors that DRAM reads and writes for stores."""
    unit, sizes = strided.build()
    found = lpp.counters(unit, device=device, parameters=sizes)
    return found["dram__sectors_read.sum"], found["dram__sectors_write.sum"]


def test_sectors_with_gaps_are_read_before_they_are_written() -> None:
    lanes, left = 2**16 * 256, 30 * 2**20 / 32
    cases: list[tuple[Any, float, float]] = [
        (Strided(np.float32, 1, 1, 4096), 0, lanes / 8),  # whole sectors
        (Strided(np.float32, 4, 4, 4096), 0, lanes / 2),  # whole after four stores
        (Strided(np.float32, 1, 4, 4096), lanes / 2, lanes / 2),  # 4 bytes of each 16: half a sector for each lane
        (Strided(np.float32, 3, 4, 4096), lanes / 2, lanes / 2),
        (Strided(np.float64, 1, 8, 4096), 2 * lanes, lanes),  # 8 bytes of each 64: DRAM reads 64
    ]
    for strided, read, written in cases:
        assert of_stores(strided) == pytest.approx((read, written - left), rel=1e-3)
    # DRAM of a V100 delivers single sectors.
    assert of_stores(Strided(np.float64, 1, 8, 4096), "nvidia-v100")[0] == pytest.approx(lanes, rel=1e-3)


def test_stores_that_complete_sectors_read_none() -> None:
    complete = RequestedSectors(sectors=400, partial=400, distinct=3200, executions=100, instructions=1)
    assert complete.filled(distinct=100) == 0
    # Of each of 100 rows of 80 bytes, two sectors are whole; half of the third is a gap.
    rows = RequestedSectors(sectors=300, partial=100, distinct=8000, executions=100, instructions=1)
    assert rows.filled(distinct=300) == 100
    # Without gaps, neighboring rows share sectors: 100 rows have 250.
    assert rows.filled(distinct=250) == 0


# }}}


# {{{ combined stores


def test_a_core_combines_consecutive_stores_to_few_sectors() -> None:
    def combined(sectors: float) -> tuple[float, float]:
        """Return the sectors that leave the core for four stores that fill each of *sectors*, and the partial ones."""
        one = RequestedSectors(4 * sectors, 4 * sectors, 32 * sectors, 4, 4)
        return one.combined(at_once=sectors)

    for sectors in (4, 12, 16):
        assert combined(sectors) == pytest.approx((1 / 4, 0))
    assert combined(24) == pytest.approx((1 / 2 + 1 / 2 / 4, 1 / 2))
    for sectors in (32, 64):
        assert combined(sectors) == pytest.approx((1, 1))
    # Stores of one instruction, by different warps, are not consecutive.
    assert RequestedSectors(64, 64, 512, 4, 1).combined(at_once=16) == (1, 1)
    # Three of four parts leave a gap in each sector.
    assert RequestedSectors(3 * 16, 3 * 16, 3 * 16 * 8, 3, 3).combined(at_once=16) == pytest.approx((1 / 3, 1 / 3))


# }}}
