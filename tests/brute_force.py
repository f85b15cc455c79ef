"""An independent counter: it enumerates.

At concrete sizes it lists the points of each instruction's loops one by one, evaluates conditions and addresses at
them with NumPy, and adds up. It knows nothing of quasi-polynomials, of barvinok, or of the counters in
``loopyperf.counts``; of loopyperf it uses only the front door and the names of the properties.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
from loopy.kernel.data import AddressSpace, GroupInameTag, LocalInameTag
from loopy.kernel.instruction import MultiAssignmentBase
from loopy.symbolic import pw_aff_to_expr
from loopy.type_inference import TypeReader
from pymbolic import evaluate
from pymbolic.mapper.evaluator import EvaluationMapper

from loopyperf.kernel import Kernel, Launch

Points = dict[str, np.ndarray]
"""iname -> its value at each point"""


COUNTINGS = ("paper", "executed")


def brute_force(
    kernel: Kernel, sizes: Mapping[str, int], class_sizes: Mapping[str, int] | None = None
) -> dict[str, dict[str, int]]:
    """Return counting -> the unified model's properties of *kernel* at *sizes*, by enumeration.

    Stride classes describe large problems: they are taken at *class_sizes*, by default at *sizes* themselves. Counts of
    zero are left out.
    """
    totals = {counting: Counter[str]() for counting in COUNTINGS}
    visited = _visited(kernel, sizes)
    classes = _classes(visited if class_sizes is None else _visited(kernel, class_sizes))
    for launch, instruction in _instructions(kernel):
        visitor = visited[instruction.id]
        copies = {"paper": 1, "executed": _copies(kernel, launch, instruction.within_inames, sizes)}
        names = [*visitor.operations.items()]
        named = zip(classes[instruction.id], visitor.accesses, strict=True)
        names += [(name, len(access.addresses)) for name, access in named]
        for counting, (name, number) in product(COUNTINGS, names):
            totals[counting][name] += number * copies[counting]
    for launch, counting in product(kernel.launches, COUNTINGS):
        totals[counting].update(_overheads(kernel, launch, sizes))
    return {counting: _finished(totals[counting]) for counting in COUNTINGS}


def _instructions(kernel: Kernel) -> Iterator[tuple[Launch, Any]]:
    return ((launch, instruction) for launch in kernel.launches for instruction in launch.instructions)


def _visited(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, "_Visitor"]:
    visitors: dict[str, _Visitor] = {}
    for _, instruction in _instructions(kernel):
        points = _points(kernel.loopy_kernel, frozenset(instruction.within_inames), sizes)
        visitors[instruction.id] = _Visitor(kernel, points, sizes)
        visitors[instruction.id].visit(instruction)
    return visitors


def _overheads(kernel: Kernel, launch: Launch, sizes: Mapping[str, int]) -> dict[str, int]:
    launches = _number_of_points(_points(kernel.loopy_kernel, launch.host_inames, sizes))
    passes = sum(_barrier_passes(kernel, launch, barrier.inames, sizes) for barrier in launch.barriers)
    return {
        "launches": launches,
        "work-groups": launches * math.prod(_extents(launch.group_axes, sizes).values()),
        "barriers": passes * math.prod(_extents(launch.local_axes, sizes).values()),
    }


def _finished(totals: Counter[str]) -> dict[str, int]:
    for name in list(totals):
        stores = totals.get(name.replace("load", "store"), 0)
        if name.startswith("global load ") and stores:
            totals[name.replace("load", "min(load, store)")] = min(totals[name], stores)
    return {name: int(number) for name, number in totals.items() if number}


# {{{ enumeration


def _points(knl: Any, inames: frozenset[str], sizes: Mapping[str, int]) -> Points:
    """Return all points of the loops over *inames*; one point if there are none."""
    domain = knl.get_inames_domain(inames)
    for name, (kind, index) in domain.get_var_dict(isl.dim_type.param).items():
        domain = domain.fix_val(kind, index, isl.Val(sizes[name]))
    domain = isl.Set.from_basic_set(domain).project_out(isl.dim_type.param, 0, domain.dim(isl.dim_type.param))
    domain = domain.project_out_except(sorted(inames), [isl.dim_type.set])
    order = [domain.get_dim_name(isl.dim_type.set, i) for i in range(domain.dim(isl.dim_type.set))]
    if not order:
        return {"": np.zeros(0 if domain.is_empty() else 1, int)}
    listed = _listed(domain)
    return {name: listed[:, column] for column, name in enumerate(order)}


def _listed(domain: isl.Set) -> np.ndarray:
    """Return all points of *domain*, which has no parameters: (points × dimensions)."""
    number = domain.dim(isl.dim_type.set)
    if domain.is_empty():
        return np.zeros((0, number), int)
    box = [(_number(domain.dim_min_val(i)), _number(domain.dim_max_val(i))) for i in range(number)]
    grid = np.stack(np.meshgrid(*(np.arange(low, high + 1) for low, high in box), indexing="ij"), axis=-1)
    candidates = grid.reshape(-1, len(box))
    return candidates[np.any([_inside(basic, candidates) for basic in domain.get_basic_sets()], axis=0)]


def _inside(basic: isl.BasicSet, candidates: np.ndarray) -> np.ndarray:
    if basic.dim(isl.dim_type.div):
        single = isl.Set.from_basic_set(basic)
        return np.array([_contains(single, point) for point in candidates])
    inside = np.ones(len(candidates), bool)
    for constraint in basic.get_constraints():
        value = np.full(len(candidates), _number(constraint.get_constant_val()))
        for dim in range(candidates.shape[1]):
            value = value + _number(constraint.get_coefficient_val(isl.dim_type.set, dim)) * candidates[:, dim]
        inside &= value == 0 if constraint.is_equality() else value >= 0
    return inside


def _contains(domain: isl.Set, point: np.ndarray) -> bool:
    for dim, value in enumerate(point):
        domain = domain.fix_val(isl.dim_type.set, dim, isl.Val(int(value)))
    return not domain.is_empty()


def _number(value: isl.Val) -> int:
    return value.to_python()


def _number_of_points(points: Points) -> int:
    return len(next(iter(points.values())))


def _extents(axes: Mapping[int, isl.PwAff], sizes: Mapping[str, int]) -> dict[int, int]:
    values = {axis: evaluate(pw_aff_to_expr(extent, int_ok=True), dict(sizes)) for axis, extent in axes.items()}
    return {axis: max(int(value), 0) for axis, value in values.items()}


def _copies(kernel: Kernel, launch: Launch, inames: Iterable[str], sizes: Mapping[str, int]) -> int:
    """Return how many work-items run the same point, along hardware axes that *inames* leave unused."""
    tags = [kernel.hardware_axis(iname) for iname in inames]
    used_groups = {tag.axis for tag in tags if isinstance(tag, GroupInameTag)}
    used_items = {tag.axis for tag in tags if isinstance(tag, LocalInameTag)}
    groups, items = _extents(launch.group_axes, sizes), _extents(launch.local_axes, sizes)
    return math.prod(n for axis, n in groups.items() if axis not in used_groups) * math.prod(
        n for axis, n in items.items() if axis not in used_items
    )


def _barrier_passes(kernel: Kernel, launch: Launch, loops: frozenset[str], sizes: Mapping[str, int]) -> int:
    """Return how often all groups together pass a barrier inside *loops*, whose bounds may differ between groups."""
    around = [insn for insn in launch.instructions if loops <= insn.within_inames]
    axes = {
        iname: kernel.hardware_axis(iname).axis
        for iname in sorted({iname for insn in around for iname in insn.within_inames}, reverse=True)
        if isinstance(kernel.hardware_axis(iname), GroupInameTag)
    }
    chosen = {axis: iname for iname, axis in axes.items()}  # one iname for each axis
    passes = _passes_by_group(kernel, loops, [chosen[axis] for axis in sorted(chosen)], sizes)
    extents = [extent for _, extent in sorted(_extents(launch.group_axes, sizes).items())]
    present = [axis in chosen for axis in sorted(launch.group_axes)]
    # An axis matters if moving along it alone changes the passes; along another all groups of the launch pass alike.
    matters = [_matters(passes, place) for place in range(len(chosen))]
    alike = math.prod(n for n, here in zip(extents, present, strict=True) if not here)
    inside = [n for n, here in zip(extents, present, strict=True) if here]
    alike *= math.prod(n for n, matter in zip(inside, matters, strict=True) if not matter)
    distinct = {tuple(np.array(group)[matters].tolist()): points for group, points in passes.items()}
    return alike * sum(map(len, distinct.values()))


Passes = dict[tuple[int, ...], frozenset[tuple[int, ...]]]
"""group -> the points of the loops that it passes"""


def _passes_by_group(kernel: Kernel, loops: frozenset[str], groups: list[str], sizes: Mapping[str, int]) -> Passes:
    ranges = [np.unique(_points(kernel.loopy_kernel, frozenset([iname]), sizes)[iname]).tolist() for iname in groups]
    points = _points(kernel.loopy_kernel, loops | frozenset(groups), sizes)
    names = (*groups, *sorted(loops))
    rows = zip(*(points[iname].tolist() for iname in names), strict=True) if names else [()] * _number_of_points(points)
    found: dict[tuple[int, ...], set[tuple[int, ...]]] = {group: set() for group in product(*ranges)}
    for row in rows:
        found[row[: len(groups)]].add(row[len(groups) :])
    return {group: frozenset(passed) for group, passed in found.items()}


def _matters(passes: Passes, place: int) -> bool:
    along: dict[tuple[int, ...], set[frozenset[tuple[int, ...]]]] = {}
    for group, passed in passes.items():
        along.setdefault(group[:place] + group[place + 1 :], set()).add(passed)
    return any(len(different) > 1 for different in along.values())


# }}}


# {{{ one instruction


@dataclass
class _Access:
    direction: str
    array: str
    bits: int
    addresses: np.ndarray
    """in elements, at each point"""
    stride: int
    """elements from one lane to the next, the same at all points"""


_OPERATIONS = {prim.Sum: "add", prim.Quotient: "div", prim.FloorDiv: "div", prim.Remainder: "div", prim.Power: "pow"}


class _Visitor:
    """Visits the expressions of one instruction, with the points at which they are evaluated."""

    def __init__(self, kernel: Kernel, points: Points, sizes: Mapping[str, int]) -> None:
        self.kernel, self.points = kernel, points
        self.evaluate = _PointwiseEvaluator({**sizes, **points})
        self.number = _number_of_points(points)
        self.types = TypeReader(kernel.loopy_kernel, kernel.callables)
        self.operations: Counter[str] = Counter()
        self.accesses: list[_Access] = []

    def visit(self, instruction: Any) -> None:
        if not isinstance(instruction, MultiAssignmentBase):
            return
        active = np.ones(self.number, bool)
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
        return np.broadcast_to(self.evaluate(condition), (self.number,)).astype(bool)

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
            self.operations[f"f{8 * dtype.itemsize} {kind}"] += number * int(active.sum())

    def access(self, expr: Any, direction: str, active: np.ndarray) -> None:
        name = expr.name if isinstance(expr, prim.Variable) else expr.aggregate.name
        array = self.kernel.array(name)
        if array is None:
            return
        bits = 8 * array.dtype.itemsize
        if array.address_space == AddressSpace.LOCAL:
            self.operations[f"local {direction} {bits}-bit"] += int(active.sum())
            return
        address = self.address(expr, array, {})
        lanes = {lane: self.points[lane] + 1 for lane in self.kernel.lane_inames(name for name in self.points if name)}
        strides = np.unique(np.abs(self.address(expr, array, lanes) - address))
        assert len(strides) <= 1, f"{name}: no single lane stride, but {strides}"
        self.accesses.append(_Access(direction, name, bits, address[active], int(sum(strides))))

    def address(self, expr: Any, array: Any, moved: Mapping[str, Any]) -> np.ndarray:
        """Return the element's address at each point, in elements, with some inames *moved*."""
        evaluator = _PointwiseEvaluator({**self.evaluate.context, **moved})
        result = np.zeros(self.number, int)
        for index, tag in zip(getattr(expr, "index_tuple", ()), array.dim_tags or (), strict=True):
            result = result + np.asarray(evaluator(index)) * int(evaluator(tag.stride))
        return result


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


