"""An independent reference implementation of counting, by enumeration.

At concrete sizes, it lists the points of each instruction's loops, evaluates conditions and addresses at these points
with NumPy, and adds up the results, for many sizes at once. It does not use quasi-polynomials, barvinok or the
counters in ``loopyperf.counts``; from loopyperf, it uses only ``loopyperf.kernel`` and the names of the properties.
"""

import contextlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product, takewhile
from typing import Any

import islpy as isl
import numpy as np
from loopy.diagnostic import CannotBranchDomainTree
from loopy.kernel.data import AddressSpace
from loopy.schedule import EnterLoop
from loopy.symbolic import get_dependencies
from pymbolic import substitute

from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Barrier, Launch, is_unrolled
from tests.enumerated_instruction import Visitor, vector_iname
from tests.enumeration import Points, listed
from tests.executions import COUNTINGS, Executions, Numbers, Sizes, extents
from tests.predicates import Evaluation, evaluations, tested_before
from tests.stride_classes import UNSEEN, Access, needs_points, stride_class

__all__ = ["COUNTINGS", "brute_force", "brute_force_at_all"]


def brute_force(
    kernel: Kernel,
    sizes: Sizes,
    class_sizes: Sizes | None = None,
    sub_group_size: int | None = None,
    share: Fraction | None = None,
) -> dict[str, dict[str, int]]:
    """Return counting -> the unified model's properties of *kernel* at *sizes*, by enumeration.

    Stride classes describe large problems: they are determined at *class_sizes*, by default at *sizes*. With
    *sub_group_size*, sub-groups of that many work-items are counted instead of work-items. Each data-dependent
    condition holds in a *share* of the executions, independently of the others. Counts of zero are omitted.
    """
    classes = sizes if class_sizes is None else class_sizes
    return brute_force_at_all(kernel, [sizes], classes, sub_group_size, share)[0]


def brute_force_at_all(
    kernel: Kernel,
    sizes: Sequence[Sizes],
    class_sizes: Sizes,
    sub_group_size: int | None = None,
    share: Fraction | None = None,
) -> list[dict[str, dict[str, int]]]:
    """Return the result of :func:`brute_force` for each of *sizes*, with the stride classes at *class_sizes*."""
    totals = {counting: defaultdict[str, Numbers](lambda: np.zeros(len(sizes), int)) for counting in COUNTINGS}
    classes = _classes(kernel, class_sizes, share)
    enumerated = _Enumerated(kernel, sizes, sub_group_size, share)
    for place in _places(kernel):
        for counting in COUNTINGS:
            visitor, named = enumerated.visitor(place, counting), iter(classes[place.name])
            for happening in visitor.happenings:
                name = next(named) if isinstance(happening.what, Access) else happening.what
                number = happening.number * visitor.executions.number(happening.active, counting)
                totals[counting][name] = totals[counting][name] + number
    for launch in kernel.launches:
        overheads = _overheads(kernel, launch, sizes, sub_group_size, enumerated.launches(launch))
        for counting, (name, number) in product(COUNTINGS, overheads.items()):
            totals[counting][name] = totals[counting][name] + number
    return [
        {
            counting: _finished({name: _nearest(name, total[place]) for name, total in totals[counting].items()})
            for counting in COUNTINGS
        }
        for place in range(len(sizes))
    ]


def _nearest(name: str, number: Any) -> int:
    if UNSEEN in name:
        return math.ceil(number)  # even less than a half matters: the counter reports it as another property
    return math.floor(Fraction(number) + Fraction(1, 2)) if isinstance(number, Fraction) else int(number)


def _finished(totals: dict[str, int]) -> dict[str, int]:
    for name in list(totals):
        stores = totals.get(name.replace("load", "store"), 0)
        if name.startswith("global load ") and stores:
            totals[name.replace("load", "min(load, store)")] = min(totals[name], stores)
    return {name: number for name, number in totals.items() if number}


# {{{ places


