"""Transformations of Loopy kernels that Loopy does not offer as one call; the recipes of ``loopyperf advise`` use them.

Each function takes and returns a translation unit with one kernel, and keeps its results, up to rounding.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import islpy as isl
import loopy as lp
import numpy as np
from loopy.kernel.data import GroupInameTag, InameImplementationTag
from loopy.kernel.instruction import Assignment, AtomicInit, AtomicLoad, AtomicUpdate
from loopy.symbolic import IdentityMapper, Reduction, SubstitutionMapper, TypeCast, get_dependencies
from loopy.transform import data
from pymbolic import var
from pymbolic.primitives import Quotient, Sum

Unit = lp.TranslationUnit
__all__ = [
    "in_single_precision",
    "padded_rows",
    "partial_sums",
    "private_histogram",
    "reduce_in_group",
    "retag_inames",
    "several_per_work_item",
    "sum_first",
    "through_tile",
    "without_inames",
]


def retag_inames(unit: Unit, tags: Mapping[str, str | None]) -> Unit:
    """Return *unit* with the given inames tagged anew; None removes a tag. Loopy itself only adds tags."""
    kernel = unit.default_entrypoint
    for iname in tags:
        kernel = cast("Any", lp.untag_inames)(kernel, iname, InameImplementationTag)
    return lp.tag_inames(unit.with_kernel(kernel), {iname: tag for iname, tag in tags.items() if tag is not None})


def several_per_work_item(unit: Unit, numbers: Mapping[str, int]) -> Unit:
    """Return *unit* with groups that do the work of several: *numbers* has their number by group iname.

    A work-item then computes several results at once, in instruction-level parallel loops (``ilp``). Instructions whose
    results do not depend on such a loop, like loads of a tile, execute once. Tiles are stored one behind the other.
    """
    for iname, factor in numbers.items():
        (tag,) = [str(tag) for tag in unit.default_entrypoint.inames[iname].tags]
        unit = retag_inames(unit, {iname: None})
        unit = lp.split_iname(unit, iname, factor, outer_tag=tag, inner_iname=f"{iname}_each", inner_tag="ilp")
        kernel = unit.default_entrypoint
        every = {insn.id for insn in kernel.instructions if f"{iname}_each" in insn.within_inames}
        if once := every - _depending_on(kernel, f"{iname}_each"):
            match = " or ".join(f"id:{each}" for each in sorted(once))
            unit = unit.with_kernel(lp.remove_inames_from_insn(kernel, frozenset((f"{iname}_each",)), match))
        unit = _stored_apart(unit, f"{iname}_each")
    return _scheduled_silently(unit)


def _scheduled_silently(unit: Unit) -> Unit:
    """Return *unit* without Loopy's warning that it schedules ``ilp`` loops by its older algorithm."""
    kernel = unit.default_entrypoint
    return unit.with_kernel(kernel.copy(silenced_warnings=[*kernel.silenced_warnings, "v1_scheduler_fallback"]))


def _depending_on(kernel: lp.LoopKernel, iname: str) -> set[str]:
    """Return the ids of the instructions that depend on *iname*, or that must execute for each value of it."""
    found: set[str] = set()
    varying = {iname}
    instructions = [insn for insn in kernel.instructions if iname in insn.within_inames]
    while True:
        new = [
            insn
            for insn in instructions
            if insn.id not in found
            and (
                varying & (insn.dependency_names() | insn.reduction_inames())
                or not isinstance(insn, Assignment)
                or set(insn.assignee_var_names()) & insn.read_dependency_names()
            )
        ]
        if not new:
            return found
        for insn in new:
            found.add(insn.id)
            varying |= set(insn.assignee_var_names()) & kernel.temporary_variables.keys()


