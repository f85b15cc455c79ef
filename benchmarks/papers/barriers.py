"""Lemeire et al., section 6.2: the iterative barrier kernel, with dependent computations and a barrier after each.

A group continues when its last warp has issued the barrier. Therefore, of two cores with the same number of warps, the
one with larger groups is slower. Fig. 15 shows the graph, Fig. 16 the performance over occupancies and group sizes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import loopy as lp
import numpy as np

import loopyperf as lpp
from loopyperf.compiler import lowered
from loopyperf.device.description import Device
from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Edge, Idg
from loopyperf.pipeline import Execution, simulate
from papers.group_counts import combinations

ROUNDS = 1000
"""N of Fig. 15; the paper only states that it is large enough"""
LEFT_OUT = ("unrolling", "loop guards", "loop control", "entry")
"""optimizations that are disabled, because the paper's kernel contains only computations and barriers"""


def kernel(work_items: int) -> lp.TranslationUnit:
    """Return the kernel with groups of *work_items*."""
    unit = lp.make_kernel(
        "{[i, round]: 0 <= i < n and 0 <= round < rounds}",
        """
        for i
            <> x = start[i] {id=load}
            for round
                x = x * 0.999f {id=compute, dep=load}
                ... lbarrier {id=meet, dep=compute}
            end
            result[i] = x {dep=meet}
        end
        """,
        [
            lp.GlobalArg("start, result", np.float32, shape="n"),
            lp.ValueArg("n, rounds", np.int32),
        ],
        name="iterative_barrier",
        assumptions=f"n mod {work_items} = 0 and n >= {work_items} and rounds >= 1",
        lang_version=(2018, 2),
    )
    return lp.split_iname(unit, "i", work_items, outer_tag="g.0", inner_tag="l.0")


def graph(work_items: int = 256, rounds: int = ROUNDS) -> Idg:
    """Return the graph of one warp, a chain as in Fig. 15. It is the same for groups of any size.

    A barrier reads no registers, so in the graph of the source, a computation and the barrier after it overlap. In the
    paper's chain, the barrier waits for the result of the computation, so we add this edge.
    """
    found = lowered(lpp.instruction_graph(kernel(work_items), n=work_items, rounds=rounds), LEFT_OUT)
    place = {each.kind: number for number, each in enumerate(found.instructions)}
    return replace(found, edges=(*found.edges, Edge.within(place["mul"], place["barrier"], ["round"])))


@dataclass(frozen=True, slots=True)
class Point:
    """A point of Fig. 16."""

    warps: int
    warps_per_group: int
    cycles_per_round: float

    @property
    def computations_per_cycle(self) -> float:
        """Return the performance."""
        return self.warps / self.cycles_per_round


def latencies(device: Device) -> dict[str, Lambdas]:
    """Return the latencies of a computation (a multiplication), of a barrier and of memory, by subsystem."""
    found = {each.name: Lambdas(each.issue, each.completion) for each in device.instructions}
    return {"alu": found["mul f32"], "barrier": found["barrier"], "global": found["load global b32"]}


def points(device: Device, rounds: int = ROUNDS) -> Iterator[Point]:
    """Yield the performance for each occupancy and group size, sorted by occupancy, then by group size (Fig. 16).

    The time of a round is (time of 2·*rounds* rounds − time of *rounds* rounds) / *rounds*, without start and end.
    """
    once, twice = graph(rounds=rounds), graph(rounds=2 * rounds)
    for resident in combinations(device):
        execution = Execution(resident.warps_per_group, resident.groups, resident.groups)
        short, long = (
            simulate(each, latencies(device), execution, issue_limit=device.issue_limit).exact_cycles
            for each in (once, twice)
        )
        yield Point(resident.warps, resident.warps_per_group, float((long - short) / rounds))
