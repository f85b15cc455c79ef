"""The constant banks of a launch: sizes of grid and groups, parameters, and the compiler's constants."""

import re
import struct
from collections.abc import Mapping, Sequence

import numpy as np

from .cuda_source import Extent, Parameter

PARAMETERS = {**dict.fromkeys(("sm_70", "sm_75", "sm_80", "sm_86", "sm_89"), 0x160), "sm_90": 0x210, "sm_100": 0x380}
"""bytes before the first parameter in bank 0, by architecture"""
STACK_POINTER = 0x28
"""offset in bank 0 of the address of the stack's end, in bytes"""
STACK = 0x00FFFDE0
"""address of the stack's end; any value works"""
POINTERS = 0x7F00_0000_0000
"""address of the first array; any value works, because nothing is read from there"""
SPACING = 0x10_0000_0000
"""distance of two arrays in bytes"""


BANK = 2**32
"""distance of two banks in the addresses used here"""
ConstantBank = Mapping[int, int]
"""words of constant banks by address in bytes; missing words are unknown"""


def constant_bank(
    architecture: str, parameters: Sequence[Parameter], values: Mapping[str, int], grid: Extent, group: Extent
) -> ConstantBank:
    """Return bank 0 of a launch with these *values* of scalar *parameters*; those without a value are unknown."""
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
    """Return the constants of *function* that the compiler placed in banks other than bank 0."""
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
