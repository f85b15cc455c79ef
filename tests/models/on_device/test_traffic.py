"""Memory levels that serve an array: launches with traffic known by hand, on a V100."""

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.compiler import lowered
from loopyperf.memory.kernel_profile import LaunchProfile
from loopyperf.memory.private_reuse import StackReuse
from loopyperf.models.traffic import (
    ArrayStream,
    RequestedSectors,
    Residence,
    levels_that_serve,
    levels_that_serve_stacks,
)
from loopyperf.pipeline.timed_program import Served

V100 = lpp.load_device("nvidia-v100")
"""128 KiB of L1 on a core, 6 MiB of L2"""
ALL = Residence(8, 640, 80)


def launch(domain: str, code: str, *arguments: object, order: str = "", **sizes: int) -> LaunchProfile:
    """Return the launch of *code* in groups of 256 along ``i``, with loops in the given *order*."""
    unit = lp.make_kernel(domain, code, [*arguments, ...], lang_version=(2018, 2), target=lp.PyOpenCLTarget())
    unit = lp.split_iname(unit, "i", 256, outer_tag="g.0", inner_tag="l.0")
    unit = lp.prioritize_loops(unit, order) if order else unit
    (found,) = lpp.instruction_graph(unit, **sizes).launches
    return found


def served(found: LaunchProfile, residence: Residence = ALL, *, b: float, **loaded: float) -> dict[str, Served]:
    """Return the levels that the loads of each array reach, and those of the stores to *b*."""
    ways = {ArrayStream("b", "store"): b} | {ArrayStream(array, "load"): number for array, number in loaded.items()}
    requested = {way: RequestedSectors(number) for way, number in ways.items()}
    return {way.array: each for way, each in levels_that_serve(found, V100, residence, requested).items()}


def floats(names: str, length: str) -> lp.GlobalArg:
    return lp.GlobalArg(names, np.float32, shape=length)


def test_stream_comes_from_dram() -> None:
    # A group of 256 floats: 32 sectors of each array, none of them requested twice.
    found = launch("{[i]: 0<=i<n}", "b[i] = a[i]", floats("a,b", "n"), n=2**26)
    for each in served(found, a=32, b=32).values():
        assert each.asked == each.waited == {"L1": 1, "L2": 1, "DRAM": 1}


def test_all_accesses_of_a_stream_wait_for_dram_if_the_last_group_is_partly_filled() -> None:
    # 33 of 40 warps are active. Requests count the last one as a whole warp of 4 sectors; it touches one sector.
    found = launch("{[i]: 0<=i<n}", "b[i] = a[i]", floats("a,b", "n"), n=4 * 256 + 1)
    for each in served(found, a=33 * 4 / 5, b=33 * 4 / 5).values():
        assert each.asked["DRAM"] == pytest.approx((32 * 4 + 1) / (33 * 4))
        assert each.waited["DRAM"] == pytest.approx(1)


def test_data_that_fit_into_l2_are_fetched_once() -> None:
    # All groups read the same 2^16 floats, 8192 sectors, one after the other: 2^20 / 256 = 4096 groups.
    code = "b[i] = sum(k, a[k])"
    found = launch("{[i,k]: 0<=i<n and 0<=k<65536}", code, floats("a", "65536"), floats("b", "n"), n=2**20)
    asked = served(found, a=65536 * 8.0, b=32)["a"].asked
    # Each of a warp's 65536 loads is of one sector, which L1 keeps for the seven that follow and for other warps.
    # L1 has room for half of the sectors, which the groups of a core share; the first 80 groups miss.
    assert asked["L2"] == pytest.approx((1 - 1 / 2 * (1 - 80 / 4096)) / 64, rel=0.04)
    assert asked["DRAM"] == pytest.approx(8192 / 4096 / (65536 * 8), rel=1e-3)


def test_accesses_to_sectors_in_flight_wait_as_long_as_the_first() -> None:
    # Three loads of a group: 32 + 33 + 33 sectors, of which 33 are distinct.
    code = "b[i] = a[i] + a[i+1] + a[i+2]"
    found = launch("{[i]: 0<=i<n}", code, floats("a", "n + 2"), floats("b", "n"), n=2**26)
    each = served(found, a=98, b=32)["a"]
    assert each.asked["L2"] == pytest.approx(33 / 98)
    assert each.waited["L2"] == 1


