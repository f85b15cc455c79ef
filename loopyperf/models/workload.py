"""What the analytic models are told: how much one warp asks of a core, and what the core can do.

A model sees a :class:`WarpDemand`: the cycles that a warp keeps each subsystem busy, how long it takes alone, its
shares of computation and of memory, its work flow, its intervals. Plain numbers, such as a paper's example, are a
:class:`Workload` on :class:`TwoPipelines`; a kernel's demand is found from its graphs and the device
(:mod:`loopyperf.models.demand`).

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
from loopyperf.errors import ModelInputError
from loopyperf.idg.parallelism import Sort
from loopyperf.pipeline.intervals import Interval

# {{{ what columns of pipelines are called: by people, and in the files of fits
#
# Accesses of local memory and of the cache that it is a part of are executed by one pipeline, NVIDIA's load/store units
# (LSU), where private and global memory pass, too. Files of fits call it ``local``, which people take for a memory.


LAUNCHES = "launches"
"""what launching costs: the column is a number, whatever the others are; of pipelines it is that of runs"""
FURTHER_LAUNCHES = "further launches"
"""of pipelines: what each launch after the first costs, which the host queues while it waits for none"""
LAUNCHING = (LAUNCHES, FURTHER_LAUNCHES)
LATENCY = "latency"
"""the time in which results are waited for"""
START = "start"
"""of the instruction that stands for the begin of a group"""
IN_FILES = "local"


def in_files(pipeline: str) -> str:
    """Return what a fit's columns call *pipeline*."""
    return IN_FILES if pipeline in (LOAD_STORE, LOCAL_MEMORY) else pipeline


def shown(column: str) -> str:
    """Return what people are shown for a fit's *column* of pipelines, e.g. ``"load/store: private"``."""
    pipeline, colon, memory = column.partition(":")
    return f"{LOAD_STORE}{colon}{memory}" if pipeline == IN_FILES else column


def fit_column(name: str) -> str:
    """Return the fit's column that people are shown as *name*."""
    pipeline, colon, memory = name.partition(":")
    return f"{IN_FILES}{colon}{memory}" if pipeline == LOAD_STORE else name


# }}}


# {{{ workload


def check_range(name: str, value: ArrayLike, least: float, most: float = inf, *, above: bool = False) -> None:
    """Raise :class:`ModelInputError` unless *value*, one number or an array of them, lies from *least* to *most*.

    With *above*, it is to be greater than *least*.
    """
    values = np.asarray(value)
    if values.dtype.kind not in "iufb":
        raise ModelInputError(f"{name} must be a number; received {value!r}")
    for number in values.ravel().tolist():
        is_in_range = isfinite(number) and (number > least if above else number >= least) and number <= most
        if not is_in_range:
            lower = f"greater than {least:g}" if above else f"{least:g} or more"
            upper = "" if most == inf else f", and at most {most:g}"
            raise ModelInputError(f"{name} is {number:g}: it must be {lower}{upper}")


def check_number(name: str, value: object) -> None:
    """Raise :class:`ModelInputError` unless *value* is a single number."""
    if np.ndim(np.asarray(value)):
        raise ModelInputError(f"{name} must be one number, received {value!r}; arrays are for occupancies")


# {{{ a warp's work flow in numbers


@dataclass(frozen=True, slots=True)
class FlowNode:
    """A block of computational instructions, a memory operation, or a barrier."""

    sort: Sort
    instructions: float
    """αcomp,i, each time that the node is executed; 1 of other nodes"""
    issue: float
    """λ of one of them, in cycles, on average"""
    completion: float
    """Λ of one of them, in cycles, on average"""
    ilp: float = 1.0
    """ILPi of a block of computation"""
    executions: float = 1.0
    """of one warp"""
    waits_for: tuple[int, ...] = ()
    """memory operations, each its place among the nodes, whose results this node is the first to use"""


@dataclass(frozen=True, slots=True)
class WorkFlow:
    """What a warp executes, in the order of the program; each loop stands once."""

    nodes: tuple[FlowNode, ...]
    loops: tuple[tuple[int, int], ...] = ()
    """the first and the last node of each"""
    awaited: tuple[int, ...] = ()
    """memory operations whose results the end of the program waits for"""


# }}}


# {{{ demands


__all__ = ["Lambdas", "Occupancy", "Share", "TwoPipelines", "WarpDemand", "Workload", "on_plain_numbers"]

Occupancy = float | NDArray[Any]
"""ω, the warps that reside on a core at once, or an array of such numbers; cycles come in the same shape"""
Floats = NDArray[np.float64]
CyclesOfRun = Callable[["WarpDemand", Floats], Floats]
"""a model: the cycles of a run of ω warps of some demand, over an array of ω"""
Sides = Callable[["WarpDemand"], Mapping[str, tuple[float, float]]]
"""the sides of a model that is the greatest of them: name -> a and b, for a run of ω warps takes a·ω + b cycles"""