def _stored_apart(unit: Unit, iname: str) -> Unit:
    """Return *unit* with a copy of each temporary array for each value of *iname*, one behind the other in memory."""
    kernel = unit.default_entrypoint
    written = {
        name for insn in kernel.instructions if iname in insn.within_inames for name in insn.assignee_var_names()
    }
    for name in sorted(written & kernel.temporary_variables.keys()):
        array: Any = kernel.temporary_variables[name]
        strides = _strides(array)
        if not strides or not all(isinstance(length, int | np.integer) for length in array.shape):
            continue  # Loopy adds an axis where it replaces the loop
        unit = lp.privatize_temporaries_with_inames(unit, frozenset((iname,)), frozenset((name,)))
        unit = _with_strides(unit, name, (*strides, _elements(array.shape, strides)))
    return unit


def padded_rows(unit: Unit, array: str, number: int) -> Unit:
    """Return *unit* with *number* unused elements after each row of the temporary *array*.

    Raises :class:`ValueError` if *array* does not have several rows of known length, one behind the other.
    """
    strides = _strides(unit.default_entrypoint.temporary_variables[array])
    if len(strides) < 2 or strides[-1] != 1:
        raise ValueError(f"{array!r} does not have several rows of known length")
    row = strides[-2]
    return _with_strides(
        unit, array, [stride // row * (row + number) if stride >= row else stride for stride in strides]
    )


def _strides(array: Any) -> tuple[int, ...]:
    """Return the strides of *array* in elements, one per axis; empty if they are unknown."""
    strides = [getattr(tag, "stride", None) for tag in array.dim_tags or ()]
    return tuple(cast("Any", strides)) if all(isinstance(stride, int | np.integer) for stride in strides) else ()


def _elements(shape: Sequence[int], strides: Sequence[int]) -> int:
    return 1 + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))


def _with_strides(unit: Unit, name: str, strides: Sequence[int]) -> Unit:
    """Return *unit* with the temporary *name* stored with *strides*, and as long as they need.

    Loopy declares as many elements as the axes have, whatever their strides, unless another shape is stored.
    """
    unit = lp.tag_array_axes(unit, name, ", ".join(f"stride:{stride}" for stride in strides))
    kernel = unit.default_entrypoint
    array: Any = kernel.temporary_variables[name]
    stored = array.copy(storage_shape=(*[1] * (len(strides) - 1), _elements(array.shape, strides)))
    return unit.with_kernel(kernel.copy(temporary_variables={**kernel.temporary_variables, name: stored}))


def partial_sums(unit: Unit, iname: str, number: int) -> Unit:
    """Return *unit* with the reduction over *iname* in *number* accumulators, which do not wait for one another.

    Instructions that add to a variable in a loop over *iname* count as a reduction. Raises :class:`ValueError` if the
    loop needs a sum before its end.
    """
    part, each = f"{iname}_part", f"{iname}_each"
    is_loop = any(iname in insn.within_inames for insn in unit.default_entrypoint.instructions)
    unit = lp.split_iname(unit, iname, number, inner_iname=part)
    if is_loop:
        return _accumulated_apart(lp.tag_inames(unit, {part: "unr"}), part, number)
    unit = lp.split_reduction_outward(unit, part)
    unit = cast("Any", data).reduction_arg_to_subst_rule(unit, part, subst_rule_name=f"{iname}_partial")
    unit = lp.precompute(
        unit,
        f"{iname}_partial",
        part,
        precompute_inames=each,
        temporary_name=f"{iname}_sums",
        temporary_address_space=lp.AddressSpace.PRIVATE,
        default_tag=None,
    )
    return _scheduled_silently(lp.tag_inames(unit, {each: "ilp", part: "unr"}))


def accumulations(kernel: lp.LoopKernel, iname: str) -> dict[str, str]:
    """Return private variable -> id of the instruction that adds to it in the loop over *iname*."""
    found: dict[str, str] = {}
    for insn in kernel.instructions:
        name = str(insn.assignee) if isinstance(insn, Assignment) else ""
        if iname in insn.within_inames and name in kernel.temporary_variables.keys() & insn.read_dependency_names():
            found[name] = insn.id
    return found


