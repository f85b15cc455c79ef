"""The residual model ``"learned"``: a regression on measured kernels corrects a base model (Dao, section 5.2).

    T = T₀ · exp(f(x)),        f learned from ln(t / T₀) of measured kernels

t is the measured time, T₀ the time of the base: the sampled model, or without samples a fit or a device model. x are
features of the kernel. f is an ε-SVR.

With the sampled model as base it is Dao's equation. With I instructions in the first P₂ of N groups and the throughputs
IPS₀ of the linear model and IPS of the saturated device, which is learned relative to IPS₀,

    t_ML(N) = I·N / (P₂·IPS),        IPS = IPS₀ · exp(-f(x)),        IPS₀ = I·N / (P₂·t_linear(N))

so that I cancels. Because the residual is learned, a kernel unlike all training kernels (where an SVR tends to a
constant) gets nearly the prediction of the base, not nearly the mean throughput of all kernels.

D. Dao, J. Kim, S. Seo, B. Egger, J. Lee: "A Performance Model for GPUs with Caches", IEEE TPDS 26(7), 2015;
docs/errata.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, exp, log, log1p

import numpy as np
from numpy.typing import NDArray

from loopyperf.compiler import lowered
from loopyperf.counts.item import MemorySpace
from loopyperf.device.lambdas import global_levels
from loopyperf.errors import ModelInputError
from loopyperf.idg.graph import Idg
from loopyperf.idg.parallelism import ilp, mlp
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.memory.kernel_profile import KernelProfile, LaunchProfile, WarpClass
from loopyperf.memory.sectors import SECTOR
from loopyperf.models.demand import MEMORY, LaunchDemand, cached_for_launch, is_floating_point, is_memory
from loopyperf.models.literature.gpuperf_rows import LaunchInputs
from loopyperf.models.pipeline_shares import busy_seconds
from loopyperf.models.program_timing import WarpAccesses
from loopyperf.models.result import Breakdown, BreakdownRow, ModelTime
from loopyperf.models.sampling import SampledProgram, Samples, extrapolated
from loopyperf.models.workload import LATENCY, LAUNCHES
from loopyperf.pipeline.timed_program import Request, TimedLaunch, TimedProgram

# {{{ features of a kernel: numbers by name
#
# Every kernel has some features, such as its ILP; other features are amounts that may be absent, such as barriers, and
# are 0 then. No feature names a kernel, an array, an instruction or a transformation: the regression must generalize to
# other kernels.


TICK = 1e-9
"""Unit of times in logarithms, in seconds."""
DIGITS = 9
"""Number of significant digits of a feature."""


@dataclass(frozen=True, slots=True)
class Features:
    """Features of a kernel for the regression; raises :class:`ModelInputError` if one is not finite."""

    told: Mapping[str, float]
    """Features that every kernel has."""
    amounts: Mapping[str, float] = field(default_factory=dict[str, float])
    """Features that may be absent; an absent one is 0."""

    def __post_init__(self) -> None:
        """Check that all values are finite."""
        for name, value in (*self.told.items(), *self.amounts.items()):
            if not np.isfinite(value):
                raise ModelInputError(f"feature {name!r} must be finite, got {value}")

    def __or__(self, other: "Features") -> "Features":
        """Return the union of both."""
        return Features({**self.told, **other.told}, {**self.amounts, **other.amounts})

    def vector(self, told: Sequence[str], amounts: Sequence[str]) -> NDArray[np.float64]:
        """Return the features named *told*, then those named *amounts*, in this order.

        :raises ModelInputError: if a feature in *told* is missing.
        """
        missing = [name for name in told if name not in self.told]
        if missing:
            raise ModelInputError(
                f"the kernel lacks the features {', '.join(missing)} of the residual model; pass the inputs of "
                "the training: device parameters, and samples if it was trained with samples"
            )
        values = [*(self.told[name] for name in told), *(self.amounts.get(name, 0.0) for name in amounts)]
        return np.array(values, dtype=np.float64)

    def rounded(self) -> "Features":
        """Return the features with the digits that a file keeps, so that training and prediction agree."""
        return Features(_rounded(self.told), _rounded(self.amounts))


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.{DIGITS}g}") for name, value in values.items()}


# }}}


# {{{ correction


CORRECTION = "learned correction"
"""Breakdown row of the correction: seconds added to the base, or negative ones."""


def corrected(base: ModelTime, logarithm: float) -> ModelTime:
    """Return *base*, a time of one size, multiplied by exp(*logarithm*), with a row for the difference."""
    more = float(base.seconds) * (exp(logarithm) - 1)
    row = BreakdownRow(CORRECTION, "kernel", 1, more, more)
    breakdown = Breakdown((*base.breakdown.rows, row))
    return replace(base, seconds=breakdown.seconds, breakdown=breakdown, interval=None)


def sampled_features(programs: Sequence[SampledProgram], instructions: float) -> Features:
    """Return the features of the samples of a kernel's *programs*, weighted by their shares of the time.

    *instructions* are those of all warps.

    :raises ModelInputError: if there are no samples, or only one of a program that is not the whole launch.
    """
    if not programs:
        raise ModelInputError("a residual model with base 'sampled' needs samples; pass samples of each launch")
    linear = [extrapolated(each).seconds for each in programs]
    told: dict[str, float] = {}
    for program, seconds in zip(programs, linear, strict=True):
        for name, value in _of_samples(program.samples):
            told[name] = told.get(name, 0.0) + value * seconds / sum(linear)
    return Features({**told, "throughput of the linear model": log1p(instructions / sum(linear))})


def _of_samples(samples: Samples) -> Iterator[tuple[str, float]]:
    many, long = samples.groups[-1], samples.seconds[-1]
    yield "saturation", log1p(samples.saturation)
    yield "runs sampled", many / samples.saturation
    yield "runs of the device", log1p(samples.total_groups / samples.saturation)
    yield "share sampled", many / samples.total_groups
    yield "seconds of a run", log1p(long / many * samples.saturation / TICK)
    # Time of a further group over the mean time of a group: 1 without start-up or warm-up costs.
    growth = 1.0
    if len(samples.groups) > 1:
        growth = (long - samples.seconds[-2]) / (many - samples.groups[-2]) * many / long
    yield "growth", growth


# }}}


# {{{ device-independent features of a kernel
#
# From machine graphs, addresses, and property counts.
#
# Ratios and shares are linear; quantities that span orders of magnitude are ln(1 + x). Several launches are weighted by
# their shares of all executed instructions.


ALONE = (LAUNCHES, "work-groups")
"""Properties that belong to no group."""


@dataclass(frozen=True)
class WarpProgram:
    """Machine graph of one warp class."""

    graph: Idg
    requests: Sequence[Request | None]
    """Request of each instruction to memory beyond the core."""
    share: float
    """Share of all warps of the launch."""

    @classmethod
    def of(cls, warps: WarpClass, share: float) -> "WarpProgram":
        """Return the program of *warps*, with their *share* of all warps."""
        accesses = WarpAccesses(warps)
        asked = (accesses.request(each) if is_memory(each) else None for each in warps.graph.instructions)
        return cls(warps.graph, tuple(asked), share)


@dataclass(frozen=True)
class LaunchPrograms:
    """A launch with a program for each of its warp classes."""

    warps_per_group: int
    work_items: int
    """Work-items of a group."""
    local_memory: int
    """Local memory of a group, in bytes."""
    warps: int
    """Warps of all executions."""
    lanes: int
    """Lanes of a warp."""
    programs: tuple[WarpProgram, ...]

    @classmethod
    def lowered(cls, launch: LaunchProfile) -> "LaunchPrograms":
        """Return the programs of *launch*, lowered for no particular device."""
        warps = sum(kind.warps for kind in launch.classes)
        classes = (replace(kind, graph=lowered(kind.graph)) for kind in launch.classes)
        return cls(
            launch.warps_per_group,
            launch.work_items,
            launch.local_memory or 0,
            launch.groups * launch.warps_per_group * launch.times,
            launch.representative.example.size,
            tuple(WarpProgram.of(kind, kind.warps / warps) for kind in classes),
        )

    @classmethod
    def timed(cls, timed: TimedLaunch) -> "LaunchPrograms":
        """Return the programs of a launch on its device."""
        return cls(
            timed.warps_per_group,
            timed.work_items,
            timed.local_memory,
            timed.all_groups * timed.warps_per_group * timed.times,
            timed.device.needed("warp_size"),
            tuple(WarpProgram(each.graph, each.requests, share) for share, each in timed.shared()),
        )

    def executed(self) -> Iterator[tuple[float, Instruction, Request | None]]:
        """Yield (mean executions per warp, instruction, memory request) for each instruction."""
        for program in self.programs:
            for instruction, request in zip(program.graph.instructions, program.requests, strict=True):
                yield program.share * float(instruction.executions), instruction, request

    @property
    def instructions(self) -> float:
        """Return the number of instructions that all warps execute."""
        return self.warps * sum(executions for executions, _, _ in self.executed())


def graph_features(launches: Iterable[LaunchPrograms]) -> Features:
    """Return the features of the graphs of a kernel's *launches*; empty without launches."""
    every = tuple(launches)
    whole = sum(each.instructions for each in every)
    told: dict[str, float] = {}
    amounts: dict[str, float] = {}
    for each in every:
        weight = each.instructions / whole
        for sums, found in ((told, _features(each)), (amounts, _mix(each))):
            for name, value in found:
                sums[name] = sums.get(name, 0.0) + weight * value
    return Features(told, amounts)


