"""Inputs of the analytic models: the demand of one warp, and the resources of a core.

A model receives a :class:`WarpDemand`: the busy cycles of each subsystem, the latency of the warp alone, its shares of
computation and memory, its work flow and its intervals. Plain numbers, such as a paper's example, form a
:class:`Workload` on :class:`TwoPipelines`; :mod:`loopyperf.models.demand` derives a kernel's demand from its graphs
and the device.

Symbols are those of Lemeire, Table 2. All times are cycles of the core's clock.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf, isfinite
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from loopyperf.device.lambdas import Lambdas
from loopyperf.device.vocabulary import ISSUE, LOAD_STORE, LOCAL_MEMORY
from loopyperf.device.vocabulary import START as START
from loopyperf.errors import ModelInputError
from loopyperf.idg.parallelism import Sort
from loopyperf.pipeline.intervals import Interval

# {{{ names of pipeline columns: in reports and in fit files
#
# One pipeline, NVIDIA's load/store units (LSU), executes the accesses of local memory and of the cache that shares its
# storage; accesses of private and global memory pass through it, too. Fit files call it ``local``, which readers
# mistake for a memory.


LAUNCHES = "launches"
"""Column of launch costs: the number of launches; for pipelines, the number of runs."""
FURTHER_LAUNCHES = "further launches"
"""Pipeline column of the launches after the first, in seconds; the host queues them without waiting."""
HOST_WAIT = "host wait"
"""Row of the time on the host, in wall-clock times."""
LAUNCHING = (LAUNCHES, FURTHER_LAUNCHES)
LATENCY = "latency"
"""Row or column of the time in which warps wait for results."""
IN_FILES = "local"


def in_files(pipeline: str) -> str:
    """Return the name of *pipeline* in a fit's columns."""
    return IN_FILES if pipeline in (LOAD_STORE, LOCAL_MEMORY) else pipeline


def shown(column: str) -> str:
    """Return the name of a fit's pipeline *column* in reports, e.g. ``"load/store: private"``."""
    pipeline, colon, memory = column.partition(":")
    return f"{LOAD_STORE}{colon}{memory}" if pipeline == IN_FILES else column


def fit_column(name: str) -> str:
    """Return the fit's column that reports call *name*."""
    pipeline, colon, memory = name.partition(":")
    return f"{IN_FILES}{colon}{memory}" if pipeline == LOAD_STORE else name


# }}}


# {{{ workload


def check_range(name: str, value: ArrayLike, least: float, most: float = inf, *, above: bool = False) -> None:
    """Raise :class:`ModelInputError` unless each number in *value* is finite and in [*least*, *most*].

    With *above*, *least* itself is excluded.
    """
    values = np.asarray(value)
    if values.dtype.kind not in "iufb":
        raise ModelInputError(f"{name} must be a number, got {value!r}")
    for number in values.ravel().tolist():
        is_in_range = isfinite(number) and (number > least if above else number >= least) and number <= most
        if not is_in_range:
            lower = f"> {least:g}" if above else f">= {least:g}"
            upper = "" if most == inf else f" and <= {most:g}"
            raise ModelInputError(f"{name} must be {lower}{upper}, got {number:g}")


def check_number(name: str, value: object) -> None:
    """Raise :class:`ModelInputError` unless *value* is a single number."""
    if np.ndim(np.asarray(value)):
        raise ModelInputError(f"{name} must be one number, got {value!r}; only the occupancy may be an array")


# {{{ work flow of a warp


@dataclass(frozen=True, slots=True)
class FlowNode:
    """A block of computational instructions, a memory operation, or a barrier."""

    sort: Sort
    instructions: float
    """αcomp,i: instructions per execution of a computation block; 1 for other nodes."""
    issue: float
    """Mean λ of its instructions, in cycles."""
    completion: float
    """Mean Λ of its instructions, in cycles."""
    ilp: float = 1.0
    """ILPi of a computation block."""
    executions: float = 1.0
    """Executions by one warp."""
    waits_for: tuple[int, ...] = ()
    """Indices of the memory operations whose results this node is the first to use."""


@dataclass(frozen=True, slots=True)
class WorkFlow:
    """The nodes that a warp executes, in program order; each loop occurs once."""

    nodes: tuple[FlowNode, ...]
    loops: tuple[tuple[int, int], ...] = ()
    """First and last node of each loop."""
    awaited: tuple[int, ...] = ()
    """Indices of the memory operations that the end of the program waits for."""


# }}}


# {{{ demand of a warp


__all__ = ["Lambdas", "Occupancy", "Share", "TwoPipelines", "WarpDemand", "Workload", "on_plain_numbers"]

