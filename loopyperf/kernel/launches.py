"""What a linearized Loopy kernel launches: device programs with their instructions, barriers, grid, local memory.

What is assumed of a kernel on the way to an answer is one sentence for each kind of assumption.
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

from loopyperf.polyhedral.sets import Same, SetMemory, projected

SUBJECTS = "<subjects>"
"""where a sentence lists what it is about"""
NAME = "<name>"
"""where a sentence names the first array that it is about, as in an example of what to state"""
NAMED = 3
"""arrays that a sentence names, at most"""


class Assumption(NamedTuple):
    """What was assumed of one access, or of one variable."""

    sentence: str
    """with :data:`SUBJECTS` and, where it gives an example, :data:`NAME` in it"""
    name: str
    """of the array or variable"""
    subject: str
    """the access, as a person reads it; the name alone where it is the variable"""


Assumed = Assumption | str
"""an assumption, or a sentence of its own"""


def sentences(assumed: Iterable[Assumed]) -> tuple[str, ...]:
    """Return one sentence for each kind of assumption, in the order in which the first of each kind was made."""
    kinds: dict[str, dict[str, dict[str, None]]] = {}
    for each in assumed:
        sentence, name, subject = (each, "", "") if isinstance(each, str) else each
        kinds.setdefault(sentence, {}).setdefault(name, {})[subject] = None
    return tuple(
        sentence.replace(SUBJECTS, _listed(subjects)).replace(NAME, next(iter(subjects)))
        for sentence, subjects in kinds.items()
    )


def _listed(subjects: Mapping[str, Iterable[str]]) -> str:
    """Return the first subject of each name, with how many more there are."""
    parts = [_first_of(list(each)) for each in subjects.values()]
    more = len(parts) - NAMED
    return ", ".join(parts[:NAMED]) + (f" and {more} more array{'s' * (more > 1)}" if more > 0 else "")


def _first_of(subjects: list[str]) -> str:
    more = len(subjects) - 1
    return subjects[0] + (f" (and {more} more access{'es' * (more > 1)} of it)" if more else "")


# {{{ launches


ADDED_AXES = (
    f"hardware axes that instructions leave out ({SUBJECTS}) are added by loopy.add_inames_for_unused_hw_axes, without "
    "which Loopy generates no code"
)


@dataclass(frozen=True, slots=True)
class Barrier:
    """A work-group barrier of the schedule."""

    label: str
    """says before which instruction it stands, e.g. ``"barrier before a_fetch"``"""
    loops: tuple[str, ...]
    """the sequential loops around it, those on the host included, the outermost first"""
    groups: frozenset[str]
    """the group inames that decide, in conditions around these loops, which groups run them"""
    copied: frozenset[str]
    """the innermost loops around it, as far as they are unrolled: it stands in each of their copies, run or not"""

    @property
    def inames(self) -> frozenset[str]:
        """Return the sequential loops around it, in no order."""
        return frozenset(self.loops)


@dataclass(frozen=True, slots=True)
class Launch:
    """One device program of the kernel, with what it launches."""

    name: str
    instructions: tuple[InstructionBase, ...]
    """in the order of the schedule; barriers are not among them"""
    barriers: tuple[Barrier, ...]
    schedule: tuple[ScheduleItem, ...]
    """instructions, barriers and sequential loops, as Loopy has them"""
    host_inames: frozenset[str]
    """loops on the host around the launch"""
    host_conditions: tuple[Any, ...]
    """predicates that the host tests before it launches, and the device program does not"""
    group_axes: Mapping[int, isl.PwAff]
    """number of work-groups along each axis of the grid that is used"""
    local_axes: Mapping[int, isl.PwAff]
    """number of work-items of a group along each axis that is used"""
    local_memory: int | None
    """bytes of local memory of a work-group; None where they depend on a parameter"""
    first_values: Mapping[str, int]
    """of hardware inames, those that start from the same number whatever the sizes"""
    numbering: Mapping[str, tuple[str, int]]
    """hardware inames -> ``("group", axis)`` or ``("local", axis)``, that along which they number"""

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Return which instructions leave out axes of the grid or of a group: Loopy generates no code for these."""
        axes = set(self.numbering.values())
        used = {
            each.id: {self.numbering[iname] for iname in each.within_inames if iname in self.numbering}
            for each in self.instructions
            if not isinstance(each, NoOpInstruction)
        }
        return tuple(Assumption(ADDED_AXES, name, name) for name, own in used.items() if own != axes)

    def nested(self, names: Collection[str]) -> list[str]:
        """Return those of *names* that are loops of the device program, the outermost first, each once."""
        entered = dict.fromkeys(item.iname for item in self.schedule if isinstance(item, EnterLoop))
        return [name for name in entered if name in names]


