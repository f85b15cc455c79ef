"""What the loads and stores of a machine graph ask of memory."""

from collections.abc import Iterator, Mapping
from itertools import chain

from loopyperf.counts.item import MemorySpace
from loopyperf.idg.program import Instruction
from loopyperf.kernel.launches import Assumed
from loopyperf.memory.kernel_profile import WarpClass
from loopyperf.memory.private_stack import private_access
from loopyperf.memory.profile import Quantity
from loopyperf.models.on_device.traffic import Way
from loopyperf.pipeline.timed_program import Request, Served


class WarpAccesses:
    """What the loads and stores of a machine graph ask of memory, each time that they are executed, on average."""

    def __init__(self, warps: WarpClass) -> None:
        """Take *warps* with their machine graph."""
        self.warps, self.graph = warps, warps.graph
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

    def requests(self, served: Mapping[Way, Served], of_stacks: Mapping[str, Served]) -> Iterator[Request | None]:
        """Yield what each instruction asks of memory, given how far accesses go; None where it accesses none."""
        for each in self.graph.instructions:
            if each.reference is None or each.is_idle:
                yield None
            elif each.subsystem == MemorySpace.LOCAL:
                yield Request(each.reference.array, wavefronts=self._mean(each, "wavefronts"))
            else:
                is_of_stack = each.subsystem == MemorySpace.PRIVATE
                yield self.request(
                    each, of_stacks[each.kind] if is_of_stack else served[Way(each.reference.array, each.kind)]
                )

    def request(self, instruction: Instruction, served: Served | None = None) -> Request:
        """Return what an access of global or private memory asks for, which goes as far as *served*."""
        if instruction.subsystem != MemorySpace.PRIVATE:
            sectors, lines = self._mean(instruction, "sectors"), self._mean(instruction, "lines")
            return Request(instruction.reference.array, sectors, lines, served=served)
        # Lines of stacks are moved whole: groups of 6 and 12 lanes take as long as full warps (docs/pipeline.md).
        access = private_access(instruction.reference, self.warps.example.size)
        return Request(instruction.reference.array, access.sectors, access.lines, served=served)

    @property
    def sectors_by_way(self) -> dict[Way, float]:
        """Return the sectors that the loads of each array, and the stores to it, ask for in a warp."""
        found: dict[Way, float] = {}
        for each in self.graph.instructions:
            if each.subsystem == MemorySpace.GLOBAL and each.reference is not None and not each.is_idle:
                way = Way(each.reference.array, each.kind)
                found[way] = found.get(way, 0.0) + self._mean(each, "sectors") * float(each.executions)
        return found

    def _mean(self, instruction: Instruction, quantity: Quantity) -> float:
        """Return the mean of *quantity* over all executions; copies and merged accesses are as their source."""
        origin = instruction.origin
        assert origin is not None
        source = self.warps.accesses[origin]
        if (origin, quantity) not in self._found:
            self._found[origin, quantity] = float(source.known.mean(quantity))
        return self._found[origin, quantity] * instruction.bits / source.bits
