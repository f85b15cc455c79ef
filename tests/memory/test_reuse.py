"""Footprints of parts of launches, and lines fetched by caches of several sizes, derived by hand."""

from collections.abc import Mapping

import loopy as lp
import numpy as np
import pytest

from loopyperf.counts.sizes import Typical
from loopyperf.kernel import Kernel
from loopyperf.memory.footprints import LayerConditions, Window, WorkingSets, working_sets
from tests.idg.patterns import flat, written
from tests.profiles import source_profile

LINE = 128


def sets_of(kernel: Kernel, sizes: Mapping[str, int] | None = None) -> WorkingSets:
    (launch,) = source_profile(kernel, sizes or {}, Typical({})).launches
    return working_sets(launch.footprints)


def lines(sets: WorkingSets, window: Window) -> dict[str, int]:
    return {array: int(each.lines) for array, each in sets.touched(sets.program, window).items()}


def fetched(sets: WorkingSets, lines_of_cache: int, groups: range | None = None) -> dict[str, int]:
    """Return array -> lines that a cache of *lines_of_cache* lines fetches for *groups* (None: for all groups)."""
    window = sets.footprints.window({0: groups} if groups else {}, {})
    return {
        array: int(each.lines) for array, each in LayerConditions(sets, lines_of_cache * LINE).fetched(window).items()
    }


@pytest.fixture(scope="module")
def stencil() -> WorkingSets:
    """Return a stencil in one warp that sums three neighboring rows of 32 floats (one line each), 102 rows in all."""
    body = "out[32*i + l] = a[32*i + l] + a[32*(i+1) + l] + a[32*(i+2) + l]"
    return sets_of(written("{[i,l]: 0<=i<100 and 0<=l<32}", body, flat("a"), flat("out"), tags={"l": "l.0"}))


def test_a_stencil_touches_its_rows_once(stencil: WorkingSets) -> None:
    assert lines(stencil, {}) == {"a": 102, "out": 100}
    assert lines(stencil, {"i": range(7, 8)}) == {"a": 3, "out": 1}
    assert lines(stencil, {"i": range(7, 9)}) == {"a": 4, "out": 2}


def test_cache_of_two_iterations_fetches_each_row_once(stencil: WorkingSets) -> None:
    # Two iterations touch 4 + 2 lines. After the first, an iteration touches one new row of each array.
    assert fetched(stencil, 6) == {"a": 3 + 99, "out": 100}
    assert fetched(stencil, 1000) == {"a": 102, "out": 100}


def test_smaller_cache_fetches_some_rows_again(stencil: WorkingSets) -> None:
    # 102 + 100 lines in all; with 5 of the 6 lines of two iterations, a sixth of the rows is fetched three times.
    assert fetched(stencil, 5)["a"] == pytest.approx(5 / 6 * 102 + 1 / 6 * 300, abs=1)
    assert fetched(stencil, 0) == {"a": 300, "out": 100}


@pytest.fixture(scope="module")
def product() -> WorkingSets:
    """Return a product of 64 x 64 matrices of floats; each of 2 x 64 groups computes 32 results of a row."""
    body = "c[64*i + 32*g + l] = sum(k, a[64*i + k]*b[64*k + 32*g + l])"
    domain = "{[i,g,l,k]: 0<=i,k<64 and 0<=g<2 and 0<=l<32}"
    tags = {"g": "g.0", "i": "g.1", "l": "l.0"}
    return sets_of(written(domain, body, flat("a"), flat("b"), flat("c"), tags=tags))


def test_groups_touch_rows_and_columns_of_matrices(product: WorkingSets) -> None:
    # A row has 256 bytes, 2 lines. A group reads a row of a and half of each row of b, and writes half a row.
    one = product.footprints.window({0: range(1), 1: range(1)}, {})
    assert lines(product, one) == {"a": 2, "b": 64, "c": 1}
    two = product.footprints.window({0: range(2), 1: range(1)}, {})
    assert lines(product, two) == {"a": 2, "b": 128, "c": 2}
    assert lines(product, product.footprints.window({}, {})) == {"a": 128, "b": 128, "c": 128}


