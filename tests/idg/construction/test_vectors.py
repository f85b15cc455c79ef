"""Test vectors: a loop tagged ``vec`` is one instruction where Loopy computes in vectors, and copies elsewhere."""

from collections import Counter

import loopy as lp
import numpy as np
import pytest

from loopyperf.compiler import lowered, private_arrays
from loopyperf.counts.sizes import Typical
from loopyperf.idg import Idg
from loopyperf.idg.live_values import Lives
from loopyperf.kernel import load_kernel
from tests import private_array_kernels as kernels
from tests.idg.machine_graphs import source
from tests.idg.patterns import flat
from tests.profiles import source_profile

QUADS = lp.GlobalArg("a,out", np.float32, shape=(32, 4), dim_tags="N0,vec")
DOMAIN = "{[i,v]: 0<=i<32 and 0<=v<4}"


def mix(code: str, *arguments: object) -> Counter[tuple[str, str]]:
    graph = source(DOMAIN, code, *arguments, tags={"i": "l.0", "v": "vec"})
    found = Counter[tuple[str, str]]()
    for each in graph.instructions:
        if not each.is_index:
            found[each.kind, each.dtype] += int(each.executions)
    return found


def test_vector_is_accessed_at_once_and_computed_by_component() -> None:
    assert mix("out[i,v] = 2*a[i,v]", QUADS) == {("load", "b128"): 1, ("mul", "f32"): 4, ("store", "b128"): 1}


def test_array_without_vectors_has_a_copy_for_each_component() -> None:
    found = mix("b[4*i + v] = 2*c[4*i + v]", flat("b"), flat("c"))
    assert found == {("load", "b32"): 4, ("mul", "f32"): 4, ("store", "b32"): 4}


# {{{ private arrays of vectors

WIDTHS = [(2, np.float32), (3, np.float32), (4, np.float32), (8, np.float32), (16, np.float32), (2, np.float64)]
WIDTHS += [(3, np.float64), (4, np.float64)]


def sums(width: int, rows: int | str, dtype: type, *, in_vectors: bool = True) -> Idg:
    """Return the source graph of sums of 8 terms of *rows* vectors."""
    unit = kernels.vector_sums(width, rows, 8, dtype=dtype, in_vectors=in_vectors)
    return source_profile(load_kernel(unit), {"n": 8, "r": 4}, Typical({})).graph


def numbers(graph: Idg, kind: str, array: str) -> float:
    """Return how many numbers a work-item loads from *array*, or stores to it."""
    found = (each for each in graph.instructions if each.kind == kind and each.reference.array == array)
    return sum(float(each.executions) * each.bits / int(each.scalar[1:]) for each in found)


def chains(graph: Idg) -> Counter[int]:
    """Return the number of multiply-adds by depth, the length of the longest chain of multiply-adds that ends there."""
    depths: dict[int, int] = {}
    flat_graph = graph.unrolled()
    for place, each in enumerate(flat_graph.instructions):
        before = max((depths.get(edge.source, 0) for edge in flat_graph.definitions[place]), default=0)
        if each.kind == "fma":
            depths[place] = before + 1
    return Counter(depths.values())


@pytest.mark.parametrize(("width", "dtype"), WIDTHS)
def test_private_array_of_vectors_has_the_chains_of_its_components(width: int, dtype: type) -> None:
    """Compare with Loopy's own copies, which compute each component separately."""
    vectors, members = (lowered(sums(width, 4, dtype, in_vectors=way)) for way in (True, False))
    assert chains(vectors) == chains(members) == dict.fromkeys(range(1, 9), 4 * width)
    room = 4 if width == 3 else width  # OpenCL stores three as four
    assert numbers(vectors, "load", "z") == numbers(vectors, "store", "y") == 4 * room
    assert numbers(members, "load", "z") == numbers(members, "store", "y") == 4 * width
    assert all(each.bits <= 128 for each in vectors.instructions if each.reference is not None)
    assert Lives(vectors).registers >= 4 * width * np.dtype(dtype).itemsize // 4


def test_vector_in_stack_memory_is_accessed_as_one_element() -> None:
    graph = sums(4, "r", np.float32)
    (array,) = private_arrays(graph)
    assert (array.home, array.elements, array.nbytes) == ("stack memory", 8, 8 * 16)
    private = [each for each in lowered(graph).instructions if each.subsystem == "private"]
    assert {each.dtype for each in private} == {"b128"}
    accesses = {kind: sum(each.executions for each in private if each.kind == kind) for kind in ("load", "store")}
    assert accesses == {"load": 4 * (8 + 1), "store": 4 * (1 + 8)}


def test_single_component_is_loaded_alone_from_stack_memory() -> None:
    arrays = [lp.GlobalArg("a", np.float32, shape=("n", 32, 4), dim_tags="N1,N0,vec"), flat("out")]
    arrays.append(lp.TemporaryVariable("p", np.float32, shape=(8, 4), dim_tags="N0,vec"))
    domain = "[n] -> {[i,m,o,v]: 0<=i<32 and 0<=m,o<n and m,o<8 and 0<=v<4}"
    tags = {"i": "l.0", "v": "vec"}
    graph = source(domain, "p[m,v] = a[m,i,v]\nout[32*o + i] = p[o,2]", *arrays, tags=tags, sizes={"n": 4})
    private = {(each.kind, each.dtype) for each in lowered(graph).instructions if each.subsystem == "private"}
    assert private == {("store", "b128"), ("load", "b32")}


def test_vectors_of_three_have_a_stride_of_four_numbers() -> None:
    array = lp.GlobalArg("a,out", np.float32, shape=(4, 32, 3), dim_tags="N1,N0,vec")
    tags = {"i": "l.0", "v": "vec", "m": "unr"}
    graph = lowered(source("{[i,m,v]: 0<=i<32 and 0<=m<4 and 0<=v<3}", "out[m,i,v] = 2*a[m,i,v]", array, tags=tags))
    constants = [each.symbolic.constant for each in graph.instructions if each.kind == "load" and each.symbolic]
    assert constants == [0, 32, 64, 96]


def test_copied_and_constant_vectors_are_split_into_components() -> None:
    temporaries = [lp.TemporaryVariable(name, np.float32, shape=(2, 4), dim_tags="N0,vec") for name in "pq"]
    domain = "{[i,m,n,v,w,x]: 0<=i<32 and 0<=m,n<2 and 0<=v,w,x<4}"
    tags = {"i": "l.0", "m": "unr", "n": "unr", "v": "vec", "w": "vec", "x": "vec"}
    code = "p[m,v] = 1\nq[n,w] = -p[n,w]\nout[i,x] = q[1,x] + a[i,x]"
    graph = lowered(source(domain, code, QUADS, *temporaries, tags=tags))
    assert graph.mix()["add", "f32"] == 4
    assert graph.mix()["store", "b128"] == 1


# }}}
