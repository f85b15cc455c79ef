"""Candidate changes of execution: registers, group sizes, barriers and loop control."""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from loopyperf.compiler.resources import Resources
from loopyperf.counts.item import MemorySpace
from loopyperf.device.occupancy import occupancy
from loopyperf.device.parts import Pipeline
from loopyperf.device.vocabulary import ISSUE
from loopyperf.errors import OccupancyError
from loopyperf.explain.candidates import BUSY, WAITED, ChangeCandidate, ChangeClass, LaunchSeen, MachineChange, lines
from loopyperf.explain.changes import (
    TREE,
    TWICE,
    barriers_each_time,
    every_second,
    in_more_groups,
    is_control,
    is_local_store,
    reduced_once,
    with_programs,
    without_control,
    without_instructions,
)
from loopyperf.idg.program import Instruction, Loop, Opcode, loops_in
from loopyperf.pipeline.timed_program import TimedLaunch
from loopyperf.units import amount, in_percent, number_of

FEW_SPILLED = 8
"""registers per spilled one, at least, for a launch to be limited by occupancy rather than by spill traffic"""
UNEVEN = 0.95
"""load balance (groups of the mean core over the core with most) below which a launch has a tail"""
NEARLY = 0.99
"""share of the best balance that is good enough"""
SPARSE = 0.5
"""occupancy below which registers may limit a launch"""
PARTS = (2, 4)
"""numbers of work-items among which to divide the values of one"""
FACTOR = 8
"""maximum factor by which to increase the number of groups"""


