"""Candidate changes of memory accesses: coalescing, padding, tiles and vectors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from loopy.symbolic import get_dependencies
from pymbolic.primitives import Subscript, Variable

from loopyperf.counts.item import MemorySpace
from loopyperf.device.lambdas import DRAM
from loopyperf.device.parts import Pipeline
from loopyperf.explain.candidates import (
    BUSY,
    NEARLY,
    TREE,
    ChangeCandidate,
    ChangeClass,
    LaunchSeen,
    barriers_each_time,
    lines,
    parts_of,
    steps_of,
)
from loopyperf.idg.program import Instruction, Opcode, loops_in
from loopyperf.memory.kernel_profile import AccessProfile, Quantity
from loopyperf.memory.sectors import SECTOR
from loopyperf.models.traffic import ArrayStream, neighbours
from loopyperf.units import amount, number_of

WASTEFUL = 1.25
"""ratio of sectors to filled sectors above which accesses count as uncoalesced; misalignment adds one sector"""
CONFLICTING = 1.05
"""ratio of wavefronts to those without bank conflicts, above which accesses conflict"""
REPEATED_LOADS = 4
"""loads of each sector by a group, from which to suggest that they be shared"""
EXCESS = 1.3
"""ratio of DRAM traffic to compulsory traffic, from which to suggest a change"""


ArrayDirection = tuple[str, str]
"""array and direction, ``"load"`` or ``"store"``"""


@dataclass(frozen=True)
class _Access:
    """A memory access of the representative warp."""

    instruction: Instruction
    profile: AccessProfile

    def mean(self, quantity: Quantity) -> float:
        return float(self.profile.mean(quantity))

    @property
    def fewest_sectors(self) -> float:
        return max(1.0, ceil(self.mean("distinct") / SECTOR))

    @property
    def is_by_rows(self) -> bool:
        """Return whether several lanes access the same elements, as the lanes of one row of a group do."""
        return 2 * self.mean("distinct") <= self.mean("requested")

    @property
    def executions(self) -> float:
        return float(self.instruction.executions)


def accesses(seen: LaunchSeen, space: MemorySpace) -> Iterator[_Access]:
    """Yield the accesses to a memory space by the most frequent warp class."""
    warps = seen.machine.representative
    for insn in warps.graph.instructions:
        if insn.subsystem != space or insn.is_idle or insn.origin is None:
            continue
        source = warps.accesses[insn.origin]
        if not source.refusal:
            yield _Access(insn, source.wider.get(insn.bits, source.profile))


def uncoalesced(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest that neighboring work-items access neighboring elements."""
    wasted: dict[ArrayDirection, list[_Access]] = {}
    others = False
    for access in accesses(seen, MemorySpace.GLOBAL):
        is_wasteful = access.mean("sectors") > WASTEFUL * access.fewest_sectors and not access.is_by_rows
        if is_wasteful and access.instruction.address is not None:
            way = access.instruction.reference.array, access.instruction.kind
            wasted.setdefault(way, []).append(access)
        elif access.mean("distinct") > SECTOR:
            others = True
    if not wasted:
        return
    along = {
        way: _unit_axis(accesses_of_way[0].instruction) or _unit_iname(seen, way[0])
        for way, accesses_of_way in wasted.items()
    }
    if not others and len(set(along.values())) == 1:
        yield _coalescing(seen, wasted, next(iter(along.values())))
        return
    taken = {
        way: sum(access.executions * access.mean("sectors") for access in accesses_of_way)
        for way, accesses_of_way in wasted.items()
    }
    every = sum(access.executions * access.mean("sectors") for access in accesses(seen, MemorySpace.GLOBAL))
    for way in sorted(wasted, key=lambda way: -taken[way]):
        found, part = _coalescing(seen, {way: wasted[way]}, along[way]), taken[way] / every
        yield replace(found, kind=ChangeClass.TRANSPOSE, share=part * found.share)


