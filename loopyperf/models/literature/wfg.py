"""The work flow graph model: the cycles of a warp's path through computation, memory operations and barriers.

    λtrans,i = αi · max(λcomp, Λcomp / (ILPi·ω))          of a block of computation          (Lemeire, equation 30)
    CYCcomp = Σ λtrans,i + λinstr·αmem                    (31; αi is in λtrans,i already: docs/errata.md)
    λtrans,mem = λinstr + max(0, (αmem·λmem − CYCcomp) / αmem)      leaving a memory operation            (33)
    NBC = CYCcomp / (αmem + αsync + 1)                                                                    (35)
    Λexposed = Λmem − (ω − 1)·NBC                         until its result may be used                    (36)
    CPR = ω · CPW                                                                                         (39)

CPW is the longest path through the graph: the first use of a result waits for the longer of the two paths to it. If the
next node uses the result, a memory operation costs the larger of its two arcs. The corrected model, WFG*, has
λinstr = 0 and

    Λexposed = Λmem/ω − max(0, (ω − 1)/ω · NBC − αi·Λcomp / (ω·ILPi))                                      (42)

with the block before the memory operation, whose cycles already hide its own latencies.

S. S. Baghsorkhi et al., An adaptive performance modeling tool for GPU architectures, 2010; Lemeire, sections 2.4, 5.1.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from loopyperf.models.workload import (
    Floats,
    FlowNode,
    Occupancy,
    TwoPipelines,
    WarpDemand,
    WorkFlow,
    Workload,
    on_plain_numbers,
)


def cycles(warp: WarpDemand, occupancy: Floats, corrected: bool = False) -> Floats:
    """Return the cycles of a run of *occupancy* warps by the original or the *corrected* equations."""
    arcs = _Arcs(warp, occupancy, corrected)
    return occupancy * sum(share * _Way(flow, arcs).cycles() for share, flow in warp.work_flows)


def cycles_per_run(
    workload: Workload, pipelines: TwoPipelines, occupancy: Occupancy, corrected: bool = False
) -> float | Floats:
    """Return the cycles of a run of *occupancy* warps, in the shape of the occupancies.

    *corrected* selects the equations of WFG* instead of the original ones.

    :raises ModelInputError: if an occupancy is below 1 or above the capacity of the core.
    """
    return on_plain_numbers(partial(cycles, corrected=corrected), workload, pipelines, occupancy)


@dataclass(frozen=True)
class _Arcs:
    """Cycles of a warp along the arcs between nodes, over the occupancy."""

    warp: WarpDemand
    occupancy: Floats
    corrected: bool

    @property
    def memory_instruction(self) -> float:
        return 0.0 if self.corrected else self.warp.memory_instruction

    def transition(self, node: FlowNode) -> Floats:
        """Return the cycles until the next node starts."""
        if node.sort == "memory":
            return self._after_memory
        return node.instructions * np.maximum(node.issue, node.completion / (node.ilp * self.occupancy))

    @cached_property
    def computing(self) -> Floats:
        """Return CYCcomp, in cycles."""
        found = np.zeros_like(self.occupancy)
        for share, flow in self.warp.work_flows:
            blocks = (node for node in flow.nodes if node.sort == "computation")
            found += sum(share * node.executions * self.transition(node) for node in blocks)
        return found + self.memory_instruction * self.warp.memory.instructions

    @cached_property
    def _after_memory(self) -> Floats:
        memory = self.warp.memory
        return self.memory_instruction + np.maximum(0.0, (memory.issue - self.computing) / memory.instructions)

    def exposed(self, node: FlowNode, before: FlowNode | None) -> Floats:
        """Return Λexposed of a memory operation, in cycles, given the block *before* it."""
        hiding = self.computing / (self.warp.memory.instructions + self.warp.barriers + 1)
        if not self.corrected:
            return node.completion - (self.occupancy - 1) * hiding
        own = before.instructions * before.completion / before.ilp if before is not None else 0.0
        return node.completion / self.occupancy - np.maximum(
            0.0, (self.occupancy - 1) / self.occupancy * hiding - own / self.occupancy
        )


class _Way:
    """The longest path of a warp through its work flow."""

    def __init__(self, flow: WorkFlow, arcs: _Arcs) -> None:
        self.flow, self.arcs = flow, arcs
        self.now = np.zeros_like(arcs.occupancy)
        self.ready: dict[int, Floats] = {}
        """Memory operation -> cycle at which its result may be used."""

    def cycles(self) -> Floats:
        """Return CPW, the length of the path in cycles."""
        self._go(0, len(self.flow.nodes) - 1, frozenset(), 1.0)
        return np.maximum.reduce([self.now, *(self.ready[number] for number in self.flow.awaited)])

    def _go(self, first: int, last: int, entered: frozenset[tuple[int, int]], times: float) -> None:
        """Execute nodes *first* to *last* inside the loops *entered*, which execute *times* times in total."""
        for begin, end in self._parts(first, last, entered):
            if (begin, end) in self.flow.loops and (begin, end) not in entered:
                self._repeat(begin, end, entered | {(begin, end)}, times)
            else:
                self._iteration(begin, times)

    def _parts(self, first: int, last: int, entered: frozenset[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Yield the outermost loops that are not entered, and the nodes outside all loops."""
        number = first
        while number <= last:
            around = [loop for loop in self.flow.loops if loop not in entered and loop[0] == number and loop[1] <= last]
            part = max(around, default=(number, number))
            yield part
            number = part[1] + 1

    def _repeat(self, first: int, last: int, entered: frozenset[tuple[int, int]], times: float) -> None:
        """Execute a loop: two iterations, of which the second represents all further ones."""
        executed = max(node.executions for node in self.flow.nodes[first : last + 1])
        trips = executed / times
        # A loop that is entered less than once on average is executed once, with its share of the time.
        inside = max(executed, times)
        for number in range(2 if trips > 1 else 1):
            before = self.now
            self._go(first, last, entered, inside)
            if number:
                later = (trips - 2) * (self.now - before)
                self.now = self.now + later
                self.ready.update({place: self.ready[place] + later for place in self.ready if first <= place <= last})

    def _iteration(self, number: int, times: float) -> None:
        """Execute a node; under a rarely true condition, only a share of the iterations executes it."""
        node = self.flow.nodes[number]
        share = min(1.0, node.executions / times) if times else 0.0
        waited = [self.ready[each] for each in node.waits_for if each in self.ready]
        start = np.maximum.reduce([self.now, *waited])
        if node.sort == "memory":
            before = self.flow.nodes[number - 1] if number else None
            block = before if before is not None and before.sort == "computation" else None
            self.ready[number] = start + share * self.arcs.exposed(node, block)
        self.now = start + share * self.arcs.transition(node)
