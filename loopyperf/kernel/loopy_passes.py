"""Loopy's passes on a program, and the checks that Loopy runs before it generates code.

Loopy's errors become one line. Loopy prints the whole program when a check fails; :func:`without_dumps` suppresses this
output.
"""

import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

import islpy as isl
import loopy as lp
import pymbolic.primitives as prim
from loopy import check, isl_helpers, schedule
from loopy.diagnostic import LoopyError, UnscheduledInstructionError
from loopy.kernel import KernelState, LoopKernel, creation, tools
from loopy.kernel.array import ArrayBase, VectorArrayDimTag
from loopy.kernel.function_interface import CallableKernel
from loopy.kernel.instruction import Assignment, CallInstruction, InstructionBase
from loopy.schedule import EnterLoop, LeaveLoop, RunInstruction, ScheduleItem
from loopy.symbolic import SubArrayRef
from loopy.translation_unit import TranslationUnit, resolve_callables
from loopy.types import LoopyType
from pytools import UniqueNameGenerator

from loopyperf.errors import KernelError, LoopyperfError, UnboundedDomainError, one_line
from loopyperf.kernel.launches import hardware_axis, points_of
from loopyperf.polyhedral.sets import own

UNCHECKED = "no_check"
"""value of the Loopy option that disables the check of array bounds"""

Program = TranslationUnit | LoopKernel


# {{{ from a program to a translation unit


def checked_program(program: object) -> Program:
    """Return *program*; raises :class:`KernelError` if it is not a Loopy program."""
    if isinstance(program, Program):
        return program
    if isinstance(program, Mapping | list | tuple):
        hint = "to compare several kernels, use rank"
    else:
        hint = "call it to get its kernel" if callable(program) else "build one with loopy.make_kernel(...)"
    name = type(cast("object", program)).__name__
    raise KernelError(f"expected a loopy TranslationUnit or LoopKernel, got {name}; {hint}")


def as_translation_unit(program: object) -> TranslationUnit:
    """Return *program* as a translation unit with one entry point; raises :class:`KernelError` if it is not one."""
    program = checked_program(program)
    if isinstance(program, LoopKernel):
        return _unit_of(program)
    if len(program.entrypoints) != 1:
        names = ", ".join(sorted(program.entrypoints)) or "none"
        raise KernelError(
            f"a translation unit must have one entry point, this one has {names}; "
            "choose one with unit.with_entrypoints(name)"
        )
    return program


def _unit_of(kernel: LoopKernel) -> TranslationUnit:
    """Return *kernel* as a translation unit; called functions are resolved again, since a LoopKernel has no table."""
    unresolved = kernel.copy(state=KernelState.INITIAL, linearization=None)
    unit = resolve_callables(lp.make_program(unresolved).with_entrypoints(kernel.name))
    try:
        tools.get_resolved_callable_ids_called_by_knl(unit.default_entrypoint, unit.callables_table)
    except KeyError as error:
        raise KernelError(
            f"kernel {kernel.name!r} calls {error.args[0]!r}, which only its translation unit defines; pass that unit"
        ) from error
    return unit


# }}}


# {{{ passes and checks


def linearized(unit: TranslationUnit) -> TranslationUnit:
    """Return *unit*, preprocessed and linearized, with called kernels inlined, ready for code generation.

    An existing linearization is kept. Raises :class:`KernelError` if Loopy rejects the program, and
    :class:`UnboundedDomainError` if a loop lacks bounds that Loopy needs.
    """
    try:
        with without_dumps():
            unit = inlined(unit)
            if any(_vector_axes(unit.default_entrypoint)):
                # Loopy decides on simplified indices what is a vector, e.g. on those of x[(v + 4*i)//4, (v + 4*i)%4].
                unit = lp.simplify_indices(unit)
            if unit.default_entrypoint.linearization is None:
                kernel = unit.default_entrypoint
                domains = [own(domain) for domain in kernel.domains]  # isl may rewrite sets in place
                unit = unit.with_kernel(kernel.copy(domains=domains, assumptions=own(kernel.assumptions)))
                unit = lp.set_options(unit, enforce_array_accesses_within_bounds=UNCHECKED)
                # Preprocessing gives reductions temporaries whose types only code generation infers.
                unit = lp.linearize(lp.infer_unknown_types(lp.preprocess_program(unit), expect_completion=False))
    except Exception as error:  # Loopy propagates exceptions of isl, pymbolic and Python
        raise _refusal(unit.default_entrypoint, error) from error
    _check_types(unit.default_entrypoint)
    try:
        _check_before_code_generation(unit)
    except Exception as error:
        raise _no_code(unit.default_entrypoint, error) from error
    return unit


