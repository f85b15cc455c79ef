"""Which level serves an array: launches whose traffic is known by hand, on a V100."""

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.idg.construction.kernel_graphs import LaunchGraphs
from loopyperf.models.traffic import Residence, Served, level_of_private_memory, levels_that_serve

V100 = lpp.load_device("nvidia-v100")
"""128 KiB of L1 on a core, 6 MiB of L2"""
ALL = Residence(8, 640)


def launch(domain: str, code: str, *arguments: object, order: str = "", **sizes: int) -> LaunchGraphs:
    """Return the launch of *code* in groups of 256 along ``i``, with loops in the *order* that is given."""
    unit = lp.make_kernel(domain, code, [*arguments, ...], lang_version=(2018, 2), target=lp.PyOpenCLTarget())
    unit = lp.split_iname(unit, "i", 256, outer_tag="g.0", inner_tag="l.0")
    unit = lp.prioritize_loops(unit, order) if order else unit
    (found,) = lpp.instruction_graph(unit, **sizes).launches
    return found


def served(found: LaunchGraphs, residence: Residence = ALL, **sectors: float) -> dict[str, Served]:
    return levels_that_serve(found, V100, residence, sectors)


def floats(names: str, length: str) -> lp.GlobalArg:
    return lp.GlobalArg(names, np.float32, shape=length)


def test_a_stream_comes_from_memory() -> None:
    # A group of 256 floats: 32 sectors of each array, none of them asked for twice.
    found = launch("{[i]: 0<=i<n}", "b[i] = a[i]", floats("a,b", "n"), n=2**26)
    for each in served(found, a=32, b=32).values():
        assert each.asked == each.waited == {"L1": 1, "L2": 1, "DRAM": 1}


def test_what_fits_into_the_last_cache_is_fetched_once() -> None:
    # All groups read the same 2^16 floats, 8192 sectors, one after the other: 2^20 / 256 = 4096 groups.
    code = "b[i] = sum(k, a[k])"
    found = launch("{[i,k]: 0<=i<n and 0<=k<65536}", code, floats("a", "65536"), floats("b", "n"), n=2**20)
    asked = served(found, a=65536 * 8.0, b=32)["a"].asked
    # In each warp's 65536 loads of one sector, L1 keeps the sector for the seven that follow, and for other warps.
    assert asked["L2"] == pytest.approx(1 / 64, rel=1e-3)
    assert asked["DRAM"] == pytest.approx(8192 / 4096 / (65536 * 8), rel=1e-3)


def test_neighbours_of_a_pass_wait_as_long_as_the_first_one() -> None:
    # Three loads of a group: 32 + 33 + 33 sectors where 33 are distinct.
    code = "b[i] = a[i] + a[i+1] + a[i+2]"
    found = launch("{[i]: 0<=i<n}", code, floats("a", "n + 2"), floats("b", "n"), n=2**26)
    each = served(found, a=98, b=32)["a"]
    assert each.asked["L2"] == pytest.approx(33 / 98)
    assert each.waited["L2"] == 1


def test_more_resident_groups_leave_less_of_the_cache() -> None:
    # A group reads 32 KiB four times, all of it before any of it again: it fits where four groups share 128 KiB.
    code = "b[i] = sum([r,k], a[i + n*k] + 0*r)"
    domain = "{[i,r,k]: 0<=i<n and 0<=r<4 and 0<=k<32}"
    found = launch(domain, code, floats("a", "32*n"), floats("b", "n"), order="r,k", n=2**20)
    few, many = (served(found, Residence(groups, 80 * groups), a=4 * 1024, b=32)["a"] for groups in (3, 8))
    assert few.asked["L2"] == pytest.approx(1 / 4)
    # With eight, 16 KiB are left for each: half of it is there still.
    assert many.asked["L2"] == pytest.approx(1 / 2 * 1 / 4 + 1 / 2, abs=0.02)


def test_stacks_of_warps_of_any_kind_count() -> None:
    # Of the 8 warps of the group, 7 do nothing but meet the other one, which has a stack.
    code = "for k\n t[k] = a[i + k] {id=w}\n end\n ... lbarrier {id=x,dep=w}\n for j\n b[i] = b[i] + t[j] {dep=x}\n end"
    stack = lp.TemporaryVariable("t", np.float32, shape=(100,), address_space=lp.AddressSpace.PRIVATE)
    found = launch("{[i,k,j]: 0<=i<n and 0<=k,j<100}", code, floats("a", "n + 100"), floats("b", "n"), stack, n=32)
    assert not any(each.reference for each in found.representative.graph.instructions)
    # 100 lines of each warp, 8 warps a group: two groups a core are more than 128 KiB.
    assert level_of_private_memory(found, V100, Residence(2, 20), ["t"]) == "L2"


def test_stacks_go_to_the_nearest_level_that_has_room() -> None:
    # 100 floats of each of 32 lanes: 12,800 bytes a warp, 8 warps a group. One group fits into L1, 80 of them, on as
    # many cores, fit into neither 128 KiB each with two a core nor 6 MiB.
    code = "for k\n t[k] = a[i + k] {id=w}\n end\n for j\n b[i] = b[i] + t[j] {dep=w}\n end"
    stack = lp.TemporaryVariable("t", np.float32, shape=(100,), address_space=lp.AddressSpace.PRIVATE)
    domain = "{[i,k,j]: 0<=i<n and 0<=k,j<100}"
    found = launch(domain, code, floats("a", "n + 100"), floats("b", "n"), stack, n=2**16)
    assert level_of_private_memory(found, V100, Residence(1, 1), ["t"]) == "L1"
    assert level_of_private_memory(found, V100, Residence(2, 20), ["t"]) == "L2"
    assert level_of_private_memory(found, V100, Residence(2, 160), ["t"]) == "DRAM"
    assert level_of_private_memory(found, V100, Residence(2, 160), []) == "L1"