def lowered_launches(profile: KernelProfile) -> tuple[LaunchPrograms, ...]:
    """Return the non-empty launches of *profile*, lowered for no particular device."""
    return tuple(LaunchPrograms.lowered(launch) for launch in profile.launches if launch.classes)


def counted_features(counts: Mapping[str, float], groups: int) -> Features:
    """Return the mean amount of each property in one of *groups* work-groups; *counts* are those of all of them."""
    each = {name: count / max(groups, 1) for name, count in counts.items() if name not in ALONE}
    return Features({"groups": log1p(groups)}, {f"{name} in a group": log1p(count) for name, count in each.items()})


def _features(launch: LaunchPrograms) -> Iterator[tuple[str, float]]:
    yield "warps of a group", log1p(launch.warps_per_group)
    yield "work-items of a group", log1p(launch.work_items)
    yield "local memory", log1p(launch.local_memory / 1024)
    yield "kinds of warps", log1p(len(launch.programs))
    yield "machine code", log1p(max(len(each.graph.instructions) for each in launch.programs))
    number = sum(executions for executions, _, _ in launch.executed())
    in_memory = sum(executions for executions, each, _ in launch.executed() if is_memory(each))
    arithmetic = sum(executions for executions, each, _ in launch.executed() if is_floating_point(each))
    yield "instructions", log1p(number)
    yield "compute intensity", log1p((number - in_memory) / in_memory) if in_memory else log1p(number)
    yield "floating-point intensity", log1p(arithmetic / in_memory) if in_memory else log1p(arithmetic)
    yield "ILP", log(_mean((each.share, float(ilp(each.graph))) for each in launch.programs))
    yield "MLP", log(_mean((each.share, float(mlp(each.graph, MEMORY))) for each in launch.programs))
    requests = [(executions, each, asked) for executions, each, asked in launch.executed() if is_memory(each) and asked]
    yield "sectors of a request", log1p(_mean((executions, asked.sectors) for executions, _, asked in requests))
    # Relative to the sectors of a full warp that accesses adjacent elements.
    over_fewest = ((often, asked.sectors / (launch.lanes * each.bits / 8 / SECTOR)) for often, each, asked in requests)
    yield "sectors over fewest", log1p(_mean(over_fewest))
    yield "lines of a request", log1p(_mean((executions, asked.lines) for executions, _, asked in requests))


