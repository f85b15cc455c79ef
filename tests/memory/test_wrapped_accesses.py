"""Random accesses with modulo indices, in warps and in unrolled loops, compared with an enumeration of the lanes.

    LOOPYPERF_WRAPPED=2000 LOOPYPERF_RANDOM_SEED=$(date +%s) \\
        .venv/bin/python -m pytest -m slow tests/memory/test_wrapped_accesses.py
"""

import os
import random

import loopy as lp
import numpy as np
import pytest
from pymbolic import evaluate, parse

from loopyperf.compiler import lowered
from loopyperf.idg.copies import copied
from loopyperf.idg.program import loops_in
from loopyperf.idg.warp_classes import Warp
from loopyperf.kernel import Kernel
from tests.idg.patterns import launches_of, pattern, written

ACCESSES = int(os.environ.get("LOOPYPERF_WRAPPED", 60))
SEED = int(os.environ.get("LOOPYPERF_RANDOM_SEED", 1))
LANES, GROUPS, ITERATIONS = 64, 3, 12


def random_access(seed: int) -> tuple[str, tuple[int, ...]]:
    """Return the indices of an access to x by lane i, group g and iteration j, and the shape of x."""
    draw = random.Random(seed)
    a, b, c = draw.choice([0, 1, 1, 2, 3, 5, -1, -2]), draw.choice([0, 1, 1, 2, 4, 7, -3]), draw.randrange(-9, 40)
    n, m = draw.choice([7, 12, 16, 30, 33, 64, 100, 256]), draw.choice([3, 5, 8, 12, 32, 100])
    place = f"{a}*(i + {LANES}*g) + {b}*j + {c}"
    return draw.choice(
        [
            (f"({place}) % {n}", (n,)),
            (f"(({place}) // {m}) % {n}", (n,)),
            (f"(({place}) // {m}) % {n}, ({place}) % {m}", (n, m)),
            (f"(i + {c}) % {LANES}, (j + {b} + 9) % {m}", (LANES, m)),
            (f"(j + 9*g) % {n}, ({a}*i + {c}) % {m}", (n, m)),
            (f"({place}) % {n}, (({place}) // {n}) % {m}", (n, m)),
            (f"(({place}) % {n} + {b}*j) % {m}", (m,)),
            (f"({a} + 3)*i // {m} + 40 + {b}*j", (1000,)),
        ]
    )


def enumerated_sectors(index: str, shape: tuple[int, ...], group: int, warp: int) -> int:
    """Return the number of sectors in all iterations of one warp."""
    indices = parse(f"({index},)")
    total = 0
    for j in range(ITERATIONS):
        points = ({"i": 32 * warp + lane, "g": group, "j": j} for lane in range(32))
        places = [np.ravel_multi_index([evaluate(each, at) for each in indices], shape) for at in points]
        total += len({4 * place // 32 for place in places})
    return total


def kernel(index: str, shape: tuple[int, ...]) -> Kernel:
    domain = f"{{[i,g,j]: 0<=i<{LANES} and 0<=g<{GROUPS} and 0<=j<{ITERATIONS}}}"
    arrays = [
        lp.GlobalArg("x", np.float32, shape=shape),
        lp.GlobalArg("out", np.float32, shape=(GROUPS, LANES, ITERATIONS)),
    ]
    return written(domain, f"out[g,i,j] = x[{index}]", *arrays, tags={"i": "l.0", "g": "g.0"})


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000 * SEED, 1000 * SEED + ACCESSES))
def test_wrapped_access_equals_enumeration(seed: int) -> None:
    index, shape = random_access(seed)
    knl = kernel(index, shape)
    for group, warp in ((0, 0), (1, 1), (2, 0)):
        found = pattern(knl, "x", Warp(groups={0: group}, shape={0: LANES}, number=warp)).profile.total("sectors")
        assert found == enumerated_sectors(index, shape, group, warp), (index, shape, group, warp)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000 * SEED, 1000 * SEED + ACCESSES // 2))
def test_unrolled_wrapped_accesses_sum_to_those_of_the_loop(seed: int) -> None:
    index, shape = random_access(seed)
    (launch,) = launches_of(kernel(index, shape))
    source = launch.graph()

    def sectors(graph):
        loads = [place for place, each in enumerate(graph.instructions) if each.kind == "load" and each.reference]
        return sum(launch.access(place, graph=graph).profile.total("sectors") for place in loads)

    whole = sectors(source)
    for copies in (3, 4, 5):
        assert sectors(copied(source, {loop.number: copies for loop in loops_in(source.body)})) == whole, (
            index,
            shape,
            copies,
        )
    assert 0 < sectors(lowered(source)) <= whole, (index, shape)
