"""A kernel as a learned model sees it at one size: counted, its graphs on the device, and the features of both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from loopyperf.device.description import Device
from loopyperf.device.substitutes import completed
from loopyperf.errors import MissingNumberError
from loopyperf.idg.construction.kernel_graphs import KernelIdg
from loopyperf.kernel import Program
from loopyperf.models.features import Features
from loopyperf.models.learned import sampled_features
from loopyperf.models.on_device.graph_features import counted_features, graph_features, launches_of
from loopyperf.models.on_device.static_features import static_features
from loopyperf.models.on_device.timed_launch import TimedKernel
from loopyperf.models.sampling import SampledProgram
from loopyperf.oracle.analysis import CountingOptions, count_at
from loopyperf.oracle.instruction_graph import LANES, instruction_graph
from loopyperf.properties.counted_kernel import KernelCounts


@dataclass(frozen=True)
class SeenKernel:
    """A kernel at one size; what is asked for is found then."""

    program: Program
    sizes: Mapping[str, Any]
    device: Device | None
    """None where the device is not described"""
    typical: Mapping[str, Any] | None = None
    samples: Sequence[SampledProgram] = ()
    launching: float = 0.0
    """seconds that the host takes beside them"""

    @cached_property
    def counted(self) -> KernelCounts:
        """Return what the kernel does."""
        return count_at(self.program, CountingOptions("executed", self.typical), self.sizes)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Return property -> how many units of it a run has."""
        properties = self.counted.properties()
        return dict(zip(properties, properties.totals.at(self.sizes), strict=True))

    @cached_property
    def graphs(self) -> KernelIdg:
        """Return the graphs of the kernel's warps."""
        lanes = completed(self.device).warp_size if self.device else LANES
        return instruction_graph(self.program, warp_size=lanes, typical=self.typical, parameters=self.sizes)

    @cached_property
    def timed(self) -> TimedKernel | None:
        """Return the kernel on its device; None where that is not described."""
        return TimedKernel(self.graphs, self.device) if self.device else None

    @cached_property
    def features(self) -> Features:
        """Return the features: of samples too, where there are any."""
        groups = sum(launch.groups * launch.times for launch in self.graphs.launches)
        found = self._of_graphs() | counted_features(self.counts, groups)
        if self.samples:
            instructions = sum(launch.instructions for launch in launches_of(self.graphs))
            found |= sampled_features(self.samples, instructions)
        return found.rounded()

    def _of_graphs(self) -> Features:
        """Return what the graphs tell, as much as the device's description has numbers for."""
        try:
            return static_features(self.timed) if self.timed else graph_features(launches_of(self.graphs))
        except MissingNumberError:
            return graph_features(launches_of(self.graphs))
