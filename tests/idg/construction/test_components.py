"""Test complex numbers and vectors: each component is computed, depends on the right components, and is used."""

from collections import Counter

import loopy as lp
import numpy as np
import pytest

from loopyperf.compiler import lowered
from loopyperf.idg import Idg
from tests.idg.machine_graphs import kinds, source

ARITHMETIC = ("add", "mul", "fma", "div", "square")


def complex_graph(code: str, *, reals: str = "r") -> Idg:
    numbers = lp.GlobalArg("w,x,y,z", np.complex64, shape=(32,))
    return source("{[i]: 0<=i<32}", code, numbers, lp.GlobalArg(reals, np.float32, shape=(32,)))


def arithmetic(graph: Idg) -> Counter[str]:
    """Return how often *graph* executes each kind of floating-point arithmetic."""
    found = Counter[str]()
    for each in graph.instructions:
        if each.kind in ARITHMETIC and each.dtype.startswith("f"):
            found[each.kind] += int(each.executions)
    return found


@pytest.mark.parametrize(
    ("code", "machine"),
    [
        ("y[i] = x[i] + z[i]", {"add": 2}),
        # (a + ib)(c + id): two products, and two multiply-adds.
        ("y[i] = x[i]*z[i]", {"mul": 2, "fma": 2}),
        ("y[i] = x[i]*z[i] + w[i]", {"mul": 2, "fma": 2, "add": 2}),
        ("y[i] = r[i]*x[i]", {"mul": 2}),
        ("y[i] = r[i]*x[i] + z[i]", {"fma": 2}),
        # Common subexpressions are computed once, in both components.
        ("y[i] = x[i]*z[i] + (x[i]*z[i] - w[i])", {"mul": 2, "fma": 2, "add": 4}),
        ("<> t = x[i]*z[i]\ny[i] = t + w[i]", {"mul": 2, "fma": 2, "add": 2}),
        ("y[i] = real(x[i]*z[i])", {"mul": 1, "fma": 1}),
    ],
)
def test_both_components_of_complex_numbers_are_computed(code: str, machine: dict[str, int]) -> None:
    assert arithmetic(lowered(complex_graph(code))) == machine


def test_component_depends_on_the_same_component_only() -> None:
    graph = complex_graph("y[i] = x[i] + z[i] + w[i]")
    sums = [place for place, each in enumerate(graph.instructions) if each.kind == "add" and each.dtype == "f32"]
    between = {(edge.source, edge.target) for edge in graph.edges if {edge.source, edge.target} <= set(sums)}
    assert between == {(sums[0], sums[2]), (sums[1], sums[3])}


def test_loop_carries_both_components() -> None:
    code = "<> acc = x[i] {id=begin}\nfor k\n acc = acc*z[i] + w[i] {id=step,dep=begin}\nend\ny[i] = acc {dep=step}"
    numbers = lp.GlobalArg("w,x,y,z", np.complex64, shape=(32,))
    machine = lowered(source("{[i,k]: 0<=i<32 and 0<=k<64}", code, numbers))
    assert arithmetic(machine) == {"mul": 128, "fma": 128, "add": 128}


@pytest.mark.parametrize("members", [2, 4])
def test_all_components_of_a_vector_are_computed(members: int) -> None:
    vectors = lp.GlobalArg("a,b,out", np.float32, shape=(32, members), dim_tags="N0,vec")
    domain, tags = f"{{[i,v]: 0<=i<32 and 0<=v<{members}}}", {"i": "l.0", "v": "vec"}
    machine = lowered(source(domain, "out[i,v] = a[i,v]*b[i,v] + 3*a[i,v]**2", vectors, tags=tags))
    assert arithmetic(machine) == {"mul": 2 * members, "fma": members}
    assert kinds(machine).count(f"store b{32 * members}") == 1