@dataclass(frozen=True)
class _Place:
    """A place in the generated code: an instruction, or a predicate that guards one."""

    name: str
    launch: Launch
    instruction: Any
    evaluation: Evaluation | None = None

    def names(self) -> frozenset[str]:
        """Return the names of the variables that the instruction uses."""
        return frozenset(self.instruction.dependency_names())


def _places(kernel: Kernel) -> Iterator[_Place]:
    for launch in kernel.launches:
        by_name = {instruction.id: instruction for instruction in launch.instructions}
        for number, evaluation in enumerate(evaluations(kernel, launch)):
            yield _Place(f"{launch.name}, predicate {number}", launch, by_name[evaluation.instruction], evaluation)
        for name, instruction in by_name.items():
            yield _Place(name, launch, instruction)


@dataclass
class _Enumerated:
    """The kernel at *sizes*; the points of its loops are listed on first use."""

    kernel: Kernel
    sizes: Sequence[Sizes]
    sub_group_size: int | None = None
    share: Fraction | None = None
    _points: dict[frozenset[str], Points] = field(default_factory=dict)

    def points(self, inames: frozenset[str]) -> Points:
        """Return all points of the loops over *inames*; a single point if *inames* is empty."""
        if inames not in self._points:
            self._points[inames] = _points(self.kernel, inames, self.sizes)
        return self._points[inames]

    def launches(self, launch: Launch) -> Numbers:
        """Return how often the host executes *launch*, given the predicates that it tests before."""
        inames = launch.host_inames
        how_often = Executions(self.kernel, launch, inames, self.sizes, self.points(inames))
        visitor = Visitor(self.kernel, how_often, inames, None, self.share)
        visitor.registers = _registers(self.kernel)
        return how_often.number(visitor.where(*tested_before(self.kernel, launch)), "paper")

    def visitor(self, place: _Place, counting: str = "paper") -> Visitor:
        """Return a visitor that has visited the instruction or predicate at *place*."""
        vector = None if place.evaluation else vector_iname(self.kernel, place.instruction)
        inames = place.evaluation.inames if place.evaluation else frozenset(place.instruction.within_inames)
        inames -= {vector}
        if counting == "executed":
            inames |= _on_other_axes(self.kernel, place.launch, inames)
        how_often = Executions(self.kernel, place.launch, inames, self.sizes, self.points(inames), self.sub_group_size)
        visitor = Visitor(self.kernel, how_often, inames, vector, self.share)
        visitor.registers = _registers(self.kernel)
        if place.evaluation is None:
            visitor.instruction(place.instruction)
        else:
            visitor.expression(place.evaluation.predicate, visitor.where(*place.evaluation.implied))
        return visitor


def _on_other_axes(kernel: Kernel, launch: Launch, inames: frozenset[str]) -> set[str]:
    """Return the inames of the hardware axes that *inames* do not cover, for axes that only one iname has.

    If Loopy cannot nest the domains of these inames, the generated code cannot restrict the axis: all its work-items
    execute the instruction.
    """
    everywhere = set[str]().union(*(instruction.within_inames for instruction in launch.instructions))
    tags = {iname: tag for iname in everywhere if (tag := kernel.hardware_axes.get(iname)) is not None}
    here = {tags[iname] for iname in inames & tags.keys()}
    added = set[str]()
    for iname in sorted(tags):
        if tags[iname] not in here and list(tags.values()).count(tags[iname]) == 1:
            with contextlib.suppress(CannotBranchDomainTree):
                kernel.loopy_kernel.get_inames_domain(inames | added | {iname})
                added.add(iname)
    return added


def _points(kernel: Kernel, inames: frozenset[str], sizes: Sequence[Sizes], has_holes: bool = True) -> Points:
    """Return the points over *inames*; without *has_holes*, also those that modulo constraints exclude."""
    domain, bounding = _with_registers(kernel, inames)
    domain = domain.project_out_except(sorted(inames), [isl.dim_type.set])
    for name in bounding:
        domain = domain.project_out(*domain.get_var_dict(isl.dim_type.param)[name], 1)
    return listed(domain if has_holes else domain.remove_divs(), sizes)