EDGE = Fraction(1, 64)
"""of a half, third or quarter: what is more than that tips a class"""


def _classes(visited: Mapping[str, _Visitor]) -> dict[str, list[str]]:
    """Return for each instruction the properties that its accesses of global memory belong to, in their order."""
    found = [access for visitor in visited.values() for access in visitor.accesses]
    cells = {
        a: np.unique(np.concatenate([x.addresses for x in found if x.array == a])) for a in {x.array for x in found}
    }
    return {
        name: [f"global {x.direction} {x.bits}-bit stride {_stride_class(x, cells[x.array])}" for x in visitor.accesses]
        for name, visitor in visited.items()
    }


def _stride_class(access: _Access, cells: np.ndarray) -> str:
    """Of the cells between each lane's address and the next one's, how many are touched? Marked on a line of cells."""
    stride = access.stride
    if stride <= 1 or not len(access.addresses):
        return str(stride)
    parts = min(stride, 4)
    lanes = np.unique(access.addresses)
    neighboured = lanes[np.isin(lanes + stride, lanes)]
    lanes = neighboured if len(neighboured) else lanes
    marks = np.zeros(lanes.max() - lanes.min() + stride + 1, int)
    np.add.at(marks, lanes - lanes.min(), 1)
    np.add.at(marks, lanes - lanes.min() + stride, -1)
    between = lanes.min() + np.flatnonzero(np.cumsum(marks))
    density = Fraction(int(np.isin(between, cells).sum()), len(between))
    share = min(max(math.ceil(density * parts - EDGE), 1), parts)
    return f"{share}/{stride if stride <= 4 else '>4'}"


# }}}