def test_more_resident_groups_leave_less_cache_for_each() -> None:
    # A group reads 32 KiB four times, each time as a whole: this fits if at most four groups share 128 KiB.
    code = "b[i] = sum([r,k], a[i + n*k] + 0*r)"
    domain = "{[i,r,k]: 0<=i<n and 0<=r<4 and 0<=k<32}"
    found = launch(domain, code, floats("a", "32*n"), floats("b", "n"), order="r,k", n=2**20)
    few, many = (served(found, Residence(groups, 80 * groups, 80), a=4 * 1024, b=32)["a"] for groups in (3, 8))
    assert few.asked["L2"] == pytest.approx(1 / 4)
    # With eight, 16 KiB are left for each, and half of the data stay there.
    assert many.asked["L2"] == pytest.approx(1 / 2 * 1 / 4 + 1 / 2, abs=0.02)


# {{{ arrays that are loaded and stored

SQUARES = "a[i] = a[i]*a[i]"
SHIFTED = "a[i] = a[i + n + 256]"
NEIGHBOURS = "a[i] = a[i + n + 256] + a[i + n + 257] + a[i + n + 258]"


@pytest.mark.parametrize(
    ("code", "loaded", "moved"),
    [
        pytest.param(SQUARES, 32, {"load": 32, "store": 32}, id="every sector is loaded and written back"),
        pytest.param(SHIFTED, 32, {"load": 32, "store": 32}, id="other sectors are loaded than stored"),
        pytest.param(NEIGHBOURS, 98, {"load": 32, "store": 32}, id="what is loaded three times is fetched once"),
    ],
)
def test_loads_and_stores_of_one_array_are_both_moved(code: str, loaded: float, moved: dict[str, float]) -> None:
    # A group of 256 floats: 32 sectors. L2 fetches those that it shares with neighboring groups once.
    found = launch("{[i]: 0<=i<n}", code, floats("a", "2*n + 260"), n=2**26)
    asked = {ArrayStream("a", "load"): loaded, ArrayStream("a", "store"): 32.0}
    requested = {way: RequestedSectors(number) for way, number in asked.items()}
    for way, each in levels_that_serve(found, V100, ALL, requested).items():
        assert each.asked["DRAM"] * asked[way] == pytest.approx(moved[way.kind], rel=0.02)
        assert each.waited["DRAM"] == pytest.approx(1, rel=0.05)


def test_time_steps_of_one_array_are_separate_streams() -> None:
    code = "u[1,i] = u[0,i] + u[0,i+1] + u[0,i+2]"
    found = launch("{[i]: 0<=i<n}", code, lp.GlobalArg("u", np.float32, shape="2, n + 2"), n=2**26)
    asked = {ArrayStream("u", "load"): 98.0, ArrayStream("u", "store"): 32.0}
    requested = {way: RequestedSectors(number) for way, number in asked.items()}
    of = {way.kind: each for way, each in levels_that_serve(found, V100, ALL, requested).items()}
    assert of["load"].asked["DRAM"] == pytest.approx(32 / 98, rel=0.02)
    assert of["store"].asked["DRAM"] == pytest.approx(1, rel=0.02)


@pytest.mark.parametrize("model", ["pipeline", "roofline", "gpuperf"])
def test_in_place_update_takes_as_long_as_out_of_place(model: str) -> None:
    def seconds(code: str, names: str) -> float:
        unit = lp.make_kernel("{[i]: 0<=i<n}", code, [floats(names, "n"), ...], target=lp.PyOpenCLTarget())
        unit = lp.split_iname(unit, "i", 256, outer_tag="g.0", inner_tag="l.0")
        return float(lpp.estimate(unit, model=model, device="nvidia-v100", n=2**26).seconds)

    assert seconds("y[i] = 2*y[i]", "y") == pytest.approx(seconds("z[i] = 2*x[i]", "x,z"), rel=0.02)
    assert seconds("y[i] = x[i] + y[i]", "x,y") == pytest.approx(seconds("z[i] = x[i] + y[i]", "x,y,z"), rel=0.02)


# }}}


# {{{ private memory


def of_stacks(found: LaunchProfile, residence: Residence) -> dict[str, Served]:
    """Return the levels that the private-memory accesses of *found* reach."""
    stacks = {kind: StackReuse.of(lowered(each.graph), 32) for kind, each in enumerate(found.classes)}
    return levels_that_serve_stacks(found, V100, residence, stacks, tuple(stacks))


