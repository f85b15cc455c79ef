"""Graphs of vectors: a loop tagged ``vec`` is one instruction where Loopy computes in vectors, and copies elsewhere."""

from collections import Counter

import loopy as lp
import numpy as np
from idg.machine_graphs import source
from idg.patterns import flat

QUADS = lp.GlobalArg("a,out", np.float32, shape=(32, 4), dim_tags="N0,vec")
DOMAIN = "{[i,v]: 0<=i<32 and 0<=v<4}"


def mix(code: str, *arguments: object) -> Counter[tuple[str, str]]:
    graph = source(DOMAIN, code, *arguments, tags={"i": "l.0", "v": "vec"})
    found = Counter[tuple[str, str]]()
    for each in graph.instructions:
        if not each.is_index:
            found[each.kind, each.dtype] += int(each.executions)
    return found


def test_a_vector_is_loaded_and_stored_at_once_and_its_members_are_computed() -> None:
    assert mix("out[i,v] = 2*a[i,v]", QUADS) == {("load", "b128"): 1, ("mul", "f32"): 4, ("store", "b128"): 1}


def test_what_is_no_vector_has_a_copy_for_each_member() -> None:
    found = mix("b[4*i + v] = 2*c[4*i + v]", flat("b"), flat("c"))
    assert found == {("load", "b32"): 4, ("mul", "f32"): 4, ("store", "b32"): 4}
