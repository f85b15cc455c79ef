"""Entry point for Loopy: convert a translation unit to a frozen :class:`Kernel`.

Loopy's costly passes (preprocessing, linearization) run once. The kernel then provides what the other packages need:
the launches, one for each device program, with their instructions in execution order, barriers, grid and local memory.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, cast

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
from loopy.diagnostic import CannotBranchDomainTree, ExpressionToAffineConversionError
from loopy.kernel import LoopKernel
from loopy.kernel.array import ArrayBase
from loopy.kernel.data import AddressSpace, GroupInameTag, LocalInameTag
from loopy.kernel.instruction import InstructionBase, MultiAssignmentBase
from loopy.symbolic import IdentityMapper, get_dependencies, isl_set_from_expr
from loopy.target.opencl import OpenCLTarget, VolatileMemOpenCLTarget
from loopy.target.pyopencl import VolatileMemPyOpenCLTarget
from loopy.types import LoopyType
from pymbolic import evaluate
from pytools import memoize_method

from loopyperf.kernel.integers import (
    Layout,
    contiguous_layout,
    integer_arguments,
    plain_scalars,
    values_of_temporaries,
    with_layout,
)
from loopyperf.kernel.launches import Launch, hardware_axis, launches_of, local_memory, points_of
from loopyperf.kernel.loopy_passes import Program, as_translation_unit, linearized
from loopyperf.polyhedral.sets import between_ends, dimension_interval, names_involved
from loopyperf.units import listed

SET = isl.dim_type.set
PARAM = isl.dim_type.param
VOLATILE = (VolatileMemOpenCLTarget, VolatileMemPyOpenCLTarget)
"""Loopy targets that qualify memory accesses as volatile"""
MOST_NAMED = 4
"""maximum number of strides and offsets listed in a note"""


@dataclass(frozen=True)
class Kernel:
    """A preprocessed and linearized Loopy kernel."""

    loopy_kernel: LoopKernel
    callables: Mapping[Any, Any]
    launches: tuple[Launch, ...]
    contiguous: Layout = field(default_factory=dict[str, Any])
    """stride and offset arguments without a given value -> their values in contiguous arrays"""
    written: LoopKernel | None = field(default=None, repr=False, compare=False)
    """:attr:`loopy_kernel` before strides and offsets were replaced by their values"""

    @property
    def name(self) -> str:
        """Return the name of the entry point."""
        return self.loopy_kernel.name

    @property
    def is_opencl(self) -> bool:
        """Return whether Loopy generates OpenCL C for it."""
        return isinstance(self.loopy_kernel.target, OpenCLTarget)

    @cached_property
    def assumptions(self) -> isl.BasicSet:
        """Return the assumptions about parameters, as a set whose space has all :attr:`parameters`.

        They include that no axis of an argument has a negative length.
        """
        names = sorted(self.parameters)
        space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[], params=names)
        assumed = self.loopy_kernel.assumptions.align_params(space.params())
        for length in dict.fromkeys(self._lengths):
            assumed = assumed & _not_negative(space, length).align_params(assumed.get_space())
        return assumed

    @property
    def _lengths(self) -> Iterator[Any]:
        """Yield the axis lengths of arguments that depend only on parameters."""
        shapes = [array.shape for array in self.loopy_kernel.args if isinstance(array, ArrayBase)]
        for length in (length for shape in shapes if isinstance(shape, tuple) for length in cast("Any", shape)):
            names = frozenset[str]() if length is None else get_dependencies(length)
            if names and names <= self.parameters:
                yield length

    @cached_property
    def parameters(self) -> frozenset[str]:
        """Return the names of the integer arguments, the only ones that can affect a count."""
        return integer_arguments(self.loopy_kernel) - self.contiguous.keys()

    @cached_property
    def sizes(self) -> frozenset[str]:
        """Return the :attr:`parameters` that affect loops, conditions, addresses or lengths."""
        return self.parameters - plain_scalars(self.loopy_kernel, self.parameters)

    @cached_property
    def function_names(self) -> Mapping[str, str]:
        """Return name in this kernel -> name of the function, for functions that Loopy renamed per argument type."""
        names = {str(called): str(each.name) for called, each in self.callables.items()}
        return {called: name for called, name in names.items() if called != name}

    def laid_out(self, given: Mapping[str, Any]) -> "Kernel":
        """Return the kernel with strides and offsets from *given* in place of those in :attr:`contiguous`.

        They become sizes of it; values that are not integers, such as arrays of sizes, stay symbolic.
        """
        named = self.contiguous.keys() & given.keys()
        if self.written is None or not named:
            return self
        left = {name: value for name, value in self.contiguous.items() if name not in named}
        values = {name: int(given[name]) for name in named if isinstance(given[name], (int, np.integer))}
        changed = with_layout(self.written, {**left, **values}, left)
        return replace(self, loopy_kernel=changed, launches=tuple(launches_of(changed)), contiguous=left)

    def with_contiguous(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return *sizes*, which must be complete, and the values of the :attr:`contiguous` strides and offsets."""
        return {**sizes, **{name: int(evaluate(value, dict(sizes))) for name, value in self.contiguous.items()}}

    @property
    def assumed(self) -> tuple[str, ...]:
        """Return notes on the assumed array layout, if any is assumed, and on types for which Loopy has no code."""
        found: list[str] = []
        if self.contiguous:
            first = next(iter(self.contiguous))
            stated = listed((f"{name} = {value}" for name, value in self.contiguous.items()), MOST_NAMED)
            found.append(f"arrays are assumed contiguous: {stated}; set size {first!r} for another layout")
        if without_code := self._types_without_code:
            target = type(self.loopy_kernel.target).__name__
            found.append(f"Loopy generates no code for {', '.join(without_code)} with {target}")
        return tuple(found)

    @property
    def _types_without_code(self) -> tuple[str, ...]:
        """Return the types of arguments and temporaries that Loopy's target cannot declare."""
        registry = self.loopy_kernel.target.get_dtype_registry()
        variables: list[Any] = [*self.loopy_kernel.args, *self.loopy_kernel.temporary_variables.values()]
        found: dict[str, None] = {}
        for dtype in dict.fromkeys(variable.dtype for variable in variables):
            try:
                registry.dtype_to_ctype(dtype)
            except ValueError:
                found[str(dtype.numpy_dtype)] = None
        return tuple(found)

    def index_overflow(self, sizes: Mapping[str, int]) -> tuple[str, ...]:
        """Return a note on the arrays with more elements at *sizes* than the type of Loopy's indices can number.

        An index that depends on a size of 64 bits has 64 bits, but loop variables always have the index type.
        """
        kernel = self.loopy_kernel
        limit = np.iinfo(kernel.index_dtype.numpy_dtype).max
        wide = {each.name for each in kernel.args if each.dtype is not None and each.dtype.itemsize == 8}
        found: list[str] = []
        for name, array in self.arrays.items():
            shape = cast("tuple[Any, ...]", array.shape) if isinstance(array.shape, tuple) else ()
            shape = () if None in shape else shape
            used = frozenset[str]().union(*map(get_dependencies, shape))
            if used <= sizes.keys():
                lengths = [int(evaluate(length, dict(sizes))) for length in shape]
                if (max(lengths, default=0) if used & wide else prod(lengths)) - 1 > limit:
                    found.append(name)
        if not found:
            return ()
        return (
            f"indices of {listed(found, MOST_NAMED)} exceed {kernel.index_dtype.numpy_dtype} at these sizes, so the "
            "kernel accesses wrong elements; use lp.make_kernel(..., index_dtype=np.int64)",
        )

    def is_known(self, expression: Any) -> bool:
        """Return whether *expression* depends only on loop variables and sizes."""
        return get_dependencies(expression) <= self.known_names

    def as_written(self, expression: Any) -> Any:
        """Return *expression* in terms of the loops of the source, before Loopy split, joined or mapped them."""
        for replaced in reversed(self.loopy_kernel.applied_iname_rewrites):
            for name, loops in replaced.items():
                expression = _Restored(name, loops)(expression)
        return expression

    @cached_property
    def known_names(self) -> frozenset[str]:
        """Return the names of loop variables and sizes."""
        return self.parameters | self.loopy_kernel.all_inames()

    @cached_property
    def arrays(self) -> Mapping[str, ArrayBase]:
        """Return name -> argument or temporary, for those in memory.

        Scalar arguments and temporaries in the private address space are not.
        """
        arguments = {each.name: each for each in self.loopy_kernel.args if isinstance(each, ArrayBase)}
        temporaries = self.loopy_kernel.temporary_variables
        in_memory = {n: each for n, each in temporaries.items() if each.address_space != AddressSpace.PRIVATE}
        return {**{n: each for n, each in arguments.items() if n not in temporaries}, **in_memory}

    def domain(self, inames: Collection[str]) -> isl.Set:
        """Return the iterations of loops over exactly *inames*, as a set over these inames.

        Dimensions that Loopy's home domains add are projected out (Stevens and Klöckner, Algorithm 1), and integer
        temporaries that bound loops are replaced by their values.
        """
        return self._domain(frozenset(inames))

    @memoize_method
    def _domain(self, inames: frozenset[str]) -> isl.Set:
        points = points_of(self.loopy_kernel, inames)
        names = points.get_var_dict(PARAM)
        bounds = {name: value for name, value in self.affine_temporaries.items() if name in names}
        return self._bounded(inames, bounds) if bounds else points

    def _bounded(self, inames: frozenset[str], bounds: Mapping[str, Any]) -> isl.Set:
        """Return the iterations of loops over *inames*, with temporaries in their *bounds* replaced by their values."""
        involved = frozenset[str]().union(*map(get_dependencies, bounds.values())) & self.loopy_kernel.all_inames()
        points = points_of(self.loopy_kernel, inames | involved)
        sizes = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[], params=sorted(self.parameters))
        points = points.align_params(sizes)
        for name, value in bounds.items():
            place = points.get_var_dict(PARAM)[name][1]
            points &= isl_set_from_expr(points.get_space(), prim.Comparison(prim.Variable(name), "==", value))
            points = points.project_out(PARAM, place, 1)
        return points.project_out_except(sorted(inames), [SET])

    @memoize_method
    def values(self, iname: str) -> range | None:
        """Return the range from the first to the last value of *iname*; None if sizes bound the loop."""
        constant = dimension_interval(self.loopy_kernel.get_inames_domain(frozenset((iname,))), iname)
        return between_ends(self.domain((iname,)), iname) if constant is None else constant

    @cached_property
    def integer_temporaries(self) -> Mapping[str, Any]:
        """Return integer temporary -> its value, an expression, for temporaries with a single value."""
        instructions = [instruction for launch in self.launches for instruction in launch.instructions]
        return values_of_temporaries(self.loopy_kernel, instructions)

    @cached_property
    def known_temporaries(self) -> Mapping[str, Any]:
        """Return the :attr:`integer_temporaries` that are functions of loop variables and sizes."""
        return {name: value for name, value in self.integer_temporaries.items() if self.is_known(value)}

    @cached_property
    def affine_temporaries(self) -> Mapping[str, Any]:
        """Return the :attr:`known_temporaries` that are affine functions."""
        return {name: value for name, value in self.known_temporaries.items() if _is_affine(value)}

    @cached_property
    def constant_temporaries(self) -> Mapping[str, bool]:
        """Return truth value of each private temporary that is assigned only one, unconditionally."""
        found: dict[str, Any] = {}
        for instruction in (instruction for launch in self.launches for instruction in launch.instructions):
            for name in instruction.assignee_var_names():
                value: Any = getattr(instruction, "expression", None)
                found[name] = None if instruction.predicates or name in found or name in self.arrays else value
        return {name: value for name, value in found.items() if isinstance(value, bool)}

    @cached_property
    def hardware_axes(self) -> Mapping[str, GroupInameTag | LocalInameTag]:
        """Return iname -> the grid or group axis that it is mapped to, for inames mapped to one."""
        axes = {iname: hardware_axis(self.loopy_kernel, iname) for iname in sorted(self.loopy_kernel.all_inames())}
        return {iname: axis for iname, axis in axes.items() if axis is not None}

    def lane_inames(self, inames: Iterable[str]) -> frozenset[str]:
        """Return the *inames* that number the work-items along the first axis of a group (``l.0``)."""
        axes = {iname: self.hardware_axes.get(iname) for iname in inames}
        return frozenset(name for name, tag in axes.items() if isinstance(tag, LocalInameTag) and tag.axis == 0)

    def on_every_lane(self, launch: Launch, inames: frozenset[str]) -> frozenset[str]:
        """Return *inames* with the hardware axes of *launch* added that they do not use.

        As in ``loopy.add_inames_for_unused_hw_axes``, an axis is added only if a single iname is mapped to it, whose
        bounds then apply, and if the domain of that iname is compatible with the others.
        """
        used = {launch.numbering.get(iname) for iname in inames}
        times = Counter(launch.numbering.values())
        for iname, axis in launch.numbering.items():
            if times[axis] == 1 and axis not in used and self._share_a_domain(inames | {iname}):
                inames |= {iname}
        return inames

    def _share_a_domain(self, inames: frozenset[str]) -> bool:
        try:
            self.loopy_kernel.get_leaf_domain_indices(inames)
        except CannotBranchDomainTree:
            return False
        return True

    @cached_property
    def first_on_axes(self) -> Mapping[str, int]:
        """Return the first values of the hardware inames that start at the same number for all sizes."""
        return {iname: first for launch in self.launches for iname, first in launch.first_values.items()}

    @cached_property
    def lane_variables(self) -> frozenset[str]:
        """Return the private temporaries whose values may differ between work-items along ``l.0``.

        A value differs if its operands or its condition differ. It also differs if lanes execute different numbers of
        iterations of the loops around its computation, since it may come from the last one.
        """
        variables = self.loopy_kernel.temporary_variables
        private = {name for name, variable in variables.items() if variable.address_space == AddressSpace.PRIVATE}
        used_for: dict[str, set[str]] = {name: set() for name in private}
        pending: set[str] = set()
        for instruction in (instruction for launch in self.launches for instruction in launch.instructions):
            written = private.intersection(instruction.assignee_var_names())
            inames, decisive = frozenset[str](instruction.within_inames), self.deciding(instruction)
            for name in private & decisive:
                used_for[name] |= written
            if self.lane_inames(inames & decisive):
                pending |= written
        found: set[str] = set()
        while pending:
            name = pending.pop()
            found.add(name)
            pending |= used_for[name] - found
        return frozenset(found)

    def deciding(self, instruction: InstructionBase) -> frozenset[str]:
        """Return the inames and variables that determine the result of *instruction*.

        It reads them, or they bound the loops around it. Foreign code may use any iname.
        """
        inames = frozenset[str](instruction.within_inames)
        read = frozenset[str](instruction.read_dependency_names()) | self._bounds_of_loops(inames)
        return read if isinstance(instruction, MultiAssignmentBase) else read | inames

    @memoize_method
    def _bounds_of_loops(self, inames: frozenset[str]) -> frozenset[str]:
        """Return the inames and data, but not sizes, in the bounds of the sequential loops among *inames*."""
        loops = frozenset(iname for iname in inames if self.hardware_axes.get(iname) is None)
        constraints = (c for basic in self.domain(inames).get_basic_sets() for c in basic.get_constraints())
        involved = (names_involved(each, SET, PARAM) for each in (constraints if loops else ()))
        return frozenset[str]().union(*(names for names in involved if names & loops)) - self.parameters


