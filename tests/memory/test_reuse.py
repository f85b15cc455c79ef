"""What parts of launches touch, and what caches of several sizes fetch, by hand."""

from collections.abc import Mapping

import loopy as lp
import numpy as np
import pytest

from loopyperf.counts.sizes import Typical
from loopyperf.kernel import Kernel
from loopyperf.memory.footprints import Cache, Window, WorkingSets, working_sets
from loopyperf.memory.source_launch import source_profile
from tests.idg.patterns import flat, written

LINE = 128


def sets_of(kernel: Kernel, sizes: Mapping[str, int] | None = None) -> WorkingSets:
    (launch,) = source_profile(kernel, sizes or {}, Typical({})).launches
    return working_sets(launch.footprints)


def lines(sets: WorkingSets, window: Window) -> dict[str, int]:
    return {array: int(each.lines) for array, each in sets.touched(sets.program, window).items()}


def fetched(sets: WorkingSets, lines_of_cache: int, groups: range | None = None) -> dict[str, int]:
    """Return array -> the lines that a cache of so many lines fetches for *groups*, all if there is one."""
    window = sets.footprints.window({0: groups} if groups else {}, {})
    return {array: int(each.lines) for array, each in Cache(sets, lines_of_cache * LINE).fetched(window).items()}


@pytest.fixture(scope="module")
def stencil() -> WorkingSets:
    """Return a sum of three neighbouring rows of 32 floats, one line each, by one warp: rows 1 to 100 of 102."""
    body = "out[32*i + l] = a[32*i + l] + a[32*(i+1) + l] + a[32*(i+2) + l]"
    return sets_of(written("{[i,l]: 0<=i<100 and 0<=l<32}", body, flat("a"), flat("out"), tags={"l": "l.0"}))


def test_a_stencil_touches_its_rows_once(stencil: WorkingSets) -> None:
    assert lines(stencil, {}) == {"a": 102, "out": 100}
    assert lines(stencil, {"i": range(7, 8)}) == {"a": 3, "out": 1}
    assert lines(stencil, {"i": range(7, 9)}) == {"a": 4, "out": 2}


def test_a_cache_that_holds_two_passes_fetches_each_row_once(stencil: WorkingSets) -> None:
    # Two passes touch 4 + 2 lines. After the first one, a pass touches one new row of each array.
    assert fetched(stencil, 6) == {"a": 3 + 99, "out": 100}
    assert fetched(stencil, 1000) == {"a": 102, "out": 100}


def test_a_cache_that_holds_no_two_passes_fetches_some_rows_once_more(stencil: WorkingSets) -> None:
    # All is 102 + 100 lines; with 5 of the 6 lines of two passes, a sixth of the rows are fetched in each of three.
    assert fetched(stencil, 5)["a"] == pytest.approx(5 / 6 * 102 + 1 / 6 * 300, abs=1)
    assert fetched(stencil, 0) == {"a": 300, "out": 100}


@pytest.fixture(scope="module")
def product() -> WorkingSets:
    """Return a product of 64 x 64 matrices of floats, a row of 32 results in each of 2 x 64 groups."""
    body = "c[64*i + 32*g + l] = sum(k, a[64*i + k]*b[64*k + 32*g + l])"
    domain = "{[i,g,l,k]: 0<=i,k<64 and 0<=g<2 and 0<=l<32}"
    tags = {"g": "g.0", "i": "g.1", "l": "l.0"}
    return sets_of(written(domain, body, flat("a"), flat("b"), flat("c"), tags=tags))


def test_groups_touch_rows_and_columns_of_matrices(product: WorkingSets) -> None:
    # Rows have 256 bytes: 2 lines. A group reads a row of a, half of each row of b, writes half a row.
    one = product.footprints.window({0: range(1), 1: range(1)}, {})
    assert lines(product, one) == {"a": 2, "b": 64, "c": 1}
    two = product.footprints.window({0: range(2), 1: range(1)}, {})
    assert lines(product, two) == {"a": 2, "b": 128, "c": 2}
    assert lines(product, product.footprints.window({}, {})) == {"a": 128, "b": 128, "c": 128}