def _mix(launch: LaunchPrograms) -> Iterator[tuple[str, float]]:
    """Yield the share of each class of instructions."""
    sorts: dict[str, float] = {}
    for executions, each, _ in launch.executed():
        sorts[_sort(each)] = sorts.get(_sort(each), 0.0) + executions
    whole = sum(sorts.values())
    yield from ((f"share of {sort}", number / whole) for sort, number in sorts.items())


def _sort(instruction: Instruction) -> str:
    """Return the class of an instruction: accesses by memory, arithmetic by opcode and type."""
    if instruction.is_idle:
        return "predicated off"
    if instruction.kind in (Opcode.LOAD, Opcode.STORE):
        return f"{instruction.subsystem} {instruction.kind}"
    return f"{instruction.dtype} {instruction.kind}" if instruction.dtype.startswith("f") else instruction.kind


def _mean(values: Iterable[tuple[float, float]]) -> float:
    """Return the weighted mean of (weight, value) pairs, 0 if there are none."""
    every = list(values)
    whole = sum(weight for weight, _ in every)
    return sum(weight * value for weight, value in every) / whole if whole else 0.0


# }}}


# {{{ static features
#
# Features of a kernel on a device, from its graphs and from their timing on a core.
#
# These are the quantities of Dao's Table 1 that need no run, with symbolic counts in place of hardware counters:
#
#     residence      resident warps and groups of a core, occupancy, number of runs one after the other, how full the
#                    last one is
#     registers      of a work-item, and those spilled
#     latency        Λapp, and its mean per instruction
#     accesses       share of the accesses that each level serves, and that waits for it; bank conflicts of local memory
#     pipelines      busy time of each, relative to the busiest
#
# and those of the graphs alone. Several launches are weighted by their shares of the time.