def in_short_rows(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest that a warp be one row of its group, if the lanes of a row load the same elements."""
    shape, lanes = seen.machine.representative.example.shape, seen.machine.representative.example.size
    if not 1 < shape.get(0, 1) < lanes or seen.launch.work_items % lanes:
        return
    wasted: dict[ArrayDirection, list[_Access]] = {}
    for access in accesses(seen, MemorySpace.GLOBAL):
        if access.is_by_rows and access.mean("sectors") > WASTEFUL * access.fewest_sectors:
            wasted.setdefault((access.instruction.reference.array, access.instruction.kind), []).append(access)
    if wasted:
        found = _coalescing(seen, wasted, "l.1")
        yield replace(found, kind=ChangeClass.WIDER_ROWS, amount=lanes)


def _coalescing(seen: LaunchSeen, wasted: Mapping[ArrayDirection, Sequence[_Access]], along: str) -> ChangeCandidate:
    clauses = [_sectors_in_words(*way, accesses_of_way, seen.words.sector) for way, accesses_of_way in wasted.items()]
    return ChangeCandidate(
        ChangeClass.COALESCE,
        tuple(dict.fromkeys(array for array, _ in wasted)),
        lines(access.instruction for accesses_of_way in wasted.values() for access in accesses_of_way),
        " and ".join(clauses),
        max(seen.of_memory, seen.busy(DRAM) * _unused(seen, wasted)),
        along=along,
    )


def _unused(seen: LaunchSeen, wasted: Mapping[ArrayDirection, Sequence[_Access]]) -> float:
    """Return the share of the sectors from DRAM that the accesses *wasted* could save if all bytes were used."""
    moved: dict[ArrayDirection, float] = {}
    for access in seen.review.accesses:
        way, number = (access.array, access.kind), access.executions * access.sectors * access.reached.get(DRAM, 0.0)
        moved[way] = moved.get(way, 0.0) + number
    own = sum(moved.get(way, 0.0) for way in wasted)
    used = sum(
        access.executions * access.mean("distinct") / SECTOR
        for accesses_of_way in wasted.values()
        for access in accesses_of_way
    )
    return max(0.0, own - used) / (sum(moved.values()) or 1.0)


def _sectors_in_words(array: str, kind: str, found: Sequence[_Access], sector: str) -> str:
    """Return the sectors of the accesses *found*, e.g. ``"each load of a takes 32 sectors (minimum 4)"``."""
    most = max(found, key=lambda each: each.mean("sectors"))
    takes = f"each {kind} of {array} takes"
    if any(access.mean("sectors") < most.mean("sectors") for access in found):
        takes = f"{kind}s of {array} take up to"
    return f"{takes} {amount(most.mean('sectors'))} {sector}s (minimum {amount(most.fewest_sectors)})"


def conflicting(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest longer rows of tiles in local memory, if accesses have bank conflicts."""
    found: dict[str, list[_Access]] = {}
    for access in accesses(seen, MemorySpace.LOCAL):
        found.setdefault(access.instruction.reference.array, []).append(access)
    for array, every in found.items():
        worst = max(every, key=lambda each: each.mean("wavefronts") / each.mean("ideal_wavefronts"))
        times = worst.mean("wavefronts") / worst.mean("ideal_wavefronts")
        if times > CONFLICTING:
            yield ChangeCandidate(
                ChangeClass.PAD,
                (array,),
                lines(access.instruction for access in every),
                f"{amount(times)}-way bank conflicts of {array}: {amount(times)} times the {seen.words.wavefronts}",
                seen.busy(seen.review.pipeline_of_local) * (1 - 1 / times),
            )


def repeated(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest more reuse in a cache of all cores or in local memory, if DRAM moves more than the compulsory traffic."""
    traffic = seen.review.traffic
    if traffic.excess < EXCESS or seen.busy(DRAM) < BUSY:
        return
    every = accesses(seen, MemorySpace.GLOBAL)
    loads = [access.instruction for access in every if access.instruction.kind == Opcode.LOAD]
    yield ChangeCandidate(
        ChangeClass.CACHE_BLOCKS if traffic.cache else ChangeClass.LOCAL_TILE,
        tuple(dict.fromkeys(insn.reference.array for insn in loads)),
        lines(loads),
        traffic.in_words,
        seen.busy(DRAM) * (1 - 1 / traffic.excess),
    )


def loaded_often(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest that loads be shared: by several results of a work-item, or by the work-items of a group."""
    graph = seen.graph
    if any(barriers_each_time(graph, loop) >= TREE for loop in loops_in(graph.body)):
        return  # a tree reduction
    local = [insn for insn in graph.instructions if insn.subsystem == MemorySpace.LOCAL]
    loads = [insn for insn in local if insn.kind == Opcode.LOAD]
    arithmetic, used = (
        sum(float(insn.executions) for insn in some)
        for some in ([insn for insn in graph.instructions if insn.kind == Opcode.FMA], loads)
    )
    busy = seen.busy(seen.review.pipeline_of_local)
    if not loads:
        yield from _from_cache(seen)
        return
    if busy >= BUSY and used >= arithmetic > 0:
        evidence = f"{number_of(round(used / arithmetic, 2), 'load')} from {seen.words.local} per multiply-add"
    else:
        stored = {insn.source for insn in local if insn.kind == Opcode.STORE and insn.source}
        fills = [insn for insn in graph.instructions if insn.source in stored and insn.kind == Opcode.LOAD]
        loads = [insn for insn in fills if insn.subsystem == MemorySpace.GLOBAL]
        loaded, busy = sum(float(insn.executions) for insn in loads), seen.busy(*seen.review.traffic.moved)
        if not loads or busy < BUSY or used < TREE * loaded:  # there is hardly any reuse
            return
        evidence = f"only {amount(used / loaded)} loads from the tiles per load into them"
    arrays = tuple(dict.fromkeys(insn.reference.array for insn in loads))
    yield ChangeCandidate(ChangeClass.SEVERAL_RESULTS, arrays, lines(loads), evidence, busy)


def _from_cache(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest tiles in local memory or several results, if a group loads its data often from a cache."""
    levels = [level for level in seen.review.traffic.moved if level != DRAM]
    busy = seen.busy(*levels, seen.review.pipeline_of_local)
    group = neighbours(seen.machine, 1)
    found: dict[str, list[_Access]] = {}
    for access in accesses(seen, MemorySpace.GLOBAL):
        if access.instruction.kind == Opcode.LOAD:
            found.setdefault(access.instruction.reference.array, []).append(access)
    sectors = {
        array: sum(access.executions * access.fewest_sectors for access in every) * seen.launch.warps_per_group
        for array, every in found.items()
    }
    times = {
        array: loaded / group.number / (group.touched(ArrayStream(array, "load"), ()) or loaded)
        for array, loaded in sectors.items()
    }
    often = sorted((array for array in times if times[array] >= REPEATED_LOADS), key=lambda array: -sectors[array])
    if often and busy >= max(NEARLY, seen.busy(DRAM)):
        yield ChangeCandidate(
            ChangeClass.LOCAL_TILE,
            tuple(often),
            lines(access.instruction for array in often for access in found[array]),
            f"each group loads the same {seen.words.sector}s of {often[0]} {times[often[0]]:.0f} times",
            busy,
        )


def contended(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest fewer atomic updates, if updates of the same elements wait for one another."""
    busy = seen.busy(Pipeline.ATOMICS)
    updates = {
        insn.source: (insn, request)
        for _, insn, request in seen.launch.requested()
        if request.updates
    }  # fmt: skip
    if busy >= BUSY and updates:
        every = [insn for insn, _ in updates.values()]
        most = max(request.updates for _, request in updates.values())
        yield ChangeCandidate(
            ChangeClass.FEWER_ATOMICS,
            tuple(dict.fromkeys(request.array for _, request in updates.values())),
            lines(every),
            f"up to {amount(most)} atomic updates of the same element follow one another"
            if most > 1
            else "atomic updates of the same elements follow one another",
            busy,
        )


def _unit_axis(instruction: Instruction) -> str:
    """Return the axis or loop along which an access has unit stride; empty if there is none."""
    known = instruction.symbolic
    if known is None:
        return ""
    units = (product[0] for product, factor in known.terms if len(product) == 1 and abs(factor) == 1)
    several = [each for product, _ in known.terms for each in product]  # the stride of i in D[i, i] is n + 1
    return next((each for each in units if isinstance(each, str) and several.count(each) == 1), "")


def _unit_iname(seen: LaunchSeen, array: str) -> str:
    """Return the sequential loop along which accesses of *array* have unit stride; empty if there is none."""
    tags: Any = seen.given.arg_dict[array].dim_tags if array in seen.given.arg_dict else None
    last = [axis for axis, tag in enumerate(tags or ()) if getattr(tag, "stride", None) == 1]
    instructions: Sequence[Any] = seen.given.instructions if last else ()
    parts = [part for insn in instructions for part in (*insn.assignees, *parts_of(insn))]
    for access in (part for part in parts if isinstance(part, Subscript) and str(part.aggregate) == array):
        index = access.index_tuple
        others = {name for axis, part in enumerate(index) if axis != last[0] for name in get_dependencies(part)}
        steps = steps_of(index[last[0]])
        names = [key.name for key, factor in steps.items() if isinstance(key, Variable) and factor == 1]
        own = [name for name in names if name in seen.given.inames and not seen.given.inames[name].tags]
        if own and own[0] not in others:
            return own[0]
    return ""