def launches_of(kernel: LoopKernel) -> Iterator[Launch]:
    """Yield the launches of a linearized kernel, in the order of its schedule."""
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


def _launch(
    kernel: LoopKernel,
    name: str,
    block: Sequence[ScheduleItem],
    host_loops: tuple[str, ...],
) -> Launch:
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
    """Return the predicates that Loopy writes around the launch, where its host program can have an ``if``.

    Those are the ones that all instructions of *block* share, and that the loops on the host do not change inside. A
    barrier, which is to be met whatever they say, keeps them inside.
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
    """What a hardware iname numbers."""

    first: int | None
    """its first value; None where sizes tell"""
    length: isl.PwAff
    """points from the first to the last"""


def _spans(kernel: LoopKernel, inames: Iterable[str]) -> dict[str, _Span]:
    """Return what each of the hardware *inames* numbers."""
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
    """Return axis -> extent of the grid, and of a group, that hold all that hardware inames are *numbering*.

    What Loopy's ``get_grid_sizes_for_insn_ids_as_dicts`` returns where no kernel is called; that one hashes the table
    of functions by content, and takes twice as long to measure an iname.
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
    """Return what a loop over *points* spans, valid where it is *assumed*."""
    domain = points.intersect_params(assumed)
    first, last = domain.dim_min(0), domain.dim_max(0)
    start = first.max_val() if _is_one_number(first) else None
    if start is not None and _is_one_number(last):
        number = last.max_val() - start + 1
        length = isl.PwAff.from_aff(isl.Aff.val_on_domain(isl.LocalSpace.from_space(last.get_domain_space()), number))
    else:
        length = last.sub(first).add_constant_val(1).gist(assumed)
    return _Span(None if start is None else start.to_python(), length)


def _is_one_number(value: isl.PwAff) -> bool:
    """Return whether *value* is the same number wherever it has a value; isl calls several numbers constant too."""
    return value.n_piece() == 1 and value.is_cst()


def _extent(lengths: Sequence[isl.PwAff], assumptions: isl.BasicSet, constants_only: bool) -> isl.PwAff:
    """Return the longest of *lengths* as the host computes it: with integer division, and at any size.

    Like Loopy, take the largest piece where one is the largest everywhere.
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
    """Return the bytes of the local arrays that *instructions* use, those that share their storage once."""
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
    """Return the group inames in the condition that Loopy writes around the loop that begins at *start*.

    They are those that its instructions use, unless several of these number the groups along the same axis.
    """
    inside, _ = gather_schedule_block(block, start)
    ids = [item.insn_id for item in inside if isinstance(item, RunInstruction)]
    inames = frozenset[str]().union(*(kernel.id_to_insn[name].within_inames for name in ids))
    axes = {iname: tag.axis for iname in inames if isinstance(tag := hardware_axis(kernel, iname), GroupInameTag)}
    numbering = Counter(axes.values())
    return frozenset(iname for iname, axis in axes.items() if numbering[axis] == 1)


def points_of(kernel: LoopKernel, inames: frozenset[str]) -> isl.Set:
    """Return the points that loops over exactly *inames* visit, without what Loopy's home domains add."""
    return isl.Set.from_basic_set(projected(kernel.get_inames_domain(inames), inames))


def hardware_axis(kernel: LoopKernel, iname: str) -> GroupInameTag | LocalInameTag | None:
    """Return the grid or group axis that *iname* is mapped to, if any."""
    tags = cast("frozenset[Tag]", kernel.iname_tags_of_type(iname, (GroupInameTag, LocalInameTag)))
    return cast("GroupInameTag | LocalInameTag | None", next(iter(tags), None))


def is_unrolled(kernel: LoopKernel, iname: str) -> bool:
    """Return whether Loopy writes a copy of its body for each pass of *iname*."""
    return bool(kernel.iname_tags_of_type(iname, (UnrollTag, UnrolledIlpTag)))


# }}}