def crowded(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest that a work-item compute fewer values of an unrolled loop, if registers limit the launch."""
    here, stacks = seen.review.residents, _stacks(seen)
    if not seen.launch.are_equal or not (stacks or ("registers" in here.limited_by and here.share < SPARSE)):
        return
    for loop in loops_in(seen.profile.representative.graph.body):
        if not (loop.is_unrolled and isinstance(loop.trips, int) and _has_results(seen, loop.name)):
            continue
        for parts in (each for each in PARTS if loop.trips % each == 0 and loop.trips // each > 1):
            yield ChangeCandidate(
                ChangeClass.FEWER_VALUES,
                (loop.name,),
                lines(stacks),
                f"{loop.trips} values per work-item take {_registers_in_words(seen)}",
                lambda loop=loop, parts=parts: MachineChange(loop=loop.name, parts=parts),
                amount=loop.trips // parts,
                before=loop.trips,
            )
        return


def _stacks(seen: LaunchSeen) -> list[Instruction]:
    """Return the accesses of local (stack) memory."""
    every = seen.graph.instructions
    return [each for each in every if each.subsystem == MemorySpace.PRIVATE and not each.is_idle]


def _registers_in_words(seen: LaunchSeen) -> str:
    """Return the registers of a work-item and their consequence: spills or low occupancy."""
    here = seen.review.residents
    if here.spilled * FEW_SPILLED > here.registers:
        return f"{here.registers} registers, and {here.spilled} more spill to local (stack) memory"
    if _stacks(seen):
        return "more registers than available: they are in local (stack) memory"
    return f"{here.registers} registers: {_residing(seen)} are resident"


def _residing(seen: LaunchSeen) -> str:
    """Return the resident warps per core and the number of slots, e.g. ``"8 of 64 warps"``."""
    return f"{seen.review.residents.warps_in_words} of {seen.review.residents.slots} {seen.words.warp}s"


def _has_results(seen: LaunchSeen, loop: str) -> bool:
    """Return whether each iteration of *loop* stores its own results, so that any work-item can execute it."""
    stores = [
        each
        for each in seen.profile.representative.graph.instructions
        if each.subsystem == MemorySpace.GLOBAL and each.kind == Opcode.STORE
    ]
    return all(each.address is not None and loop in each.address.variables for each in stores)


def spilled(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest that values in local (stack) memory move to registers."""
    stacks = _stacks(seen)
    if not stacks:
        return
    arrays = tuple(dict.fromkeys(each.reference.array for each in stacks if each.reference is not None))
    kept = Resources(
        function=seen.machine.name,
        registers=seen.machine.registers if seen.machine.spilled else _most_registers(seen),
        spill_stores=0,
        spill_loads=0,
        stack_frame=0,
        local_memory=seen.machine.local_memory or 0,
    )
    executed = sum(float(each.executions) for each in stacks)
    what = "registers spill" if seen.machine.spilled else f"{', '.join(arrays)} in local (stack) memory"
    yield ChangeCandidate(
        ChangeClass.REGISTERS,
        arrays,
        lines(stacks),
        f"{what}: {amount(executed)} loads and stores of stack memory per {seen.words.warp}",
        lambda: MachineChange(compiled=kept),
    )


def _most_registers(seen: LaunchSeen) -> int:
    return seen.launch.device.limits.registers_per_work_item or seen.machine.registers


def sparse(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest that more groups be resident on a core, if registers or local memory limit occupancy."""
    here = seen.review.residents
    if here.is_full or here.groups >= here.total or not set(here.limited_by) & {"registers", "local memory"}:
        return
    if next(crowded(seen), None) is not None:  # fewer values per work-item raise occupancy
        return
    most = min(here.slots // seen.launch.warps_per_group, here.total)
    for groups in dict.fromkeys((here.groups + 1, min(most, 2 * here.groups))):
        if here.groups < groups <= most:
            limit = f"limited by {' and '.join(here.limited_by)} to {number_of(here.groups, 'group')}"
            yield ChangeCandidate(
                ChangeClass.OCCUPANCY,
                here.limited_by,
                (),
                f"{limit} per {seen.words.core}, {_residing(seen)}",
                lambda groups=groups: MachineChange(concurrent_groups=groups),
                amount=groups,
            )


def uneven(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest smaller groups, if the cores have different numbers of groups."""
    launch = seen.launch
    if launch.balance >= UNEVEN or not launch.are_equal or seen.machine.local_memory:
        return
    factors = [each for each in range(2, FACTOR + 1) if launch.warps_per_group % each == 0]
    if not factors:
        return
    cores = launch.device.needed("cores")
    even = {each: launch.all_groups * each / (cores * ceil(launch.all_groups * each / cores)) for each in factors}
    factor = next(each for each in factors if even[each] > NEARLY * max(even.values()))
    groups, with_another = divmod(launch.all_groups, cores)
    execute = "executes" if with_another == 1 else "execute"
    yield ChangeCandidate(
        ChangeClass.SMALLER_GROUPS,
        (),
        (),
        f"{number_of(launch.all_groups, 'group')} on {number_of(cores, seen.words.core)}: {with_another} "
        f"{execute} {number_of(groups + 1, 'group')}, the others {groups or 'none'}; {seen.words.core}s are idle for "
        f"{in_percent(1 - launch.balance)} of the time",
        lambda: in_more_groups(launch, factor, launch.warps_per_group // factor),
        amount=launch.work_items // factor,
    )


def synchronized(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest fewer barriers, if warps wait at them."""
    if seen.review.waits_for("barrier") < WAITED and seen.review.utilization.get("barrier", 0.0) < WAITED:
        return
    graph = seen.graph
    for loop in loops_in(graph.body):
        inside = [graph.instructions[item] for item in loop.body if not isinstance(item, Loop)]
        each_time = barriers_each_time(graph, loop)
        if not each_time or not isinstance(loop.trips, int) or loop.trips * loop.copies < TWICE:
            continue
        share = in_percent(seen.review.waits_for("barrier"))
        waited = f"{number_of(each_time, 'barrier')} per iteration of {loop.name}, {share} of stall cycles"
        if each_time >= TREE:
            yield ChangeCandidate(
                ChangeClass.REDUCE_ONCE,
                (loop.name,),
                lines(each for each in inside if each.subsystem == MemorySpace.LOCAL),
                waited,
                lambda loop=loop: with_programs(seen.launch, lambda program: reduced_once(program, loop.name)),
            )
        elif each_time >= TWICE:
            yield ChangeCandidate(
                ChangeClass.DOUBLE_BUFFER,
                tuple(dict.fromkeys(each.reference.array for each in inside if is_local_store(each))),
                lines(each for each in inside if is_local_store(each)),
                waited,
                lambda loop=loop: _double_buffered(seen, loop.name),
            )


def _double_buffered(seen: LaunchSeen, loop: str) -> TimedLaunch:
    """Return the launch with half the barriers and twice the local memory."""
    launch = with_programs(seen.launch, lambda program: without_instructions(program, every_second(program, loop)))
    local = 2 * launch.local_memory
    try:
        room = occupancy(launch.device, launch.work_items, launch.registers, local)
    except OccupancyError:
        return seen.launch
    groups = min(room.groups, launch.execution.concurrent_groups)
    return replace(launch, local_memory=local, execution=replace(launch.execution, concurrent_groups=groups))


def rolled(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest unrolling, if loop control is a large part of the instructions of a busy pipeline."""
    graph = seen.graph
    control = [each for place, each in enumerate(graph.instructions) if is_control(graph.loops_around[place], each)]
    number, every = (sum(float(each.executions) for each in some) for some in (control, graph.instructions))
    names = (ISSUE, Pipeline.INTEGER, Pipeline.ALU, Pipeline.CONTROL)
    if max(seen.review.utilization.get(name, 0.0) for name in names) < BUSY or number < WAITED * every:
        return
    loops = {loop.name for loop in loops_in(graph.body) if not loop.is_unrolled}
    yield ChangeCandidate(
        ChangeClass.UNROLL,
        tuple(sorted(loops)),
        (),
        f"{in_percent(number / every)} of the instructions are loop control and address arithmetic",
        lambda: with_programs(seen.launch, without_control),
    )
