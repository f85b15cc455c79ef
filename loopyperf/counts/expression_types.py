"""The types of expressions, each read once."""

from typing import Any

import pymbolic.primitives as prim
from loopy.type_inference import TypeReader

from loopyperf.counts.number_type import NumberType, number_type
from loopyperf.kernel import Kernel


class ExpressionTypes(TypeReader):
    """Loopy's type reader, each node of an instruction read once.

    Nodes are told apart by identity: ``numpy.float32(1)`` equals ``numpy.float64(1)`` in Python.
    """

    def __init__(self, kernel: Kernel) -> None:
        """Read types in *kernel*."""
        super().__init__(kernel.loopy_kernel, kernel.callables)
        self._known: dict[tuple[int, bool], Any] = {}
        self._alive: list[Any] = []

    def rec(self, expr: Any, *args: Any, **kwargs: Any) -> Any:
        key = (id(expr), bool(kwargs.get("return_tuple", False)))
        if key not in self._known:
            self._known[key] = super().rec(expr, *args, **kwargs)
            self._alive.append(expr)
        return self._known[key]

    def number(self, expression: Any) -> NumberType:
        """Return the type that *expression* works in; raises :class:`UncountableError` where it is no number."""
        return number_type(self(expression))

    def combined(self, *expressions: Any) -> NumberType:
        """Return the type in which *expressions* are compared."""
        return self.number(prim.Sum(expressions))