@dataclass(frozen=True, slots=True)
class Workload:
    """What one warp executes, in plain numbers."""

    compute: float
    """αcomp, computational instructions"""
    memory: float
    """αmem, memory instructions"""
    independent_compute: float = 0
    """computational instructions that wait for none of the others: they overlap, and count λ instead of Λ (Lemeire,
    equation 2)"""
    ilp: float = 1
    """ILP, computational instructions that may run side by side, as the WFG model asks for it"""
    barriers: float = 0
    """αsync"""
    warps_per_group: int = 1
    """that meet at a barrier"""

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
    """A core of two subsystems: one computes, the other one moves data."""

    compute: Lambdas
    """λcomp and Λcomp"""
    memory: Lambdas
    """λmem and Λmem"""
    memory_instruction: float = 1
    """λ_mem^instr: cycles that a memory instruction takes of the computational pipeline, in the WFG model"""
    issue_limit: float = inf
    """instructions that issue in a cycle at most"""
    most_warps: float = inf
    """ω that the core has room for"""

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
    """Instructions of one warp on one side of a core of two pipelines."""

    instructions: float
    """α"""
    issue: float
    """Σλ"""
    waited: Callable[[], float]
    """tells ΣΛ, which not all models ask for, nor all devices have"""

    @cached_property
    def completion(self) -> float:
        """Return ΣΛ; raises :class:`MissingNumberError` where nobody has published one of them."""
        return self.waited()


class WarpDemand:
    """What one warp asks of a core: each quantity is found when a model first asks for it."""

    @cached_property
    def busy(self) -> Mapping[str, float]:
        """Return subsystem -> the cycles that the warp keeps it busy, Σλ; ``"issue"`` is the limit of issues."""
        raise NotImplementedError

    @cached_property
    def memory_subsystems(self) -> frozenset[str]:
        """Return those of :attr:`busy` that move data to and from global memory."""
        raise NotImplementedError

    @cached_property
    def latency(self) -> float:
        """Return Λapp, the cycles that the warp takes alone (Lemeire, equation 2)."""
        raise NotImplementedError

    @cached_property
    def compute(self) -> Share:
        """Return all instructions but those of global memory and barriers."""
        raise NotImplementedError

    @cached_property
    def memory(self) -> Share:
        """Return the instructions of global memory; their Σλ are those of the busiest of its levels."""
        raise NotImplementedError

    @cached_property
    def barriers(self) -> float:
        """Return αsync."""
        raise NotImplementedError

    @cached_property
    def warps_per_group(self) -> int:
        """Return how many warps meet at a barrier."""
        raise NotImplementedError

    @cached_property
    def work_flows(self) -> Sequence[tuple[float, WorkFlow]]:
        """Return the blocks of computation, memory operations and barriers (Lemeire, section 2.4).

        Warps of several kinds have one each, with its share of all warps.
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
    """Return a side for each subsystem, which a run of ω warps keeps busy ω times as long as one warp."""
    return {name: (cycles, 0.0) for name, cycles in warp.busy.items()}


def busiest(warp: WarpDemand) -> float:
    """Return the cycles that a warp keeps its busiest subsystem busy: 1/WPC of the roofline."""
    return max(warp.busy.values(), default=0.0)


def busy_or_alone(warp: WarpDemand, occupancy: Floats) -> Floats:
    """Return the cycles of a run of *occupancy* warps: those of its busiest subsystem, or of one warp alone."""
    return np.maximum(occupancy * busiest(warp), warp.latency)


@dataclass(frozen=True)
class PlainDemand(WarpDemand):
    """The demand of a workload on a core of two pipelines."""

    workload: Workload
    pipelines: TwoPipelines

    @cached_property
    def busy(self) -> Mapping[str, float]:
        """Return the cycles that the warp keeps the two pipelines busy, and the issue of instructions."""
        issue = (self.workload.compute + self.workload.memory) / self.pipelines.issue_limit
        found = {"compute": self.compute.issue, "memory": self.memory.issue, ISSUE: issue}
        return {name: cycles for name, cycles in found.items() if cycles}

    @cached_property
    def memory_subsystems(self) -> frozenset[str]:
        """Return the one memory pipeline."""
        return frozenset({"memory"})

    @cached_property
    def latency(self) -> float:
        """Return Λapp: all instructions wait for the one before, but for the independent ones."""
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
        """Return αsync."""
        return self.workload.barriers

    @cached_property
    def warps_per_group(self) -> int:
        """Return how many warps meet at a barrier."""
        return self.workload.warps_per_group

    @cached_property
    def memory_instruction(self) -> float:
        """Return λ_mem^instr."""
        return self.pipelines.memory_instruction

    @cached_property
    def work_flows(self) -> Sequence[tuple[float, WorkFlow]]:
        """Return a block of computation before each memory instruction, whose result the next block waits for.

        A workload of fractions of instructions has one block and one memory instruction, executed αmem times.
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
    """Return by *model* the cycles of a run of *occupancy* warps: a number, or an array in the shape of occupancies.

    Raises :class:`ModelInputError` for an occupancy below 1 or above the room of the core.
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
"""
:ILP: instructions of one warp that overlap
:latency of computation: Λcomp
:latency of memory: Λmem
:barriers: they cost time
:more than two subsystems: each pipeline has its own throughput, and the busiest one is a limit
:work-groups: how many warps meet at a barrier, and take their places together
:divergent warps: warps that execute other programs than the representative one
:issue limit: instructions that issue in a cycle at most
:scheduler: which warp issues next
"""

ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
