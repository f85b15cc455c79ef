"""An independent counter: it enumerates.

At concrete sizes it lists the points of each instruction's loops one by one, evaluates conditions and addresses at
them with NumPy, and adds up; many sizes are one pass. It knows nothing of quasi-polynomials, of barvinok, or of the
counters in ``loopyperf.counts``; of loopyperf it uses only the front door and the names of the properties.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
from enumeration import Points, listed
from loopy.kernel.data import AddressSpace, GroupInameTag, LocalInameTag
from loopy.kernel.instruction import MultiAssignmentBase
from loopy.symbolic import pw_aff_to_expr
from loopy.type_inference import TypeReader
from pymbolic import evaluate
from pymbolic.mapper.evaluator import EvaluationMapper
from stride_classes import Access, Lanes, stride_class

from loopyperf.kernel import Kernel
from loopyperf.launches import Barrier, Launch, is_unrolled

Sizes = Mapping[str, int]
Numbers = np.ndarray
"""one count for each size"""

COUNTINGS = ("paper", "executed")


def brute_force(kernel: Kernel, sizes: Sizes, class_sizes: Sizes | None = None) -> dict[str, dict[str, int]]:
    """Return counting -> the unified model's properties of *kernel* at *sizes*, by enumeration.

    Stride classes describe large problems: they are taken at *class_sizes*, by default at *sizes* themselves. Counts of
    zero are left out.
    """
    return brute_force_at_all(kernel, [sizes], sizes if class_sizes is None else class_sizes)[0]


def brute_force_at_all(kernel: Kernel, sizes: Sequence[Sizes], class_sizes: Sizes) -> list[dict[str, dict[str, int]]]:
    """Return for each of *sizes* what :func:`brute_force` returns, the stride classes being those at *class_sizes*."""
    totals = {counting: defaultdict[str, Numbers](lambda: np.zeros(len(sizes), int)) for counting in COUNTINGS}
    visited = _visited(kernel, sizes)
    classes = _classes(kernel, class_sizes)
    for launch, instruction in _instructions(kernel):
        visitor = visited[instruction.id]
        copies = {"paper": 1, "executed": _copies(kernel, launch, instruction.within_inames, sizes)}
        names = [*visitor.operations.items()]
        named = zip(classes[instruction.id], visitor.accesses, strict=True)
        names += [(name, access.number) for name, access in named]
        for counting, (name, number) in product(COUNTINGS, names):
            totals[counting][name] += number * copies[counting]
    for launch in kernel.launches:
        overheads = _overheads(kernel, launch, sizes)
        for counting, (name, number) in product(COUNTINGS, overheads.items()):
            totals[counting][name] += number
    return [
        {
            counting: _finished({name: int(total[place]) for name, total in totals[counting].items()})
            for counting in COUNTINGS
        }
        for place in range(len(sizes))
    ]


def _instructions(kernel: Kernel) -> Iterator[tuple[Launch, Any]]:
    return ((launch, instruction) for launch in kernel.launches for instruction in launch.instructions)


def _visited(kernel: Kernel, sizes: Sequence[Sizes], arrays: Collection[str] | None = None) -> dict[str, "_Visitor"]:
    """Return instruction -> its visitor, of all instructions or of those that access any of *arrays*."""
    points: dict[frozenset[str], Points] = {}
    for instruction in _accessing(kernel, arrays):
        inames = frozenset(instruction.within_inames)
        if inames not in points:
            points[inames] = _points(kernel, inames, sizes)
    return {i.id: _Visitor(kernel, points[frozenset(i.within_inames)], i) for i in _accessing(kernel, arrays)}


def _at_origin(kernel: Kernel, sizes: Sizes) -> dict[str, "_Visitor"]:
    """Return instruction -> its visitor of one point, all loop variables 0, whether it belongs to the loops or not."""
    inames = {iname: np.zeros(1, int) for iname in kernel.loopy_kernel.all_inames()}
    columns = {**inames, **{name: np.array([size]) for name, size in sizes.items()}}
    return {i.id: _Visitor(kernel, Points(columns, np.zeros(1, int), 1), i) for _, i in _instructions(kernel)}


def _accessing(kernel: Kernel, arrays: Collection[str] | None) -> Iterator[Any]:
    for _, instruction in _instructions(kernel):
        if arrays is None or not instruction.dependency_names().isdisjoint(arrays):
            yield instruction


def _overheads(kernel: Kernel, launch: Launch, sizes: Sequence[Sizes]) -> dict[str, Numbers]:
    launches = _points(kernel, launch.host_inames, sizes).number()
    alike = Counter((barrier.inames, barrier.groups) for barrier in launch.barriers)
    one_each = {(barrier.inames, barrier.groups): barrier for barrier in launch.barriers}
    passes = sum(number * _barrier_passes(kernel, launch, one_each[loops], sizes) for loops, number in alike.items())
    return {
        "launches": launches,
        "work-groups": launches * math.prod(_extents(launch.group_axes, sizes).values()),
        "barriers": passes * math.prod(_extents(launch.local_axes, sizes).values()),
    }


def _finished(totals: dict[str, int]) -> dict[str, int]:
    for name in list(totals):
        stores = totals.get(name.replace("load", "store"), 0)
        if name.startswith("global load ") and stores:
            totals[name.replace("load", "min(load, store)")] = min(totals[name], stores)
    return {name: number for name, number in totals.items() if number}


# {{{ enumeration


def _points(kernel: Kernel, inames: frozenset[str], sizes: Sequence[Sizes]) -> Points:
    """Return all points of the loops over *inames*; one point if there are none."""
    domain = isl.Set.from_basic_set(kernel.loopy_kernel.get_inames_domain(inames))
    return listed(domain.project_out_except(sorted(inames), [isl.dim_type.set]), sizes)


def _extents(axes: Mapping[int, isl.PwAff], sizes: Sequence[Sizes]) -> dict[int, Numbers]:
    lengths = {axis: pw_aff_to_expr(extent, int_ok=True) for axis, extent in axes.items()}
    return {
        axis: np.array([max(int(evaluate(length, dict(size))), 0) for size in sizes])
        for axis, length in lengths.items()
    }


def _copies(kernel: Kernel, launch: Launch, inames: Iterable[str], sizes: Sequence[Sizes]) -> Numbers | int:
    """Return how many work-items run the same point, along hardware axes that *inames* leave unused."""
    tags = [kernel.hardware_axis(iname) for iname in inames]
    used_groups = {tag.axis for tag in tags if isinstance(tag, GroupInameTag)}
    used_items = {tag.axis for tag in tags if isinstance(tag, LocalInameTag)}
    groups = {axis: length for axis, length in launch.group_axes.items() if axis not in used_groups}
    items = {axis: length for axis, length in launch.local_axes.items() if axis not in used_items}
    return math.prod(_extents(groups, sizes).values()) * math.prod(_extents(items, sizes).values())


def _without_holes(points: set[tuple[int, ...]]) -> set[tuple[int, ...]]:
    for dim in range(len(next(iter(points), ()))):
        lines: dict[tuple[int, ...], list[int]] = {}
        for point in points:
            lines.setdefault(point[:dim] + point[dim + 1 :], []).append(point[dim])
        points = {
            (*others[:dim], value, *others[dim:])
            for others, values in lines.items()
            for value in range(min(values), max(values) + 1)
        }
    return points


def _barrier_passes(kernel: Kernel, launch: Launch, barrier: Barrier, sizes: Sequence[Sizes]) -> Numbers:
    """Return how often all groups together pass *barrier*: those that run its loops, along other axes all.

    It stands in every copy of an unrolled loop, run or not, and loops run from their first pass to their last.
    """
    unrolled = {iname for iname in barrier.inames if is_unrolled(kernel.loopy_kernel, iname)}
    inames = (barrier.inames - unrolled) | barrier.groups
    points = _points(kernel, inames, sizes)
    rows = (set(points.rows(sorted(inames), place)) for place in range(len(sizes)))
    passes = np.array([len(_without_holes(each)) for each in rows]) if inames else points.number()
    decided = {kernel.hardware_axis(iname).axis for iname in barrier.groups}
    others = {axis: extent for axis, extent in launch.group_axes.items() if axis not in decided}
    bounds = [kernel.loopy_kernel.get_iname_bounds(iname) for iname in unrolled]
    copies = [
        bound.upper_bound_pw_aff.max_val().to_python() - bound.lower_bound_pw_aff.min_val().to_python() + 1
        for bound in bounds
    ]
    return passes * math.prod(_extents(others, sizes).values()) * math.prod(copies)


# }}}


# {{{ one instruction


_OPERATIONS = {prim.Sum: "add", prim.Quotient: "div", prim.FloorDiv: "div", prim.Remainder: "div", prim.Power: "pow"}


class _Visitor:
    """Visits the expressions of one instruction, with the points at which they are evaluated."""

    def __init__(self, kernel: Kernel, points: Points, instruction: Any) -> None:
        self.kernel, self.points, self.inames = kernel, points, instruction.within_inames
        self.evaluate = _PointwiseEvaluator(points.columns)
        self.types = TypeReader(kernel.loopy_kernel, kernel.callables)
        self.operations: defaultdict[str, Numbers | int] = defaultdict(int)
        self.accesses: list[Access] = []
        self.visit(instruction)

    def visit(self, instruction: Any) -> None:
        if not isinstance(instruction, MultiAssignmentBase):
            return
        active = np.ones(len(self.points), bool)
        for predicate in instruction.predicates:
            self.expression(predicate, active)
        for predicate in instruction.predicates:
            active = active & self.holds(predicate)
        self.expression(instruction.expression, active)
        for assignee in instruction.assignees:
            self.access(assignee, "store", active)
            for index in getattr(assignee, "index_tuple", ()):
                self.expression(index, active)

    def holds(self, condition: Any) -> np.ndarray:
        return np.broadcast_to(self.evaluate(condition), (len(self.points),)).astype(bool)

    def expression(self, expr: Any, active: np.ndarray) -> None:
        if not isinstance(expr, prim.ExpressionNode):
            return
        if isinstance(expr, (prim.Variable, prim.Subscript)):
            self.access(expr, "load", active)
            children = list(getattr(expr, "index_tuple", ()))
        elif isinstance(expr, prim.If):
            holds = self.holds(expr.condition)
            self.expression(expr.then, active & holds)
            self.expression(expr.else_, active & ~holds)
            children = [expr.condition]
        else:
            children = self.operation(expr, active)
        for child in children:
            self.expression(child, active)

    def operation(self, expr: Any, active: np.ndarray) -> list[Any]:
        if isinstance(expr, prim.Call):
            name = str(self.kernel.callables[expr.function.name].name)
            unseen = ("min", "max", "fmin", "fmax", "real", "imag", "conj")
            free = "abs" in name or "make_tuple" in name or "ArgExtOp" in name or name in unseen
            self.add(expr, "" if free else "pow" if name == "pow" else "special", 1, active)
            return list(expr.parameters)
        if isinstance(expr, prim.Product):
            factors = [child for child in expr.children if not (isinstance(child, (int, float)) and child == -1)]
            self.add(expr, "mul", len(factors) - 1, active)
            return list(expr.children)
        if isinstance(expr, prim.Sum):
            self.add(expr, "add", len(expr.children) - 1, active)
            return list(expr.children)
        if type(expr) in _OPERATIONS:
            self.add(expr, _OPERATIONS[type(expr)], 1, active)
        return [child for child in vars(expr).values() if isinstance(child, prim.ExpressionNode)] or list(
            getattr(expr, "children", ())
        )

    def add(self, expr: Any, kind: str, number: int, active: np.ndarray) -> None:
        if not kind or number == 0:
            return
        dtype = self.types(expr).numpy_dtype
        if dtype.kind == "f":
            self.operations[f"f{8 * dtype.itemsize} {kind}"] += number * self.points.number(active)

    def access(self, expr: Any, direction: str, active: np.ndarray) -> None:
        name = expr.name if isinstance(expr, prim.Variable) else expr.aggregate.name
        array = self.kernel.array(name)
        if array is None:
            return
        bits = 8 * array.dtype.itemsize
        if array.address_space == AddressSpace.LOCAL:
            self.operations[f"local {direction} {bits}-bit"] += self.points.number(active)
            return
        zero = np.zeros(len(self.points), int)
        axes = np.array([zero, *(axis + zero for axis in self.addresses(expr, array, {}))])[:, active]
        lanes = self.lanes(expr, array)
        self.accesses.append(Access(direction, name, bits, self.points.number(active), axes, lanes))

    def addresses(self, expr: Any, array: Any, moved: Mapping[str, Any]) -> list[np.ndarray]:
        """Return what each axis adds to the element's address at each point, with some inames *moved*."""
        evaluator = _PointwiseEvaluator({**self.evaluate.context, **moved})
        axes = zip(getattr(expr, "index_tuple", ()), array.dim_tags or (), strict=True)
        return [np.asarray(evaluator(index)) * evaluator(tag.stride) for index, tag in axes]

    def lanes(self, expr: Any, array: Any) -> Lanes:
        """Return how *expr* moves along ``l.0`` at the first point, having seen that it is so at all others."""
        moved = {lane: self.points.columns[lane] + 1 for lane in self.kernel.lane_inames(self.inames)}
        both = zip(self.addresses(expr, array, moved), self.addresses(expr, array, {}), strict=True)
        zero = np.zeros(len(self.points), int)
        steps = [there - here + zero for there, here in both]
        assert _one_each(sum(steps, zero), self.points), f"{expr}: no single lane stride"
        if not len(self.points):
            return Lanes(0, (), 1, 0)
        block, row = max(
            (
                (abs(int(step[0])), _first(self.evaluate(tag.stride)))
                for step, tag in zip(steps, array.dim_tags or (), strict=True)
            ),
            default=(0, 1),
        )
        signed = tuple(int(step[0]) for step in steps)
        return Lanes(abs(sum(signed)), (0, *signed), row, block)


