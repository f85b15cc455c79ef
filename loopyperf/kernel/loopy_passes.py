"""Loopy's own passes on a program, and the checks that Loopy runs before it generates code.

What Loopy refuses becomes one line. Loopy prints the whole program when a check fails; :func:`without_dumps` keeps that
off the user's screen.
"""

import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from inspect import currentframe
from threading import Lock, get_ident
from typing import Any, cast

import islpy as isl
import loopy as lp
import pymbolic.primitives as prim
from loopy import check
from loopy.diagnostic import UnscheduledInstructionError
from loopy.kernel import KernelState, LoopKernel, tools
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
"""Loopy's word for leaving out the check that accesses are within bounds"""

Program = TranslationUnit | LoopKernel


# {{{ from a program to a translation unit


def checked_program(program: object) -> Program:
    """Return *program*; raises :class:`KernelError` if it is no Loopy program."""
    if isinstance(program, Program):
        return program
    raise KernelError(
        f"a loopy TranslationUnit or LoopKernel is needed, received {type(program).__name__}; "
        "build one with loopy.make_kernel(...)"
    )


def as_translation_unit(program: object) -> TranslationUnit:
    """Return *program* as a translation unit of one entry point; raises :class:`KernelError` if it is none."""
    program = checked_program(program)
    if isinstance(program, LoopKernel):
        return _unit_of(program)
    if len(program.entrypoints) != 1:
        names = ", ".join(sorted(program.entrypoints)) or "none"
        raise KernelError(
            f"one entry point is needed, this translation unit has {names}: choose with unit.with_entrypoints(name)"
        )
    return program


def _unit_of(kernel: LoopKernel) -> TranslationUnit:
    """Return *kernel* as a translation unit, the functions it calls looked up anew: a LoopKernel has no table."""
    unresolved = kernel.copy(state=KernelState.INITIAL, linearization=None)
    unit = resolve_callables(lp.make_program(unresolved).with_entrypoints(kernel.name))
    try:
        tools.get_resolved_callable_ids_called_by_knl(unit.default_entrypoint, unit.callables_table)
    except KeyError as error:
        raise KernelError(
            f"kernel {kernel.name!r} calls {error.args[0]!r}, which only its translation unit defines: pass that unit"
        ) from error
    return unit


# }}}


# {{{ passes and checks


def linearized(unit: TranslationUnit) -> TranslationUnit:
    """Return *unit*, preprocessed and linearized, with the kernels it calls inlined; Loopy could generate its code.

    A linearization that *unit* has already is kept. Raises :class:`KernelError` for what Loopy refuses, and
    :class:`UnboundedDomainError` where a loop lacks bounds that Loopy needs.
    """
    try:
        with without_dumps():
            unit = inlined(unit)
            if unit.default_entrypoint.linearization is None:
                unit = unit.with_kernel(_with_own_sets(unit.default_entrypoint))
                unit = lp.set_options(unit, enforce_array_accesses_within_bounds=UNCHECKED)
                # Preprocessing gives reductions temporaries whose types only code generation infers.
                unit = lp.linearize(lp.infer_unknown_types(lp.preprocess_program(unit), expect_completion=False))
    except Exception as error:  # Loopy lets through what isl, pymbolic and Python itself raise
        raise _refusal(unit.default_entrypoint, error) from error
    _check_types(unit.default_entrypoint)
    try:
        _check_before_code_generation(unit)
    except Exception as error:
        raise _no_code(unit.default_entrypoint, error) from error
    return unit


