"""Test the warp classes of groups in dispatch order against enumeration of all groups."""

from collections import Counter
from typing import Any

import islpy as isl
import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.memory.kernel_profile import LaunchProfile
from loopyperf.polyhedral.points import contained, points_listed

ROWS, COLUMNS = 2, 4
"""work-items of a group"""


def guarded(condition: str) -> LaunchProfile:
    """Return the launch of a kernel on 30 × 30 points that executes a statement where *condition* holds."""
    kernel = lp.make_kernel("{[i,j]: 0<=i,j<30}", f"b[i,j] = 2*a[i,j] {{if={condition}}}", lang_version=(2018, 2))
    kernel = lp.split_iname(lp.add_dtypes(kernel, {"a": np.float32}), "i", ROWS, outer_tag="g.1", inner_tag="l.1")
    kernel = lp.split_iname(kernel, "j", COLUMNS, outer_tag="g.0", inner_tag="l.0")
    (launch,) = lpp.instruction_graph(kernel).launches
    return launch


@pytest.mark.parametrize(
    "condition",
    [
        "i < 7",
        "j == 29",
        "i > 0 and j > 0",
        "i + j < 30",
        "(i + j) % 3 == 0 and i + 2*j < 40",
        "(i // 4) % 2 == 0",
        "i / 2 == j",
        "i / 3 < j / 2",
    ],
)
def test_groups_with_stores_are_those_where_the_condition_holds(condition: str) -> None:
    launch = guarded(condition)
    active = {
        kind for kind, each in enumerate(launch.classes) if any(e.kind == "store" for e in each.graph.instructions)
    }
    ((_, order),) = launch.dispatch.executions
    found = [bool(active & dict(launch.dispatch.classes[run.group]).keys()) for run in order for _ in range(run.number)]
    holds: Any = eval(f"lambda i, j: {condition}")
    expected = [
        any(
            holds(ROWS * y + i, COLUMNS * x + j)
            for i in range(ROWS)
            for j in range(COLUMNS)
            if ROWS * y + i < 30 and COLUMNS * x + j < 30
        )
        for y in range(15)
        for x in range(8)
    ]
    assert found == expected


def test_warps_of_all_groups_add_up_to_those_of_each_class() -> None:
    launch = guarded("i + 2*j < 40 and j % 3 < 2")
    ((_, order),) = launch.dispatch.executions
    found = Counter[int]()
    for run in order:
        found.update({kind: number * run.number for kind, number in launch.dispatch.classes[run.group]})
    assert found == {number: kind.warps for number, kind in enumerate(launch.classes)}


def test_work_of_groups_of_a_triangle_is_relative_to_the_mean() -> None:
    kernel = lp.make_kernel("{[i,j]: 0<=i<1280 and 0<=j<=i}", "b[i] = sum(j, a[j])", lang_version=(2018, 2))
    kernel = lp.split_iname(lp.add_dtypes(kernel, {"a": np.float32}), "i", 32, outer_tag="g.0", inner_tag="l.0")
    (launch,) = lpp.instruction_graph(kernel).launches
    ((_, order),) = launch.dispatch.executions
    assert [run.number for run in order] == [1] * 40
    assert [run.work for run in order] == pytest.approx([(32 * group + 32) / 656 for group in range(40)])


def test_millions_of_groups_with_a_boundary_are_few_runs() -> None:
    kernel = lp.make_kernel("{[i,j]: 0<=i,j<n}", "b[i,j] = 2*a[i,j]", lang_version=(2018, 2))
    kernel = lp.split_iname(lp.add_dtypes(kernel, {"a": np.float32}), "i", 8, outer_tag="g.1", inner_tag="l.1")
    kernel = lp.split_iname(kernel, "j", 32, outer_tag="g.0", inner_tag="l.0")
    (launch,) = lpp.instruction_graph(kernel, n=100_001).launches
    ((_, order),) = launch.dispatch.executions
    assert len(order) < 2000
    assert sum(run.number for run in order) == launch.groups == 3126 * 12501


@pytest.mark.parametrize(
    "points",
    [
        "{ [x, y] : 0 <= x < 9 and 0 <= y <= x }",
        "{ [x, y] : 0 <= x < 9 and 0 <= y < 9 and (x + 2*y) % 3 = 1 }",
        "{ [x, y] : (x = 3 and 0 <= y < 9) or (0 <= x < 9 and y = floor(x/2)) }",
        "{ [x, y] : 0 <= x < 9 and 0 <= y < 9 and exists (a : x = 2*a + y) }",
    ],
)
def test_contained_points_are_those_listed(points: str) -> None:
    rows = np.array([(x, y) for x in range(-1, 10) for y in range(-1, 10)], dtype=np.int64)
    listed = {tuple(row) for row in points_listed(isl.Set(points)).tolist()}
    assert [tuple(row) in listed for row in rows.tolist()] == contained(isl.Set(points), [*rows.T]).tolist()
