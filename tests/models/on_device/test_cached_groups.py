"""Data that a cache keeps from one round of resident groups to the next: traffic known by hand."""

from collections import Counter
from dataclasses import replace
from math import prod

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.device.description import MemoryLevel
from loopyperf.memory.kernel_profile import LaunchProfile
from loopyperf.models.traffic import ArrayStream, CachedGroups, Residence, steps_between

L2 = lpp.load_device("nvidia-v100").level("L2")
TABLE = ArrayStream("t", "load")


def of_bytes(size: int) -> MemoryLevel:
    return replace(L2, size=size)


def launch(domain: str, code: str, *arguments: object, **sizes: int) -> LaunchProfile:
    """Return the launch of *code* in groups of 256 along ``i``."""
    unit = lp.make_kernel(domain, code, [*arguments, ...], lang_version=(2018, 2), target=lp.PyOpenCLTarget())
    unit = lp.split_iname(unit, "i", 256, outer_tag="g.0", inner_tag="l.0")
    (found,) = lpp.instruction_graph(unit, **sizes).launches
    return found


def table_reads(groups: int) -> LaunchProfile:
    """Return groups that each read a whole table of 1024 lines and write 8 lines of their own."""
    arguments = (lp.GlobalArg("t", np.float32, shape="32768"), lp.GlobalArg("b", np.float32, shape="n"))
    return launch("{[i,k]: 0<=i<n and 0<=k<32768}", "b[i] = sum(k, t[k])", *arguments, n=256 * groups)


# A round of 64 groups touches 1024 + 64 * 8 = 1536 lines, and two rounds 2048.
@pytest.mark.parametrize(
    ("lines", "fetched"),
    [
        pytest.param(2048, 4096, id="both rounds fit: once"),
        pytest.param(4096, 4096, id="with room to spare: once"),
        pytest.param(
            1536, 4096 + 9 * 4096 / 4, id="three quarters of both: a quarter anew in each round but the first"
        ),
    ],
)
def test_shared_table_is_refetched_where_the_cache_is_too_small(lines: int, fetched: float) -> None:
    found = CachedGroups(table_reads(640), of_bytes(128 * lines), Residence(1, 64, 64)).moved(
        [TABLE, ArrayStream("b", "store")]
    )
    assert found[TABLE] * 640 == pytest.approx(fetched)
    assert found[ArrayStream("b", "store")] * 640 == pytest.approx(640 * 32)


def test_halo_between_rounds_is_fetched_once() -> None:
    # Each element and those 2^14 and 2^15 after it. A round of 64 groups is 2^14 elements: two other rounds read them.
    code = "b[i] = a[i] + a[i + 16384] + a[i + 32768]"
    arguments = (lp.GlobalArg("a", np.float32, shape="n + 32768"), lp.GlobalArg("b", np.float32, shape="n"))
    stencil = launch("{[i]: 0<=i<n}", code, *arguments, n=256 * 6400)
    found = CachedGroups(stencil, of_bytes(2**19), Residence(1, 64, 64)).moved(
        [ArrayStream("a", "load"), ArrayStream("b", "store")]
    )
    assert found[ArrayStream("a", "load")] == pytest.approx(32, rel=0.03)


def test_rows_of_groups_that_share_a_panel_fetch_it_once() -> None:
    # Products of 1024 x 1024 in groups of 16 x 16: 320 reside, five rows of groups, each of which needs all of b.
    unit = lp.make_kernel(
        "{[i,j,k]: 0<=i,j,k<n}",
        "c[i,j] = sum(k, a[i,k]*b[k,j])",
        [lp.GlobalArg("a,b,c", np.float32, shape="n,n"), lp.ValueArg("n", np.int32)],
        lang_version=(2018, 2),
        target=lp.PyOpenCLTarget(),
    )
    unit = lp.split_iname(unit, "i", 16, outer_tag="g.1", inner_tag="l.1")
    unit = lp.split_iname(unit, "j", 16, outer_tag="g.0", inner_tag="l.0")
    (product,) = lpp.instruction_graph(unit, n=1024).launches
    ways = [ArrayStream("a", "load"), ArrayStream("b", "load"), ArrayStream("c", "store")]
    found = CachedGroups(product, L2, Residence(4, 320, 80)).moved(ways)
    assert [found[way] * 4096 * 32 for way in ways] == pytest.approx([2**22] * 3, rel=0.02)
    # If only a tenth of both rounds fits, most of b is fetched in each of 12.8 rounds.
    found = CachedGroups(product, of_bytes(2**19), Residence(4, 320, 80)).moved(ways)
    assert found[ways[1]] * 4096 * 32 > 11 * 2**22


# {{{ groups of a core


L1 = replace(lpp.load_device("nvidia-v100").level("L1"), size=2**18)


def test_groups_of_a_core_fetch_a_table_once() -> None:
    # 64 cores and 640 groups that all read the same 1024 lines: nine of ten groups hit.
    table = table_reads(640)
    for on_core in (1, 4):
        found = CachedGroups(table, L1, Residence(on_core, 64 * on_core, 64)).moved([TABLE, ArrayStream("b", "store")])
        assert found[TABLE] == pytest.approx(64 / 640 * 4 * 1024, rel=0.01)
        assert found[ArrayStream("b", "store")] == 32


@pytest.mark.parametrize("grid", [{0: 7}, {0: 4, 1: 6}, {0: 3, 1: 2, 2: 5}])
@pytest.mark.parametrize("distance", [1, 3, 5])
def test_steps_between_groups_match_all_pairs(grid: dict[int, int], distance: int) -> None:
    # The reference is all pairs of groups at this distance, where the first groups follow the last one.
    def place(number: int) -> tuple[int, ...]:
        found: list[int] = []
        for length in grid.values():
            number, here = divmod(number, length)
            found.append(here)
        return tuple(found)

    whole = prod(grid.values())
    steps = Counter(
        tuple((there - here) % length for here, there, length in zip(one, other, grid.values(), strict=True))
        for one, other in ((place(number), place((number + distance) % whole)) for number in range(whole))
    )
    found: dict[tuple[int, ...], float] = {}
    for share, along in steps_between(grid, distance):
        step = tuple(along[axis] % length for axis, length in grid.items())
        found[step] = found.get(step, 0.0) + share
    assert {each: number / whole for each, number in steps.items()} == pytest.approx(found)


# }}}
