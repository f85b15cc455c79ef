"""Test which code a CPU executes work-item by work-item: regions between barriers that contain a loop."""

import loopy as lp
import numpy as np

import loopyperf as lpp
from loopyperf.compiler import OF_GPUS, lowered
from loopyperf.idg.graph import Idg
from loopyperf.idg.parallelism import executed_one_by_one

LANES = 16


def machine(unit: lp.TranslationUnit, **sizes: int) -> Idg:
    return lowered(lpp.instruction_graph(unit, warp_size=LANES, **sizes), leave_out=OF_GPUS)


def kernel(domain: str, text: str, *more: str) -> lp.TranslationUnit:
    unit = lp.make_kernel(
        domain, text, [lp.GlobalArg("a, out", np.float32, shape=lp.auto), *more, ...], assumptions="n >= 64"
    )
    return lp.split_iname(unit, "i", 64, outer_tag="g.0", inner_tag="l.0")


def of_source(graph: Idg) -> dict[str, bool]:
    """Return for each kind of instruction of the source whether work-items execute it one by one."""
    alone = executed_one_by_one(graph)
    return {each.kind: place in alone for place, each in enumerate(graph.instructions) if each.source}


def test_code_without_loops_is_vectorized_over_work_items() -> None:
    graph = machine(kernel("{[i]: 0 <= i < n}", "out[i] = 2*a[i] {id=twice}"), n=128)
    assert executed_one_by_one(graph) == {}


def test_code_with_a_loop_is_executed_work_item_by_work_item() -> None:
    unit = kernel("{[i, k]: 0 <= i < n and 0 <= k < n}", "out[i] = sum(k, a[k]*a[i]) {id=dot}")
    graph = machine(unit, n=128)
    assert set(executed_one_by_one(graph)) == set(range(len(graph.instructions)))
    assert set(executed_one_by_one(graph).values()) == {1.0}


def test_unrolled_loop_does_not_prevent_vectorization() -> None:
    unit = kernel("{[i, k]: 0 <= i < n and 0 <= k < 4}", "out[i] = sum(k, a[i + k]) {id=few}")
    assert executed_one_by_one(machine(unit, n=128)) == {}


def test_loop_with_a_barrier_does_not_prevent_vectorization() -> None:
    unit = kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < n}",
        """
        for i, k
            <> t = a[i + k] {id=load}
            ... lbarrier {id=wait, dep=load}
            out[i] = out[i] + t {id=add, dep=wait}
        end
        """,
    )
    assert executed_one_by_one(machine(unit, n=128)) == {}


def test_regions_between_barriers_are_independent() -> None:
    unit = kernel(
        "{[i, k]: 0 <= i < n and 0 <= k < n}",
        """
        for i
            <> t = sum(k, a[k]*a[k]) {id=dot}
            ... lbarrier {id=wait, dep=dot}
            out[i] = t/a[i] {id=scale, dep=wait}
        end
        """,
    )
    found = of_source(machine(unit, n=128))
    assert found == {"move": True, "load": False, "fma": True, "div": False, "store": False}  # "load" is the last load


def test_lanes_that_exit_a_loop_early_count_for_less() -> None:
    unit = lp.make_kernel(
        "{[g, i, k]: 0 <= g < n and 0 <= i < 16 and 0 <= k <= i}",
        "out[g, i] = sum(k, a[g, k]*a[g, k]) {id=dot}",
        [lp.GlobalArg("a, out", np.float32, shape="n, 16"), ...],
    )
    unit = lp.tag_inames(unit, {"g": "g.0", "i": "l.0"})
    graph = machine(unit, n=4)
    alone = executed_one_by_one(graph)
    products = [place for place, each in enumerate(graph.instructions) if each.kind == "fma"]
    assert sum(float(graph.instructions[place].executions) for place in products) == 16
    assert sum(float(graph.instructions[place].executions) * alone[place] for place in products) == 8.5
