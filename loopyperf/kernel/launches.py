"""Launches of a linearized Loopy kernel: device programs with instructions, barriers, grid and local memory.

Assumptions made while analyzing a kernel are collected into one sentence for each kind.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import islice, takewhile
from typing import Any, NamedTuple, cast

import islpy as isl
import numpy as np
from loopy.diagnostic import StaticValueFindingError
from loopy.isl_helpers import static_max_of_pw_aff
from loopy.kernel import LoopKernel
from loopy.kernel.data import AddressSpace, GroupInameTag, LocalInameTag, UnrolledIlpTag, UnrollTag
from loopy.kernel.instruction import InstructionBase, NoOpInstruction
from loopy.schedule import Barrier as BarrierItem
from loopy.schedule import (
    CallKernel,
    EnterLoop,
    LeaveLoop,
    ReturnFromKernel,
    RunInstruction,
    ScheduleItem,
    gather_schedule_block,
)
from loopy.symbolic import get_dependencies, pw_aff_to_pw_aff_implemented_by_expr
from pytools.tag import Tag

from loopyperf.display import Note
from loopyperf.polyhedral.expressions import Same
from loopyperf.polyhedral.sets import SetMemory, as_int, projected

SUBJECTS = "<subjects>"
"""placeholder for the list of subjects in a sentence"""
NAME = "<name>"
"""placeholder for the name of the first array in a sentence, as in an example of what to pass"""
MOST_NAMED = 3
"""maximum number of arrays listed in a sentence"""


class Assumption(NamedTuple):
    """An assumption about one access or one variable."""

    sentence: str
    """text with :data:`SUBJECTS`, and with :data:`NAME` if it contains an example"""
    name: str
    """name of the array or variable"""
    subject: str
    """the access as displayed; the name alone for a variable"""


Assumed = Assumption | str
"""an assumption, or a complete sentence"""


def sentences(assumed: Iterable[Assumed]) -> tuple[str, ...]:
    """Return one sentence for each kind of assumption, in order of first occurrence."""
    kinds: dict[str, dict[str, dict[str, None]]] = {}
    for each in assumed:
        sentence, name, subject = (each, "", "") if isinstance(each, str) else each
        kinds.setdefault(sentence, {}).setdefault(name, {})[subject] = None
    found: list[str] = []
    for sentence, subjects in kinds.items():
        text = sentence.replace(SUBJECTS, _listed(subjects)).replace(NAME, next(iter(subjects)))
        found.append(Note(sentence.kind, text) if isinstance(sentence, Note) else text)
    return tuple(found)


def _listed(subjects: Mapping[str, Iterable[str]]) -> str:
    """Return the first subject of each name, and the number of others."""
    parts = [_first_of(list(each)) for each in subjects.values()]
    more = len(parts) - MOST_NAMED
    return ", ".join(parts[:MOST_NAMED]) + (f" and {more} more array{'s' * (more > 1)}" if more > 0 else "")


def _first_of(subjects: list[str]) -> str:
    more = len(subjects) - 1
    return subjects[0] + (f" (and {more} more access{'es' * (more > 1)} of it)" if more else "")


# {{{ launches


ADDED_AXES = (
    f"instructions that do not use all hardware axes ({SUBJECTS}) are counted with the axes that "
    "loopy.add_inames_for_unused_hw_axes adds; Loopy cannot generate code without them"
)


@dataclass(frozen=True, slots=True)
class Barrier:
    """A work-group barrier of the schedule."""

    label: str
    """names the instruction that follows it, e.g. ``"barrier before a_fetch"``"""
    loops: tuple[str, ...]
    """sequential loops around it, outermost first, including those on the host"""
    groups: frozenset[str]
    """group inames in conditions around these loops, which select the groups that execute the barrier"""
    copied: frozenset[str]
    """innermost loops around it that are unrolled; each of their copies contains the barrier"""

    @property
    def inames(self) -> frozenset[str]:
        """Return the sequential loops around it as a set."""
        return frozenset(self.loops)


@dataclass(frozen=True, slots=True)
class Launch:
    """One device program of the kernel, with its grid and its resources."""

    name: str
    instructions: tuple[InstructionBase, ...]
    """in schedule order, without barriers"""
    barriers: tuple[Barrier, ...]
    schedule: tuple[ScheduleItem, ...]
    """instructions, barriers and sequential loops, as Loopy's schedule items"""
    host_inames: frozenset[str]
    """loops around the launch on the host"""
    host_conditions: tuple[Any, ...]
    """predicates that the host tests before the launch, and the device program does not test"""
    group_axes: Mapping[int, isl.PwAff]
    """axis of the grid -> number of work-groups, for the axes in use"""
    local_axes: Mapping[int, isl.PwAff]
    """axis of a group -> number of work-items, for the axes in use"""
    local_memory: int | None
    """bytes of local memory of a work-group; None if they depend on a parameter"""
    first_values: Mapping[str, int]
    """hardware iname -> first value, for inames that start at the same number for all sizes"""
    numbering: Mapping[str, tuple[str, int]]
    """hardware iname -> its axis, ``("group", axis)`` or ``("local", axis)``"""

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Return an assumption for each instruction that does not use all axes; Loopy cannot generate its code."""
        axes = set(self.numbering.values())
        used = {
            instruction.id: {self.numbering[iname] for iname in instruction.within_inames if iname in self.numbering}
            for instruction in self.instructions
            if not isinstance(instruction, NoOpInstruction)
        }
        return tuple(Assumption(ADDED_AXES, name, name) for name, own in used.items() if own != axes)

    def nested(self, names: Collection[str]) -> list[str]:
        """Return the *names* that are loops of the device program, outermost first, without duplicates."""
        entered = dict.fromkeys(item.iname for item in self.schedule if isinstance(item, EnterLoop))
        return [name for name in entered if name in names]


def launches_of(kernel: LoopKernel) -> Iterator[Launch]:
    """Yield the launches of a linearized kernel in schedule order."""
    schedule = cast("Sequence[ScheduleItem]", kernel.linearization)
    outer: list[str] = []
    start = 0
    for position, item in enumerate(schedule):
        if isinstance(item, CallKernel):
            start = position + 1
        elif isinstance(item, ReturnFromKernel):
            yield _launch(kernel, item.kernel_name, schedule[start:position], tuple(outer))
        elif isinstance(item, EnterLoop):
            outer.append(item.iname)
        elif isinstance(item, LeaveLoop):
            outer.pop()


def _launch(kernel: LoopKernel, name: str, block: Sequence[ScheduleItem], host_loops: tuple[str, ...]) -> Launch:
    instructions = tuple(kernel.id_to_insn[item.insn_id] for item in block if isinstance(item, RunInstruction))
    numbering = dict(_numbering(kernel, instructions))
    spans = _spans(kernel, numbering)
    group_axes, local_axes = _grid(kernel, numbering, spans)
    return Launch(
        name=name,
        instructions=instructions,
        barriers=tuple(_barriers(kernel, block, host_loops)),
        schedule=tuple(block),
        host_inames=frozenset(host_loops),
        host_conditions=_host_conditions(kernel, block, frozenset(host_loops)),
        group_axes=group_axes,
        local_axes=local_axes,
        local_memory=local_memory(kernel, instructions),
        first_values={iname: span.first for iname, span in spans.items() if span.first is not None},
        numbering=numbering,
    )


def _host_conditions(kernel: LoopKernel, block: Sequence[ScheduleItem], host_inames: frozenset[str]) -> tuple[Any, ...]:
    """Return the predicates that Loopy tests on the host, if its host program supports ``if``.

    These are the predicates that all instructions of *block* share and that depend on no inames but those of host
    loops. A barrier, which must be reached regardless of the predicates, keeps them in the device program.
    """
    if not kernel.target.get_host_ast_builder().can_implement_conditionals:
        return ()
    if any(isinstance(item, BarrierItem) for item in block):
        return ()
    ids = [item.insn_id for item in block if isinstance(item, RunInstruction)]
    required = [frozenset[Any](kernel.id_to_insn[name].predicates) for name in ids]
    shared = frozenset[Any].intersection(*required) if required else frozenset[Any]()
    outside = (each for each in shared if get_dependencies(each) & kernel.all_inames() <= host_inames)
    return tuple(sorted(outside, key=repr))


@dataclass(frozen=True, slots=True, eq=False)
class _Span:
    """Range of a hardware iname."""

    first: int | None
    """first value; None if it depends on sizes"""
    length: isl.PwAff
    """number of points from the first to the last"""


def _spans(kernel: LoopKernel, inames: Iterable[str]) -> dict[str, _Span]:
    """Return the range of each of the hardware *inames*."""
    assumed = isl.Set.from_basic_set(kernel.assumptions)
    known = SetMemory[_Span]()
    spans: dict[str, _Span] = {}
    for iname in inames:
        points = points_of(kernel, frozenset([iname]))
        spans[iname] = known.get(points) or known.setdefault(points, _span(points, assumed))
    return spans


def _grid(
    kernel: LoopKernel, numbering: Mapping[str, tuple[str, int]], spans: Mapping[str, _Span]
) -> tuple[dict[int, isl.PwAff], dict[int, isl.PwAff]]:
    """Return axis -> extent of the grid, and of a group, large enough for all inames in *numbering*.

    Equals the result of Loopy's ``get_grid_sizes_for_insn_ids_as_dicts`` for a kernel without calls. Loopy's function
    hashes the table of functions by content, and takes twice as long for an iname.
    """
    group_axes: defaultdict[int, list[isl.PwAff]] = defaultdict(list)
    local_axes: defaultdict[int, list[isl.PwAff]] = defaultdict(list)
    for iname, (kind, axis) in numbering.items():
        axes = local_axes if kind == "local" else group_axes
        axes[axis].append(spans[iname].length)
    return (
        {axis: _extent(each, kernel.assumptions, constants_only=False) for axis, each in group_axes.items()},
        {axis: _extent(each, kernel.assumptions, constants_only=True) for axis, each in local_axes.items()},
    )


def _numbering(kernel: LoopKernel, instructions: Collection[InstructionBase]) -> Iterator[tuple[str, tuple[str, int]]]:
    """Yield each hardware iname of *instructions* with the kind and number of its axis."""
    for iname in sorted(frozenset[str]().union(*(instruction.within_inames for instruction in instructions))):
        tag = hardware_axis(kernel, iname)
        if tag is not None:
            yield iname, ("group" if isinstance(tag, GroupInameTag) else "local", tag.axis)


def _span(points: isl.Set, assumed: isl.Set) -> _Span:
    """Return the range of a loop over *points*, valid on the set *assumed*."""
    domain = points.intersect_params(assumed)
    first, last = domain.dim_min(0), domain.dim_max(0)
    start = first.max_val() if _is_one_number(first) else None
    if start is not None and _is_one_number(last):
        number = last.max_val() - start + 1
        length = isl.PwAff.from_aff(isl.Aff.val_on_domain(isl.LocalSpace.from_space(last.get_domain_space()), number))
    else:
        length = last.sub(first).add_constant_val(1).gist(assumed)
    return _Span(None if start is None else as_int(start), length)


def _is_one_number(value: isl.PwAff) -> bool:
    """Return whether *value* is one number wherever it is defined; isl's ``is_cst`` is also true of several numbers."""
    return value.n_piece() == 1 and value.is_cst()


