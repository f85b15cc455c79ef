"""Access patterns of one warp, compared with values derived by hand."""

from collections.abc import Mapping

import loopy as lp
import numpy as np
import pytest

from loopyperf.errors import ParameterError
from loopyperf.idg.warp_classes import Warp
from loopyperf.kernel import load_kernel
from loopyperf.memory import AccessPattern
from tests.idg.patterns import flat, pattern, unit, written

Sizes = Mapping[str, int]
LANES = {"i": "l.0"}
WARP = Warp()


def load_by_32_lanes(index: str, dtype: type = np.float32) -> AccessPattern:
    """Return the pattern of a load by 32 lanes i."""
    kernel = written("{[i]: 0<=i<32}", f"out[i] = a[{index}]", flat("a", dtype), tags=LANES)
    return pattern(kernel, "a", WARP)


# {{{ one iteration, derived by hand


def test_one_load_of_32_lanes(subtests: pytest.Subtests) -> None:
    for index, dtype, sectors, coalescing in [
        ("i", np.float32, 4, "coalesced"),  # 32*4 bytes
        ("2*i", np.float32, 8, "strided"),  # over 256 bytes
        ("i", np.float64, 8, "coalesced"),  # 32*8 bytes
        ("i + 1", np.float32, 5, "misaligned"),  # bytes 4 to 131
        ("7", np.float32, 1, "broadcast"),
        ("31 - i", np.float32, 4, "coalesced"),
        ("i//4", np.float32, 1, "coalesced"),  # 8 elements, each for 4 lanes
        ("i % 8", np.float32, 1, "coalesced"),
        ("32*(i % 4) + i//4", np.float32, 4, "coalesced"),  # 8 neighbors in each of 4 lines
        ("if(i < 8, i, 8)", np.float32, 2, "coalesced"),  # 9 elements
        ("if(i < 8, i, 64)", np.float32, 2, "coalesced"),  # 36 bytes, in sectors 0 and 8
        ("i*i", np.float32, 32 - 3, "scattered"),  # elements 0, 1 and 4 share sector 0; 9 is in 1; 16 and 25 in 2 and 3
    ]:
        with subtests.test(index=index, dtype=dtype, sectors=sectors, coalescing=coalescing):
            access = load_by_32_lanes(index, dtype).at({})
            expected = {8 * lane**2 // 64 for lane in range(32)} if index == "i*i" else None
            assert (access.sectors, access.coalescing) == (len(expected) if expected else sectors, coalescing)


@pytest.mark.parametrize(
    ("index", "dtype", "in_global_memory", "in_constant_memory"),
    [
        ("7", np.float32, 1, 1),
        ("i", np.float32, 1, 32),  # the constant cache serves one address at a time
        ("i//16", np.float32, 1, 2),
        ("i//16", np.float64, 2, 2),  # half warps are served separately, even if they share addresses
        ("i", np.float64, 2, 32),  # half warps are served separately
        ("32*i", np.float32, 32, 32),  # all in one bank
    ],
)
def test_wavefronts_of_the_core_cache(index: str, dtype: type, in_global_memory: int, in_constant_memory: int) -> None:
    found = (
        pattern(written("{[i]: 0<=i<32}", f"out[i] = a[{index}]", array, tags=LANES), "a", WARP).at({})
        for array in (flat("a", dtype), lp.ConstantArg("a", dtype, shape=None))
    )
    assert [access.wavefronts for access in found] == [in_global_memory, in_constant_memory]


def test_column_of_row_major_array_needs_one_sector_per_lane() -> None:
    array = lp.GlobalArg("a", np.float32, shape=(32, 64))
    kernel = written("{[i,j]: 0<=i<32 and 0<=j<64}", "out[j,i] = a[i,j]", array, tags=LANES)
    assert pattern(kernel, "a", WARP).at({"j": 5}).sectors == 32
    assert pattern(kernel, "out", WARP, direction="store").at({"j": 5}).sectors == 4


def test_warp_of_16x16_group_loads_two_rows() -> None:
    # A row has 1024 elements; the warp loads 16 of each, two sectors of one line.
    array = lp.GlobalArg("a", np.float32, shape=(16, 1024))
    kernel = written("{[i,j]: 0<=i,j<16}", "out[j,i] = a[j,i]", array, tags={"i": "l.0", "j": "l.1"})
    access = pattern(kernel, "a", Warp(shape={0: 16, 1: 16}, number=3)).at({})
    assert (access.sectors, access.lines, access.coalescing) == (4, 2, "coalesced")


def test_last_group_has_fewer_active_lanes() -> None:
    # 1000 = 3*256 + 7*32 + 8
    unit = written(
        "{[g,i]: 0<=g<4 and 0<=i<256 and 256*g+i<1000}",
        "out[256*g+i] = a[256*g+i]",
        flat("a"),
        tags={"g": "g.0", "i": "l.0"},
    )
    full, boundary = (pattern(unit, "a", Warp({0: 3}, {0: 256}, number=number)).at({}) for number in (6, 7))
    assert (full.lanes, full.sectors, boundary.lanes, boundary.sectors) == (32, 4, 8, 1)


def test_alignment_may_differ_between_groups() -> None:
    # Rows of 33 elements: row g starts at byte 132*g, 4*g bytes after the start of a sector; aligned again at g = 8
    array = lp.GlobalArg("a", np.float32, shape=(16, 33))
    kernel = written("{[g,i]: 0<=g<16 and 0<=i<32}", "out[g,i] = a[g,i]", array, tags={"g": "g.0", "i": "l.0"})
    sectors = [pattern(kernel, "a", Warp({0: group})).at({}).sectors for group in range(10)]
    assert sectors == [4, *[5] * 7, 4, 5]


def test_vectors_are_loaded_whole() -> None:
    # 32 lanes of 16 bytes: 16 sectors
    array = lp.GlobalArg("a,out", np.float32, shape=(32, 4), dim_tags="N0,vec")
    kernel = written("{[i,v]: 0<=i<32 and 0<=v<4}", "out[i,v] = 2*a[i,v]", array, tags={"i": "l.0", "v": "vec"})
    access = pattern(kernel, "a", WARP).at({})
    assert (access.requested, access.sectors, access.coalescing) == (512, 16, "coalesced")


def test_vector_components_are_strided() -> None:
    array = lp.GlobalArg("a", np.float32, shape=(32, 4), dim_tags="N0,vec")
    kernel = written("{[i]: 0<=i<32}", "out[i] = 2*a[i,1]", array, tags=LANES)
    access = pattern(kernel, "a", WARP).at({})
    assert (access.requested, access.sectors, access.coalescing) == (128, 16, "strided")


def test_separate_arrays_are_aligned_to_lines() -> None:
    array = lp.GlobalArg("a", np.float32, shape=(3, 32), dim_tags="sep,C")
    kernel = written("{[i,k]: 0<=i<32 and 0<=k<3}", "out[i,k] = a[k,i]", array, tags={"i": "l.0", "k": "unr"})
    assert [pattern(kernel, "a", WARP).at({"k": k}).alignment for k in range(3)] == [128] * 3


def test_array_offset_shifts_addresses() -> None:
    array = lp.GlobalArg("a", np.float32, shape=(32,), offset=3)
    kernel = written("{[i]: 0<=i<32}", "out[i] = a[i]", array, tags=LANES)
    assert pattern(kernel, "a", WARP).at({}).sectors == 5


def test_unknown_array_offset_is_assumed_zero() -> None:
    array = lp.GlobalArg("a", np.float32, shape=(32,), offset=lp.auto)
    kernel = written("{[i]: 0<=i<32}", "out[i] = a[i]", array, tags=LANES)
    given = dict.fromkeys(kernel.contiguous, 1)
    specified = kernel.laid_out(given)
    unknown, known = pattern(kernel, "a", WARP), pattern(specified, "a", WARP, given)
    assert (unknown.at({}).sectors, known.at({}).sectors) == (4, 5)
    assert (len(kernel.assumed), specified.assumed) == (1, ())


def test_single_iterations_of_lanes_execute_together() -> None:
    kernel = written("{[i,j]: 0<=i<32 and i<=j<i+1}", "out[i] = a[j]", flat("a"), tags=LANES)
    access = pattern(kernel, "a", WARP)
    assert (access.profile.number, access.at({"j": 0}).sectors) == (1, 4)


# }}}


# {{{ local memory


@pytest.mark.parametrize(
    ("dtype", "row", "loads", "stores"),
    [
        # With rows of 32 words, a column is in one bank; with rows of 33, in all banks.
        (np.float32, 32, (32, 1), (1, 1)),
        (np.float32, 33, (1, 1), (1, 1)),
        # By half warps, 16 lanes each: a column is in two banks; rows of 33*8 bytes, or 66 words, shift by 2 banks.
        (np.float64, 32, (32, 2), (2, 2)),
        (np.float64, 33, (2, 2), (2, 2)),
    ],
)
def test_bank_conflicts_of_transposed_tile(
    dtype: type, row: int, loads: tuple[int, int], stores: tuple[int, int]
) -> None:
    tile = lp.TemporaryVariable("tile", dtype, shape=(32, row), address_space=lp.AddressSpace.LOCAL)
    code = "tile[j,i] = a[j,i] {id=fill}\nout[j,i] = tile[i,j] {dep=fill}"
    kernel = written(
        "{[i,j]: 0<=i,j<32}", code, tile, lp.GlobalArg("a", dtype, shape=(32, 32)), tags={"i": "l.0", "j": "l.1"}
    )
    warp = Warp(shape={0: 32, 1: 32}, number=7)
    found = (pattern(kernel, "tile", warp, direction=direction).at({}) for direction in ("load", "store"))
    assert [(access.wavefronts, access.ideal_wavefronts) for access in found] == [loads, stores]


def test_two_lanes_fetch_the_halo() -> None:
    # 34 elements, 32 lanes: one full iteration, and one of two lanes, in the sector at byte 128
    knl = unit("{[i]: 0<=i<256}", "out[i] = a[i] + a[i+1] + a[i+2]", lp.GlobalArg("a", np.float32, shape=(1024,)))
    knl = lp.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")
    kernel = load_kernel(lp.add_prefetch(knl, "a", ["i_inner"], default_tag="l.auto"))
    fetch = pattern(kernel, "a", Warp({0: 3}))
    assert {(access.lanes, access.sectors): number for access, number in fetch.profile.executions.items()} == {
        (32, 4): 1,
        (2, 1): 1,
    }
    assert [fetch.at({"a_dim_0_outer": number}).lanes for number in range(3)] == [32, 2, 0]
    store = pattern(kernel, "a_fetch", Warp({0: 3}), direction="store")
    assert (store.profile.mean("lanes"), store.profile.mean("wavefronts")) == (17, 1)


# }}}


# {{{ indirect accesses


INTEGERS = flat("ind", np.int32)


def test_indirect_access_is_assumed_to_share_no_sectors() -> None:
    kernel = written("{[i]: 0<=i<32}", "out[i] = a[ind[i]]", flat("a"), INTEGERS, tags=LANES)
    access = pattern(kernel, "a", WARP)
    assert (access.at({}).sectors, access.at({}).lines, access.at({}).coalescing) == (32, 32, "scattered")
    assert "share no sector" in access.assumed[0]
    index = pattern(kernel, "ind", WARP)
    assert (index.at({}).sectors, index.assumed) == (4, ())


@pytest.mark.parametrize(("stride", "sectors"), [("0", 1), ("1", 5), ("1/2", 9), ("2/2", 9), ("4/4", 16), ("2/>4", 32)])
def test_indirect_access_has_the_given_stride(stride: str, sectors: int) -> None:
    # Lanes start three elements after a sector, so that contiguous ones touch a part of one more.
    code = "<> place = ind[i]\nout[i] = a[place + 3]"
    kernel = written("{[i]: 0<=i<32}", code, flat("a"), INTEGERS, tags=LANES)
    assert pattern(kernel, "a", WARP, stride=stride).at({}).sectors == sectors


def test_invalid_stride_class_is_rejected() -> None:
    kernel = written("{[i]: 0<=i<32}", "out[i] = a[ind[i]]", flat("a"), INTEGERS, tags=LANES)
    with pytest.raises(ParameterError, match="got '5'"):
        pattern(kernel, "a", WARP, stride="5")


def test_uniform_loaded_index_is_assumed_line_aligned() -> None:
    kernel = written("{[i,j]: 0<=i<32 and 0<=j<9}", "out[j,i] = a[ind[j] + i]", flat("a"), INTEGERS, tags=LANES)
    access = pattern(kernel, "a", WARP)
    assert (access.profile.number, access.profile.mean("sectors")) == (9, 4)
    assert "multiples of 128 bytes" in access.assumed[0]


def test_loaded_stride_scatters_lanes_unless_given() -> None:
    # Extruded columns: lanes are layers, 6 columns of elements of 8 bytes; the distance between layers is loaded.
    arrays = [flat("base", np.int32), flat("step", np.int32), flat("a", np.float64)]
    forms = ["a[base[j] + step[j]*i]", "a[base[j] + (step[j]*2)*i]", "a[base[j] + s*i] {dep=load}"]
    for form in forms:
        code = f"<> s = step[j] {{id=load}}\nout[j,i] = {form}"
        kernel = written("{[i,j]: 0<=i<32 and 0<=j<6}", code, *arrays, tags=LANES)
        unknown = pattern(kernel, "a", WARP)
        assert unknown.profile.mean("sectors") == 32, form
        assert len(unknown.assumed) == 1
        assert pattern(kernel, "a", WARP, stride="1").profile.mean("sectors") == 8
        for step in range(6):
            distance = step * (2 if "2" in form else 1)
            sectors = len({8 * distance * lane // 32 for lane in range(32)})
            specified = pattern(kernel, "a", WARP, typical={"step": step})
            assert specified.profile.mean("sectors") == sectors, (form, step)


def test_lane_modulo_loaded_value_scatters_lanes() -> None:
    kernel = written("{[i,j]: 0<=i<32 and 0<=j<6}", "out[j,i] = a[i % ind[j]]", flat("a"), INTEGERS, tags=LANES)
    assert pattern(kernel, "a", WARP).profile.mean("sectors") == 32


def test_index_loaded_per_row_keeps_rows_coalesced() -> None:
    # A warp of a group of 16 x 16 has two rows of two sectors each, for any loaded row numbers.
    code = "<> row = ind[j] {inames=j}\nout[j,i] = a[row + i]"
    kernel = written("{[i,j]: 0<=i,j<16}", code, flat("a"), INTEGERS, tags={"i": "l.0", "j": "l.1"})
    assert pattern(kernel, "a", Warp(shape={0: 16, 1: 16})).at({}).sectors == 4


def test_values_computed_from_loaded_values_differ_by_lane() -> None:
    code = "<> one = ind[i]\n<> two = 2*one {inames=j:i}\nout[i,j] = a[two + i]"
    kernel = written("{[i,j]: 0<=i<32 and 0<=j<4}", code, flat("a"), INTEGERS, tags=LANES)
    assert pattern(kernel, "a", WARP).at({"j": 0}).sectors == 32


def test_loop_with_loaded_bounds_scatters_lanes() -> None:
    domains = ["{[i]: 0<=i<32}", "[first,last] -> {[j]: first<=j<last}"]
    code = "<> first = ind[i]\n<> last = ind[i+1]\nout[i] = sum(j, a[j]*b[i])"
    kernel = written(domains, code, flat("a"), flat("b"), INTEGERS, tags=LANES)
    access = pattern(kernel, "a", WARP, typical={"j": 10})
    assert (access.profile.number, access.profile.mean("sectors")) == (10, 32)
    assert pattern(kernel, "b", WARP, typical={"j": 10}).profile.mean("sectors") == 4


def test_indirect_local_access_is_assumed_conflict_free() -> None:
    table = lp.TemporaryVariable("table", np.float32, shape=(64,), address_space=lp.AddressSpace.LOCAL)
    code = "table[i] = a[i] {id=fill}\nout[i] = table[ind[i]] {dep=fill}"
    kernel = written("{[i]: 0<=i<32}", code, table, flat("a"), INTEGERS, tags=LANES)
    access = pattern(kernel, "table", WARP)
    assert (access.at({}).wavefronts, "different banks" in access.assumed[0]) == (1, True)


# }}}


# {{{ inactive warps, and errors


def test_a_warp_without_active_lanes_executes_nothing() -> None:
    kernel = written("{[i]: 0<=i<64}", "out[i] = a[i] {if=i < 32}", flat("a"), tags=LANES)
    found = pattern(kernel, "a", Warp(shape={0: 64}, number=1))
    assert (found.profile.number, found.profile.mean("sectors")) == (0, 0)
    assert (found.at({}).sectors, found.at({}).coalescing) == (0, "idle")


def test_missing_loop_iteration_raises() -> None:
    kernel = written("{[i,j]: 0<=i<32 and 0<=j<100}", "out[j,i] = a[i + j]", flat("a"), tags=LANES)
    with pytest.raises(ParameterError, match="no iteration given for loop j"):
        pattern(kernel, "a", WARP).at({})


def test_missing_size_raises() -> None:
    kernel = written("[n] -> {[i,j]: 0<=i<32 and 0<=j<n}", "out[j,i] = a[i + j]", flat("a"), tags=LANES)
    with pytest.raises(ParameterError, match="give its value"):
        pattern(kernel, "a", WARP)
    strided = written("{[i]: 0<=i<32}", "out[i] = a[s*i]", flat("a"), lp.ValueArg("s", np.int32), tags=LANES)
    with pytest.raises(ParameterError, match="depends on s"):
        pattern(strided, "a", WARP)


# }}}
