"""Volatile accesses: never removed, merged or reordered."""

from collections import Counter

import loopy as lp
import pytest
from loopy.target.pyopencl import VolatileMemPyOpenCLTarget

from loopyperf.compiler import lowered
from loopyperf.compiler.registers import with_scheduled_loads
from loopyperf.counts.sizes import Typical
from loopyperf.idg import Idg
from loopyperf.idg.program import placed
from loopyperf.kernel import load_kernel
from tests.idg.patterns import flat, unit
from tests.profiles import source_profile

TARGETS = {True: VolatileMemPyOpenCLTarget(), False: lp.PyOpenCLTarget()}


def machine_graph(code: str, is_volatile: bool) -> Idg:
    program = unit("{[i,j]: 0<=i<32 and 0<=j<4}", code, flat("a"), flat("b"), flat("out"))
    program = lp.tag_inames(program.copy(target=TARGETS[is_volatile]), {"i": "l.0"})
    return lowered(source_profile(load_kernel(program), {}, Typical({})).graph)


def accesses(graph: Idg) -> list[str]:
    """Return the loads and stores of *graph* in program order."""
    found = [graph.instructions[place] for place, _ in placed(graph.body)]
    return [f"{each.kind} {each.reference.array}" for each in found if each.reference is not None]


@pytest.mark.parametrize(("is_volatile", "loads", "stores"), [(True, 3, 3), (False, 1, 2)])
def test_volatile_accesses_are_neither_forwarded_nor_eliminated(is_volatile: bool, loads: int, stores: int) -> None:
    found = Counter(accesses(machine_graph("b[i] = a[i]\nb[i] = b[i] + 1\nout[i] = 2*b[i]", is_volatile)))
    assert (sum(found[f"load {name}"] for name in "ab"), found["store b"] + found["store out"]) == (loads, stores)


@pytest.mark.parametrize(("is_volatile", "loads"), [(True, 2 * 4), (False, 1)])
def test_invariant_volatile_load_is_executed_in_each_iteration(is_volatile: bool, loads: int) -> None:
    assert accesses(machine_graph("out[i] = sum(j, a[i] + a[i])", is_volatile)).count("load a") == loads


@pytest.mark.parametrize(
    ("is_volatile", "order"),
    [(True, ["load a", "store out", "load b", "store out"]), (False, ["load a", "load b", "store out", "store out"])],
)
def test_volatile_load_does_not_move_above_a_volatile_store(is_volatile: bool, order: list[str]) -> None:
    graph = machine_graph("out[i] = a[i] + 1\nout[i + 32] = b[i] + 1", is_volatile)
    assert accesses(with_scheduled_loads(graph)) == order
