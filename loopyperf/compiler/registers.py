"""How many registers a work-item needs, estimated from a machine graph.

ptxas allocates registers when it has put the instructions in an order of its own; the graph has that of the program.
The constants are fitted to what ptxas reports of 146 kernels for sm_80 and sm_90 (docs/compiler.md, section 10); six
of ten estimates are within a quarter of it. The exact figure is :func:`loopyperf.measurement.resources.resources`.
"""

from dataclasses import dataclass

from loopyperf.compiler.private_arrays import MOST_REGISTERS
from loopyperf.errors import ParameterError
from loopyperf.idg.graph import Idg
from loopyperf.idg.metrics.live_values import live_registers
from loopyperf.idg.program import Loop

GRAIN = 8
"""registers of a work-item are allocated in such steps"""
TOGETHER = 128
"""work-items: one warp in each of the four parts of the register file, where a group's warps lie in turns"""
STRAIGHT = 18
"""for addresses and sizes in a program without loops: fitted"""
LOOPS = 22
"""for these and loop control in one with loops: fitted"""
ALIVE = 0.9
"""the order of ptxas keeps that part of the values alive that the order of the program does: fitted"""
LEAST = 7
"""beside those of the values, where these take nearly all: chains of 500 to 800 terms on sm_75 to sm_90 spill so"""


@dataclass(frozen=True, slots=True)
class RegisterFile:
    """The registers of 32 bits that a core has for work-items: as NVIDIA's have them from compute capability 3.5 on."""

    size: int = 65_536
    """of a core (CUDA C++ Programming Guide, "Compute Capabilities")"""
    most: int = MOST_REGISTERS
    """that a work-item can have"""


NVIDIA = RegisterFile()


@dataclass(frozen=True, slots=True)
class Registers:
    """The registers of a work-item."""

    live: int
    """that values take at the same time, in the order of the program"""
    needed: int
    """an estimate of all, whether there are so many or not"""
    limit: int
    """how many a work-item can have"""
    room: int
    """that there is for values among them"""

    @property
    def allocated(self) -> int:
        """Return how many it gets."""
        return min(self.needed, self.limit)

    @property
    def left(self) -> int:
        """Return how many it could have beside those that it needs."""
        return self.limit - self.allocated

    @property
    def spilled(self) -> int:
        """Return how many do not fit, and are expected in private memory."""
        return self.needed - self.allocated


def estimated_registers(graph: Idg, work_items: int = 1, file: RegisterFile = NVIDIA) -> Registers:
    """Return the registers of 32 bits that a work-item needs, by the machine *graph* of its warp.

    *work_items* are those of a work-group, which share the register *file* of a core. Raises :class:`ParameterError`
    where there are none.
    """
    if work_items < 1:
        raise ParameterError(f"a work-group has 1 work-item or more, received {work_items}")
    live = live_registers(graph)
    allocated = -(-work_items // TOGETHER) * TOGETHER
    limit = min(file.most, file.size // allocated // GRAIN * GRAIN)
    others = LOOPS if any(isinstance(item, Loop) for item in graph.body) else STRAIGHT
    needed = max(round(others + ALIVE * live), live + LEAST)
    return Registers(live, needed, limit, min(int((limit - others) / ALIVE), limit - LEAST))