def _check_before_code_generation(unit: TranslationUnit) -> None:
    """Run the checks of ``loopy.check.pre_codegen_checks``, except the one for unused hardware axes.

    ``counting="paper"`` counts a kernel without these axes, and ``"executed"`` adds them.
    """
    kernel, callables = unit.default_entrypoint, unit.callables_table
    _check_vector_types(kernel)
    _check_nesting(kernel)
    checks: tuple[Callable[[LoopKernel], object], ...] = (
        check.check_that_all_insns_are_scheduled,
        check.check_for_nested_base_storage,
        check.check_that_atomic_ops_are_used_exactly_on_atomic_arrays,
        check.check_that_temporaries_are_defined_in_subkernels_where_used,
        check.check_that_shapes_and_strides_are_arguments,
    )
    for each in checks:
        each(kernel)
    kernel.target.pre_codegen_entrypoint_check(kernel, callables)
    kernel.target.pre_codegen_callable_check(kernel, callables)


def _vector_axes(kernel: LoopKernel) -> Iterator[tuple[ArrayBase, Any]]:
    """Yield each array of vectors, with the length of its vectors."""
    for array in (*kernel.args, *kernel.temporary_variables.values()):
        if isinstance(array, ArrayBase) and isinstance(shape := cast("Any", array.shape), tuple):
            tagged = zip(cast("tuple[Any, ...]", shape), array.dim_tags or (), strict=False)
            yield from ((array, length) for length, tag in tagged if isinstance(tag, VectorArrayDimTag))


def _check_vector_types(kernel: LoopKernel) -> None:
    """Raise ``LoopyError`` if an array has vectors that the target lacks."""
    for array, length in _vector_axes(kernel):
        dtype: Any = array.dtype
        try:
            kernel.target.vector_dtype(dtype, length)
        except (KeyError, NotImplementedError):
            vectors = f"{type(kernel.target).__name__} has no vectors of {length} {dtype.numpy_dtype}"
            raise LoopyError(f"target {vectors}: untag the axis of {array.name!r}") from None


def _check_nesting(kernel: LoopKernel) -> None:
    """Raise ``UnscheduledInstructionError`` if instructions or loops of the linearization differ from *kernel*."""
    entered: list[str] = []
    for item in cast("Iterable[ScheduleItem]", kernel.linearization):
        if isinstance(item, EnterLoop):
            entered.append(item.iname)
        elif isinstance(item, LeaveLoop):
            entered.pop()
        elif isinstance(item, RunInstruction):
            instruction = kernel.id_to_insn.get(item.insn_id)
            if instruction is None:
                raise UnscheduledInstructionError(f"the linearization runs unknown instruction {item.insn_id!r}")
            inames = {name for name in instruction.within_inames if hardware_axis(kernel, name) is None}
            if inames != set(entered):
                raise UnscheduledInstructionError(
                    f"instruction {item.insn_id!r} is in loops {sorted(inames)}, in the linearization {sorted(entered)}"
                )


def _refusal(kernel: LoopKernel, error: Exception) -> LoopyperfError:
    for instruction in kernel.instructions if isinstance(error, isl.Error) else ():
        if not points_of(kernel, instruction.within_inames).is_bounded():
            inames = ", ".join(sorted(instruction.within_inames))
            return UnboundedDomainError(f"instruction {instruction.id!r}: its loops ({inames}) have no bounds")
    hint = ""
    if "type" in type(error).__name__.lower() or "infer" in str(error) or "dtype" in str(error):
        hint = "; set the argument types with loopy.add_and_infer_dtypes(kernel, {...})"
    return KernelError(f"loopy cannot prepare kernel {kernel.name!r} ({type(error).__name__}): {_reason(error)}{hint}")


def _reason(error: Exception) -> str:
    """Return the message of *error*, or where it was raised if it has no message."""
    message = one_line(error)
    if message:
        return message
    place = traceback.extract_tb(error.__traceback__)[-1]
    reason = f"no message; raised by {place.name} in {place.filename}, line {place.lineno}"
    if place.name.startswith("map_bitwise") or place.name.endswith("_shift"):
        reason += "; to use bits as a condition, compare them, as in (i & 1) != 0"
    return reason


def _check_types(kernel: LoopKernel) -> None:
    variables: list[Any] = [*kernel.args, *kernel.temporary_variables.values()]
    untyped = [variable.name for variable in variables if not isinstance(variable.dtype, LoopyType)]
    if untyped:
        raise KernelError(
            f"kernel {kernel.name!r} has arguments without a type: {', '.join(sorted(untyped))}; "
            "set their types with loopy.add_and_infer_dtypes(kernel, {...})"
        )


