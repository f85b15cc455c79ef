"""Load scheduling moves loads up as far as their addresses allow, and changes nothing else."""

import loopy as lp
import numpy as np
import pytest

from loopyperf.compiler import lowered
from loopyperf.compiler.registers import with_scheduled_loads
from loopyperf.idg import Idg
from loopyperf.idg.program import placed
from tests.idg.machine_graphs import source
from tests.idg.patterns import flat
from tests.idg.stored_values import stored


def order(graph: Idg) -> list[str]:
    """Return the opcodes of memory accesses, additions and barriers in program order."""
    kinds = [graph.instructions[place].kind for place, _ in placed(graph.body)]
    return [kind for kind in kinds if kind in ("load", "store", "add", "fma", "barrier")]


def products(rows: int) -> Idg:
    lines = [f"out[{32 * row} + i] = a[{32 * row} + i] + 1" for row in range(rows)]
    return lowered(source("{[i]: 0<=i<32}", "\n".join(lines), flat("a"), flat("out")))


def test_loads_move_before_uses_of_other_loads() -> None:
    graph = products(3)
    assert order(graph) == ["load", "add", "store"] * 3
    assert order(with_scheduled_loads(graph)) == ["load"] * 3 + ["add", "store"] * 3


@pytest.mark.parametrize("waiting", [1, 2, 3])
def test_unused_load_results_stay_within_the_limit(waiting: int) -> None:
    kinds = order(with_scheduled_loads(products(6), waiting))
    unused = most = 0
    for kind in kinds:
        unused += (kind == "load") - (kind == "add")
        most = max(most, unused)
    assert most == waiting


def test_unused_load_results_stay_within_the_registers() -> None:
    graph = products(6)
    assert order(with_scheduled_loads(graph, registers=1)) == order(graph)
    assert order(with_scheduled_loads(graph, registers=5)) == order(with_scheduled_loads(graph, 2))


def test_loads_do_not_move_above_barriers_or_their_address() -> None:
    stage = lp.TemporaryVariable("t", np.float32, shape=(32,), address_space=lp.AddressSpace.LOCAL)
    code = "t[i] = a[i] {id=w}\n ... lbarrier {id=x,dep=w}\n out[i] = t[31 - i] + a[i + 32] {dep=x}"
    graph = lowered(source("{[i]: 0<=i<32}", code, flat("a"), flat("out"), stage))
    assert order(with_scheduled_loads(graph)) == ["load", "store", "barrier", "load", "load", "add", "store"]


def test_load_scheduling_keeps_the_stored_results() -> None:
    graph = products(8)
    assert stored(with_scheduled_loads(graph).unrolled()) == stored(graph.unrolled())
