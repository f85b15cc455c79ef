"""Executed instructions in classes that correspond to the pipelines of a device."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .data import is_constant
from .instruction import Instruction
from .listing import Function
from .warp import Trail

CLASSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "control": ("BRA", "EXIT", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "BMOV", "CALL", "RET", "NOP"),
        "float comparison": ("FSETP", "DSETP", "FCHK", "FSET", "HSETP2"),
        "float other": ("FSEL", "FMNMX", "DMNMX", "FRND", "FSWZADD", "HADD2", "HMUL2", "HFMA2", "SHFL"),
        "conversion": ("I2F", "I2FP", "F2I", "F2F", "F2FP"),
        "constant load": ("LDC", "ULDC"),
    }
)
BY_ITSELF = ("FFMA", "FADD", "FMUL", "DFMA", "DADD", "DMUL", "MUFU", "BAR")
MEMORY = ("LDS", "STS", "LDG", "STG", "LDL", "STL", "ATOMG", "ATOMS", "RED", "LD", "ST")
WIDTHS = ("64", "128")
OTHER = "integer"
"""the class of all other instructions: integers, addresses, predicates, moves, special registers"""


def class_of(instruction: Instruction) -> str:
    """Return the class of *instruction*: ``FFMA``, ``LDS.128``, ``LDL spill``, ``control``, ``integer``..."""
    base = instruction.base
    if base in BY_ITSELF:
        return base
    if base in MEMORY:
        width = "".join(f".{word}" for word in instruction.modifiers if word in WIDTHS)
        return f"{base}{width} spill" if instruction.remark == "SpillRefill" else f"{base}{width}"
    if is_constant(instruction):
        return OTHER
    return next((name for name, bases in CLASSES.items() if base in bases), OTHER)


@dataclass(frozen=True, slots=True)
class Tally:
    """Warp instructions by class."""

    counts: Counter[str]
    """how many times the warp issued an instruction of the class"""
    lanes: Counter[str]
    """the total number of lanes that executed them"""
    idle: Counter[str]
    """how many of the counted instructions no lane executed, because of their guard"""

    @classmethod
    def of(cls, function: Function, trail: Trail) -> "Tally":
        """Group the *trail* through *function* into classes."""
        counts: Counter[str] = Counter()
        lanes: Counter[str] = Counter()
        idle: Counter[str] = Counter()
        for address, times in trail.issued.items():
            name = class_of(function.instructions[address])
            counts[name] += times
            lanes[name] += trail.lanes[address]
            idle[name] += trail.idle[address]
        return cls(counts, lanes, idle)

    @classmethod
    def nothing(cls) -> "Tally":
        """Return an empty tally, the start value of a sum."""
        return cls(Counter(), Counter(), Counter())

    def __getitem__(self, name: str) -> int:
        """Return how many instructions of one class were issued."""
        return self.counts[name]

    @property
    def total(self) -> int:
        """Return the total number of issued instructions."""
        return self.counts.total()

    def __add__(self, other: "Tally") -> "Tally":
        """Return the sum of the tallies of two warps."""
        return Tally(self.counts + other.counts, self.lanes + other.lanes, self.idle + other.idle)
