"""Modify timed launches, to simulate the changes of a kernel that findings suggest.

Each function returns a launch with one change and everything else the same: the memory requests, the instructions of
a warp, the number of resident groups, or their size.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil

from loopyperf.counts.item import MemorySpace
from loopyperf.device.occupancy import Execution
from loopyperf.idg.graph import Idg, rewritten
from loopyperf.idg.program import Dependence, Edge, Element, Instruction, Item, Loop, Opcode, integer_if_whole, loops_in
from loopyperf.memory.kernel_profile import LaunchProfile
from loopyperf.models.program_timing import TimedOnce, times_of
from loopyperf.models.timing import InstructionTimes
from loopyperf.pipeline.timed_program import Request, TimedLaunch, TimedWarps

RequestChange = Callable[[Instruction, Request], Request]
"""returns the memory request of an access after a change, or the same request"""


# {{{ memory requests


def with_requests(launch: TimedLaunch, change: RequestChange) -> TimedLaunch:
    """Return *launch* with its memory requests changed by *change*."""
    timing, known = InstructionTimes(launch.device), TimedOnce()

    def changed(program: TimedWarps) -> TimedWarps:
        pairs = zip(program.graph.instructions, program.requests, strict=True)
        requests = tuple([None if request is None else change(each, request) for each, request in pairs])
        times = [
            old if request == before else times_of(timing, launch.balance, launch.balances, known, each, request)
            for each, request, before, old in zip(
                program.graph.instructions, requests, program.requests, program.times, strict=True
            )
        ]
        return replace(program, requests=requests, times=tuple(times))

    return with_programs(launch, changed)


def coalesced(request: Request, sectors: float, lines: float) -> Request:
    """Return *request* as if neighboring lanes accessed neighboring elements, in *sectors* and *lines* per request.

    Levels beyond the nearest move at most the sectors that they moved before, because each sector is then used in full.
    """
    wavefronts = max(1.0, lines)
    if request.served is None or sectors >= request.sectors:
        return request
    nearest, *_ = request.served.asked
    asked = {
        name: 1.0 if name == nearest else min(1.0, share * request.sectors / sectors)
        for name, share in request.served.asked.items()
    }
    served = replace(request.served, asked=asked, waited=asked)
    return replace(request, sectors=sectors, lines=lines, wavefronts=wavefronts, served=served)


# }}}


# {{{ instructions of a warp


def reusing(program: TimedWarps, instead: Mapping[int, int]) -> TimedWarps:
    """Return *program* without the instructions in *instead*, and with their uses redirected to the mapped ones.

    Both instructions are in the same loops, and the remaining one comes first.
    """
    edges = [replace(edge, source=instead.get(edge.source, edge.source)) for edge in program.graph.edges]
    return _kept(program, [place for place in _places(program) if place not in instead], edges)


def without_instructions(program: TimedWarps, dropped: Collection[int]) -> TimedWarps:
    """Return *program* without the instructions *dropped* and without the dependences through them."""
    return _kept(program, [place for place in _places(program) if place not in dropped], program.graph.edges)


def after_loop(program: TimedWarps, loop: Loop, moved: Collection[int]) -> TimedWarps:
    """Return *program* with the instructions *moved* from *loop* to behind it, where they execute once.

    Edges among them within one iteration are kept; their other edges are dropped.
    """
    graph = program.graph
    depth = next(len(around) for around in graph.loops_around if around and around[-1].number == loop.number)
    trips = max(1, loop.trips) if isinstance(loop.trips, int) else 1
    instructions = [
        replace(each, executions=Fraction(each.executions) / trips, condition=None) if place in moved else each
        for place, each in enumerate(graph.instructions)
    ]
    body = tuple(_behind(graph.body, loop, frozenset(moved)))
    edges = list(_of_moved(graph.edges, frozenset(moved), depth))
    return replace(program, graph=Idg(tuple(instructions), tuple(edges), body))


def _behind(body: Sequence[Item], loop: Loop, moved: frozenset[int]) -> Iterator[Item]:
    for item in body:
        if not isinstance(item, Loop):
            yield item
        elif item.number != loop.number:
            yield replace(item, body=tuple(_behind(item.body, loop, moved)))
        else:
            kept = tuple(each for each in item.body if isinstance(each, Loop) or each not in moved)
            yield replace(item, body=kept)
            yield from (each for each in item.body if not isinstance(each, Loop) and each in moved)


def _of_moved(edges: Sequence[Edge], moved: frozenset[int], depth: int) -> Iterator[Edge]:
    for edge in edges:
        ends = (edge.source in moved) + (edge.target in moved)
        if ends == 0:
            yield edge
        elif ends == 2 and not any(edge.distance[:depth]) and edge.condition is None:
            yield replace(edge, distance=edge.distance[: depth - 1], iterations=edge.iterations[: depth - 1])


def _kept(program: TimedWarps, kept: Sequence[int], edges: Sequence[Edge]) -> TimedWarps:
    times, requests = ([each[place] for place in kept] for each in (program.times, program.requests))
    return replace(program, graph=rewritten(program.graph, kept, edges), times=tuple(times), requests=tuple(requests))


def _places(program: TimedWarps) -> range:
    return range(len(program.graph.instructions))


# }}}


# {{{ number and size of resident groups


def in_more_groups(launch: TimedLaunch, factor: int, warps: int) -> TimedLaunch:
    """Return *launch* with *factor* times as many groups, each of *warps* warps.

    All groups do the same work, and a core has room for as many warps as before.
    """
    cores, every = launch.device.needed("cores"), launch.all_groups * factor
    smaller = launch.warps_per_group // warps
    at_once = launch.execution.concurrent_groups * smaller
    execution = Execution(warps, at_once, ceil(every / cores))
    balance = every / (cores * execution.total_groups)
    return replace(
        launch,
        all_groups=every,
        warps_per_group=warps,
        work_items=launch.work_items // smaller,
        local_memory=launch.local_memory // smaller,
        execution=execution,
        groups=execution.total_groups,
        active_cores=min(cores, every),
        programs=with_programs(launch.with_balance(balance), lambda each: _starting(each, smaller)).programs,
        balance=balance,
        balances={},
    )


def _starting(program: TimedWarps, factor: int) -> TimedWarps:
    """Return *program* with *factor* times the start-up time per warp, since a group has fewer warps to share it."""
    start = program.start
    if start is None or start.shared is None:
        return program
    shared = replace(start.shared, cycles=start.shared.cycles * factor)
    return replace(program, start=replace(start, issue=start.issue * factor, shared=shared))


# }}}


def with_programs(launch: TimedLaunch, change: Callable[[TimedWarps], TimedWarps]) -> TimedLaunch:
    """Return *launch* with *change* applied to each of its programs, once per distinct program."""
    made = {number: change(launch.programs[number]) for number in dict.fromkeys(launch.first.values())}
    return replace(launch, programs={program: made[first] for program, first in launch.first.items()})


# {{{ values per work-item


def in_parts(launch: LaunchProfile, loop: str, parts: int) -> LaunchProfile:
    """Return *launch* as if a work-item executed 1/*parts* of the iterations of the unrolled *loop*."""
    if parts == 1:
        return launch
    classes = tuple(replace(each, graph=_in_parts(each.graph, loop, parts)) for each in launch.classes)
    return replace(launch, classes=classes)


def _in_parts(graph: Idg, loop: str, parts: int) -> Idg:
    inside = {place for place, around in enumerate(graph.loops_around) if any(each.name == loop for each in around)}
    trips = next(each.trips for each in loops_in(graph.body) if each.name == loop)
    instructions = [
        _of_part(each, trips, parts, Fraction(1, parts) if place in inside else Fraction(1))
        for place, each in enumerate(graph.instructions)
    ]
    body = tuple(_with_trips(graph.body, loop, parts))
    return replace(graph, instructions=tuple(instructions), body=body)


def _of_part(instruction: Instruction, trips: int, parts: int, share: Fraction) -> Instruction:
    """Return *instruction* with executions scaled by *share*, and private arrays that hold the values of one part."""

    def shorter(element: Element | None) -> Element | None:
        is_split = element is not None and element.length % trips == 0
        return replace(element, length=element.length // parts) if element is not None and is_split else element

    operands = tuple([replace(each, element=shorter(each.element)) for each in instruction.operands])
    defines = tuple([each for element in instruction.defines if (each := shorter(element)) is not None])
    executions = integer_if_whole(Fraction(instruction.executions) * share)
    return replace(instruction, operands=operands, defines=defines, executions=executions)


def _with_trips(body: Sequence[Item], loop: str, parts: int) -> Iterator[Item]:
    for item in body:
        if not isinstance(item, Loop):
            yield item
        else:
            trips = item.trips // parts if item.name == loop else item.trips
            yield replace(item, trips=trips, body=tuple(_with_trips(item.body, loop, parts)))


# }}}


# {{{ classes of instructions


TWICE = 2
TREE = 3
"""barriers per iteration from which a loop is assumed to contain a tree reduction"""
VECTOR = 4
"""elements per vector access"""
CONTROL = (Opcode.INTEGER, Opcode.BRANCH, Opcode.COMPARE, Opcode.MOVE)
"""opcodes of loop control"""


def is_local_load(instruction: Instruction) -> bool:
    return instruction.subsystem == MemorySpace.LOCAL and instruction.kind == Opcode.LOAD


def is_local_store(instruction: Instruction) -> bool:
    return instruction.subsystem == MemorySpace.LOCAL and instruction.kind == Opcode.STORE


def is_control(around: Sequence[Loop], instruction: Instruction) -> bool:
    """Return whether *instruction* is loop control, i.e. updates a loop counter or tests for the end."""
    return bool(around) and not instruction.source and instruction.kind in CONTROL


def barriers_each_time(graph: Idg, loop: Loop) -> float:
    """Return the number of barriers per source iteration of *loop*, without those of inner loops."""
    items = [graph.instructions[item] for item in loop.body if not isinstance(item, Loop)]
    return sum(each.kind == Opcode.BARRIER for each in items) / max(1, loop.copies)


# }}}


# {{{ programs after a change


def every_second(program: TimedWarps, loop: str) -> Collection[int]:
    """Return every second barrier in the body of *loop*."""
    graph = program.graph
    inside = next((each for each in loops_in(graph.body) if each.name == loop), None)
    items = () if inside is None else inside.body
    barriers = [
        item for item in items if not isinstance(item, Loop) and graph.instructions[item].kind == Opcode.BARRIER
    ]
    return barriers[1::2]


def sharing_loads(program: TimedWarps) -> TimedWarps:
    """Return *program* with every second equivalent local load removed, as if each load served two results.

    Barriers and the instructions that fill the tile execute half as often.
    """
    before: dict[tuple[str, str, tuple[int, ...]], int] = {}
    instead: dict[int, int] = {}
    graph = program.graph
    for place, each in enumerate(graph.instructions):
        request = program.requests[place]
        if not is_local_load(each) or request is None:
            continue
        key = each.source, request.array, tuple(loop.number for loop in graph.loops_around[place])
        if key in before:
            instead[place] = before.pop(key)
        else:
            before[key] = place
    filled = {each.source for each in graph.instructions if is_local_store(each) and each.source}

    def is_of_tile(each: Instruction) -> bool:
        return each.kind == Opcode.BARRIER or (each.source in filled and not is_local_load(each))

    return executed_half(reusing(program, instead), is_of_tile)


def reduced_once(program: TimedWarps, loop: str) -> TimedWarps:
    """Return *program* with the work-items' reduction moved from each iteration of *loop* to behind it."""
    graph = program.graph
    inside = next((each for each in loops_in(graph.body) if each.name == loop), None)
    if inside is None:
        return program
    own = [item for item in inside.body if not isinstance(item, Loop)]
    together = _done_together(graph, own)
    first: dict[tuple[str, str, str], int] = {}
    for place in (place for place in own if place in together):
        each = graph.instructions[place]
        first.setdefault((each.source, each.text, each.kind), place)
    kept = set(first.values())
    copies = together - kept
    fewer = without_instructions(program, copies)
    numbers = {place: number for number, place in enumerate(each for each in _places(program) if each not in copies)}
    left = next(each for each in loops_in(fewer.graph.body) if each.name == loop)
    return after_loop(fewer, left, {numbers[place] for place in kept})


def _done_together(graph: Idg, places: Sequence[int]) -> set[int]:
    """Return the *places* of the reduction: barriers, local memory accesses, and what depends on local loads."""
    together = {place for place in places if _is_shared(graph.instructions[place])}
    follows: dict[int, list[int]] = {}
    for edge in graph.edges:
        if edge.through in (Dependence.DATA, Dependence.MEMORY) and not edge.is_carried:
            follows.setdefault(edge.source, []).append(edge.target)
    inside, pending = set(places), [each for each in together if graph.instructions[each].kind == Opcode.LOAD]
    while pending:
        new = [target for target in follows.get(pending.pop(), []) if target in inside and target not in together]
        together.update(new)
        pending += new
    return together


def executed_half(program: TimedWarps, is_selected: Callable[[Instruction], bool]) -> TimedWarps:
    """Return *program* with the selected instructions executed half as often."""
    instructions = [
        replace(each, executions=Fraction(each.executions) / 2) if is_selected(each) else each
        for each in program.graph.instructions
    ]
    return replace(program, graph=program.graph.changed(instructions))


def wider(launch: TimedLaunch, program: TimedWarps, origins: Collection[int | None]) -> TimedWarps:
    """Return *program* with the accesses *origins* vectorized: VECTOR times the data, executed 1/VECTOR as often."""
    timing, known = InstructionTimes(launch.device), TimedOnce()
    instructions, requests, times = list(program.graph.instructions), list(program.requests), list(program.times)
    for place, (each, request) in enumerate(zip(instructions, requests, strict=True)):
        if each.origin in origins and request is not None and request.served is not None:
            sectors, lines, wavefronts = (
                number * VECTOR for number in (request.sectors, request.lines, request.wavefronts)
            )
            requests[place] = replace(request, sectors=sectors, lines=lines, wavefronts=wavefronts)
            instructions[place] = replace(each, executions=Fraction(each.executions) / VECTOR)
            times[place] = times_of(timing, launch.balance, launch.balances, known, each, requests[place])
    graph = program.graph.changed(instructions)
    return replace(program, graph=graph, requests=tuple(requests), times=tuple(times))


def without_control(program: TimedWarps) -> TimedWarps:
    graph = program.graph
    control = {place for place, each in enumerate(graph.instructions) if is_control(graph.loops_around[place], each)}
    return without_instructions(program, control)


def _is_shared(instruction: Instruction) -> bool:
    return instruction.kind == Opcode.BARRIER or instruction.subsystem == MemorySpace.LOCAL


# }}}