def _accumulated_apart(unit: Unit, part: str, number: int) -> Unit:
    """Return *unit* with *number* elements in place of each variable to which the loop over *part* adds."""
    kernel = unit.default_entrypoint
    updates = accumulations(kernel, part)
    elements: dict[str, list[Any]] = {name: [var(name)[place] for place in range(number)] for name in updates}
    totals = {var(name): Sum(tuple(each)) for name, each in elements.items()}
    whole = SubstitutionMapper(cast("Any", totals.get))
    instructions: list[Any] = []
    for insn in cast("Sequence[Any]", kernel.instructions):
        name = next(iter(insn.assignee_var_names()), "")
        needed = insn.dependency_names() if part in insn.within_inames else {name} & insn.read_dependency_names()
        if insn.id == updates.get(name):
            own = var(name)[var(part)]
            instructions.append(insn.copy(assignee=own, expression=own + _added(insn)))
        elif updates.keys() & needed:
            raise ValueError(f"instruction {insn.id!r} needs a sum before its end")
        elif name in updates:  # the start of the sum
            first, *others = elements[name]
            zeros = [insn.copy(id=f"{insn.id}_{one.index}", assignee=one, expression=0) for one in others]
            ready = insn.depends_on | {zero.id for zero in zeros}
            instructions += [*zeros, insn.copy(assignee=first, depends_on=ready)]
        else:
            instructions.append(insn.with_transformed_expressions(whole))
    temporaries = {
        name: temporary.copy(shape=(number,), dim_tags=None) if name in updates else temporary
        for name, temporary in kernel.temporary_variables.items()
    }
    return unit.with_kernel(kernel.copy(instructions=instructions, temporary_variables=temporaries))


def reduce_in_group(unit: Unit, update: str, inames: Collection[str]) -> Unit:
    """Return *unit* with the atomic sum *update*, an instruction's id, once per group instead of once per work-item.

    The work-items along *inames* first sum their values in a tree in local memory. Raises :class:`ValueError` if
    *update* does not add to an element.
    """
    kernel = unit.default_entrypoint
    instruction = cast("Assignment", kernel.id_to_insn[update])
    total = Reduction("sum", tuple(sorted(inames)), _added(instruction))
    within = instruction.within_inames - frozenset(inames)
    reduced = instruction.copy(expression=Sum((instruction.assignee, total)), within_inames=within)
    return unit.with_kernel(
        kernel.copy(instructions=[reduced if insn.id == update else insn for insn in kernel.instructions])
    )


def private_histogram(unit: Unit, update: str, work_items: Sequence[int]) -> Unit:
    """Return *unit* with the atomic sums *update*, an instruction's id, in a copy of the array for each group.

    The copy is in local memory. The work-items of a group, of which there are *work_items* along each axis, clear it at
    the start and add it to the array at the end. Raises :class:`ValueError` if *update* does not add to an element.
    """
    kernel = unit.default_entrypoint
    instruction = cast("Assignment", kernel.id_to_insn[update])
    name, added = cast("Any", instruction.assignee).aggregate.name, _added(instruction)
    array: Any = kernel.arg_dict[name]
    (length,) = array.shape
    copy, clear, add = f"{name}_of_group", f"{name}_clear", f"{name}_add"
    bins = var(copy)[cast("Any", instruction.assignee).index]
    groups = frozenset(each for each in instruction.within_inames if kernel.inames[each].tags_of_type(GroupInameTag))
    own = instruction.copy(
        assignee=bins,
        expression=bins + added,
        atomicity=(AtomicUpdate(copy),),
        depends_on=instruction.depends_on | {clear},
    )
    first = Assignment(
        var(copy)[var(clear)], 0, id=clear, within_inames=groups | {clear}, atomicity=(AtomicInit(copy),)
    )
    last = Assignment(
        var(name)[var(add)],
        var(name)[var(add)] + var(copy)[var(add)],
        id=add,
        within_inames=groups | {add},
        depends_on=frozenset((update,)),
        atomicity=(AtomicUpdate(name), AtomicLoad(copy)),
    )
    shared = lp.TemporaryVariable(copy, array.dtype, shape=(length,), address_space=lp.AddressSpace.LOCAL)
    domains = [isl.BasicSet(f"{{ [{iname}] : 0 <= {iname} < {length} }}") for iname in (clear, add)]
    instructions = [own if insn.id == update else insn for insn in kernel.instructions]
    changed = kernel.copy(
        domains=[*kernel.domains, *domains],
        instructions=[*instructions, first, last],
        temporary_variables={**kernel.temporary_variables, copy: shared},
    )
    unit = unit.with_kernel(changed)
    for iname in (clear, add):
        unit = _along_group(unit, [iname], f"{iname}_element", work_items)
    return unit


