"""How many warp instructions the simulator issues in a second, on one core, with 64 warps.

Every issue is made: nothing is skipped that repeats.
"""

import time

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg
from loopyperf.pipeline import SCHEDULERS, Execution
from loopyperf.pipeline.core import run
from loopyperf.pipeline.scenario import Scenario

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


def main() -> None:
    """Print the speed of each graph with each policy, once machine code has taken over."""
    timing = {**TIMING, "store": TIMING["local"]}
    for words, graph in GRAPHS.items():
        for name in SCHEDULERS:
            short, long = (_issues(graph, timing, groups, name) for groups in (8, 40))
            speed = (long[1] - short[1]) / (long[0] - short[0])
            print(f"{words:20} {name:20} {speed / 1e6:6.2f} million warp instructions a second")


def _issues(graph: Idg, timing: dict[str, Lambdas], groups: int, scheduler: str) -> tuple[float, int]:
    """Return how many seconds the processor takes, the best of three times, and how many instructions are issued."""
    scenario = Scenario((graph,), timing, Execution(8, 8, groups), SCHEDULERS[scheduler], 1)
    seconds: list[float] = []
    for _ in range(3):
        start = time.process_time()
        issued = run(scenario, scenario.clock, is_steady_sought=False).issued
        seconds.append(time.process_time() - start)
    return min(seconds), issued


if __name__ == "__main__":
    main()
