"""Which row of the vendors' throughput tables an instruction belongs to.

The rows are those of the CUDA C++ Programming Guide, "Arithmetic Instructions": the instructions of a row are executed
by the same units, so that they take as long as each other.
"""

from collections.abc import Mapping
from typing import Literal

Row = Literal[
    "f32", "f64", "special", "integer_add", "integer_multiply", "shift", "compare", "logic", "convert"
]  # fmt: skip
"""of :class:`loopyperf.device.description.Throughput`"""
ARITHMETIC = frozenset({"add", "mul", "fma"})
"""kinds of instructions that do the arithmetic a kernel is for, of floating-point types"""
OF_ANY_TYPE: Mapping[str, Row] = {
    "special": "special",
    "mufu": "special",
    "compare": "compare",
    "min/max": "compare",
    "logic": "logic",
    "bitwise": "logic",
    "shift": "shift",
    "integer": "integer_add",
    "convert": "convert",
}
OF_INTEGERS: Mapping[str, Row] = {"add": "integer_add", "mul": "integer_multiply", "fma": "integer_multiply"}


def row_of(kind: str, dtype: str) -> Row | None:
    """Return the name in :class:`loopyperf.device.description.Throughput`; None for instructions of no row.

    Divisions, powers and double-precision functions are sequences of instructions, and have no row.
    """
    if dtype in ("f32", "f64") and kind in ARITHMETIC:
        return dtype
    if dtype in ("i32", "u32") and kind in OF_INTEGERS:
        return OF_INTEGERS[kind]
    return OF_ANY_TYPE.get(kind) if dtype in ("f32", "i32", "u32") else None
