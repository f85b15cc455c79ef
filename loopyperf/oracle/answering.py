"""Which models of a device answer for it, and whether by stated numbers: told without any kernel."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from loopyperf.device.description import Device
from loopyperf.device.lambdas import global_levels
from loopyperf.device.parts import Pipeline, Substitution
from loopyperf.device.substitutes import completed, lacking
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.on_device.timing import Asked, Timing, limit_substitutions, needed
from loopyperf.models.on_device.traffic import Served
from loopyperf.units import number_of

ORDINARY = (("add", "f32"), ("mul", "f32"), ("fma", "f32"), ("add", "i32"), ("mul", "i32"), ("compare", "i32"))
"""arithmetic of an ordinary tiled kernel, beside barriers and accesses of all memories"""


@dataclass(frozen=True, slots=True)
class Answering:
    """What models of a device answer an ordinary tiled kernel of single precision with."""

    lacks: tuple[str, ...]
    """numbers without which none answers; the others are then empty"""
    assumed: Mapping[str, tuple[Substitution, ...]]
    """model -> what it assumes; nothing for one that answers by stated numbers"""

    @classmethod
    def of(cls, device: Device) -> "Answering":
        """Return what models answer for *device* with."""
        lacks = lacking(device)
        if lacks:
            return cls(lacks, {})
        every = tuple(dict.fromkeys(_substitutions(device)))
        models = DEVICE_MODELS.items()
        return cls((), {name: tuple(needed(every, model.sees)) for name, model in models})

    @property
    def stated(self) -> tuple[str, ...]:
        """Return the models that answer by stated numbers."""
        return tuple(name for name, assumed in self.assumed.items() if not assumed)

    @property
    def in_short(self) -> str:
        """Return how many answer, e.g. ``"5 stated, 7 assumed (1 number)"``; what is lacking where none does."""
        if self.lacks:
            return f"none: lacks {', '.join(self.lacks)}"
        stated, most = len(self.stated), max(map(len, self.assumed.values()))
        others = f"{len(self.assumed) - stated} assumed ({number_of(most, 'number')})" if most else ""
        return ", ".join(filter(None, (f"{stated} stated" if stated else "", others)))


def _substitutions(device: Device) -> Iterator[Substitution]:
    """Yield what is assumed of the instructions of an ordinary kernel that has something of every memory."""
    whole, timing = completed(device), Timing(device)
    yield from limit_substitutions(whole)
    for kind, dtype in ORDINARY:
        timing.arithmetic(Instruction(kind, dtype, "alu"))
    timing.arithmetic(Instruction(Opcode.BARRIER, subsystem=Pipeline.BARRIER))
    timing.local_memory(1)
    names = [level.name for level in global_levels(whole)]
    shares = {name: 2.0**-place for place, name in enumerate(names)}
    timing.memory("load", Served(shares, shares), Asked(8, 2))
    yield from timing.substituted
