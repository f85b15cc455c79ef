"""Test that the papers' example kernels, written in Loopy, have the graphs of the papers' figures."""

import loopy as lp
import numpy as np

import loopyperf as lpp
from loopyperf.compiler import PASSES, lowered
from loopyperf.idg import Idg
from tests.idg.published_graphs import CORNELIS, LEMEIRE


def pairs(graph: Idg) -> set[tuple[int, int]]:
    return {(edge.source, edge.target) for edge in graph.edges}


def test_example_kernel_has_the_graph_of_lemeire() -> None:
    # Compute two indices, load x with them, scale it, add a constant, and store it at an index that needs no
    # arithmetic.
    unit = lp.make_kernel(
        "{[i,j]: 0<=i,j<n}",
        "y[i,j] = 0.5*x[2*i,3*j] + 1",
        [lp.GlobalArg("x", np.float32, shape="2*n,3*n"), lp.GlobalArg("y", np.float32, shape="n,n"), ...],
        lang_version=(2018, 2),
    )
    graph = lpp.instruction_graph(lp.tag_inames(unit, {"i": "g.0", "j": "l.0"}), n=32)
    kinds = {"global": "mem", "alu": "comp"}
    assert [kinds[each.subsystem] for each in graph.instructions] == [each.kind for each in LEMEIRE.instructions]
    assert pairs(graph) == pairs(LEMEIRE)


def test_saxpy_has_the_graph_of_cornelis() -> None:
    unit = lp.make_kernel(
        "{[i]: 0<=i<n}",
        "<> x = X[i]\n<> y = Y[i]\n<> z = a*x + y\nY[i] = z",
        [lp.GlobalArg("X,Y", np.float32, shape="n"), lp.ValueArg("a", np.float32), ...],
        seq_dependencies=True,
        lang_version=(2018, 2),
    )
    unit = lp.split_iname(unit, "i", 64, outer_tag="g.0", inner_tag="l.0")
    # The paper keeps the instruction that computes the index, and has no control instructions.
    kept = ("copy propagation", "common subexpressions", "fused multiply-adds")
    graph = lowered(lpp.instruction_graph(unit, n=1024), leave_out=PASSES.keys() - set(kept))
    index = [place for place, each in enumerate(graph.instructions) if each.is_index]
    others = [place for place in range(len(graph.instructions)) if place not in index]
    names = {**dict.fromkeys(index, 0), **{place: number for number, place in enumerate(others, 1)}}
    drawn = {(names[source], names[target]) for source, target in pairs(graph) if names[source] != names[target]}
    assert [graph.instructions[place].kind for place in others] == ["load", "load", "fma", "store"]
    # The load of y before its store is no dependence; the paper does not draw it either.
    assert drawn == pairs(CORNELIS)