def test_reuse_in_the_next_iteration_needs_a_small_cache(product: WorkingSets) -> None:
    one = product.footprints.window({0: range(1), 1: range(1)}, {})
    # Two iterations of k touch one or two lines of a, and 2 of b; a line of a is used in 32 iterations.
    found = LayerConditions(product, 4 * LINE).fetched(one)
    assert (round(found["a"].lines), round(found["b"].lines)) == (3, 64)
    # Without a cache, each iteration fetches a line of each.
    none = LayerConditions(product, 0).fetched(one)
    assert (int(none["a"].lines), int(none["b"].lines)) == (64, 64)


def test_indirect_accesses_are_assumed_distinct() -> None:
    index = flat("m", np.int32)
    kernel = written("{[k,l]: 0<=k<10 and 0<=l<32}", "out[k,l] = a[m[32*k + l]]", flat("a"), index, tags={"l": "l.0"})
    sets = sets_of(kernel)
    assert sets.touched(sets.program, {})["a"].sectors == 320


def test_indirect_footprint_is_limited_to_the_array() -> None:
    # 320 elements anywhere in an array of two lines, of which a[l] are the first.
    index, array = flat("m", np.int32), lp.GlobalArg("a", np.float32, shape=(64,))
    body = "out[k,l] = a[l] + a[m[32*k + l]]"
    sets = sets_of(written("{[k,l]: 0<=k<10 and 0<=l<32}", body, array, index, tags={"l": "l.0"}))
    assert lines(sets, {})["a"] == 2


def test_index_with_condition_follows_the_branch_taken() -> None:
    # Two neighboring rows of 32 floats, one line each; the first row is its own neighbor.
    body = "out[32*i + l] = a[32*i + l] + a[32*if(i > 0, i - 1, 0) + l]"
    sets = sets_of(written("{[i,l]: 0<=i<100 and 0<=l<32}", body, flat("a"), flat("out"), tags={"l": "l.0"}))
    assert lines(sets, {}) == {"a": 100, "out": 100}
    assert lines(sets, {"i": range(1)}) == {"a": 1, "out": 1}
    assert lines(sets, {"i": range(7, 8)}) == {"a": 2, "out": 1}


def test_index_with_loaded_condition_touches_both_branches() -> None:
    index, body = flat("m", np.int32), "out[32*i + l] = a[32*if(m[i] > 0, i, 0) + l]"
    kernel = written("{[i,l]: 0<=i<100 and 0<=l<32}", body, flat("a"), index, flat("out"), tags={"l": "l.0"})
    assert lines(sets_of(kernel), {"i": range(7, 9)})["a"] == 3


def test_accesses_of_one_iteration_are_combined(stencil: WorkingSets) -> None:
    # Three rows of a in each of 100 iterations, 4 sectors each, although only 102 rows are distinct.
    assert stencil.at_once({})["a"].sectors == 4 * 300
    # a[l] and a[l+1]: 33 floats in each iteration, 5 sectors, not 4 + 5.
    body = "out[32*i + l] = a[64*i + l] + a[64*i + l + 1]"
    kernel = written("{[i,l]: 0<=i<100 and 0<=l<32}", body, flat("a"), flat("out"), tags={"l": "l.0"})
    assert sets_of(kernel).at_once({})["a"].sectors == 5 * 100


@pytest.fixture(scope="module")
def three_loops() -> WorkingSets:
    """Return three consecutive loops over 10 lines of a, 20 lines of b, and 10 lines of a shifted by half a line."""
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


def test_lines_of_an_earlier_loop_are_reused_if_still_cached(three_loops: WorkingSets) -> None:
    # The loops touch 11 lines of a, 20 of b and 20 of x. A smaller cache fetches the evicted lines of a again.
    assert fetched(three_loops, 51) == {"a": 11, "b": 20, "x": 20}
    few, none = fetched(three_loops, 25), fetched(three_loops, 0)
    assert few["a"] == pytest.approx(10 + 25 / 51 * 1 + 26 / 51 * 11, abs=1)
    assert few["b"] == 20
    assert none["a"] > 10 + 11
