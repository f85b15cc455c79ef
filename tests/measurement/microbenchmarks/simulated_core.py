"""A backend with known latencies, where a microbenchmark takes the pipeline simulator's time plus a launch.

It has four cores at 1 GHz and 32 lanes per warp. Chains, mixes and barriers are simulated instruction by instruction;
loads from global memory and loops have closed formulas.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg
from loopyperf.measurement.backends.backend import BenchmarkCase, MeasuredTimes
from loopyperf.measurement.drift_monitor import REFERENCE
from loopyperf.measurement.environment import DeviceLimits, Environment
from loopyperf.pipeline import Execution, simulate
from tests.measurement.synthetic import environment

LIMITS = DeviceLimits(
    group_size=1024,
    local_memory=48 * 1024,
    global_memory=2**28,
    cores=4,
    warp_size=32,
    clock=1e9,
    memory=2**33,
    cache=2**19,
    cache_line=128,
)
LAUNCH = 5e-6
INSTRUCTIONS: Mapping[str, Lambdas] = {
    "add f32": Lambdas(1, 18),
    "mul f32": Lambdas(0.5, 6),
    "fma f32": Lambdas(1, 18),
    "div f32": Lambdas(12, 100),
    "special f32": Lambdas(4, 40),
    "sqrt f32": Lambdas(20, 20),
    "exp f32": Lambdas(8, 60),
    "add f64": Lambdas(16, 48),
    "mul f64": Lambdas(2, 8),
    "fma f64": Lambdas(1.75, 29),
    "div f64": Lambdas(7.5, 700),
    "sqrt f64": Lambdas(30, 300),
    "add i32": Lambdas(0.25, 4),
    "mul i32": Lambdas(1, 14),
}
"""A single warp saturates the pipeline of sqrt f32; 32 warps do not saturate that of div f64."""
BARRIER = Lambdas(2, 40)
LOCAL = Lambdas(1, 23)
FEW = 24
"""iterations after which the execution is periodic"""
LOOP = 12
"""cycles of an iteration in addition to its body"""
LEVELS = ((2**15, 30), (2**20, 200), (2**40, 500))
"""bytes that a level holds, and cycles of a load from it"""
BANDWIDTH = {2**20: 400e9, 2**40: 100e9}
"""B/s of the level that holds so many bytes"""


@dataclass
class SimulatedCore:
    """A backend on which all runs of a case take the same time."""

    limits: DeviceLimits = LIMITS
    environment: Environment = field(default_factory=environment)
    separate: bool = True
    """whether special functions have their own pipeline"""
    issue_limit: float | None = None

    def time(self, case: BenchmarkCase, runs: int) -> MeasuredTimes:
        return MeasuredTimes((LAUNCH + self.cycles(case) / LIMITS.clock,) * runs)

    def cycles(self, case: BenchmarkCase) -> float:
        sizes, kind = dict(case.sizes), case.configuration.label.partition(",")[0]
        if case.kernel_class == "empty kernel":
            return 0
        if case.kernel_class == REFERENCE:
            return 1000 * sizes["rounds"]
        if case.kernel_class == "pointer chase":
            return sizes["rounds"] * sizes["steps"] * latency(4 * sizes["n"])
        if case.kernel_class == "streaming":
            return streamed(sizes)
        if case.kernel_class == "loop overhead":
            return sizes["rounds"] * on_core(sizes) * (LOOP + 18 * sizes["steps"])
        return self.simulated(case.kernel_class, kind, sizes)

    def simulated(self, kernel_class: str, kind: str, sizes: Mapping[str, int]) -> float:
        beta = sizes.get("beta", 0)
        graphs = {
            "dependent chain": ((f"{kind} / {sizes['steps']}",), False),
            "local memory": ((f"load of degree {sizes.get('degree')}",), False),
            "barrier": (("barrier",), False),
            "instruction mix": ((*["fma f32"] * beta, "special f32"), not self.separate),
        }
        kinds, shared = graphs[kernel_class]
        execution = Execution(sizes["lanes"] // 32, sizes["groups"] // 4, sizes["groups"] // 4)
        return long_run(kinds, execution, shared, self.issue_limit, sizes["rounds"] * sizes["steps"])


def long_run(kinds: tuple[str, ...], execution: Execution, shared: bool, limit: float | None, iterations: int) -> float:
    """Return the cycles of many *iterations*, extrapolated from the first ones; later ones take equally long."""
    few, more = (short_run(kinds, execution, shared, limit, number) for number in (FEW, 2 * FEW))
    return few + (more - few) / FEW * (iterations - FEW)


@cache
def short_run(
    kinds: tuple[str, ...], execution: Execution, shared: bool, limit: float | None, iterations: int
) -> float:
    """Return the simulated cycles of *iterations* of a loop where each instruction depends on the previous one."""
    edges = [(place, place + 1) for place in range(len(kinds) - 1)]
    graph = Idg.from_edges(kinds, [*edges, (len(kinds) - 1, 0, 1)], trips=iterations)
    if shared:
        graph = replace(graph, instructions=tuple(replace(each, subsystem="alu") for each in graph.instructions))
    return simulate(graph, lambda each: lambdas_of(each.kind), execution, issue_limit=limit).cycles


def lambdas_of(kind: str) -> Lambdas:
    """Return the latencies of *kind*: of loads with their conflicts, of chains with a step's share of the loop."""
    if kind.startswith("load"):
        return LOCAL.with_conflicts(int(kind.split()[-1]) - 1)
    if "/" in kind:
        name, _, steps = kind.partition(" / ")
        share = Fraction(LOOP, int(steps))
        lambdas = INSTRUCTIONS[name]
        return Lambdas(Fraction(lambdas.issue) + share, Fraction(lambdas.completion) + share)
    return BARRIER if kind == "barrier" else INSTRUCTIONS[kind]


def on_core(sizes: Mapping[str, int]) -> int:
    return sizes["lanes"] // 32 * sizes["groups"] // 4


def latency(nbytes: int) -> int:
    return next(cycles for holds, cycles in LEVELS if nbytes <= holds)


def streamed(sizes: Mapping[str, int]) -> float:
    whole = 4 * sizes["chunks"] * sizes["steps"] * sizes["lanes"] * sizes["stride"]
    rate = next(rate for holds, rate in BANDWIDTH.items() if whole <= holds)
    return 4 * sizes["groups"] * sizes["lanes"] * sizes["rounds"] * sizes["steps"] / rate * LIMITS.clock
