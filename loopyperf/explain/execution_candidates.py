"""Candidate changes of execution: registers, group sizes, barriers, dependences, branches and loop control."""

from collections.abc import Iterator, Mapping
from math import ceil, prod
from typing import Any

import islpy as isl
import numpy as np
from loopy.kernel.array import ArrayBase
from loopy.kernel.data import GroupInameTag, IlpBaseTag, LocalInameTag, UnrollTag
from loopy.kernel.instruction import CInstruction
from loopy.symbolic import TypeCast, get_dependencies
from pymbolic.primitives import Remainder

from loopyperf.counts.item import MemorySpace
from loopyperf.device.parts import Pipeline
from loopyperf.device.vocabulary import ISSUE
from loopyperf.explain.candidates import (
    BUSY,
    TREE,
    WAITED,
    ChangeCandidate,
    ChangeClass,
    LaunchSeen,
    barriers_each_time,
    is_control,
    lines,
    parts_of,
)
from loopyperf.idg.program import Instruction, Loop, Opcode, loops_in
from loopyperf.models.workload import START
from loopyperf.transform import accumulations, is_quotient_of_integers
from loopyperf.units import amount, duration, in_percent, listed, number_of

FEW_SPILLED = 8
"""registers per spilled one, at least, for a launch to be limited by occupancy rather than by spill traffic"""
UNEVEN = 0.95
"""load balance (groups of the mean core over the core with most) below which a launch has a tail"""
NEARLY_BEST = 0.99
"""share of the best balance that is good enough"""
LOW_OCCUPANCY = 0.5
"""occupancy below which registers may limit a launch"""
MOST_MORE_GROUPS = 8
"""maximum factor by which to increase the number of groups"""
LEAST_ITERATIONS = 2
WAITED_MOST = 0.3
"""share of stall cycles from which waiting for results may limit a kernel"""
SHORT_LOOP = 4
"""iterations below which a loop has no use for several accumulators"""
FEW_LANES = 0.8
"""share of active lanes below which a line is divergent"""
SHORT_LAUNCH = 2e-6
"""run time in seconds; launching a shorter kernel takes longer than executing it, on all GPUs whose overhead we know"""
MOST_NAMES = 3
"""maximum number of names in a sentence"""


# {{{ registers and groups