def stack_updates(repeats: int, elements: int) -> LaunchProfile:
    """Return a launch whose work-items add to each element of a private array *repeats* times."""
    code = "for p,k\n t[k] = t[k] + a[i + p] {id=w}\n end\n for j\n b[i] = b[i] + t[j] {dep=w}\n end"
    stack = lp.TemporaryVariable("t", np.float32, shape=(elements,), address_space=lp.AddressSpace.PRIVATE)
    domain = f"{{[i,p,k,j]: 0<=i<n and 0<=p<{repeats} and 0<=k<m and 0<=j<m and k,j<{elements}}}"
    arrays = (floats("a", f"n + {repeats}"), floats("b", "n"), lp.ValueArg("m", np.int32), stack)
    return launch(domain, code, *arrays, order="p,k", n=2**20, m=elements)


def test_stacks_reside_in_the_nearest_level_that_fits() -> None:
    # 100 floats of each of 32 lanes: 12,800 bytes per warp, 8 warps per group. One group fits into the 128 KiB of L1,
    # two do not; 6 MiB have room for 61 groups.
    found = stack_updates(10, 100)
    in_l1, in_l2, in_dram = (
        of_stacks(found, Residence(groups, all_, all_ // groups))["load"].asked
        for groups, all_ in ((1, 60), (2, 60), (2, 160))
    )
    assert in_l1 == {"L1": 1, "L2": 0, "DRAM": 0}
    assert in_l2 == {"L1": 1, "L2": 1, "DRAM": 0}
    assert in_dram == {"L1": 1, "L2": 1, "DRAM": 1}


def test_stack_stores_are_written_once_per_eviction() -> None:
    found = stack_updates(10, 100)
    load, store = (of_stacks(found, Residence(2, 160, 80))[kind].asked["DRAM"] for kind in ("load", "store"))
    assert (load, store) == (1, 1)
    # The same 10 elements are reused: none is evicted before it is loaded and stored again.
    found = stack_updates(100, 10)
    assert of_stacks(found, Residence(2, 160, 80))["store"].asked["DRAM"] == 0


def test_launch_without_stacks_has_no_stack_traffic() -> None:
    found = launch("{[i]: 0<=i<n}", "b[i] = a[i]", floats("a", "n"), floats("b", "n"), n=2**20)
    served = of_stacks(found, Residence(2, 160, 80))
    assert {kind: each.asked["DRAM"] for kind, each in served.items()} == {"load": 0, "store": 0}


# }}}


def test_loads_of_loop_bounds_are_counted() -> None:
    # For a row of one element: its end and that of the row before, in lines shared by neighbors; the element; the sum.
    unit = lp.make_kernel(
        ["{[i]: 0<=i<n}", "[first, end] -> {[j]: first <= j < end}"],
        "<> first = a[i]\n<> end = a[i+1]\nb[i] = sum(j, v[j])",
        [lp.GlobalArg("a", np.int32, shape="n + 1"), floats("b,v", "n"), lp.ValueArg("n", np.int32)],
        assumptions="n >= 256 and n mod 256 = 0",
        seq_dependencies=True,
        lang_version=(2018, 2),
        target=lp.PyOpenCLTarget(),
    )
    unit = lp.split_iname(unit, "i", 256, outer_tag="g.0", inner_tag="l.0")
    (found,) = lpp.roofline(unit, n=2**24, typical={"j": 1}, device=V100).launches
    assert found.moved["DRAM"] / 2**24 == pytest.approx(4 + 4 + 4, rel=1e-3)


@pytest.mark.parametrize("groups", [1024, 1088])
def test_groups_of_unequal_work_move_unequal_amounts(groups: int) -> None:
    # Group g reads g // 64 + 1 rows of 128 floats, which no other group reads, and writes one.
    unit = lp.make_kernel(
        "{[g,l,j]: 0<=g<ng and 0<=l<128 and 0<=64*j<=g}",
        "y[g,l] = sum(j, x[j,g,l])",
        [lp.GlobalArg("x", np.float32, shape="ng,ng,128"), lp.GlobalArg("y", np.float32, shape="ng,128"), ...],
        assumptions="ng >= 1",
        lang_version=(2018, 2),
        target=lp.PyOpenCLTarget(),
    )
    unit = lp.tag_inames(unit, {"g": "g.0", "l": "l.0"})
    (found,) = lpp.roofline(unit, ng=groups, device=V100).launches
    rows = sum(group // 64 + 1 for group in range(groups)) + groups
    assert found.moved == dict.fromkeys(found.moved, 512 * rows)
    assert "DRAM" in found.moved
