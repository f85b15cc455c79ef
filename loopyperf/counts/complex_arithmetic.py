"""Complex operations as the real ones that they are made of.

The decompositions are those of the C code that Loopy generates: of ``pyopencl-complex.h`` and of Loopy's expression
mapper for PyOpenCL, which handles operands from left to right and keeps those real that are.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pymbolic.primitives as prim

from loopyperf.counts.item import Kind
from loopyperf.errors import UncountableError

RealOperations = Mapping[Kind, int]
"""kind -> number"""

ADD_COMPLEX: RealOperations = {"add": 2}
ADD_REAL: RealOperations = {"add": 1}
MULTIPLY_COMPLEX: RealOperations = {"mul": 4, "add": 2}
MULTIPLY_REAL: RealOperations = {"mul": 2}
DIVIDE_COMPLEX: RealOperations = {"div": 3, "mul": 4, "add": 3}
DIVIDE_REAL_BY_COMPLEX: RealOperations = {"div": 3, "mul": 3, "add": 1}
DIVIDE_BY_REAL: RealOperations = {"div": 2}
POWER: RealOperations = {"special": 6, "mul": 6, "add": 2}
"""log, hypot, atan2, exp, sin and cos"""
POWER_TO_REAL: RealOperations = {"special": 6, "mul": 4}
COMPARE: RealOperations = {"compare": 2, "logic": 1}
FUNCTIONS: Mapping[str, RealOperations] = {
    "abs": {"special": 1},
    "sqrt": {"special": 2, "mul": 1, "add": 1, "div": 2},
    "exp": {"special": 3, "mul": 2},
    "log": {"special": 3},
    "sin": {"special": 4, "mul": 2},
    "cos": {"special": 4, "mul": 2},
    "sinh": {"special": 4, "mul": 2},
    "cosh": {"special": 4, "mul": 2},
    "tan": {"special": 4, "mul": 2, "add": 1, "div": 2},
    "tanh": {"special": 4, "add": 1, "div": 2},
    "pow": POWER,
}
OPERATIONS: Mapping[tuple[Kind, bool, bool], RealOperations] = {
    ("add", True, True): ADD_COMPLEX,
    ("add", True, False): ADD_REAL,
    ("add", False, True): ADD_REAL,
    ("mul", True, True): MULTIPLY_COMPLEX,
    ("mul", True, False): MULTIPLY_REAL,
    ("mul", False, True): MULTIPLY_REAL,
    ("div", True, True): DIVIDE_COMPLEX,
    ("div", True, False): DIVIDE_BY_REAL,
    ("div", False, True): DIVIDE_REAL_BY_COMPLEX,
    ("pow", True, True): POWER,
    ("pow", True, False): POWER_TO_REAL,
    ("pow", False, True): POWER,
    **{("compare", *sides): COMPARE for sides in ((True, True), (True, False), (False, True))},
}
"""by whether the left and the right operand are complex"""
PARTS = frozenset({"real", "imag", "conj"})
"""free: they choose registers, or change a sign"""
REPEATED_PRODUCTS = (2, 3, 4)
"""exponents that Loopy writes as products"""


def complex_operation(expression: Any, kind: Kind, left: bool, right: bool) -> RealOperations:
    """Return the real operations of one of *kind* in *expression*; *left* and *right* say which operand is complex.

    Raises :class:`UncountableError` for a kind that has no meaning on complex numbers.
    """
    if (kind, left, right) not in OPERATIONS:
        raise UncountableError(f"no count for {type(expression).__name__} on complex numbers in {expression}")
    return OPERATIONS[kind, left, right]


def complex_operations(expression: Any, operands: Sequence[bool]) -> RealOperations:
    """Return the real operations of the top node of *expression*; *operands* says which of its operands are complex.

    Raises :class:`UncountableError` for a node that has no meaning on complex numbers.
    """
    match expression:
        case prim.Sum():
            return _folded(operands, ADD_COMPLEX, ADD_REAL, {"add": 1})
        case prim.Product():
            return _folded(operands, MULTIPLY_COMPLEX, MULTIPLY_REAL, {"mul": 1})
        case prim.Quotient():
            return {(True, True): DIVIDE_COMPLEX, (True, False): DIVIDE_BY_REAL, (False, True): DIVIDE_REAL_BY_COMPLEX}[
                operands[0], operands[1]
            ]
        case prim.Power(exponent=int(exponent)) if exponent in REPEATED_PRODUCTS:
            return _folded([True] * exponent, MULTIPLY_COMPLEX, MULTIPLY_REAL, {})
        case prim.Power():
            return POWER if operands[1] else POWER_TO_REAL
        case prim.Comparison():
            return COMPARE
        case _:
            raise UncountableError(f"no count for {type(expression).__name__} on complex numbers in {expression}")


def complex_function(name: str) -> RealOperations:
    """Return the real operations of a call of *name* on a complex number; raises :class:`UncountableError`."""
    if name in PARTS:
        return {}
    if name not in FUNCTIONS:
        raise UncountableError(f"no count for {name} of a complex number")
    return FUNCTIONS[name]


def _folded(
    operands: Sequence[bool], both: RealOperations, one: RealOperations, neither: RealOperations
) -> RealOperations:
    """Return the operations that combine *operands* from left to right, by how many of each two are complex."""
    total: Counter[Kind] = Counter()
    is_complex = operands[0]
    for operand in operands[1:]:
        total.update(both if is_complex and operand else one if is_complex or operand else neither)
        is_complex = is_complex or operand
    return total