def _no_code(kernel: LoopKernel, error: Exception) -> KernelError:
    """Return the error for a linearized *kernel* for which Loopy cannot generate code."""
    hint = ""
    if isinstance(error, UnscheduledInstructionError):
        hint = (
            "; its linearization is out of date: linearize again, "
            "with lp.linearize(unit.with_kernel(kernel.copy(state=KernelState.PREPROCESSED, linearization=None)))"
        )
    return KernelError(f"loopy cannot generate code for kernel {kernel.name!r}: {_reason(error)}{hint}")


# }}}


# {{{ suppressing Loopy's output
#
# Some modules of Loopy print a whole program before they raise an exception.

_is_silent = ContextVar("_is_silent", default=False)


def _print(*arguments: Any, **options: Any) -> None:
    """Print, except inside :func:`without_dumps`."""
    if not _is_silent.get():
        print(*arguments, **options)  # noqa: T201


for _module in (check, creation, isl_helpers, schedule, tools):
    vars(_module)["print"] = _print


@contextmanager
def without_dumps() -> Generator[None]:
    """Suppress the programs that Loopy prints if a check fails; other output is not affected."""
    token = _is_silent.set(True)
    try:
        yield
    finally:
        _is_silent.reset(token)


# }}}


# {{{ inlining of called kernels


def inlined(unit: TranslationUnit) -> TranslationUnit:
    """Return *unit* with the kernels that its entry point calls inlined."""
    if not any(_is_called(unit, name) for name in unit.callables_table):
        return unit
    for callee in list(unit.callables_table.values()):
        if isinstance(callee, CallableKernel):
            kernel = callee.subkernel
            if kernel.state != KernelState.INITIAL:
                kernel = kernel.copy(state=KernelState.INITIAL, linearization=None)
            unit = unit.with_kernel(_with_evaluated_arguments(kernel))
    taken = {name for kernel in _kernels(unit) for name in kernel.all_variable_names()}
    for callee in _kernels(unit):
        if callee.name not in unit.entrypoints:
            unit = unit.with_kernel(_with_sizes_of_its_own(callee, taken))
    while called := [name for name in unit.callables_table if _is_called(unit, name)]:
        unit = lp.inline_callable_kernel(unit, called[0])
    return unit


def _is_called(unit: TranslationUnit, name: Any) -> bool:
    return isinstance(unit.callables_table[name], CallableKernel) and name not in unit.entrypoints


def _kernels(unit: TranslationUnit) -> list[LoopKernel]:
    return [each.subkernel for each in unit.callables_table.values() if isinstance(each, CallableKernel)]


def _with_sizes_of_its_own(kernel: LoopKernel, taken: set[str]) -> LoopKernel:
    """Return *kernel* with scalar arguments renamed to names not in *taken*: inlining would mix up equal names."""
    new_name = UniqueNameGenerator(taken)
    for argument in kernel.args:
        if isinstance(argument, lp.ValueArg):
            kernel = lp.rename_argument(kernel, argument.name, new_name(f"{kernel.name}_{argument.name}"))
    return kernel


# {{{ arguments by value


def _with_evaluated_arguments(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* with scalar arguments of calls in temporaries: inlining would repeat them at each use."""
    temporaries: dict[str, lp.TemporaryVariable] = {}
    instructions = [each for insn in kernel.instructions for each in _evaluated(kernel, insn, temporaries)]
    if not temporaries:
        return kernel
    known = {**kernel.temporary_variables, **temporaries}
    return kernel.copy(instructions=instructions, temporary_variables=known)


def _evaluated(
    kernel: LoopKernel, call: InstructionBase, temporaries: dict[str, lp.TemporaryVariable]
) -> Iterator[InstructionBase]:
    """Yield assignments of *call*'s arguments to new *temporaries*, and the call that uses them."""
    if not isinstance(call, CallInstruction):
        yield call
        return
    new_name, new_id = kernel.get_var_name_generator(), kernel.get_instruction_id_generator()
    new_name.add_names(temporaries)
    parameters: list[Any] = []
    assignments: list[Assignment] = []
    for parameter in call.expression.parameters:
        if isinstance(parameter, (SubArrayRef, prim.Variable)) or prim.is_constant(parameter):
            parameters.append(parameter)
            continue
        name = new_name("argument")
        temporaries[name] = lp.TemporaryVariable(name, dtype=None, shape=())
        assignments.append(
            Assignment(
                prim.Variable(name),
                parameter,
                id=new_id(f"{call.id}_{name}"),
                within_inames=call.within_inames,
                predicates=cast("Any", call.predicates),
                depends_on=call.depends_on,
            )
        )
        parameters.append(prim.Variable(name))
    yield from assignments
    yield call.copy(
        expression=prim.Call(call.expression.function, tuple(parameters)),
        depends_on=call.depends_on.union(assignment.id for assignment in assignments),
    )


# }}}


# }}}
