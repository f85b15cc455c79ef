"""The types of literals in generated code: those that are wanted where they stand."""

from typing import Any, cast

import numpy as np

from loopyperf.counts.data_types.number_type import NumberType

Context = str | None
"""the type that is wanted of a literal: ``"f"`` and ``"d"`` for floats, ``"i"`` and ``"b"`` for integers"""
INDEX = "index"
"""an integer, like ``"i"``, in an index, of which only the value matters: Loopy writes it anew"""
INTEGERS = ("i", "b", INDEX)
FLOATS = {"f": NumberType("f32"), "d": NumberType("f64")}
INT = NumberType("i32")


def literal_type(number: Any, context: Context) -> NumberType | None:
    """Return the type of *number* as it is written; None if that is the one that Loopy infers.

    A number of Python's has the type that is wanted; one of NumPy's, or a complex one, its own. See ``map_constant`` of
    ``ExpressionToCExpressionMapper`` in ``loopy/target/c/codegen/expression.py``.
    """
    if isinstance(number, (complex, np.complexfloating)):
        return None
    if isinstance(number, (float, np.floating)) and not np.isfinite(cast("float", number)):
        return FLOATS["f"]
    return _type_of_numpys(number) if isinstance(number, np.generic) else _wanted(number, context)


def _type_of_numpys(number: Any) -> NumberType:
    if isinstance(number, np.floating):
        return NumberType(f"f{8 * number.itemsize}")
    if isinstance(number, np.bool_):
        return INT
    bounds: Any = np.iinfo(cast("type[Any]", type(number)))
    return NumberType(f"{'i' if bounds.min else 'u'}{64 if bounds.max >= 2**31 else 32}")


def _wanted(number: Any, context: Context) -> NumberType | None:
    if context in FLOATS:
        return FLOATS[context]
    is_integer = context in INTEGERS or number == int(number)
    return (INT if abs(int(number)) < 2**31 else NumberType("i64")) if is_integer else None
