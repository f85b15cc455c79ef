"""Measure the speed of the simulator: warp instructions per second with 64, 8 and 1 warps, and long against short runs.

For the number of warp instructions per second, the simulator issues every instruction and does not skip periodic parts.
The long runs have a loop of a million iterations, or a million groups; the short runs have a hundred.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from loopyperf.device.lambdas import Lambdas
from loopyperf.device.parts import Policy
from loopyperf.idg import Idg
from loopyperf.idg.program import Loop
from loopyperf.pipeline import SCHEDULERS, Execution, simulate
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.simulator import run

TIMING = {"alu": Lambdas(1, 18), "global": Lambdas(23, 475), "local": Lambdas(2, 28), "barrier": Lambdas(2, 40)}
"""Lemeire, Table 5: Fermi"""
GRAPHS = {
    "chain of additions": Idg.from_edges(["alu"] * 4, [(0, 1), (1, 2), (2, 3), (3, 0, 1)], trips=2000),
    "load and additions": Idg.from_edges(
        ["global", *["alu"] * 8], [(0, 1), *((k, k + 1) for k in range(1, 8)), (8, 1, 1)], trips=1000
    ),
    "tiles with barriers": Idg.from_edges(
        ["global", "store", "barrier", *["local", "alu"] * 4, "barrier"],
        [(0, 1), *((k, k + 1) for k in (3, 5, 7, 9)), (4, 6), (6, 8), (8, 10), (10, 4, 1)],
        trips=700,
    ),
}


WARPS = (1, 1), (8, 1), (8, 8)
"""warps of a group, and resident groups"""
SHORT, LONG = 100, 1_000_000


def main() -> None:
    """Print the speed for each graph and policy, and the time of long runs relative to short runs."""
    timing = {**TIMING, "store": TIMING["local"]}
    for title, graph in GRAPHS.items():
        runs = [(each, WARPS[-1]) for each in SCHEDULERS] + [(next(iter(SCHEDULERS)), few) for few in WARPS[:-1]]
        for name, (warps, groups) in runs:
            executions = (Execution(warps, groups, waves * groups) for waves in (1, 5))
            short, long = (_issues(graph, timing, execution, name) for execution in executions)
            speed = (long[1] - short[1]) / (long[0] - short[0]) / 1e6
            print(f"{title:20} {name:20} {warps * groups:2} warps {speed:6.2f} million warp instructions per second")
    for title, graph in GRAPHS.items():
        once = _with_trips(graph, 1)
        for kind, runs in {
            "iterations": [(_with_trips(graph, trips), 8) for trips in (SHORT, LONG)],
            "groups": [(once, SHORT), (once, LONG)],
        }.items():
            few, many = (_seconds(partial(_simulated, *each, timing)) for each in runs)
            times = f"{few * 1e3:4.1f} and {many * 1e3:4.1f} ms"
            print(f"{title:20} {SHORT} and {LONG} {kind:10} {times}: {many / few:.1f}x")


def _with_trips(graph: Idg, trips: int) -> Idg:
    """Return *graph*, which is a single loop, with *trips* iterations."""
    (loop,) = graph.body
    assert isinstance(loop, Loop)
    return replace(graph, body=(replace(loop, trips=trips),))


def _simulated(graph: Idg, groups: int, timing: dict[str, Lambdas]) -> float:
    return simulate(graph, timing, Execution(8, 8, groups), issue_limit=1).cycles


def _seconds(call: Callable[[], object]) -> float:
    """Return the CPU time of *call* in seconds, the shortest of three."""
    seconds: list[float] = []
    for _ in range(3):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return min(seconds)


def _issues(graph: Idg, timing: dict[str, Lambdas], execution: Execution, scheduler: Policy) -> tuple[float, int]:
    """Return the CPU time in seconds, the shortest of three, and the number of issued instructions."""
    scenario = Scenario.of((graph,), timing, execution, SCHEDULERS[scheduler], 1)
    issued = run(scenario, scenario.clock, is_steady_sought=False).issued
    return _seconds(lambda: run(scenario, scenario.clock, is_steady_sought=False)), issued


if __name__ == "__main__":
    main()
