"""How many instructions of what sort one warp executes: what the models without a graph ask for.

Which subsystems are "memory" is a choice. The models of two pipelines mean the one whose requests leave the core: its
Λ and λ are those of device memory (Lemeire, Table 2), and MWP-CWP and the WFG model count accesses of on-chip memory as
computation. So it is ``"global"`` unless other subsystems are named, and all but barriers is then computation.
"""

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

from loopyperf.counts.item import MemorySpace
from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Opcode

Count = int | Fraction
"""executions of one warp; a fraction where ``typical`` says how often a condition on data holds"""

MEMORY = (MemorySpace.GLOBAL,)
"""the subsystems whose instructions are memory instructions, unless others are named"""


@dataclass(frozen=True, slots=True)
class Mix:
    """How many instructions one warp executes, of three sorts (Lemeire, section 3.1.1)."""

    computation: Count
    """αcomp"""
    memory: Count
    """αmem"""
    synchronization: Count
    """αsync: barriers"""

    @property
    def total(self) -> Count:
        """Return how many instructions the warp executes."""
        return self.computation + self.memory + self.synchronization


def instruction_mix(graph: Idg, memory: Collection[str] = MEMORY) -> Mix:
    """Return how many instructions of each sort one warp executes; *memory* names the subsystems that are memory.

    See :meth:`Idg.mix` for them by kind and type. Source: Lemeire, Table 2.
    """
    of_subsystem = executions_by_subsystem(graph)
    synchronization: Count = sum((each.executions for each in graph.instructions if each.kind == Opcode.BARRIER), 0)
    in_memory: Count = sum((of_subsystem.get(name, 0) for name in dict.fromkeys(memory)), 0)
    return Mix(graph.executed - in_memory - synchronization, in_memory, synchronization)


def executions_by_subsystem(graph: Idg) -> dict[str, Count]:
    """Return subsystem -> how many instructions one warp executes on it."""
    found: dict[str, Count] = {}
    for each in graph.instructions:
        found[each.subsystem] = found.get(each.subsystem, 0) + each.executions
    return found
