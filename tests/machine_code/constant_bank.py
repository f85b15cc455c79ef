"""The constant banks of a launch: the shape of grid and groups, the parameters, and what the compiler has put there."""

import re
import struct
from collections.abc import Mapping, Sequence

import numpy as np

from .cuda_source import Extent, Parameter

PARAMETERS = {**dict.fromkeys(("sm_70", "sm_75", "sm_80", "sm_86", "sm_89"), 0x160), "sm_90": 0x210, "sm_100": 0x380}
"""bytes before the first parameter in bank 0"""
STACK_POINTER = 0x28
"""where in bank 0 a lane finds the end of its stack, in bytes"""
STACK = 0x00FFFDE0
"""an end of the stack: any address would do"""
POINTERS = 0x7F00_0000_0000
"""where the first array lies: any address would do, since nothing is read from there"""
SPACING = 0x10_0000_0000
"""bytes from one array to the next"""


BANK = 2**32
"""from one bank to the next, as addresses are written here"""
ConstantBank = Mapping[int, int]
"""words of constant banks by their addresses in bytes; those that are not there are unknown"""


def constant_bank(
    architecture: str, parameters: Sequence[Parameter], values: Mapping[str, int], grid: Extent, group: Extent
) -> ConstantBank:
    """Return bank 0 of a launch whose scalar *parameters* have these *values*; one without a value stays unknown."""
    words = {STACK_POINTER: STACK}
    words |= {4 * axis: length for axis, length in enumerate((*group, *grid))}
    place, pointer = PARAMETERS[architecture], POINTERS
    for parameter in parameters:
        place += -place % parameter.nbytes
        value = pointer if parameter.is_pointer else values.get(parameter.name)
        pointer += SPACING if parameter.is_pointer else 0
        if value is not None:
            bits = int(np.int64(value)) & 0xFFFFFFFFFFFFFFFF
            words |= {place + octets: bits >> 8 * octets & 0xFFFFFFFF for octets in range(0, parameter.nbytes, 4)}
        place += parameter.nbytes
    return words


def constants_in(cubin: bytes, function: str) -> ConstantBank:
    """Return the constants of *function* that the compiler has put into banks other than the first one."""
    (sections,) = struct.unpack_from("<Q", cubin, 40)
    size, number, names = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQ", cubin, sections + place * size) for place in range(number)]
    words: dict[int, int] = {}
    for name, _, _, _, start, length in headers:
        begin = headers[names][4] + name
        found = re.fullmatch(rb"\.nv\.constant([1-9])\." + function.encode(), cubin[begin : cubin.index(b"\0", begin)])
        for place in range(0, length if found else 0, 4):
            (words[int(found[1]) * BANK + place],) = struct.unpack_from("<I", cubin, start + place)
    return words
