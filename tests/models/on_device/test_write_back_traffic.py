"""DRAM traffic of a launch, compared with a cache that is simulated access by access.

The simulated cache evicts the least recently used line. It fetches only the sectors of a line that are loaded, and
writes those that were stored when it evicts the line, or at the end.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.device.description import Device, MemoryLevel
from loopyperf.memory.sectors import LINE, SECTOR

Access = tuple[str, str, int]
"""``"load"`` or ``"store"``, the array, and the element"""
N, KIB = 2**14, 2**10
REPEATS = 6


class WriteBackCache:
    """A write-back cache that counts the bytes that it moves."""

    def __init__(self, size: int) -> None:
        self.room, self.moved = size // LINE, 0
        self.lines: OrderedDict[tuple[str, int], tuple[set[int], set[int]]] = OrderedDict()
        """(array, line) -> sectors that are present, and those that were stored"""

    def access(self, kind: str, array: str, element: int) -> None:
        line, sector = 4 * element // LINE, 4 * element // SECTOR
        present, stored = self.lines.setdefault((array, line), (set(), set()))
        self.lines.move_to_end((array, line))
        if kind == "load" and sector not in present:
            self.moved += SECTOR
        present.add(sector)
        if kind == "store":
            stored.add(sector)
        while len(self.lines) > self.room:
            self._evict()

    def finish(self) -> int:
        while self.lines:
            self._evict()
        return self.moved

    def _evict(self) -> None:
        _, (_, stored) = self.lines.popitem(last=False)
        self.moved += SECTOR * len(stored)


def v100_with(size: int, nearer: int = KIB) -> Device:
    """Return a V100 with *size* bytes of L2 and *nearer* bytes of L1, by default almost none."""

    def with_size(level: MemoryLevel) -> MemoryLevel:
        return replace(level, size={"L1": nearer, "L2": size}.get(level.name, level.size))

    device = lpp.load_device("nvidia-v100")
    return replace(device, memory=tuple(map(with_size, device.memory)))


def in_place() -> Iterator[Access]:
    for i in range(N):
        yield from (("load", "a", i), ("store", "a", i))


def elsewhere() -> Iterator[Access]:
    for i in range(N):
        yield from (("load", "b", i), ("store", "a", i))


def shifted() -> Iterator[Access]:
    for i in range(N):
        yield from (("load", "a", i + 2 * N), ("store", "a", i))


def time_step() -> Iterator[Access]:
    for i in range(N):
        yield from (("load", "u", i + j) for j in range(3))
        yield "store", "u", N + 2 + i


def every_other() -> Iterator[Access]:
    for i in range(N):
        yield from (("load", "a", 32 * i), ("load", "a", 32 * i + 1), ("store", "a", 32 * i))


def repeated_in_place() -> Iterator[Access]:
    for _ in range(REPEATS):
        yield from in_place()


CASES = [
    pytest.param("a[i] = 2*a[i]", in_place, id="in place"),
    pytest.param("a[i] = 2*b[i]", elsewhere, id="elsewhere"),
    pytest.param("a[i] = 2*a[i + 2*n]", shifted, id="other elements of the array"),
    pytest.param("u[1, i] = u[0, i] + u[0, i + 1] + u[0, i + 2]", time_step, id="time steps"),
    pytest.param("a[32*i] = a[32*i] + a[32*i + 1]", every_other, id="strided"),
]


def moved(code: str, domain: str, device: Device, order: str = "") -> float:
    """Return the DRAM bytes that the roofline of *code* counts."""
    names = {"a": "32*n + 32", "b": "n", "u": "2, n + 2"}
    arrays = [lp.GlobalArg(name, np.float32, shape=shape) for name, shape in names.items() if f"{name}[" in code]
    unit = lp.make_kernel(domain, code, [*arrays, ...], target=lp.PyOpenCLTarget(), lang_version=(2018, 2))
    unit = lp.split_iname(unit, "i", 256, inner_tag="l.0", outer_tag=None if order else "g.0")
    unit = lp.prioritize_loops(unit, order) if order else unit
    (launch,) = lpp.roofline(unit, n=N, device=device).launches
    return launch.moved["DRAM"]


def simulated(accesses: Callable[[], Iterator[Access]], size: int) -> int:
    cache = WriteBackCache(size)
    for access in accesses():
        cache.access(*access)
    return cache.finish()


@pytest.mark.parametrize("size", [pytest.param(8 * KIB, id="small cache"), pytest.param(2**24, id="large cache")])
@pytest.mark.parametrize(("code", "accesses"), CASES)
def test_traffic_matches_the_simulated_cache(code: str, accesses: Callable[[], Iterator[Access]], size: int) -> None:
    found = moved(code, "{[i]: 0<=i<n}", v100_with(size))
    assert found == pytest.approx(simulated(accesses, size), rel=0.02)


@pytest.mark.parametrize("size", [pytest.param(1 * KIB, id="small cache"), pytest.param(2**24, id="large cache")])
def test_traffic_of_repeated_updates_matches_the_simulated_cache(size: int) -> None:
    domain = f"{{[i, t]: 0<=i<n and 0<=t<{REPEATS}}}"
    found = moved("a[i] = 2*a[i] + t {inames=i:t}", domain, v100_with(size), order="t,i_outer")
    assert found == pytest.approx(simulated(repeated_in_place, size), rel=0.05)


def bytes_of(code: str, domain: str, shapes: dict[str, str], order: str = "", **sizes: int) -> float:
    """Return the DRAM bytes of *code* in groups of 256 along *i*."""
    arrays = [lp.GlobalArg(name, np.float32, shape=shape) for name, shape in shapes.items()]
    unit = lp.make_kernel(domain, code, [*arrays, ...], target=lp.PyOpenCLTarget(), lang_version=(2018, 2))
    unit = lp.split_iname(unit, "i", 256, inner_tag="l.0", outer_tag="g.0")
    unit = lp.prioritize_loops(unit, order) if order else unit
    (launch,) = lpp.roofline(unit, device=v100_with(64 * KIB), parameters={"n": N} | sizes).launches
    return launch.moved["DRAM"]


def test_diagonal_moves_a_sector_per_element() -> None:
    found = bytes_of("b[i] = a[i, i]", "{[i]: 0<=i<n}", {"a": "n, n", "b": "n"})
    assert found == pytest.approx(N * (SECTOR + 4), rel=0.02)


def test_two_planes_of_one_array_move_as_much_as_two_arrays() -> None:
    # Each plane is the sum of several others: planes are loaded repeatedly, but stored once.
    domain = "{[i, k, m]: 0<=i<n and 0<=k<planes and 0<=m<planes}"
    sizes = {"planes": 24}
    one = bytes_of("u[1, k, i] = sum(m, u[0, k + m, i])", domain, {"u": "2, 2*planes, n"}, "k,m", **sizes)
    two = bytes_of("v[k, i] = sum(m, u[k + m, i])", domain, {"u": "2*planes, n", "v": "planes, n"}, "k,m", **sizes)
    assert one == pytest.approx(two, rel=0.02)
    assert one > 20 * 4 * N * 24


def test_loop_of_step_4_moves_as_much_as_a_loop_of_a_quarter_length() -> None:
    shapes = {"a": "n, 260", "b": "n"}
    some = bytes_of("b[i] = sum(j, a[i, j])", "{[i, j]: 0<=i<n and 0<=j<256 and j mod 4 = 0}", shapes, "j")
    all_ = bytes_of("b[i] = sum(j, a[i, 4*j])", "{[i, j]: 0<=i<n and 0<=j<64}", shapes, "j")
    assert some == pytest.approx(all_, rel=0.02)


@pytest.mark.parametrize("nearer", [KIB, 128 * KIB])
def test_only_the_last_cache_merges_repeated_stores(nearer: int) -> None:
    # A group stores to the same 24 KiB six times; 64 groups, of 1.5 MiB, reside at once.
    arrays = [lp.GlobalArg("a", np.float32, shape="planes, n"), lp.ValueArg("t0", np.int32)]
    domain = "{[i, t, k]: 0<=i<n and 0<=t<passes and 0<=k<planes}"
    unit = lp.make_kernel(domain, "a[k, i] = t + t0", [*arrays, ...], target=lp.PyOpenCLTarget())
    unit = lp.prioritize_loops(lp.split_iname(unit, "i", 256, inner_tag="l.0", outer_tag="g.0"), "t,k")
    for size, times in ((KIB, 6), (2**24, 1)):
        (launch,) = lpp.roofline(unit, n=N, passes=6, planes=24, t0=0, device=v100_with(size, nearer)).launches
        assert launch.moved["DRAM"] == pytest.approx(times * 24 * 4 * N, rel=0.02)


def test_reversed_access_counts_as_another_array() -> None:
    # The two directions meet in the middle.
    reversed_ = bytes_of("b[i] = a[i] + a[n - 1 - i]", "{[i]: 0<=i<n}", {"a": "n", "b": "n"}, n=2**22)
    assert reversed_ == pytest.approx(12 * 2**22, rel=0.02)


@pytest.mark.parametrize("rows", [320, 639, 640, 641])
def test_one_more_row_of_groups_barely_changes_the_traffic(rows: int) -> None:
    """Resident groups belong to one row or to two, and share the cache in either case."""
    found, other = (shares_of_rows(number) for number in (rows, 480))
    assert found == pytest.approx(other, rel=0.02)


def shares_of_rows(rows: int) -> float:
    """Return the DRAM traffic relative to the L2 traffic of groups that each read 9 KiB eight times."""
    code = "b[r, i] = sum([p, k], a[r, k, i] + 0*p)"
    domain = "{[r, i, p, k]: 0<=r<rows and 0<=i<n and 0<=p<passes and 0<=k<planes}"
    arrays = [lp.GlobalArg("a", np.float32, shape="rows, planes, n"), lp.GlobalArg("b", np.float32, shape="rows, n")]
    unit = lp.make_kernel(domain, code, [*arrays, ...], target=lp.PyOpenCLTarget(), lang_version=(2018, 2))
    unit = lp.split_iname(lp.tag_inames(unit, "r:g.0"), "i", 256, inner_tag="l.0", outer_tag="g.1")
    unit = lp.prioritize_loops(unit, "p,k")
    device = v100_with(6 * 1024 * KIB)
    (launch,) = lpp.roofline(unit, n=256 * 64, rows=rows, passes=8, planes=9, device=device).launches
    return launch.moved["DRAM"] / launch.moved["L2"]
