"""What the loads and stores of a machine graph ask of memory."""

from collections.abc import Iterator
from itertools import chain

from loopyperf.counts.item import MemorySpace
from loopyperf.idg.graph import Idg
from loopyperf.kernel.launches import Assumed
from loopyperf.memory.kernel_profile import WarpClass
from loopyperf.memory.private_stack import private_access
from loopyperf.memory.profile import Quantity
from loopyperf.models.on_device.timing import Asked
from loopyperf.models.on_device.traffic import Way


class WarpAccesses:
    """What the loads and stores of a machine graph ask of memory, each time that they are executed, on average."""

    def __init__(self, warps: WarpClass, graph: Idg) -> None:
        """Take the machine *graph* of *warps*."""
        self.warps, self.graph = warps, graph
        self._found: dict[tuple[int, Quantity], float] = {}

    @property
    def assumed(self) -> tuple[Assumed, ...]:
        """Return what was assumed of the addresses of global and local memory that the graph still has."""
        found = (self.warps.accesses[each] for each in dict.fromkeys(self._origins))
        return tuple(dict.fromkeys(chain.from_iterable(each.assumed for each in found)))

    @property
    def _origins(self) -> Iterator[int]:
        yield from (
            each.origin
            for each in self.graph.instructions
            if each.origin is not None and each.subsystem != MemorySpace.PRIVATE and not each.is_idle
        )

    def sectors(self, number: int) -> float:
        """Return the sectors of global memory that instruction *number* asks for."""
        return self._mean(number, "sectors")

    def lines(self, number: int) -> float:
        """Return the lines of global memory that instruction *number* asks for."""
        return self._mean(number, "lines")

    def wavefronts(self, number: int) -> float:
        """Return the passes through the banks of local memory that instruction *number* takes."""
        return self._mean(number, "wavefronts")

    def asked(self, number: int) -> Asked:
        """Return what instruction *number* asks of global or private memory."""
        instruction = self.graph.instructions[number]
        if instruction.subsystem != MemorySpace.PRIVATE:
            return Asked(self.sectors(number), self.lines(number))
        # Lines of stacks are moved whole: groups of 6 and 12 lanes take as long as full warps (docs/pipeline.md).
        access = private_access(instruction.reference, self.warps.example.size)
        return Asked(access.sectors, access.lines)

    @property
    def sectors_by_way(self) -> dict[Way, float]:
        """Return the sectors that the loads of each array, and the stores to it, ask for in a warp."""
        found: dict[Way, float] = {}
        for number, each in enumerate(self.graph.instructions):
            if each.subsystem == MemorySpace.GLOBAL and each.reference is not None and not each.is_idle:
                way = Way(each.reference.array, each.kind)
                found[way] = found.get(way, 0.0) + self.sectors(number) * float(each.executions)
        return found

    def _mean(self, number: int, quantity: Quantity) -> float:
        """Return the mean of *quantity* over all executions; copies and merged accesses are as their source."""
        instruction = self.graph.instructions[number]
        origin = instruction.origin
        assert origin is not None
        source = self.warps.accesses[origin]
        if (origin, quantity) not in self._found:
            self._found[origin, quantity] = float(source.known.mean(quantity))
        return self._found[origin, quantity] * instruction.bits / source.bits
