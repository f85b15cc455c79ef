"""An independent counter: it enumerates.

At concrete sizes it lists the points of each instruction's loops one by one, evaluates conditions and addresses at
them with NumPy, and adds up. It knows nothing of quasi-polynomials, of barvinok, or of the counters in
``loopyperf.counts``; of loopyperf it uses only the front door and the names of the properties.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
from loopy.kernel.data import AddressSpace, GroupInameTag, LocalInameTag
from loopy.kernel.instruction import MultiAssignmentBase
from loopy.symbolic import pw_aff_to_expr
from loopy.type_inference import TypeReader
from pymbolic import evaluate

from loopyperf.kernel import Kernel, Launch

Points = dict[str, np.ndarray]
"""iname -> its value at each point"""


COUNTINGS = ("paper", "executed")


def brute_force(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return counting -> the unified model's properties of *kernel* at *sizes*, by enumeration.

    Counts of zero are left out.
    """
    totals = {counting: Counter[str]() for counting in COUNTINGS}
    accesses: list[_Access] = []
    for launch in kernel.launches:
        groups, items = _extents(launch.group_axes, sizes), _extents(launch.local_axes, sizes)
        overheads = _overheads(kernel, launch, sizes, groups, items)
        for instruction in launch.instructions:
            points = _points(kernel.loopy_kernel, frozenset(instruction.within_inames), sizes)
            copies = {"paper": 1, "executed": _copies(kernel, instruction.within_inames, groups, items)}
            visitor = _Visitor(kernel, points, sizes, copies)
            visitor.visit(instruction)
            accesses.extend(visitor.accesses)
            for counting in COUNTINGS:
                totals[counting].update({k: v * copies[counting] for k, v in visitor.operations.items()})
        for counting in COUNTINGS:
            totals[counting].update(overheads)
    _add_access_classes(totals, accesses)
    return {counting: _finished(totals[counting]) for counting in COUNTINGS}