def _extent(lengths: Sequence[isl.PwAff], assumptions: isl.BasicSet, constants_only: bool) -> isl.PwAff:
    """Return the maximum of *lengths* as the host computes it: with integer division, valid for all sizes.

    Like Loopy, use the largest piece if one piece is the largest everywhere.
    """
    distinct = dict.fromkeys(map(Same, lengths))
    longest = reduce(isl.PwAff.max, (key.value for key in distinct))
    if _is_one_number(longest):
        return pw_aff_to_pw_aff_implemented_by_expr(longest)
    try:
        largest = static_max_of_pw_aff(longest, constants_only=constants_only, context=assumptions)
        longest = isl.PwAff.from_aff(largest)
    except StaticValueFindingError:
        pass
    return pw_aff_to_pw_aff_implemented_by_expr(longest).floor()


def local_memory(kernel: LoopKernel, instructions: Collection[InstructionBase]) -> int | None:
    """Return the bytes of local arrays that *instructions* use; arrays that share storage count once."""
    variables = kernel.temporary_variables
    local = [variable for variable in variables.values() if variable.address_space == AddressSpace.LOCAL]
    used = {name for insn in instructions if local for name in cast("Collection[str]", insn.dependency_names())}
    storages: dict[str, int] = {}
    for variable in local:
        if variable.name in used:
            size = variable.nbytes
            if not isinstance(size, (int, np.integer)):
                return None
            storage = variable.base_storage or variable.name
            storages[storage] = max(storages.get(storage, 0), int(size))
    return sum(storages.values())


