"""Test that NumPy's numbers in kernels built by Python code give the same graphs as Python's numbers."""

import loopy as lp
import numpy as np
import pymbolic.primitives as prim
import pytest
from loopy import Assignment

import loopyperf as lpp
from loopyperf.compiler import lowered
from loopyperf.idg import Idg


def padded(number: type) -> Idg:
    """Return the machine graph of rows with padded ends, as pytato writes them; the last condition never holds."""
    place, row = prim.Variable("j"), prim.Variable("i")
    value = prim.Variable("a")[row * number(4) + place - number(2)]
    for condition in (
        prim.Comparison(place, ">=", number(6)),
        prim.Comparison(place, "<", number(2)),
        prim.Comparison(row, "<", number(0)),
    ):
        value = prim.If(condition, 0.0, value)
    store = Assignment(prim.Variable("b")[row, place], value, within_inames=frozenset("ij"))
    arrays = [lp.GlobalArg("a", np.float32, shape=(132,)), lp.GlobalArg("b", np.float32, shape=(32, 8))]
    unit = lp.make_kernel("{[i,j]: 0<=i<32 and 0<=j<8}", [store], arrays, lang_version=(2018, 2))
    return lowered(lpp.instruction_graph(lp.tag_inames(unit, "i:l.0")))


@pytest.mark.parametrize("number", [np.int32, np.int16])
def test_numpy_numbers_give_the_same_graph_as_python_numbers(number: type) -> None:
    assert padded(number) == padded(int)