def _added(update: Assignment) -> Any:
    """Return what *update* adds to its element."""
    expression = update.expression
    terms = [term for term in expression.children if term != update.assignee] if isinstance(expression, Sum) else []
    array = update.assignee_var_names()[0]
    is_sum = isinstance(expression, Sum) and len(terms) == len(expression.children) - 1
    if not is_sum or any(array in get_dependencies(term) for term in terms):
        raise ValueError(f"instruction {update.id!r} does not add to an element")
    return Sum(tuple(terms)) if len(terms) > 1 else terms[0]


def sum_first(unit: Unit, iname: str) -> Unit:
    """Return *unit* with sums over *iname* of other sums as sums of sums over *iname*.

    If the other sums are reductions among work-items, these happen once instead of in each iteration of *iname*.
    Raises :class:`ValueError` if there are no such sums.
    """
    swapped = _SumFirst(iname)
    kernel = unit.default_entrypoint
    instructions = [insn.with_transformed_expressions(swapped) for insn in kernel.instructions]
    if not swapped.found:
        raise ValueError(f"no sum over {iname!r} of other sums")
    return unit.with_kernel(kernel.copy(instructions=instructions))


class _SumFirst(IdentityMapper[[]]):
    """Exchanges two nested sums, of which the outer one is over an iname."""

    def __init__(self, iname: str) -> None:
        super().__init__()
        self.iname, self.found = iname, False

    def map_reduction(self, expr: Reduction, *args: Any, **kwargs: Any) -> Any:
        inner: Any = expr.expr
        sums = isinstance(inner, Reduction) and all(str(each.operation) == "sum" for each in (expr, inner))
        if not sums or self.iname not in expr.inames:
            return super().map_reduction(expr, *args, **kwargs)
        self.found = True
        return Reduction("sum", tuple(inner.inames), Reduction("sum", tuple(expr.inames), inner.expr))


def without_inames(unit: Unit, inames: Collection[str], tags: Mapping[str, str | None]) -> Unit:
    """Return *unit* without *inames*, on which no instruction depends; *tags* maps the others to axes anew."""
    kernel = unit.default_entrypoint
    instructions = [insn.copy(within_inames=insn.within_inames - frozenset(inames)) for insn in kernel.instructions]
    kernel = lp.remove_unused_inames(kernel.copy(instructions=instructions), tuple(inames))
    return retag_inames(unit.with_kernel(kernel), tags)


def in_single_precision(unit: Unit, names: Collection[str] = ()) -> Unit:
    """Return *unit* with the arguments and temporaries *names* in single precision.

    So are all literals, casts and quotients of integers.
    """
    kernel = unit.default_entrypoint
    arguments = [argument.copy(dtype=np.float32) if argument.name in names else argument for argument in kernel.args]
    temporaries = {
        name: temporary.copy(dtype=np.float32) if name in names else temporary
        for name, temporary in kernel.temporary_variables.items()
    }
    shorter = _Shorter(kernel)
    instructions = [insn.with_transformed_expressions(shorter) for insn in kernel.instructions]
    return unit.with_kernel(kernel.copy(args=arguments, temporary_variables=temporaries, instructions=instructions))


def is_quotient_of_integers(kernel: lp.LoopKernel, part: Any) -> bool:
    """Return whether *part* is a quotient of integers, which Loopy computes in double precision."""
    return isinstance(part, Quotient) and all(_is_integer(kernel, each) for each in (part.numerator, part.denominator))


