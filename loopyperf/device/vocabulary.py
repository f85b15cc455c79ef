"""What engineers call the parts of a device: NVIDIA's words, AMD's, and those for processors."""

from collections.abc import Mapping
from dataclasses import dataclass

from loopyperf.device.description import Device
from loopyperf.device.parts import Lanes, Pipeline

LOAD_STORE = "load/store"
"""pipeline of local memory and the cache that it is a part of"""
LOCAL_MEMORY = "local memory"
"""pipeline of local memory alone, where it shares none with a cache"""
ISSUE = "issue"
"""the issue limit, as one of the resources that are busy"""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words for one kind of device."""

    warp: str
    """work-items that execute together"""
    core: str
    """what executes groups"""
    local: str
    """memory of a group"""
    sector: str
    """the least that memory moves"""
    wavefronts: str = "wavefronts"
    """what passes through the banks of a group's memory"""
    arithmetic: str = "f32 arithmetic"
    """what computes in single precision"""
    has_occupancy: bool = True
    """whether several groups reside on a core at once"""

    def resource(self, name: str) -> str:
        """Return what pipeline or memory level *name* is called, e.g. ``"shared memory and L1"``."""
        resources: Mapping[str, str] = {
            LOAD_STORE: f"{self.local} and L1",
            LOCAL_MEMORY: self.local,
            Pipeline.ALU: self.arithmetic,
            Pipeline.FP64: "f64 arithmetic",
            Pipeline.SFU: "special functions",
            Pipeline.INTEGER: "integer arithmetic",
            Pipeline.CONTROL: "branches",
            Pipeline.BARRIER: "barriers",
            ISSUE: "instruction issue",
        }
        return resources.get(name, name)

    def limit(self, name: str, of_local: float) -> str:
        """Return what a kernel is bound by whose busiest resource is *name*, in the words of the field.

        *of_local* is the share of local memory in what that resource does.
        """
        if name in (LOAD_STORE, LOCAL_MEMORY):
            return f"{self.local} bandwidth" if of_local > 1 / 2 else f"L1 throughput ({LOAD_STORE} units)"
        if name in (*Pipeline, ISSUE):
            return self.resource(name)
        return f"{name} bandwidth"


def vocabulary(device: Device) -> Vocabulary:
    """Return the words for *device*."""
    if device.lanes == Lanes.IN_TURN:
        return Vocabulary("vector", "core", "local memory", "cache line", "passes", "vector units", has_occupancy=False)
    if device.vendor == "AMD":
        return Vocabulary("wavefront", "CU", "LDS", "sector", "bank passes")
    return Vocabulary("warp", "SM", "shared memory", "sector")