class _Restored(IdentityMapper[[]]):
    """Replaces an expression of loop variables by the variable that Loopy replaced by it."""

    def __init__(self, variable: Any, loops: Any) -> None:
        super().__init__()
        self.variable, self.loops = variable, loops

    def rec(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        return self.variable if expr == self.loops else super().rec(expr, *args, **kwargs)

    __call__ = rec


def _is_affine(value: Any) -> bool:
    """Return whether isl can express *value* in one set of constraints."""
    space = isl.Space.create_from_names(isl.DEFAULT_CONTEXT, set=[], params=["", *sorted(get_dependencies(value))])
    try:
        return isl_set_from_expr(space, prim.Comparison(prim.Variable(""), "==", value)).n_basic_set() == 1
    except (ExpressionToAffineConversionError, NotImplementedError, isl.Error):
        return False


def load_kernel(program: Program) -> Kernel:
    """Preprocess and linearize *program*, and return it as a :class:`Kernel`; no code is generated.

    Accesses are not checked against array bounds: code generation does this, and it takes longer than counting.

    Raises :class:`KernelError` if Loopy cannot infer types, find a schedule or generate code, or if there is not
    exactly one entry point, and :class:`UnboundedDomainError` if a loop lacks bounds that Loopy needs.
    """
    unit = linearized(as_translation_unit(program))
    kernel = unit.default_entrypoint
    contiguous = contiguous_layout(kernel)
    laid_out = with_layout(kernel, contiguous, contiguous)
    return Kernel(laid_out, unit.callables_table, tuple(launches_of(laid_out)), contiguous, kernel)


def _not_negative(space: isl.Space, length: Any) -> isl.BasicSet:
    """Return the set where *length* is not negative, if that is one linear constraint, else everything.

    Loopy guesses the shape 6*n - 2 from an access a[6*i+3] with i < n. With n = 0 nothing is accessed, so negative
    constants are dropped.
    """
    everywhere = isl.BasicSet.universe(space.params())
    try:
        positive = isl_set_from_expr(space, prim.Comparison(length, ">=", 0)).params()
    except (ExpressionToAffineConversionError, NotImplementedError, isl.Error):
        return everywhere
    constraints = [constraint for basic in positive.get_basic_sets() for constraint in basic.get_constraints()]
    if len(constraints) != 1 or constraints[0].dim(isl.dim_type.div):
        return everywhere
    (constraint,) = constraints
    if constraint.get_constant_val().is_neg():
        constraint = constraint.set_constant_val(isl.Val.zero(isl.DEFAULT_CONTEXT))
    return everywhere.add_constraint(constraint)


# {{{ resources that a work-group needs


@dataclass(frozen=True, slots=True)
class Group:
    """Lower bounds on the resources of the largest group of a kernel."""

    work_items: int
    """work-items in the group"""
    local_memory: int
    """local memory in bytes"""


def group_of(kernel: Kernel) -> Group:
    """Return the resources of a group of *kernel*, from the lengths of its hardware loops and its local arrays.

    Lengths that depend on a size count as 1, and arrays as 0 bytes.
    """
    return Group(
        _work_items(kernel.loopy_kernel, kernel.values),
        max((launch.local_memory or 0 for launch in kernel.launches), default=0),
    )


def declared_group(kernel: LoopKernel) -> Group:
    """Return the resources of a group of a *kernel* that is not preprocessed; Loopy may add local arrays later."""

    def values(name: str) -> range | None:
        return between_ends(isl.Set.from_basic_set(kernel.get_inames_domain(frozenset((name,)))), name)

    return Group(_work_items(kernel, values), max(_declared(kernel), default=0))


def _work_items(kernel: LoopKernel, values_of: Callable[[str], range | None]) -> int:
    extents: dict[int, int] = {}
    for name, iname in kernel.inames.items():
        for tag in iname.tags_of_type(LocalInameTag):
            values = values_of(name)
            extents[tag.axis] = max(extents.get(tag.axis, 1), 1 if values is None else len(values))
    return prod(extents.values())


def _declared(kernel: LoopKernel) -> Iterator[int]:
    """Yield the bytes of local memory of each instruction, lower bounds for its launch."""
    variables = kernel.temporary_variables.values()
    local = [variable for variable in variables if variable.address_space == AddressSpace.LOCAL]
    if local and all(isinstance(each.dtype, LoopyType) for each in local):
        for instruction in kernel.instructions:
            yield local_memory(kernel, [instruction]) or 0


# }}}
