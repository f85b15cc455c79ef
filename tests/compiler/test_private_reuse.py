"""Reuse distances on the stack, compared with a simulated cache with least-recently-used replacement."""

from collections import OrderedDict

import loopy as lp
import numpy as np
import pytest

from loopyperf.compiler import lowered
from loopyperf.counts.sizes import Typical
from loopyperf.idg import Idg
from loopyperf.idg.graph import executions
from loopyperf.kernel import load_kernel
from loopyperf.memory.private_reuse import Moved, StackReuse
from tests import private_array_kernels as kernels
from tests.profiles import source_profile

LINES = 128
"""bytes that a float of 32 lanes takes on the stack"""


def simulated(graph: Idg, elements: int) -> Moved:
    """Return the traffic of a cache of *elements* elements while a warp executes *graph* for the second time."""
    cache: OrderedDict[tuple[str, int], bool] = OrderedDict()
    """element -> whether it is dirty, in order of the last access"""
    loads = fetched = stores = written = 0
    for time in range(2):
        for place, iterations in executions(graph.instructions, graph.body):
            each = graph.instructions[place]
            if each.subsystem != "private":
                continue
            element, is_store = (each.reference.array, each.address.at(iterations)), each.kind == "store"
            is_hit, was_dirty = element in cache, cache.pop(element, False)
            cache[element] = was_dirty or is_store
            evicted_dirty = cache.popitem(last=False)[1] if len(cache) > elements else False
            if time:
                loads, fetched = loads + (not is_store), fetched + (not is_store and not is_hit)
                stores, written = stores + is_store, written + evicted_dirty
    return Moved(loads, fetched, stores, written)


def test_stack_traffic_equals_that_of_a_simulated_cache(subtests: pytest.Subtests) -> None:
    for elements in [1, 2, 3, 4, 7, 8, 16]:
        for build in [lambda: kernels.accumulated("n", 16, 8), lambda: kernels.accumulated("n", 6, 8, order="k,r")]:
            with subtests.test(elements=elements, build=build):
                graph = lowered(source_profile(load_kernel(build()), {"n": 7}, Typical({})).graph)
                bits = next(int(each.dtype[1:]) for each in graph.instructions if each.subsystem == "private")
                found, expected = (
                    StackReuse.of(graph, 32).moved(elements * bits // 32 * LINES),
                    simulated(graph, elements),
                )
                assert found == expected


def test_reuse_distance_adds_the_sizes_of_elements_in_between() -> None:
    unit = lp.make_kernel(
        "{[i,j,m]: 0<=i<n and 0<=j,m<8}",
        """
        f[(k[i] + j) % 8] = a[i, j] {id=floats,dep=*}
        d[(k[i] + m) % 8] = c[i, m] {id=doubles,dep=*floats}
        out[i] = f[k[i] % 8] + d[k[i] % 8] {dep=*floats:doubles}
        """,
        [
            lp.TemporaryVariable("f", np.float32, shape=(8,), address_space=lp.AddressSpace.PRIVATE),
            lp.TemporaryVariable("d", np.float64, shape=(8,), address_space=lp.AddressSpace.PRIVATE),
            lp.GlobalArg("k", np.int32, shape="n"),
            lp.GlobalArg("a", np.float32, shape="n, 8"),
            lp.GlobalArg("c,out", np.float64, shape=lp.auto),
            ...,
        ],
        assumptions="n >= 64 and n mod 64 = 0",
        lang_version=(2018, 2),
        target=lp.PyOpenCLTarget(),
    )
    unit = lp.split_iname(unit, "i", 64, outer_tag="g.0", inner_tag="l.0")
    graph = lowered(source_profile(load_kernel(unit), {"n": 128}, Typical({})).graph)
    found = StackReuse.of(graph, 32)
    # Eight stores and a load of each array; their indices are data, so no two accesses are known to share an element.
    assert found.distances[np.isfinite(found.distances) & ~found.is_store].tolist() == 2 * [9 * 128 + 9 * 256]
