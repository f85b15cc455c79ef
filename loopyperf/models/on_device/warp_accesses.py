"""What the loads and stores of a machine graph ask of memory."""

from loopyperf.assumptions import Assumption
from loopyperf.counts.item import MemorySpace
from loopyperf.idg.access.private_stack import private_access
from loopyperf.idg.access.profile import Quantity
from loopyperf.idg.construction.kernel_graphs import WarpKind
from loopyperf.idg.graph import Idg
from loopyperf.models.on_device.timing import Asked
from loopyperf.models.on_device.traffic import Way


class WarpAccesses:
    """What the loads and stores of a machine graph ask of memory, each time that they are executed, on average."""

    def __init__(self, kind: WarpKind, graph: Idg) -> None:
        self.kind, self.graph = kind, graph
        self.assumed: dict[Assumption, None] = {}
        self._sources = {each.origin: place for place, each in enumerate(kind.graph.instructions)}
        self._found: dict[tuple[int, Quantity], tuple[int, float]] = {}

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
        access = private_access(instruction.reference, self.kind.example.size)
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
        if (origin, quantity) not in self._found:
            source = self._sources[origin]
            pattern = self.kind.access(source)
            self.assumed.update(dict.fromkeys(pattern.assumptions))
            bits = self.kind.graph.instructions[source].bits
            self._found[origin, quantity] = bits, float(pattern.profile.mean(quantity))
        bits, mean = self._found[origin, quantity]
        return mean * instruction.bits / bits
