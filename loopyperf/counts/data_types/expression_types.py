"""The types of expressions, each read once."""

from collections.abc import Iterable, Sequence
from typing import Any

from loopy.type_inference import TypeReader
from loopy.types import LoopyType

from loopyperf.counts.data_types.number_type import NumberType, number_type
from loopyperf.kernel import Kernel


class ExpressionTypes(TypeReader):
    """Loopy's type reader, each node read once and told apart by identity.

    By equality, as Loopy's does, ``x*numpy.float32(1)`` would pass for ``x*numpy.float64(1)``, and hashing an
    expression with its keywords takes longer than reading its type.
    """

    def __init__(self, kernel: Kernel) -> None:
        """Read types in *kernel*."""
        super().__init__(kernel.loopy_kernel, kernel.callables)
        self._alive: dict[int, Any] = {}

    def get_cache_key(self, expr: Any, *args: Any, **kwargs: Any) -> tuple[int, bool]:
        """Return the identity of *expr*, which is kept alive so that it stays its own."""
        self._alive[id(expr)] = expr
        return id(expr), bool(kwargs.get("return_tuple", False))

    def combine(self, values: Iterable[Sequence[LoopyType]]) -> Sequence[LoopyType]:
        """Return the type of an operation on *values*; where all are the same, that is it."""
        known = list(values)
        types = [dtype for found in known for dtype in found]
        if types and all(dtype == types[0] for dtype in types):
            return [types[0]]
        return super().combine(known)

    def number(self, expression: Any) -> NumberType:
        """Return the type that *expression* works in; raises :class:`UncountableError` where it is no number."""
        return number_type(self(expression))