def static_features(kernel: TimedProgram) -> Features:
    """Return the features of *kernel*; empty if it has no launches.

    :raises MissingNumberError: if the device parameters lack a latency.
    """
    busy = [
        max(cached_for_launch(launch, LaunchDemand).busy.values()) * launch.warps_of_core for launch in kernel.launches
    ]
    told: dict[str, float] = {}
    for launch, cycles in zip(kernel.launches, busy, strict=True):
        for name, value in _of_launch(launch):
            told[name] = told.get(name, 0.0) + value * cycles / sum(busy)
    return (
        graph_features(map(LaunchPrograms.timed, kernel.launches))
        | Features(told)
        | busy_features(busy_seconds(kernel))
    )


def _of_launch(launch: TimedLaunch) -> Iterator[tuple[str, float]]:
    yield from _residence(launch)
    yield from _accesses(launch)
    latency = cached_for_launch(launch, LaunchDemand).latency
    instructions = sum(executions for executions, _, _ in launch.executed())
    yield "latency of a warp", log1p(latency)
    yield "latency of an instruction", log1p(latency / instructions)


def _residence(launch: TimedLaunch) -> Iterator[tuple[str, float]]:
    execution = launch.execution
    runs = execution.total_groups / execution.concurrent_groups
    yield "warps at once", log1p(execution.concurrent_warps)
    yield "groups at once", log1p(min(execution.concurrent_groups, execution.total_groups))
    yield "occupancy", execution.concurrent_warps / launch.device.limits.needed("warps")
    yield "runs", log1p(runs)
    yield "last run", 1 + runs - ceil(runs)
    yield "share of cores", launch.balance
    yield "registers", log1p(launch.registers)
    yield "registers spilled", log1p(launch.spilled)


def _accesses(launch: TimedLaunch) -> Iterator[tuple[str, float]]:
    inputs = cached_for_launch(launch, LaunchInputs)
    requests = sum(request.executions for request in inputs.requests)
    sectors = sum(request.executions * request.sectors for request in inputs.requests)
    for level in global_levels(launch.device)[1:]:
        moved = sum(each.executions * each.sectors * each.served.asked.get(level.name, 0.0) for each in inputs.requests)
        waiting = sum(request.executions * request.served.waited.get(level.name, 0.0) for request in inputs.requests)
        yield f"moved from {level.name}", moved / sectors if sectors else 0.0
        yield f"waited for {level.name}", waiting / requests if requests else 0.0
    local = sum(
        other.executions * other.issue for other in inputs.others if other.instruction.subsystem == MemorySpace.LOCAL
    )
    conflicts = sum(other.executions * other.conflicts for other in inputs.others)
    yield "bank conflicts", log1p(conflicts / local) if local else 0.0


def busy_features(busy: Mapping[str, float]) -> Features:
    """Return the features of a kernel from the *busy* seconds of each pipeline column; empty if there are none."""
    columns = {column: seconds for column, seconds in busy.items() if column != LAUNCHES}
    if not columns:
        return Features({})
    order = sorted(columns.values())
    rest = max((seconds for column, seconds in columns.items() if column != LATENCY), default=0.0)
    told = {
        LAUNCHES: log1p(busy.get(LAUNCHES, 0.0)),
        "busiest pipeline": log1p(order[-1] / TICK),
        "second pipeline": order[-2] / order[-1] if len(order) > 1 else 0.0,
        "latency over the rest": log1p(columns.get(LATENCY, 0.0) / rest) if rest else 0.0,
    }
    return Features(told, {f"{column} over the busiest": seconds / order[-1] for column, seconds in columns.items()})


# }}}
