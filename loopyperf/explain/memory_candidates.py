"""Candidate changes of memory accesses: coalescing, padding, tiles and vectors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from loopyperf.counts.item import MemorySpace
from loopyperf.device.lambdas import DRAM
from loopyperf.device.vocabulary import ISSUE
from loopyperf.explain.candidates import BUSY, ChangeCandidate, ChangeClass, LaunchSeen, lines
from loopyperf.explain.changes import (
    TREE,
    VECTOR,
    barriers_each_time,
    coalesced,
    executed_half,
    is_local_load,
    is_local_store,
    sharing_loads,
    wider,
    with_programs,
    with_requests,
)
from loopyperf.idg.program import Instruction, Opcode, loops_in
from loopyperf.memory.kernel_profile import AccessProfile, Quantity
from loopyperf.memory.sectors import LINE, SECTOR, bank_access
from loopyperf.models.timing import InstructionTimes
from loopyperf.pipeline.timed_program import Request, Served, TimedLaunch
from loopyperf.units import amount, number_of

WASTEFUL = 1.25
"""ratio of sectors to filled sectors above which accesses count as uncoalesced; misalignment adds one sector"""
CONFLICTING = 1.05
"""ratio of wavefronts to those without bank conflicts, above which accesses conflict"""
PADDINGS = range(5)
"""numbers of padding elements per row of a tile"""
EXCESS = 1.3
"""ratio of DRAM traffic to compulsory traffic, from which to suggest a change"""
NARROW = 32
"""bits per lane of an access that could be wider"""


Way = tuple[str, str]
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
    for each in warps.graph.instructions:
        if each.subsystem != space or each.is_idle or each.origin is None:
            continue
        source = warps.accesses[each.origin]
        if not source.refusal:
            yield _Access(each, source.wider.get(each.bits, source.profile))


def uncoalesced(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest that neighboring work-items access neighboring elements."""
    wasted: dict[Way, list[_Access]] = {}
    others = False
    for each in accesses(seen, MemorySpace.GLOBAL):
        is_wasteful = each.mean("sectors") > WASTEFUL * each.fewest_sectors and not each.is_by_rows
        if is_wasteful and each.instruction.address is not None:
            way = each.instruction.reference.array, each.instruction.kind
            wasted.setdefault(way, []).append(each)
        elif each.mean("distinct") > SECTOR:
            others = True
    if not wasted:
        return
    along = {way: _unit_axis(found[0].instruction) for way, found in wasted.items()}
    if not others and len(set(along.values())) == 1:
        yield _coalescing(seen, wasted, next(iter(along.values())))
        return
    for way in sorted(wasted, key=lambda way: -sum(each.executions * each.mean("sectors") for each in wasted[way])):
        yield replace(_coalescing(seen, {way: wasted[way]}, along[way]), kind=ChangeClass.TRANSPOSE)