def _with_own_sets(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* with domains and assumptions that isl may rewrite, and nobody else sees it."""
    return kernel.copy(domains=[own(domain) for domain in kernel.domains], assumptions=own(kernel.assumptions))


def _check_before_code_generation(unit: TranslationUnit) -> None:
    """Run the checks of ``loopy.check.pre_codegen_checks``, but for hardware axes that instructions leave out.

    ``counting="paper"`` counts a kernel as it is written, and ``"executed"`` adds these axes.
    """
    kernel, callables = unit.default_entrypoint, unit.callables_table
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


def _check_nesting(kernel: LoopKernel) -> None:
    """Raise ``UnscheduledInstructionError`` where the linearization has other instructions or loops than *kernel*."""
    entered: list[str] = []
    for item in cast("Iterable[ScheduleItem]", kernel.linearization):
        if isinstance(item, EnterLoop):
            entered.append(item.iname)
        elif isinstance(item, LeaveLoop):
            entered.pop()
        elif isinstance(item, RunInstruction):
            instruction = kernel.id_to_insn.get(item.insn_id)
            if instruction is None:
                raise UnscheduledInstructionError(f"the linearization runs {item.insn_id!r}, which is no instruction")
            inames = {name for name in instruction.within_inames if hardware_axis(kernel, name) is None}
            if inames != set(entered):
                raise UnscheduledInstructionError(
                    f"the linearization runs {item.insn_id!r} in the loops {sorted(entered)}, it is in {sorted(inames)}"
                )


def _refusal(kernel: LoopKernel, error: Exception) -> LoopyperfError:
    for instruction in kernel.instructions if isinstance(error, isl.Error) else ():
        if not points_of(kernel, instruction.within_inames).is_bounded():
            inames = ", ".join(sorted(instruction.within_inames))
            return UnboundedDomainError(f"instruction {instruction.id!r}: its loops ({inames}) have no bounds")
    hint = ""
    if "type" in type(error).__name__.lower() or "infer" in str(error) or "dtype" in str(error):
        hint = "; state the types of the arguments with loopy.add_and_infer_dtypes(kernel, {...})"
    return KernelError(f"loopy cannot prepare kernel {kernel.name!r} ({type(error).__name__}): {_reason(error)}{hint}")


def _reason(error: Exception) -> str:
    """Return what *error* says, or where it comes from if it says nothing."""
    said = one_line(error)
    if said:
        return said
    place = traceback.extract_tb(error.__traceback__)[-1]
    reason = f"it gives no reason; raised by {place.name} in {place.filename}, line {place.lineno}"
    if place.name.startswith("map_bitwise") or place.name.endswith("_shift"):
        reason += "; where bits are a condition, compare them, as in (i & 1) != 0"
    return reason


def _check_types(kernel: LoopKernel) -> None:
    variables: list[Any] = [*kernel.args, *kernel.temporary_variables.values()]
    untyped = [variable.name for variable in variables if not isinstance(variable.dtype, LoopyType)]
    if untyped:
        raise KernelError(
            f"kernel {kernel.name!r} has arguments without a type: {', '.join(sorted(untyped))}; "
            "state them with loopy.add_and_infer_dtypes(kernel, {...})"
        )


def _no_code(kernel: LoopKernel, error: Exception) -> KernelError:
    """Return why Loopy generates no code for the linearized *kernel*."""
    hint = ""
    if isinstance(error, UnscheduledInstructionError):
        hint = (
            "; its linearization is older than its instructions: linearize again, "
            "with lp.linearize(unit.with_kernel(kernel.copy(state=KernelState.PREPROCESSED, linearization=None)))"
        )
    return KernelError(f"loopy generates no code for kernel {kernel.name!r}: {_reason(error)}{hint}")


# }}}


# {{{ what Loopy prints

_lock = Lock()
_held: dict[int, list[str]] = {}
"""thread inside :func:`without_dumps` -> what Loopy has printed there"""


class _HeldBack:
    """Standard output, but what Loopy prints within :func:`without_dumps` is held back."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write *text*, or hold it back where a module of Loopy prints it."""
        held, frame = _held.get(get_ident()), currentframe()
        printing = frame.f_back if frame is not None else None
        if held is None or printing is None or not str(printing.f_globals.get("__name__")).startswith("loopy."):
            return self.stream.write(text)
        held.append(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def without_dumps() -> Generator[None]:
    """Drop what Loopy prints inside if it fails: its checks print the whole program. Otherwise print it at the end.

    Other prints, and those of other threads, pass.
    """
    thread = get_ident()
    if thread in _held:
        yield
        return
    with _lock:
        if not _held:
            sys.stdout = cast("Any", _HeldBack(sys.stdout))
        _held[thread] = []
    printed: list[str] = []
    try:
        yield
        printed = _held[thread]
    finally:
        with _lock:
            del _held[thread]
            if not _held and isinstance(sys.stdout, _HeldBack):
                sys.stdout = sys.stdout.stream
        if printed:
            sys.stdout.write("".join(printed))


# }}}


# {{{ kernels that a kernel calls, written out at each call


def inlined(unit: TranslationUnit) -> TranslationUnit:
    """Return *unit* with the kernels that its entry point calls written out at each call."""
    if not any(_is_called(unit, name) for name in unit.callables_table):
        return unit
    for callee in list(unit.callables_table.values()):
        if isinstance(callee, CallableKernel):
            unit = unit.with_kernel(_with_evaluated_arguments(_unscheduled(callee.subkernel)))
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
    """Return *kernel* with names for its scalar arguments that are not *taken*: inlining mistakes one n for another."""
    new_name = UniqueNameGenerator(taken)
    for argument in kernel.args:
        if isinstance(argument, lp.ValueArg):
            kernel = lp.rename_argument(kernel, argument.name, new_name(f"{kernel.name}_{argument.name}"))
    return kernel


def _unscheduled(kernel: LoopKernel) -> LoopKernel:
    if kernel.state == KernelState.INITIAL:
        return kernel
    return kernel.copy(state=KernelState.INITIAL, linearization=None)


# {{{ arguments by value


def _with_evaluated_arguments(kernel: LoopKernel) -> LoopKernel:
    """Return *kernel* with scalar arguments of calls evaluated before: inlining writes them wherever they are used."""
    temporaries: dict[str, lp.TemporaryVariable] = {}
    instructions = [each for insn in kernel.instructions for each in _evaluated(kernel, insn, temporaries)]
    if not temporaries:
        return kernel
    known = {**kernel.temporary_variables, **temporaries}
    return kernel.copy(instructions=instructions, temporary_variables=known)


def _evaluated(
    kernel: LoopKernel, call: InstructionBase, temporaries: dict[str, lp.TemporaryVariable]
) -> Iterator[InstructionBase]:
    """Yield the assignments of *call*'s arguments to new *temporaries*, and the call with these."""
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
        assignments.append(_assignment(name, parameter, call, new_id(f"{call.id}_{name}")))
        parameters.append(prim.Variable(name))
    yield from assignments
    yield call.copy(
        expression=prim.Call(call.expression.function, tuple(parameters)),
        depends_on=call.depends_on.union(assignment.id for assignment in assignments),
    )


def _assignment(name: str, parameter: Any, call: InstructionBase, new_id: str) -> Assignment:
    return Assignment(
        prim.Variable(name),
        parameter,
        id=new_id,
        within_inames=call.within_inames,
        predicates=cast("Any", call.predicates),
        depends_on=call.depends_on,
    )


# }}}


# }}}
