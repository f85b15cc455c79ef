"""Instruction mixes of machine code, read from a cubin without a disassembler.

A cubin is an ELF file with a section ``.text.NAME`` for each device function. From Volta on, an instruction has 128
bits: the lowest nine encode the opcode, the next three the form of its operands; bits 73 to 75 encode the access width
per lane. NVIDIA does not document this: the table is derived from nvdisasm, and a test compares both.
"""

import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from loopyperf.compiler.resources import machine_code

ELF = b"\x7fELF\x02\x01"
"""magic bytes of a 64-bit little-endian ELF file"""
SECTION = "<IIQQQQ"
"""layout of a section header: name, type, flags, address, offset and size"""
_TABLE = """
002:MOV 004:R2P 005:CS2R 007:SEL 008:FSEL 009:FMNMX 00a:FSET 00b:FSETP 00c:ISETP 010:IADD3 011:LEA
012:LOP3 013:IABS 017:IMNMX 019:SHF 01c:PLOP3 020:FMUL 021:FADD 023:FFMA 024:IMAD 025:IMAD 027:IMAD
028:DMUL 029:DADD 02a:DSETP 02b:DFMA 031:HFMA2 035:HFMA2 036:VIADD 045:I2FP 046:VIADDMNMX 048:VIMNMX
082:UMOV 087:USEL 08c:UISETP 090:UIADD3 091:ULEA 092:ULOP3 099:USHF 09c:UPLOP3 0a4:UIMAD 0a5:UIMAD
0b9:ULDC 0ca:R2UR 100:FLO 102:FCHK 105:F2I 106:I2F 107:FRND 108:MUFU 110:F2F 111:F2I 112:I2F 113:FRND
118:NOP 119:S2R 11d:BAR 141:BSYNC 142:BREAK 144:CALL 145:BSSY 147:BRA 148:WARPSYNC 14d:EXIT 150:RET
155:BMOV 181:LDG 182:LDC 183:LDL 184:LDS 186:STG 187:STL 188:STS 189:SHFL 1ac:LDCU 1c3:S2UR
"""
OPCODES: Mapping[int, str] = MappingProxyType({int(each[:3], 16): each[4:] for each in _TABLE.split()})
"""lowest nine bits of an instruction -> opcode without modifiers"""
ACCESSES = frozenset({"LDG", "STG", "LDS", "STS", "LDL", "STL"})
"""accesses to memory that CUDA calls global, shared and local"""
WIDTHS = (".U8", ".S8", ".U16", ".S16", "", ".64", ".128", "")
"""suffix for the access width per lane, as nvdisasm writes it; none for 32 bits"""


def instruction_mixes(cubin: bytes) -> dict[str, dict[str, int]]:
    """Return, for each device function in *cubin*, the number of instructions of each opcode, without padding.

    Accesses include their widths, e.g. ``"LDG.128"``; unknown opcodes appear as numbers, e.g. ``"0x18e"``.
    """
    return {name: dict(Counter(_opcodes(text))) for name, text in _functions(cubin)}


def _functions(cubin: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield (name, machine code) of each device function."""
    assert cubin.startswith(ELF)
    start, size, number, names = struct.unpack_from("<Q", cubin, 40) + struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from(SECTION, cubin, start + place * size) for place in range(number)]
    for name, *_, begin, length in headers:
        letters = headers[names][4] + name
        title = cubin[letters : cubin.index(b"\0", letters)].decode()
        if title.startswith(".text."):
            yield title.removeprefix(".text."), cubin[begin : begin + length]


def _opcodes(text: bytes) -> Iterator[str]:
    """Yield the opcode of each instruction except NOPs, which pad the code."""
    for low, high in struct.iter_unpack("<QQ", text):
        number = low & 0x1FF
        name = OPCODES.get(number, f"{number:#05x}")
        if name != "NOP":
            yield name + (WIDTHS[high >> 9 & 7] if name in ACCESSES else "")


def instruction_mix(source: str, architecture: str) -> Mapping[str, int]:
    """Return opcode -> number of instructions of the only device function in the CUDA *source*."""
    (mix,) = instruction_mixes(machine_code(source, architecture)).values()
    return mix
