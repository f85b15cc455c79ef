"""Kernels that a kernel calls, written out at each call: what they do is done as often as they are called."""

from collections.abc import Iterator
from typing import Any, cast

import loopy as lp
import pymbolic.primitives as prim
from loopy.kernel import KernelState, LoopKernel
from loopy.kernel.function_interface import CallableKernel
from loopy.kernel.instruction import Assignment, CallInstruction, InstructionBase
from loopy.symbolic import SubArrayRef
from loopy.translation_unit import TranslationUnit
from pytools import UniqueNameGenerator


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