def crowded(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest that a work-item compute fewer values of unrolled loops, if registers limit the launch."""
    here, stacks = seen.review.residents, _stacks(seen)
    if not (stacks or ("registers" in here.limited_by and here.share < LOW_OCCUPANCY)):
        return
    lengths = {iname: seen.length(iname) for iname in _unrolled_results(seen)}
    if prod(lengths.values()) > 1:
        yield ChangeCandidate(
            ChangeClass.FEWER_VALUES,
            tuple(sorted(lengths, key=lambda iname: -lengths[iname])),
            lines(stacks),
            f"{number_of(prod(lengths.values()), 'value')} per work-item take {_registers_in_words(seen)}",
            max(seen.of_memory, seen.review.waits_for("dependency")),
        )


def _unrolled_results(seen: LaunchSeen) -> Iterator[str]:
    """Yield the unrolled loops whose iterations store results of their own, so that any work-item can execute them."""
    kernel: Any = seen.kernel.loopy_kernel
    own: frozenset[str] = frozenset(kernel.temporary_variables)
    stores = [insn for insn in kernel.instructions if not own.issuperset(insn.assignee_var_names())]
    for iname in sorted(seen.given.all_inames() & kernel.all_inames()):
        around = [insn for insn in stores if iname in insn.within_inames]
        is_unrolled = any(isinstance(tag, IlpBaseTag | UnrollTag) for tag in seen.given.inames[iname].tags)
        indices = [set[str]().union(*map(get_dependencies, insn.assignees)) for insn in around]
        if is_unrolled and around and all(iname in names for names in indices):
            yield iname


def _stacks(seen: LaunchSeen) -> list[Instruction]:
    """Return the accesses of local (stack) memory."""
    every = seen.graph.instructions
    return [insn for insn in every if insn.subsystem == MemorySpace.PRIVATE and not insn.is_idle]


def _registers_in_words(seen: LaunchSeen) -> str:
    """Return the registers of a work-item and their consequence: spills or low occupancy."""
    here = seen.review.residents
    if here.spilled * FEW_SPILLED > here.registers:
        return f"{here.registers} registers, and {here.spilled} more spill to local (stack) memory"
    if _stacks(seen):
        return "more registers than available: they are in local (stack) memory"
    return f"{here.registers} registers: {here.warps_in_words} of {here.slots} {seen.words.warp}s are resident"


def spilled(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest that values in local (stack) memory move to registers."""
    stacks = _stacks(seen)
    if not stacks:
        return
    arrays = tuple(dict.fromkeys(insn.reference.array for insn in stacks if insn.reference is not None))
    executed = sum(float(insn.executions) for insn in stacks)
    spilled = f"{number_of(seen.machine.spilled, 'register')} per work-item spill"
    what = spilled if seen.machine.spilled else f"{listed(arrays, MOST_NAMES)} in local (stack) memory"
    yield ChangeCandidate(
        ChangeClass.REGISTERS,
        arrays,
        lines(stacks),
        f"{what}: {amount(executed)} loads and stores of stack memory per {seen.words.warp}",
        seen.of_memory,
    )


def uneven(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest smaller groups, if the cores have different numbers of groups."""
    launch = seen.launch
    if launch.balance >= UNEVEN:
        return
    cores = launch.device.needed("cores")
    groups, with_another = divmod(launch.all_groups, cores)
    execute = "executes" if with_another == 1 else "execute"
    factors = [factor for factor in range(2, MOST_MORE_GROUPS + 1) if launch.warps_per_group % factor == 0]
    even = {
        factor: launch.all_groups * factor / (cores * ceil(launch.all_groups * factor / cores)) for factor in factors
    }
    factor = next((factor for factor in factors if even[factor] > NEARLY_BEST * max(even.values())), 1)
    yield ChangeCandidate(
        ChangeClass.SMALLER_GROUPS,
        (),
        (),
        f"{number_of(launch.all_groups, 'group')} on {number_of(cores, seen.words.core)}: {with_another} "
        f"{execute} {number_of(groups + 1, 'group')}, the others {groups or 'none'}; {seen.words.core}s are idle for "
        f"{in_percent(1 - launch.balance)} of the time",
        1 - launch.balance,
        amount=launch.work_items // factor,
    )


def small(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest larger groups, if they do not fill their warps, or if starting them takes long."""
    lanes, items = seen.machine.representative.example.size, seen.launch.work_items
    filled, starting = items / (lanes * ceil(items / lanes)), seen.busy(START)
    groups = f"{number_of(seen.launch.all_groups, 'group')} of {number_of(items, 'work-item')}"
    if filled < FEW_LANES:
        evidence = f"{groups} fill {in_percent(filled)} of the lanes of their {seen.words.warp}s"
    elif starting >= BUSY and starting >= NEARLY_BEST * max(seen.review.utilization.values()):
        evidence = f"{groups}: {seen.words.core}s start groups for {in_percent(starting)} of the time"
    else:
        return
    yield ChangeCandidate(ChangeClass.LARGER_GROUPS, (), (), evidence, max(1 - filled, starting))


def launched(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest more work per launch, if launch overhead takes most of the time; then nothing else helps."""
    if seen.overhead > BUSY:
        evidence, share = f"launch overhead takes {in_percent(seen.overhead)} of the time", seen.overhead
    elif not seen.launch.device.launch_overhead and seen.review.seconds < SHORT_LAUNCH * seen.review.times:
        groups = f"{number_of(seen.launch.all_groups, 'group')} of {number_of(seen.launch.work_items, 'work-item')}"
        takes = duration(seen.review.seconds / seen.review.times)
        evidence, share = f"{groups} take {takes}, less than launching them (not included)", 1.0
    else:
        return
    yield ChangeCandidate(ChangeClass.FEWER_LAUNCHES, (), (), evidence, share)


# }}}


# {{{ waiting


def synchronized(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest fewer barriers, if warps wait at them."""
    waits = seen.review.waits_for("barrier")
    if max(waits, seen.review.utilization.get("barrier", 0.0)) < WAITED:
        return
    graph = seen.graph
    for loop in loops_in(graph.body):
        inside = [graph.instructions[item] for item in loop.body if not isinstance(item, Loop)]
        each_time = barriers_each_time(graph, loop)
        if each_time < TREE or not isinstance(loop.trips, int) or loop.trips * loop.copies < LEAST_ITERATIONS:
            continue
        yield ChangeCandidate(
            ChangeClass.REDUCE_ONCE,
            (loop.name,),
            lines(insn for insn in inside if insn.subsystem == MemorySpace.LOCAL),
            f"{number_of(each_time, 'barrier')} per iteration of {loop.name}, {in_percent(waits)} of stall cycles",
            waits,
        )


def chained(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest several accumulators or results per work-item, if instructions wait for the result before them."""
    review = seen.review
    waits = review.waits_for("dependency")
    if waits < WAITED_MOST or review.waiting is None:
        return
    by_line = {line: waits.get("dependency", 0.0) for line, waits in review.waiting.by_source.items()}
    line = max(by_line, key=lambda line: by_line[line])
    loops = tuple(_accumulating(seen))
    waiting = f"each step of the reduction over {loops[0]}" if loops else f"each instruction at {line}"
    yield ChangeCandidate(
        ChangeClass.PARTIAL_SUMS if loops else ChangeClass.SEVERAL_RESULTS,
        loops,
        (line,),
        f"{waiting} waits for the one before: dependency {in_percent(waits)} of stall cycles",
        waits,
    )


def _accumulating(seen: LaunchSeen) -> Iterator[str]:
    """Yield the sequential loops of the reductions and accumulations in the kernel, the longest first."""
    inames = {iname for insn in seen.given.instructions for iname in insn.reduction_inames()}
    inames |= {iname for iname in seen.given.all_inames() if accumulations(seen.given, iname)}
    lengths = {iname: seen.length(iname) for iname in inames if not seen.given.inames[iname].tags}
    yield from (iname for iname in sorted(lengths, key=lambda iname: -lengths[iname]) if lengths[iname] >= SHORT_LOOP)


# }}}


# {{{ instructions that need not execute


def divergent(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest that whole warps take the same branch, if conditions on the work-item leave lanes inactive."""
    size = seen.machine.representative.example.size
    few = {line: lanes for line, lanes in seen.review.lanes.items() if lanes < FEW_LANES * size}
    every = seen.graph.instructions
    total = sum(float(insn.executions) for insn in every)
    conditional = {insn.id for insn in seen.kernel.loopy_kernel.instructions if insn.predicates} | few.keys()
    within = [insn for insn in every if insn.source in conditional or insn.predicates or insn.tests]
    share = sum(float(insn.executions) for insn in within) / total if total else 0.0
    if share < BUSY or seen.launch.work_items < size:
        return
    first = next(iter(lines(within)), "")
    condition, modulus = next(_by_lane(seen), ("", 0))
    of_data = next(_by_data(seen), "")
    if not condition and not few and not of_data:
        return
    lanes = f"{few[first]:.3g} of {size} lanes are active at {first}" if first in few else f"lanes diverge at {first}"
    if condition:
        lanes = f"{condition} splits each {seen.words.warp}: {lanes}"
    elif of_data and first not in few:
        lanes = f"{of_data} depends on data: {seen.words.warp}s whose lanes differ execute both branches"
    subject = (condition or of_data,) if condition or of_data else ()
    yield ChangeCandidate(ChangeClass.DIVERGENCE, subject, lines(within), lanes, share, amount=modulus)


def _by_lane(seen: LaunchSeen) -> Iterator[tuple[str, int]]:
    """Yield the remainders of the lane in conditions and choices, as written, with their divisors."""
    kernel = seen.given
    of_lane = {iname for iname, each in kernel.inames.items() for tag in each.tags if str(tag) == "l.0"}
    for insn in kernel.instructions:
        for remainder in sorted({part for part in parts_of(insn) if isinstance(part, Remainder)}, key=str):
            divisor: Any = remainder.denominator
            if isinstance(divisor, int) and divisor > 1 and get_dependencies(remainder) & of_lane:
                yield str(seen.kernel.as_written(remainder)), divisor


def _by_data(seen: LaunchSeen) -> Iterator[str]:
    """Yield the conditions on elements of arrays, as written."""
    for insn in seen.given.instructions:
        for condition in sorted(insn.predicates, key=str):
            if get_dependencies(condition) & (seen.given.arg_dict.keys() - seen.sizes.keys()):
                yield str(seen.kernel.as_written(condition))


def double(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest single precision, if inputs, temporaries, literals or integers make it double although no result is."""
    kernel, given = seen.kernel.loopy_kernel, seen.given
    if any(
        _is_double(argument.dtype) for argument in kernel.args if isinstance(argument, ArrayBase) and argument.is_output
    ):
        return
    arithmetic = [insn for insn in seen.graph.instructions if insn.kind not in (Opcode.LOAD, Opcode.STORE)]
    wide = [insn for insn in arithmetic if insn.dtype == "f64"]
    variables: Mapping[str, Any] = {argument.name: argument for argument in kernel.args}
    variables = {**variables, **given.temporary_variables}
    names = [name for name, variable in variables.items() if _is_double(variable.dtype)]
    parts = [part for insn in given.instructions for part in parts_of(insn)]
    others = {str(part) for part in parts if isinstance(part, float) and float(np.float32(part)) != part}
    others |= {f"({seen.kernel.as_written(part)})" for part in parts if is_quotient_of_integers(given, part)}
    others |= {"a cast" for part in parts if isinstance(part, TypeCast) and _is_double(part.type)}
    if wide and (names or others):
        sources = [*(f"{name} (float64)" for name in names), *sorted(others)]
        verb = "makes" if len(sources) == 1 else "make"
        share = sum(float(insn.executions) for insn in wide) / sum(float(insn.executions) for insn in arithmetic)
        yield ChangeCandidate(
            ChangeClass.PRECISION,
            tuple(names),
            lines(wide),
            f"{listed(sources, MOST_NAMES)} {verb} {in_percent(share)} of the arithmetic "
            "double precision; all results are single",
            max(seen.busy(Pipeline.FP64, Pipeline.SFU), share),
        )


def _is_double(dtype: Any) -> bool:
    return dtype is not None and getattr(dtype, "numpy_dtype", None) == np.float64


def redundant(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest to remove the inames along hardware axes on which nothing depends."""
    kernel = seen.given
    axes = {
        iname: str(tag)
        for iname, each in kernel.inames.items()
        for tag in each.tags
        if isinstance(tag, GroupInameTag | LocalInameTag)
    }
    instructions: list[Any] = list(kernel.instructions)
    used = frozenset(str(name) for insn in instructions for name in insn.dependency_names() | insn.reduction_inames())
    idle = [iname for iname in sorted(axes) if iname not in used and not _bounds(kernel, iname) & used]
    temporaries = kernel.temporary_variables.keys()
    for insn in instructions if idle else ():
        updated = (set(insn.assignee_var_names()) - temporaries) & insn.read_dependency_names()
        if updated or isinstance(insn, CInstruction):
            return  # executing an update of an argument once is not executing it often
    number = prod(max(1, seen.length(iname)) for iname in idle)
    if idle and number > 1:
        yield ChangeCandidate(
            ChangeClass.REDUNDANT,
            tuple(idle),
            tuple(insn.id for insn in kernel.instructions),
            f"nothing depends on {listed(idle, MOST_NAMES)}: {number:,} work-items compute the same",
            1 - 1 / number,
        )


def _bounds(kernel: Any, iname: str) -> frozenset[str]:
    """Return the inames that share a constraint with *iname*."""
    domain = kernel.get_inames_domain(frozenset((iname,)))
    names = domain.get_var_names(isl.dim_type.set)
    place = names.index(iname)
    return frozenset(
        other
        for constraint in domain.get_constraints()
        if constraint.involves_dims(isl.dim_type.set, place, 1)
        for index, other in enumerate(names)
        if index != place and constraint.involves_dims(isl.dim_type.set, index, 1)
    )


def rolled(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest unrolling, if loop control is a large part of the instructions of a busy pipeline."""
    graph = seen.graph
    control = [insn for index, insn in enumerate(graph.instructions) if is_control(graph.loops_around[index], insn)]
    number, every = (sum(float(insn.executions) for insn in some) for some in (control, graph.instructions))
    busy = seen.busy(ISSUE, Pipeline.INTEGER, Pipeline.ALU, Pipeline.CONTROL)
    if busy < BUSY or number < WAITED * every:
        return
    loops = {loop.name for loop in loops_in(graph.body) if not loop.is_unrolled}
    yield ChangeCandidate(
        ChangeClass.UNROLL,
        tuple(sorted(loops)),
        (),
        f"{in_percent(number / every)} of the instructions are loop control and address arithmetic",
        busy * number / every,
    )


# }}}