def _first(values: Any) -> int:
    return int(np.ravel(values)[0])


def _one_each(values: np.ndarray, points: Points) -> bool:
    """Return whether *values* is the same at all points of each size."""
    of_size = np.zeros(points.sizes, int)
    of_size[points.size] = values
    return bool((values == of_size[points.size]).all())


class _PointwiseEvaluator(EvaluationMapper):
    """Evaluates at all points at once; pymbolic's own logic asks arrays for one truth value."""

    def map_logical_and(self, expr: prim.LogicalAnd) -> Any:
        return np.logical_and.reduce(np.broadcast_arrays(*map(self.rec, expr.children)))

    def map_logical_or(self, expr: prim.LogicalOr) -> Any:
        return np.logical_or.reduce(np.broadcast_arrays(*map(self.rec, expr.children)))

    def map_logical_not(self, expr: prim.LogicalNot) -> Any:
        return np.logical_not(self.rec(expr.child))

    def map_if(self, expr: prim.If) -> Any:
        return np.where(self.rec(expr.condition), self.rec(expr.then), self.rec(expr.else_))


# }}}


# {{{ classes


def _classes(kernel: Kernel, class_sizes: Sizes) -> dict[str, list[str]]:
    """Return for each instruction the properties that its accesses of global memory belong to, in their order."""
    seen = _at_origin(kernel, class_sizes)
    strided = {access.array for visitor in seen.values() for access in visitor.accesses if access.lanes.stride > 1}
    seen |= _visited(kernel, [class_sizes], strided)
    found = [access for visitor in seen.values() for access in visitor.accesses if access.array in strided]
    cells = {a: np.unique(np.concatenate([x.addresses for x in found if x.array == a])) for a in strided}
    return {
        name: [f"global {x.direction} {x.bits}-bit stride {stride_class(x, cells)}" for x in visitor.accesses]
        for name, visitor in seen.items()
    }


# }}}