def _overheads(kernel: Kernel, launch: Launch, sizes: Any, groups: Any, items: Any) -> dict[str, int]:
    passes = sum(_barrier_passes(kernel, launch, barrier.inames, sizes, groups) for barrier in launch.barriers)
    return {
        "launches": 1,
        "work-groups": math.prod(groups.values()),
        "barriers": passes * math.prod(items.values()),
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


def _extents(axes: Mapping[int, isl.PwAff], sizes: Mapping[str, int]) -> dict[int, int]:
    return {axis: int(evaluate(pw_aff_to_expr(extent, int_ok=True), dict(sizes))) for axis, extent in axes.items()}


def _copies(kernel: Kernel, inames: Any, groups: Mapping[int, int], items: Mapping[int, int]) -> int:
    tags = [kernel.hardware_axis(iname) for iname in inames]
    used_groups = {tag.axis for tag in tags if isinstance(tag, GroupInameTag)}
    used_items = {tag.axis for tag in tags if isinstance(tag, LocalInameTag)}
    return math.prod(n for axis, n in groups.items() if axis not in used_groups) * math.prod(
        n for axis, n in items.items() if axis not in used_items
    )


def _barrier_passes(
    kernel: Kernel, launch: Launch, loops: frozenset[str], sizes: Mapping[str, int], groups: Any
) -> int:
    """Return how often all groups together pass a barrier, where loop bounds may differ between groups."""
    around = [insn for insn in launch.instructions if loops <= insn.within_inames]
    if not loops:
        return math.prod(groups.values())
    group_inames = {
        i for insn in around for i in insn.within_inames if isinstance(kernel.hardware_axis(i), GroupInameTag)
    }
    one_per_axis = {kernel.hardware_axis(iname).axis: iname for iname in sorted(group_inames)}
    points = _points(kernel.loopy_kernel, loops | frozenset(one_per_axis.values()), sizes)
    missing = math.prod(extent for axis, extent in groups.items() if axis not in one_per_axis)
    return len(next(iter(points.values()))) * missing


# }}}


# {{{ one instruction


@dataclass
class _Access:
    direction: str
    array: str
    bits: int
    copies: Mapping[str, int]
    """by counting"""
    addresses: np.ndarray
    """in elements, at each point"""
    stride: int
    """elements from one lane to the next, the same at all points"""


_OPERATIONS = {prim.Sum: "add", prim.Quotient: "div", prim.FloorDiv: "div", prim.Remainder: "div", prim.Power: "pow"}


class _Visitor:
    """Visits the expressions of one instruction, with the points at which they are evaluated."""

    def __init__(self, kernel: Kernel, points: Points, sizes: Mapping[str, int], copies: Mapping[str, int]) -> None:
        self.kernel, self.points, self.copies = kernel, points, copies
        self.context: dict[str, Any] = {**sizes, **points}
        self.number = len(next(iter(points.values())))
        self.types = TypeReader(kernel.loopy_kernel, kernel.callables)
        self.operations: Counter[str] = Counter()
        self.accesses: list[_Access] = []

    def visit(self, instruction: Any) -> None:
        if not isinstance(instruction, MultiAssignmentBase):
            return
        active = np.ones(self.number, bool)
        for predicate in instruction.predicates:
            active &= np.broadcast_to(evaluate(predicate, self.context), active.shape).astype(bool)
        self.expression(instruction.expression, active)
        for assignee in instruction.assignees:
            self.access(assignee, "store", active)
            for index in getattr(assignee, "index_tuple", ()):
                self.expression(index, active)

    def expression(self, expr: Any, active: np.ndarray) -> None:
        if not isinstance(expr, prim.ExpressionNode):
            return
        if isinstance(expr, (prim.Variable, prim.Subscript)):
            self.access(expr, "load", active)
            children = list(getattr(expr, "index_tuple", ()))
        elif isinstance(expr, prim.If):
            holds = np.broadcast_to(evaluate(expr.condition, self.context), active.shape).astype(bool)
            self.expression(expr.then, active & holds)
            self.expression(expr.else_, active & ~holds)
            children = [expr.condition]
        else:
            children = self.operation(expr, active)
        for child in children:
            self.expression(child, active)

    def operation(self, expr: Any, active: np.ndarray) -> list[Any]:
        if isinstance(expr, prim.Call):
            name = self.kernel.callables[expr.function.name].name
            kind = "" if "abs" in name else "" if name in ("min", "max", "fmin", "fmax") else "special"
            self.add(expr, "pow" if name == "pow" else kind, 1, active)
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
        dtype = self.types(expr).numpy_dtype
        if kind and dtype.kind == "f" and number > 0:
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
        address = self.address(expr, array, self.context)
        lanes = {lane: self.points[lane] + 1 for lane in self.kernel.lane_inames(name for name in self.points if name)}
        strides = np.unique(np.abs(self.address(expr, array, {**self.context, **lanes}) - address))
        assert len(strides) <= 1, f"{name}: no single lane stride, but {strides}"
        self.accesses.append(_Access(direction, name, bits, self.copies, address[active], int(sum(strides))))

    def address(self, expr: Any, array: Any, context: Mapping[str, Any]) -> np.ndarray:
        """Return the element's address at each point, in elements."""
        result = np.zeros(self.number, int)
        for index, tag in zip(getattr(expr, "index_tuple", ()), array.dim_tags or (), strict=True):
            result = result + np.asarray(evaluate(index, context)) * int(evaluate(tag.stride, context))
        return result


# }}}


# {{{ classes


def _add_access_classes(totals: Mapping[str, Counter[str]], accesses: list[_Access]) -> None:
    arrays = {access.array for access in accesses}
    cells = {a: np.unique(np.concatenate([x.addresses for x in accesses if x.array == a])) for a in arrays}
    for access in accesses:
        name = f"global {access.direction} {access.bits}-bit stride {_stride_class(access, cells[access.array])}"
        for counting in COUNTINGS:
            totals[counting][name] += len(access.addresses) * access.copies[counting]


def _stride_class(access: _Access, cells: np.ndarray) -> str:
    stride = access.stride
    if stride <= 1:
        return str(stride)
    parts = min(stride, 4)
    # Of the cells between each lane's address and the next one's, how many are touched? Marked on a line of cells.
    starts = np.unique(access.addresses)
    marks = np.zeros(starts.max() - starts.min() + stride + 1, int)
    np.add.at(marks, starts - starts.min(), 1)
    np.add.at(marks, starts - starts.min() + stride, -1)
    between = starts.min() + np.flatnonzero(np.cumsum(marks))
    used = np.isin(between, cells).sum() - (stride - 1)
    density = Fraction(max(int(used), 1), len(between))
    share = min(max(math.ceil(density * parts), 1), parts)
    return f"{share}/{stride if stride <= 4 else '>4'}"


# }}}