def _with_registers(kernel: Kernel, inames: frozenset[str]) -> tuple[isl.Set, set[str]]:
    """Return the domain of *inames* with the values of the registers that bound loops, and these registers.

    The loops on which these values depend are dimensions of the domain, too.
    """
    registers, everything = _registers(kernel), kernel.loopy_kernel.all_inames()
    bounding: set[str] = set()
    while True:
        basic = kernel.loopy_kernel.get_inames_domain(inames)
        values = [registers[name] for name in sorted(bounding)]
        used = set(basic.get_var_names(isl.dim_type.param)).union(*map(get_dependencies, values))
        wider = inames.union(basic.get_var_names(isl.dim_type.set), used & everything)
        if wider == inames and used & registers.keys() == bounding:
            break
        inames, bounding = wider, used & registers.keys()
    names = sorted(used - everything | kernel.parameters)
    loops = basic.get_var_names(isl.dim_type.set)
    domain = isl.Set.from_basic_set(basic)
    for name in sorted(bounding):
        equal = isl.Set(f"[{', '.join(names)}] -> {{ [{', '.join(loops)}] : {name} = {registers[name]} }}")
        domain = domain.align_params(equal.get_space()) & equal
    return domain, bounding


# }}}


def _registers(kernel: Kernel) -> dict[str, Any]:
    """Return the integer registers that are assigned exactly once, unconditionally, with their values."""
    variables = kernel.loopy_kernel.temporary_variables
    registers = {name for name, variable in variables.items() if variable.address_space == AddressSpace.PRIVATE}
    registers = {name for name in registers if variables[name].dtype.is_integral() and not variables[name].shape}
    values: dict[str, list[Any]] = {name: [] for name in registers}
    for instruction in kernel.loopy_kernel.instructions:
        for name in registers & set(instruction.assignee_var_names()):
            values[name].append(None if instruction.predicates else getattr(instruction, "expression", None))
    once = {name: given[0] for name, given in values.items() if len(given) == 1}
    found = {name: value for name, value in once.items() if value is not None and name not in get_dependencies(value)}
    while nested := [name for name, value in found.items() if found.keys() & get_dependencies(value)]:
        found |= {name: substitute(found[name], dict(found)) for name in nested}
    return found


# {{{ launches and barriers


