"""Complex operations as the real ones that they are made of.

The decompositions are those of the C code that Loopy generates: of ``pyopencl-complex.h`` and of Loopy's expression
mapper for PyOpenCL, which handles operands from left to right and keeps those real that are.
"""

from collections.abc import Mapping
from typing import Any

from loopyperf.counts.data_types.number_type import NumberType
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
REAL_FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    "abs": ("hypot",),
    "sqrt": ("hypot", "sqrt"),
    "exp": ("exp", "sin", "cos"),
    "log": ("hypot", "log", "atan2"),
    **dict.fromkeys(("sin", "cos"), ("sin", "cosh", "cos", "sinh")),
    **dict.fromkeys(("sinh", "cosh"), ("sinh", "cos", "cosh", "sin")),
    "tan": ("sin", "cos", "sinh", "cosh"),
    "tanh": ("sin", "cos", "sinh", "cosh"),
    "pow": ("log", "hypot", "atan2", "exp", "sin", "cos"),
}
"""the special functions of real numbers among them"""
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


def complex_operation(expression: Any, kind: Kind, left: bool, right: bool) -> RealOperations:
    """Return the real operations of one of *kind* in *expression*; *left* and *right* say which operand is complex.

    Raises :class:`UncountableError` for a kind that has no meaning on complex numbers.
    """
    if (kind, left, right) not in OPERATIONS:
        raise UncountableError(f"no count for {type(expression).__name__} on complex numbers in {expression}")
    return OPERATIONS[kind, left, right]


def complex_function(name: str) -> RealOperations:
    """Return the real operations of a call of *name* on a complex number; raises :class:`UncountableError`."""
    if name in PARTS:
        return {}
    if name not in FUNCTIONS:
        raise UncountableError(f"no count for {name} of a complex number")
    return FUNCTIONS[name]


def real_functions(name: str, *types: NumberType) -> tuple[str, ...]:
    """Return the special functions of real numbers that *name* calls where one of its *types* is complex."""
    return REAL_FUNCTIONS.get(name, ()) if any(each.is_complex for each in types) else ()
