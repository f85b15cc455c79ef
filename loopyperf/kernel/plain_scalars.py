"""Integer arguments that a kernel only computes with: no loop, condition, address or length depends on their values."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, cast

import islpy as isl
import pymbolic.primitives as prim
from loopy.kernel import LoopKernel
from loopy.kernel.array import ArrayBase
from loopy.kernel.instruction import CInstruction, MultiAssignmentBase
from loopy.symbolic import WalkMapper, get_dependencies


def plain_scalars(kernel: LoopKernel, candidates: Collection[str]) -> frozenset[str]:
    """Return those of *candidates*, names of integer arguments, of which nothing but values that are computed depends.

    Foreign code may do anything with what it reads.
    """
    deciding = set(_names_that_decide(kernel))
    waiting = list(deciding)
    while waiting:
        name = waiting.pop()
        if name in kernel.temporary_variables:
            found = {each for writer in kernel.writer_map().get(name, ()) for each in _read(kernel, writer)} - deciding
            deciding |= found
            waiting += found
    return frozenset(candidates) - deciding


def _read(kernel: LoopKernel, writer: str) -> frozenset[str]:
    return frozenset(kernel.id_to_insn[writer].read_dependency_names())


def _names_that_decide(kernel: LoopKernel) -> Iterator[str]:
    """Yield what loops, conditions, addresses and lengths are written with."""
    for constraints in (*kernel.domains, kernel.assumptions):
        for name, (kind, place) in constraints.get_var_dict(isl.dim_type.param).items():
            if constraints.involves_dims(kind, place, 1):
                yield name
    for variable in (*kernel.args, *kernel.temporary_variables.values()):
        if isinstance(variable, ArrayBase):
            yield from frozenset[str]().union(*names_in_array(variable))
    for instruction in kernel.instructions:
        for predicate in instruction.predicates:
            yield from get_dependencies(predicate)
        if isinstance(instruction, MultiAssignmentBase):
            found = _Deciding()
            for expression in (*instruction.assignees, instruction.expression):
                found(expression)
            yield from found.names
        elif isinstance(instruction, CInstruction):
            yield from instruction.read_dependency_names()


def names_in_array(array: ArrayBase) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names in the lengths of *array*, and those in its strides and its offset."""
    stated: Any = array
    shape: Any = stated.shape
    lengths = cast("tuple[Any, ...]", shape if isinstance(shape, tuple) else ())
    strides: Any = [getattr(tag, "stride", None) for tag in stated.dim_tags or ()]
    return _names_in(lengths), _names_in((*strides, stated.offset))


def _names_in(expressions: Iterable[Any]) -> frozenset[str]:
    stated = (each for each in expressions if each is not None and not isinstance(each, (str, type)))
    return frozenset[str]().union(*map(get_dependencies, stated))


class _Deciding(WalkMapper[[]]):
    """Collects what indices and conditions in an expression are written with."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def map_subscript(self, expr: prim.Subscript) -> None:
        self.names |= get_dependencies(expr.index_tuple)
        super().map_subscript(expr)

    def map_if(self, expr: prim.If) -> None:
        self.names |= get_dependencies(expr.condition)
        super().map_if(expr)