Occupancy = float | NDArray[Any]
"""ω, the number of warps resident on a core, or an array of such numbers; cycles have the same shape."""
Floats = NDArray[np.float64]
CyclesOfRun = Callable[["WarpDemand", Floats], Floats]
"""A model: the cycles of a run of ω warps with a given demand, over an array of ω."""
Sides = Callable[["WarpDemand"], Mapping[str, tuple[float, float]]]
"""Sides of a model that is their maximum: name -> (a, b), where a run of ω warps takes a·ω + b cycles."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Instructions that one warp executes."""

    compute: float
    """αcomp, number of computational instructions."""
    memory: float
    """αmem, number of memory instructions."""
    independent_compute: float = 0
    """Number of computational instructions that depend on no other: they overlap and cost λ instead of Λ (Lemeire,
    equation 2)."""
    ilp: float = 1
    """ILP, number of computational instructions that may execute in parallel, as the WFG model defines it."""
    barriers: float = 0
    """αsync, number of barriers."""
    warps_per_group: int = 1
    """Number of warps that synchronize at a barrier."""

    def __post_init__(self) -> None:
        for name in ("compute", "memory", "independent_compute", "ilp", "barriers", "warps_per_group"):
            check_number(name, getattr(self, name))
        check_range("compute", self.compute, 0)
        check_range("memory", self.memory, 0)
        check_range("compute + memory", self.compute + self.memory, 0, above=True)
        check_range("independent_compute", self.independent_compute, 0, self.compute)
        check_range("ilp", self.ilp, 1)
        check_range("barriers", self.barriers, 0)
        check_range("warps_per_group", self.warps_per_group, 1)


@dataclass(frozen=True, slots=True)
class TwoPipelines:
    """A core with two subsystems: one computes, the other moves data."""

    compute: Lambdas
    """λcomp and Λcomp, in cycles."""
    memory: Lambdas
    """λmem and Λmem, in cycles."""
    memory_instruction: float = 1
    """λ_mem^instr: cycles for which a memory instruction occupies the computational pipeline, in the WFG model."""
    issue_limit: float = inf
    """Maximum number of instructions issued per cycle."""
    most_warps: float = inf
    """Maximum ω of the core."""

    def __post_init__(self) -> None:
        for name, lambdas in (("compute", self.compute), ("memory", self.memory)):
            check_range(f"{name}.issue", float(lambdas.issue), 0, above=True)
            check_range(f"{name}.completion", float(lambdas.completion), 0, above=True)
        check_range("memory_instruction", self.memory_instruction, 0)
        for name, limit in (("issue_limit", self.issue_limit), ("most_warps", self.most_warps)):
            if limit != inf:
                check_range(name, limit, 0, above=True)


@dataclass(frozen=True)
class Share:
    """Instructions of one warp on one of the two pipelines of a core."""

    instructions: float
    """α, number of instructions."""
    issue: float
    """Σλ, in cycles."""
    waited: Callable[[], float]
    """Returns ΣΛ, in cycles; a function because not all models need it and not all devices have it."""

    @cached_property
    def completion(self) -> float:
        """Return ΣΛ, in cycles; raises :class:`MissingNumberError` if a latency is unknown."""
        return self.waited()


class WarpDemand:
    """Demand of one warp on a core; each quantity is computed on first access."""

    @cached_property
    def busy(self) -> Mapping[str, float]:
        """Return subsystem -> busy cycles of the warp, Σλ; ``"issue"`` is the issue limit."""
        raise NotImplementedError

    @cached_property
    def memory_subsystems(self) -> frozenset[str]:
        """Return the subsystems in :attr:`busy` that move data to and from global memory."""
        raise NotImplementedError

    @cached_property
    def latency(self) -> float:
        """Return Λapp, the cycles of the warp alone (Lemeire, equation 2)."""
        raise NotImplementedError

    @cached_property
    def compute(self) -> Share:
        """Return all instructions except global memory accesses and barriers."""
        raise NotImplementedError

    @cached_property
    def memory(self) -> Share:
        """Return the global memory accesses; their Σλ is that of the busiest memory level."""
        raise NotImplementedError

    @cached_property
    def barriers(self) -> float:
        """Return αsync, the number of barriers."""
        raise NotImplementedError

    @cached_property
    def warps_per_group(self) -> int:
        """Return the number of warps that synchronize at a barrier."""
        raise NotImplementedError

    @cached_property
    def work_flows(self) -> Sequence[tuple[float, WorkFlow]]:
        """Return the computation blocks, memory operations and barriers (Lemeire, section 2.4).

        Each warp class has its own work flow, paired with its share of all warps.
        """
        raise NotImplementedError

    @cached_property
    def memory_instruction(self) -> float:
        """Return λ_mem^instr of the WFG model."""
        raise NotImplementedError

    @cached_property
    def intervals(self) -> Sequence[Interval]:
        """Return the intervals of GPUMech (Lemeire, section 2.5)."""
        raise NotImplementedError


def busy_sides(warp: WarpDemand) -> dict[str, tuple[float, float]]:
    """Return a side for each subsystem: a run of ω warps keeps it busy ω times as long as one warp."""
    return {name: (cycles, 0.0) for name, cycles in warp.busy.items()}