def _overheads(
    kernel: Kernel, launch: Launch, sizes: Sequence[Sizes], sub_group_size: int | None, launches: Numbers
) -> dict[str, Numbers]:
    repeats = Counter((barrier.inames, barrier.groups) for barrier in launch.barriers)
    representatives = {(barrier.inames, barrier.groups): barrier for barrier in launch.barriers}
    iterations = sum(
        number * _barrier_executions(kernel, launch, representatives[loops], sizes) for loops, number in repeats.items()
    )
    items = math.prod(extents(launch.local_axes, sizes).values())
    return {
        "launches": launches,
        "work-groups": launches * math.prod(extents(launch.group_axes, sizes).values()),
        "barriers": iterations * (items if sub_group_size is None else -(-items // sub_group_size)),
    }


def _without_holes(points: set[tuple[int, ...]], around: int) -> set[tuple[int, ...]]:
    """Return the iterations of nested loops from first to last value; *around* other variables precede the loops'."""
    iterations = {point[:around] for point in points}
    for depth in range(around, len(next(iter(points), ()))):
        values: dict[tuple[int, ...], set[int]] = {}
        for point in points:
            values.setdefault(point[:depth], set()).add(point[depth])
        iterations = {
            (*outer, value)
            for outer in iterations
            if outer in values
            for value in range(min(values[outer]), max(values[outer]) + 1)
        }
    return iterations


def _loops(kernel: Kernel, launch: Launch, barrier: Barrier) -> list[str]:
    """Return the loops around *barrier*, outermost first."""
    anywhere = [item.iname for item in kernel.loopy_kernel.linearization if isinstance(item, EnterLoop)]
    here = [item.iname for item in launch.schedule if isinstance(item, EnterLoop)]
    on_host = [iname for iname in dict.fromkeys(anywhere) if iname in launch.host_inames]
    return [*on_host, *(iname for iname in here if iname in barrier.inames)]


def _unrolled_around(kernel: Kernel, launch: Launch, barrier: Barrier) -> set[str]:
    """Return the innermost loops around *barrier* that are unrolled, up to the first one that is not."""
    within = takewhile(lambda iname: is_unrolled(kernel.loopy_kernel, iname), reversed(_loops(kernel, launch, barrier)))
    return set(within)


def _barrier_executions(kernel: Kernel, launch: Launch, barrier: Barrier, sizes: Sequence[Sizes]) -> Numbers:
    """Return how often groups execute *barrier*: those that execute its loops, and all along other axes.

    Each copy of the unrolled loops directly around it contains the barrier, even if the copy is not executed, and loops
    run from their first iteration to their last.
    """
    unrolled = _unrolled_around(kernel, launch, barrier)
    inames = (barrier.inames - unrolled) | barrier.groups
    loops = [loop for loop in _loops(kernel, launch, barrier) if loop not in unrolled]
    points = _points(kernel, inames, sizes, has_holes=bool(loops))
    order = [*sorted(barrier.groups), *loops]
    rows = (set(points.rows(order, place)) for place in range(len(sizes)))
    iterations = (
        np.array([len(_without_holes(each, len(barrier.groups))) for each in rows]) if inames else points.number()
    )
    decided = {kernel.hardware_axes.get(iname).axis for iname in barrier.groups}
    others = {axis: extent for axis, extent in launch.group_axes.items() if axis not in decided}
    bounds = [kernel.loopy_kernel.get_iname_bounds(iname) for iname in unrolled]
    copies = [
        bound.upper_bound_pw_aff.max_val().to_python() - bound.lower_bound_pw_aff.min_val().to_python() + 1
        for bound in bounds
    ]
    return iterations * math.prod(extents(others, sizes).values()) * math.prod(copies)


# }}}


# {{{ classes


def _classes(kernel: Kernel, class_sizes: Sizes, share: Fraction | None) -> dict[str, list[str]]:
    """Return for each place the properties of its accesses of global memory, in order."""
    seen = {place.name: visitor for place, visitor in _visited_at_origin(kernel, class_sizes, share)}
    strided = {access.array for visitor in seen.values() for access in visitor.accesses if needs_points(access)}
    at_sizes = _Enumerated(kernel, [class_sizes], share=share)
    seen |= {place.name: at_sizes.visitor(place) for place in _places(kernel) if not place.names().isdisjoint(strided)}
    found = [access for visitor in seen.values() for access in visitor.accesses if access.array in strided]
    cells = {a: np.unique(np.concatenate([x.addresses for x in found if x.array == a])) for a in strided}
    is_only_size = len(class_sizes) == 1
    return {
        name: [
            f"global {x.direction} {x.bits}-bit stride {stride_class(x, cells, is_only_size)}" for x in visitor.accesses
        ]
        for name, visitor in seen.items()
    }


def _visited_at_origin(kernel: Kernel, sizes: Sizes, share: Fraction | None) -> Iterator[tuple[_Place, Visitor]]:
    """Yield each place with a visitor of the point with all loop variables 0, even if outside the domain."""
    inames = {iname: np.zeros(1, int) for iname in kernel.loopy_kernel.all_inames()}
    origin = Points({**inames, **{name: np.array([size]) for name, size in sizes.items()}}, np.zeros(1, int), 1)
    enumerated = _Enumerated(kernel, [sizes], share=share)
    enumerated.points = lambda _: origin
    return ((place, enumerated.visitor(place)) for place in _places(kernel))


# }}}