def _is_integer(kernel: lp.LoopKernel, expression: Any) -> bool:
    """Return whether *expression* consists of inames, sizes, and integer variables of known type."""
    variables: Mapping[str, Any] = {**kernel.arg_dict, **kernel.temporary_variables}
    names = get_dependencies(expression) - kernel.all_inames() - kernel.all_params()
    types = [getattr(variables.get(name), "dtype", None) for name in names]
    is_exact = "." not in str(expression)
    return is_exact and all(getattr(dtype, "numpy_dtype", np.dtype("f8")).kind in "iu" for dtype in types)


class _Shorter(IdentityMapper[[]]):
    """Replaces literals, casts and quotients of integers in double precision by those in single precision."""

    def __init__(self, kernel: lp.LoopKernel) -> None:
        super().__init__()
        self.kernel = kernel

    def map_constant(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        return np.float32(expr) if isinstance(expr, float) else expr

    def map_quotient(self, expr: Quotient, *args: Any, **kwargs: Any) -> Any:
        above, below = cast("Any", self.rec(expr.numerator)), cast("Any", self.rec(expr.denominator))
        is_double = is_quotient_of_integers(self.kernel, expr)
        return Quotient(cast("Any", TypeCast(np.float32, above)) if is_double else above, below)

    def map_type_cast(self, expr: TypeCast, *args: Any, **kwargs: Any) -> Any:
        child = self.rec(expr.child)
        return TypeCast(np.float32, child) if expr.type.numpy_dtype == np.float64 else TypeCast(expr.type, child)


def through_tile(unit: Unit, array: str, inames: Sequence[str], work_items: Sequence[int]) -> Unit:
    """Return *unit* with the accesses of *array* along *inames* through a tile in local memory.

    All work-items of a group, of which there are *work_items* along each axis, load the tile together, or store it if
    the kernel only writes the array: neighboring ones access neighboring elements. Rows have an odd number of elements.
    """
    kernel = unit.default_entrypoint
    if any(array in insn.read_dependency_names() for insn in kernel.instructions):
        unit = lp.add_prefetch(unit, array, list(inames), default_tag=None)
    else:
        unit = lp.buffer_array(unit, array, list(inames), init_expression="0", default_tag=None)
    changed = unit.default_entrypoint
    (tile,) = changed.temporary_variables.keys() - kernel.temporary_variables.keys()
    strides = _strides(changed.temporary_variables[tile])
    if not strides:
        raise ValueError(f"the size of a tile of {array!r} depends on the sizes of the kernel")
    if len(strides) > 1 and strides[-2] % 2 == 0:
        unit = padded_rows(unit, tile, 1)
    new = changed.all_inames() - kernel.all_inames()
    every = frozenset[str]().union(
        *(insn.within_inames for insn in kernel.instructions if array in insn.dependency_names())
    )
    groups = frozenset(iname for iname in every if kernel.inames[iname].tags_of_type(GroupInameTag))
    is_by_columns = getattr((cast("Any", kernel.arg_dict[array]).dim_tags or [None])[0], "stride", None) == 1
    for insn in changed.instructions:
        own = sorted(insn.within_inames & new, reverse=is_by_columns)  # the nearest elements in memory last
        if own:
            unit = lp.add_inames_to_insn(unit, groups, f"id:{insn.id}")
            unit = _along_group(unit, own, f"{insn.id}_element", work_items)
    return unit


def _along_group(unit: Unit, inames: Sequence[str], name: str, work_items: Sequence[int]) -> Unit:
    """Return *unit* with the iterations of *inames* distributed over the work-items of a group."""
    unit = lp.join_inames(unit, inames, name) if len(inames) > 1 else lp.rename_iname(unit, inames[0], name)
    for axis, length in enumerate(work_items):
        unit = lp.split_iname(unit, name, length, inner_tag=f"l.{axis}", outer_iname=f"{name}_{axis}")
        name = f"{name}_{axis}"
    return unit