def _barriers(kernel: LoopKernel, block: Sequence[ScheduleItem], host_loops: tuple[str, ...]) -> Iterator[Barrier]:
    loops: list[tuple[str, frozenset[str]]] = []
    for position, item in enumerate(block):
        if isinstance(item, EnterLoop):
            loops.append((item.iname, _deciding_groups(kernel, block, position)))
        elif isinstance(item, LeaveLoop):
            loops.pop()
        elif isinstance(item, BarrierItem) and item.synchronization_kind == "local":
            later = (item.insn_id for item in islice(block, position, None) if isinstance(item, RunInstruction))
            following = next(later, None)
            yield Barrier(
                label="barrier at the end" if following is None else f"barrier before {following}",
                loops=(*host_loops, *(iname for iname, _ in loops)),
                groups=frozenset[str]().union(*(groups for _, groups in loops)),
                copied=frozenset(takewhile(partial(is_unrolled, kernel), (name for name, _ in reversed(loops)))),
            )


def _deciding_groups(kernel: LoopKernel, block: Sequence[ScheduleItem], start: int) -> frozenset[str]:
    """Return the group inames in the condition that Loopy generates around the loop at position *start*.

    These are the group inames of its instructions, except where several of them number the groups along one axis.
    """
    inside, _ = gather_schedule_block(block, start)
    ids = [item.insn_id for item in inside if isinstance(item, RunInstruction)]
    inames = frozenset[str]().union(*(kernel.id_to_insn[name].within_inames for name in ids))
    axes = {iname: tag.axis for iname in inames if isinstance(tag := hardware_axis(kernel, iname), GroupInameTag)}
    numbering = Counter(axes.values())
    return frozenset(iname for iname, axis in axes.items() if numbering[axis] == 1)


def points_of(kernel: LoopKernel, inames: frozenset[str]) -> isl.Set:
    """Return the iterations of loops over exactly *inames*, without dimensions that Loopy's home domains add."""
    return isl.Set.from_basic_set(projected(kernel.get_inames_domain(inames), inames))


def hardware_axis(kernel: LoopKernel, iname: str) -> GroupInameTag | LocalInameTag | None:
    """Return the grid or group axis that *iname* is mapped to, if any."""
    tags = cast("frozenset[Tag]", kernel.iname_tags_of_type(iname, (GroupInameTag, LocalInameTag)))
    return cast("GroupInameTag | LocalInameTag | None", next(iter(tags), None))


def is_unrolled(kernel: LoopKernel, iname: str) -> bool:
    """Return whether Loopy generates a copy of the loop body for each iteration of *iname*."""
    return bool(kernel.iname_tags_of_type(iname, (UnrollTag, UnrolledIlpTag)))


# }}}