def busiest(warp: WarpDemand) -> float:
    """Return the busy cycles of a warp's busiest subsystem: 1/WPC of the roofline."""
    return max(warp.busy.values(), default=0.0)


def busy_or_alone(warp: WarpDemand, occupancy: Floats) -> Floats:
    """Return the cycles of a run of *occupancy* warps: the maximum of its busiest subsystem and of one warp alone."""
    return np.maximum(occupancy * busiest(warp), warp.latency)


@dataclass(frozen=True)
class PlainDemand(WarpDemand):
    """Demand of a workload on a core with two pipelines."""

    workload: Workload
    pipelines: TwoPipelines

    @cached_property
    def busy(self) -> Mapping[str, float]:
        """Return the busy cycles of the two pipelines and of the issue limit."""
        issue = (self.workload.compute + self.workload.memory) / self.pipelines.issue_limit
        found = {"compute": self.compute.issue, "memory": self.memory.issue, ISSUE: issue}
        return {name: cycles for name, cycles in found.items() if cycles}

    @cached_property
    def memory_subsystems(self) -> frozenset[str]:
        """Return the only memory pipeline."""
        return frozenset({"memory"})

    @cached_property
    def latency(self) -> float:
        """Return Λapp: each instruction waits for the one before, except the independent ones."""
        independent = self.workload.independent_compute
        overlapped = float(self.pipelines.compute.completion - self.pipelines.compute.issue)
        return self.compute.completion - independent * overlapped + self.memory.completion

    @cached_property
    def compute(self) -> Share:
        """Return the computational instructions."""
        return _share(self.workload.compute, self.pipelines.compute)

    @cached_property
    def memory(self) -> Share:
        """Return the memory instructions."""
        return _share(self.workload.memory, self.pipelines.memory)

    @cached_property
    def barriers(self) -> float:
        """Return αsync, the number of barriers."""
        return self.workload.barriers

    @cached_property
    def warps_per_group(self) -> int:
        """Return the number of warps that synchronize at a barrier."""
        return self.workload.warps_per_group

    @cached_property
    def memory_instruction(self) -> float:
        """Return λ_mem^instr."""
        return self.pipelines.memory_instruction

    @cached_property
    def work_flows(self) -> Sequence[tuple[float, WorkFlow]]:
        """Return a computation block before each memory instruction, whose result the next block waits for.

        This is one block and one memory instruction in a loop of αmem iterations; counts may be fractions.
        """
        memory, compute, workload = self.pipelines.memory, self.pipelines.compute, self.workload
        periods = workload.memory or 1
        block = FlowNode(
            "computation",
            workload.compute / periods,
            float(compute.issue),
            float(compute.completion),
            ilp=workload.ilp,
            executions=periods,
            waits_for=(1,) if workload.memory else (),
        )
        if not workload.memory:
            return ((1.0, WorkFlow((block,))),)
        access = FlowNode("memory", 1, float(memory.issue), float(memory.completion), executions=periods)
        return ((1.0, WorkFlow((block, access), loops=((0, 1),), awaited=(1,))),)

    @cached_property
    def intervals(self) -> Sequence[Interval]:
        """Return αmem intervals of αcomp/αmem instructions, each with a stall of Λmem (docs/errata.md, GPUMech)."""
        workload = self.workload
        if not workload.memory:
            return (Interval(workload.compute, Fraction(0), 1),)
        stall = Fraction(self.pipelines.memory.completion)
        return (Interval(workload.compute / workload.memory, stall, workload.memory),)


def _share(instructions: float, lambdas: Lambdas) -> Share:
    return Share(instructions, instructions * float(lambdas.issue), lambda: instructions * float(lambdas.completion))


def on_plain_numbers(
    model: CyclesOfRun, workload: Workload, pipelines: TwoPipelines, occupancy: Occupancy
) -> float | Floats:
    """Return the cycles of a run of *occupancy* warps by *model*: a number, or an array of the occupancies' shape.

    :raises ModelInputError: if an occupancy is below 1 or above the capacity of the core.
    """
    check_range("occupancy", occupancy, 1, pipelines.most_warps)
    warps = np.asarray(occupancy, dtype=np.float64)
    cycles = model(PlainDemand(workload, pipelines), np.atleast_1d(warps))
    return cycles.reshape(warps.shape) if warps.ndim else float(cycles[0])


# }}}


# }}}


Aspect = Literal[
    "ILP",
    "latency of computation",
    "latency of memory",
    "barriers",
    "more than two subsystems",
    "work-groups",
    "divergent warps",
    "issue limit",
    "scheduler",
]
"""Effect that a model takes into account.

:ILP: overlap of instructions of one warp
:latency of computation: Λcomp
:latency of memory: Λmem
:barriers: cost of barriers
:more than two subsystems: each pipeline has its own throughput, and the busiest one limits
:work-groups: number of warps that synchronize at a barrier and become resident together
:divergent warps: warps that execute other programs than the representative one
:issue limit: maximum number of instructions issued per cycle
:scheduler: choice of the warp that issues next
"""

ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