def in_short_rows(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest that a warp be one row of its group, if the lanes of a row load the same elements."""
    shape, lanes = seen.machine.representative.example.shape, seen.machine.representative.example.size
    if not 1 < shape.get(0, 1) < lanes or seen.launch.work_items % lanes:
        return
    wasted: dict[Way, list[_Access]] = {}
    for each in accesses(seen, MemorySpace.GLOBAL):
        if each.is_by_rows and each.mean("sectors") > WASTEFUL * each.fewest_sectors:
            wasted.setdefault((each.instruction.reference.array, each.instruction.kind), []).append(each)
    if wasted:
        found = _coalescing(seen, wasted, "")
        yield replace(found, kind=ChangeClass.WIDER_ROWS, amount=lanes)


def _coalescing(seen: LaunchSeen, wasted: Mapping[Way, Sequence[_Access]], along: str) -> ChangeCandidate:
    fewest = {each.instruction.origin: each for found in wasted.values() for each in found}

    def changed(instruction: Instruction, request: Request) -> Request:
        each = fewest.get(instruction.origin)
        if each is None or request.served is None:
            return request
        return coalesced(request, each.fewest_sectors, ceil(each.mean("distinct") / LINE))

    clauses = [_sectors_in_words(*way, found, seen.words.sector) for way, found in wasted.items()]
    return ChangeCandidate(
        ChangeClass.COALESCE,
        tuple(dict.fromkeys(array for array, _ in wasted)),
        lines(each.instruction for found in wasted.values() for each in found),
        " and ".join(clauses),
        lambda: with_requests(seen.launch, changed),
        along=along,
    )


def _sectors_in_words(array: str, kind: str, found: Sequence[_Access], sector: str) -> str:
    """Return the sectors of the accesses *found*, e.g. ``"each load of a takes 32 sectors (minimum 4)"``."""
    most = max(found, key=lambda each: each.mean("sectors"))
    takes = f"each {kind} of {array} takes"
    if any(each.mean("sectors") < most.mean("sectors") for each in found):
        takes = f"{kind}s of {array} take up to"
    return f"{takes} {amount(most.mean('sectors'))} {sector}s (minimum {amount(most.fewest_sectors)})"


def conflicting(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest longer rows of tiles in local memory, if that reduces bank conflicts."""
    found: dict[str, list[_Access]] = {}
    for each in accesses(seen, MemorySpace.LOCAL):
        found.setdefault(each.instruction.reference.array, []).append(each)
    for array, every in found.items():
        worst = max(every, key=lambda each: each.mean("wavefronts") / each.mean("ideal_wavefronts"))
        times = worst.mean("wavefronts") / worst.mean("ideal_wavefronts")
        row = seen.rows.get(array, 0)
        if times <= CONFLICTING or not row:
            continue
        padding, shares = _best_padding(seen, every, row)
        if padding:
            yield ChangeCandidate(
                ChangeClass.PAD,
                (array,),
                lines(each.instruction for each in every),
                f"{amount(times)}-way bank conflicts of {array}: {amount(times)} times the {seen.words.wavefronts}",
                lambda shares=shares: _with_wavefronts(seen, shares),
                amount=padding,
            )


def _best_padding(seen: LaunchSeen, accesses: Sequence[_Access], row: int) -> tuple[int, Mapping[int, float]]:
    """Return the best padding per row (0 if none helps), and each access's wavefronts relative to no padding."""
    known = [each for each in accesses if each.instruction.origin is not None]
    every = {padding: [_wavefronts(seen, each.instruction, row, padding) for each in known] for padding in PADDINGS}
    totals = {
        padding: sum(each.executions * number for each, number in zip(known, numbers, strict=True))
        for padding, numbers in every.items()
    }
    best = min(totals, key=lambda padding: (totals[padding], padding))
    pairs = zip(known, every[best], every[0], strict=True)
    return best, {each.instruction.origin or 0: new / old for each, new, old in pairs}


def _wavefronts(seen: LaunchSeen, instruction: Instruction, row: int, padding: int) -> int:
    """Return the wavefronts of an access if rows of *row* elements are longer by *padding*; 1 if unknown."""
    address = instruction.symbolic
    if address is None:
        return 1
    ids, nbytes = seen.machine.representative.example.local_ids, instruction.reference.bits // 8
    elements = np.zeros(seen.machine.representative.example.lanes, dtype=np.int64)
    for product, factor in address.terms:
        axes = [int(each[2:]) for each in product if isinstance(each, str) and each.startswith("l.")]
        if axes and (len(product) > 1 or axes[0] not in ids):
            return 1
        rows, rest = divmod(int(factor), row)
        for axis in axes:
            elements += (rows * (row + padding) + rest) * ids[axis]
    lanes = np.arange(len(elements))
    return bank_access(lanes, elements * nbytes, nbytes, instruction.kind == Opcode.LOAD).wavefronts


def _with_wavefronts(seen: LaunchSeen, shares: Mapping[int, float]) -> TimedLaunch:
    def changed(instruction: Instruction, request: Request) -> Request:
        share = shares.get(instruction.origin, 1.0) if instruction.origin is not None else 1.0
        if request.served is not None or share == 1:
            return request
        return replace(request, wavefronts=max(min(1.0, request.wavefronts), request.wavefronts * share))

    return with_requests(seen.launch, changed)


def repeated(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest more reuse in caches, if DRAM moves much more than the compulsory traffic."""
    traffic = seen.review.traffic
    if traffic.excess < EXCESS or seen.review.utilization.get(DRAM, 0.0) < BUSY:
        return
    share = 1 / traffic.excess

    def changed(_: Instruction, request: Request) -> Request:
        if request.served is None or DRAM not in request.served.asked:
            return request
        asked = {**request.served.asked, DRAM: request.served.asked[DRAM] * share}
        return replace(request, served=replace(request.served, asked=asked))

    loads = [each for each in accesses(seen, MemorySpace.GLOBAL) if each.instruction.kind == Opcode.LOAD]
    yield ChangeCandidate(
        ChangeClass.CACHE_BLOCKS,
        tuple(dict.fromkeys(each.instruction.reference.array for each in loads)),
        lines(each.instruction for each in loads),
        seen.review.traffic.in_words,
        lambda: with_requests(seen.launch, changed),
    )


def loaded_often(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest that a work-item compute several elements, which share loads from local memory."""
    pipeline = seen.review.pipeline_of_local
    if seen.review.utilization.get(pipeline, 0.0) < BUSY:
        return
    graph = seen.graph
    loads = [each for each in graph.instructions if is_local_load(each) and graph.loops_around]
    arithmetic = sum(float(each.executions) for each in graph.instructions if each.kind == Opcode.FMA)
    loaded = sum(float(each.executions) for each in loads)
    if not arithmetic or loaded < arithmetic:
        return
    yield ChangeCandidate(
        ChangeClass.REGISTER_TILE,
        tuple(dict.fromkeys(each.reference.array for each in loads)),
        lines(loads),
        f"{number_of(round(loaded / arithmetic, 2), 'load')} from {seen.words.local} per multiply-add",
        lambda: with_programs(seen.launch, sharing_loads),
        amount=2,
    )


def of_tiles(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest larger tiles, so that each element loaded into one serves more work-items."""
    graph = seen.graph
    if any(barriers_each_time(graph, loop) >= TREE for loop in loops_in(graph.body)):
        return  # a tree reduction, not tiles
    stored = {each.source for each in graph.instructions if is_local_store(each) and each.source}
    loads = [each for each in graph.instructions if each.source in stored and _is_global_load(each)]
    levels = [level for level in seen.review.utilization if level in seen.review.traffic.moved]
    if not loads or max((seen.review.utilization[level] for level in levels), default=0.0) < BUSY:
        return
    served = {each.reference.array for each in graph.instructions if is_local_load(each)}
    loaded = sum(float(each.executions) for each in loads)
    used = sum(float(each.executions) for each in graph.instructions if is_local_load(each))
    if used < TREE * loaded:  # there is hardly any reuse
        return
    sources = {each.source for each in loads}
    yield ChangeCandidate(
        ChangeClass.LARGER_TILE,
        tuple(sorted(served)),
        lines(loads),
        f"only {amount(used / loaded)} loads from the tiles per load into them",
        lambda: with_programs(seen.launch, lambda program: executed_half(program, lambda each: each.source in sources)),
        amount=2,
    )


def narrow(seen: LaunchSeen) -> Iterator[ChangeCandidate]:
    """Suggest vector accesses, if instruction issue or the load/store pipeline is busy."""
    review, pipeline = seen.review, InstructionTimes(seen.launch.device).pipeline_of(seen.launch.device.memory[0].name)
    if max(review.utilization.get(ISSUE, 0.0), review.utilization.get(pipeline, 0.0)) < BUSY:
        return
    wide = {
        each.instruction.origin: each
        for each in accesses(seen, MemorySpace.GLOBAL)
        if each.instruction.bits == NARROW and each.mean("sectors") <= WASTEFUL * each.fewest_sectors
        and each.mean("distinct") > SECTOR
    }  # fmt: skip
    if wide:
        yield ChangeCandidate(
            ChangeClass.VECTORS,
            tuple(dict.fromkeys(each.instruction.reference.array for each in wide.values())),
            lines(each.instruction for each in wide.values()),
            f"each lane loads or stores {NARROW} bits per instruction, where {VECTOR * NARROW} are possible",
            lambda: with_programs(seen.launch, lambda program: wider(seen.launch, program, wide.keys())),
            amount=VECTOR,
        )


def _is_global_load(instruction: Instruction) -> bool:
    return instruction.subsystem == MemorySpace.GLOBAL and instruction.kind == Opcode.LOAD


def _unit_axis(instruction: Instruction) -> str:
    """Return the axis or loop along which an access has unit stride; empty if there is none."""
    known = instruction.symbolic
    if known is None:
        return ""
    units = (product[0] for product, factor in known.terms if len(product) == 1 and abs(factor) == 1)
    several = [each for product, _ in known.terms for each in product]  # the stride of i in D[i, i] is n + 1
    return next((each for each in units if isinstance(each, str) and several.count(each) == 1), "")
