"""Test the work and the memory of the first groups of a launch against the sums over their work-items."""

from itertools import product

import loopy as lp
import pytest

from loopyperf.counts.first_groups import FirstGroups, first_groups, halo
from loopyperf.counts.sizes import Typical
from loopyperf.errors import UncountableError
from loopyperf.kernel import load_kernel
from tests.kernels import doubled, floats, gathered, integers, make_kernel, outer_product, triangle, two_launches

N = 100
"""elements in groups of 16: six full groups, and one of 4 work-items"""


def corner(group: int = 4) -> lp.TranslationUnit:
    """out[i, j] = a[i] for j ≤ i, in groups along both axes: one load and one store of each work-item with j ≤ i."""
    knl = make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        if j <= i
            out[i, j] = a[i]
        end
        """,
        floats("a", "n"),
        floats("out", "n, n"),
        integers("n"),
        name="corner",
        assumptions="n >= 1",
    )
    knl = lp.split_iname(knl, "i", group, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", group, outer_tag="g.0", inner_tag="l.0")


def late(group: int = 16) -> lp.TranslationUnit:
    """b[i] = a[i] for i from 32 on: the first group is the third tile."""
    knl = make_kernel(
        "{[i]: 32 <= i < n}", "b[i] = a[i]", floats("a, b", "n"), integers("n"), name="late", assumptions="n >= 33"
    )
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")


def cut(unit: lp.TranslationUnit, grid: tuple[int, ...], **sizes: int) -> FirstGroups:
    kernel = load_kernel(unit)
    return first_groups(kernel, kernel.launches[0].name, sizes, grid, Typical({}))


def test_full_groups_execute_the_same_work():
    # Each of 16 work-items executes a multiplication, a load, a store, and 16*i_outer + i_inner twice.
    first = cut(doubled(), (7,), n=N)
    assert [first.work((groups,)) for groups in range(8)] == [0, 112, 224, 336, 448, 560, 672, 700]


def test_work_increases_over_the_groups_of_a_triangle():
    first = cut(triangle(), (7,), n=N)
    # Additions and loads, and the store with its index 16*i_outer + i_inner.
    per_item = [2 * (item + 1) + 3 for item in range(N)]
    assert [first.work((groups,)) for groups in range(8)] == [sum(per_item[: 16 * groups]) for groups in range(8)]


def test_groups_along_two_axes_are_cut_along_both():
    first = cut(corner(), (3, 3), n=10)
    for width, height in product(range(4), repeat=2):
        # Each work-item tests two tiled indices; if j <= i, it also loads and stores, with three tiled indices.
        items_in_groups = [(i, j) for j in range(min(10, 4 * width)) for i in range(min(10, 4 * height))]
        assert first.work((width, height)) == 8 * sum(j <= i for i, j in items_in_groups) + 5 * len(items_in_groups)


def test_loops_along_the_same_axis_are_cut_together():
    knl = make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "b[i] = a[i] {id=first}\nd[j] = c[j] {id=second}",
        floats("a, b, c, d", "n"),
        integers("n"),
        assumptions="n >= 1",
    )
    for iname in "ij":
        knl = lp.split_iname(knl, iname, 16, outer_tag="g.0", inner_tag="l.0")
    first = cut(knl, (7,), n=N)
    # One load or store of each array, with its index 16*i_outer + i_inner.
    assert [first.work((groups,)) / first.work((1,)) for groups in range(7)] == list(range(7))
    assert halo(first, (2,)) == dict.fromkeys("abcd", 4 * 32)


def test_work_of_the_first_groups_is_the_sum_over_groups():
    first = cut(corner(), (3, 3), n=10)
    in_order = [(x, y) for y in range(3) for x in range(3)]
    assert len(in_order) == first.total_groups

    def own(x: int, y: int) -> float:
        return first.work((x + 1, y + 1)) - first.work((x, y + 1)) - first.work((x + 1, y)) + first.work((x, y))

    for number in range(10):
        assert first.work_of_first(number) == sum(own(*group) for group in in_order[:number])


def test_first_group_starts_at_the_loop_start():
    first = cut(late(), (5,), n=N)
    assert [first.work((groups,)) for groups in range(6)] == [0, 96, 192, 288, 384, 408]
    assert halo(first, (1,)) == {"a": 48 * 4, "b": 48 * 4}


@pytest.mark.parametrize("groups", [1, 3, 7])
def test_halo_ends_after_the_last_touched_element(groups: int):
    items = min(N, 16 * groups)
    assert halo(cut(doubled(), (7,), n=N), (groups,)) == {"a": 4 * items, "b": 4 * items}
    assert halo(cut(triangle(), (7,), n=N), (groups,)) == {"a": 4 * items, "out": 4 * items}


def test_halo_of_a_matrix_ends_in_its_last_row():
    # The last of 2 groups along m, in row 2 of rows of 48 floats: element 2·48 + 31.
    first = cut(outer_product(), (3, 5), n=5, m=48)
    assert halo(first, (2, 3)) == {"a": 4 * 3, "b": 4 * 32, "c": 4 * (2 * 48 + 32)}


def test_halo_omits_indirectly_accessed_arrays():
    assert halo(cut(gathered(), (7,), n=N), (2,)) == {"b": 128, "index": 128}


def test_halo_of_an_array_of_another_launch_is_zero():
    first = cut(two_launches(), (7,), n=N)
    assert first.launch.name == "pair"
    assert halo(first, (2,)) == {"a": 128, "c": 128, "b": 0}


def test_group_loop_that_starts_at_a_size_is_rejected():
    knl = make_kernel("{[i]: m <= i < n}", "b[i] = 1", floats("b", "n"), integers("n, m"), assumptions="0 <= m < n")
    with pytest.raises(UncountableError, match="group iname 'i' starts at a value that depends on sizes"):
        cut(lp.tag_inames(knl, {"i": "g.0"}), (4,), n=9, m=5)