def test_what_is_reused_in_the_next_pass_needs_little_room(product: WorkingSets) -> None:
    one = product.footprints.window({0: range(1), 1: range(1)}, {})
    # Two passes of k touch a line of a, or one and the next, and 2 of b: a line of a serves 32 passes.
    found = Cache(product, 4 * LINE).fetched(one)
    assert (round(found["a"].lines), round(found["b"].lines)) == (3, 64)
    # Without any room, each pass fetches a line of either.
    none = Cache(product, 0).fetched(one)
    assert (int(none["a"].lines), int(none["b"].lines)) == (64, 64)


def test_what_data_tells_is_taken_to_be_elsewhere_each_time() -> None:
    index = flat("m", np.int32)
    kernel = written("{[k,l]: 0<=k<10 and 0<=l<32}", "out[k,l] = a[m[32*k + l]]", flat("a"), index, tags={"l": "l.0"})
    sets = sets_of(kernel)
    assert sets.touched(sets.program, {})["a"].sectors == 320


def test_an_array_is_all_that_data_tells_beside_what_is_told() -> None:
    # 320 elements anywhere in an array of two lines, of which a[l] are the first.
    index, array = flat("m", np.int32), lp.GlobalArg("a", np.float32, shape=(64,))
    body = "out[k,l] = a[l] + a[m[32*k + l]]"
    sets = sets_of(written("{[k,l]: 0<=k<10 and 0<=l<32}", body, array, index, tags={"l": "l.0"}))
    assert lines(sets, {})["a"] == 2


def test_an_index_that_a_condition_chooses_is_one_of_its_branches() -> None:
    # Two neighbouring rows of 32 floats, one line each; the first row is its own neighbour.
    body = "out[32*i + l] = a[32*i + l] + a[32*if(i > 0, i - 1, 0) + l]"
    sets = sets_of(written("{[i,l]: 0<=i<100 and 0<=l<32}", body, flat("a"), flat("out"), tags={"l": "l.0"}))
    assert lines(sets, {}) == {"a": 100, "out": 100}
    assert lines(sets, {"i": range(1)}) == {"a": 1, "out": 1}
    assert lines(sets, {"i": range(7, 8)}) == {"a": 2, "out": 1}


def test_an_index_that_data_chooses_may_be_any_of_its_branches() -> None:
    index, body = flat("m", np.int32), "out[32*i + l] = a[32*if(m[i] > 0, i, 0) + l]"
    kernel = written("{[i,l]: 0<=i<100 and 0<=l<32}", body, flat("a"), index, flat("out"), tags={"l": "l.0"})
    assert lines(sets_of(kernel), {"i": range(7, 9)})["a"] == 3


def test_accesses_of_a_pass_are_at_once(stencil: WorkingSets) -> None:
    # Three rows of a in each of 100 passes, 4 sectors each, though only 102 rows are distinct in all.
    assert stencil.at_once({})["a"].sectors == 4 * 300
    # a[l] and a[l+1]: 33 floats in each pass, 5 sectors, not 4 + 5.
    body = "out[32*i + l] = a[64*i + l] + a[64*i + l + 1]"
    kernel = written("{[i,l]: 0<=i<100 and 0<=l<32}", body, flat("a"), flat("out"), tags={"l": "l.0"})
    assert sets_of(kernel).at_once({})["a"].sectors == 5 * 100


@pytest.fixture(scope="module")
def parts() -> WorkingSets:
    """Return three loops one after the other: 10 lines of a, 20 lines of b, the same of a and a half line further."""
    body = """
        for i
            x[32*i + l] = a[32*i + l]
        end
        for j
            x[32*j + l] = b[32*j + l]
        end
        for k
            x[32*k + l] = a[32*k + l + 16]
        end
    """
    domain = "{[i,j,k,l]: 0<=i,k<10 and 0<=j<20 and 0<=l<32}"
    return sets_of(written(domain, body, flat("a"), flat("b"), flat("x"), tags={"l": "l.0"}))


def test_what_a_part_before_has_touched_is_held_if_there_is_room_for_what_is_between(parts: WorkingSets) -> None:
    # All touches 11 lines of a, 20 of b and of x. With room for less, what is left of a is fetched once more.
    assert fetched(parts, 51) == {"a": 11, "b": 20, "x": 20}
    few, none = fetched(parts, 25), fetched(parts, 0)
    assert few["a"] == pytest.approx(10 + 25 / 51 * 1 + 26 / 51 * 11, abs=1)
    assert few["b"] == 20
    assert none["a"] > 10 + 11
