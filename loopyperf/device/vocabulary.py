"""Names of the parts of a device: NVIDIA's, AMD's, and those for processors."""

from collections.abc import Mapping
from dataclasses import dataclass

from loopyperf.device.description import Device
from loopyperf.device.parts import Lanes, Pipeline

LOAD_STORE = "load/store"
"""pipeline of local memory and the cache that contains it"""
LOCAL_MEMORY = "local memory"
"""pipeline of local memory if it is not part of a cache"""
ISSUE = "issue"
"""the issue limit, treated as a resource"""
START = "start"
"""pipeline of the pseudo-instruction that starts a group"""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Names of parts for one kind of device."""

    warp: str
    """work-items that execute together"""
    core: str
    """unit that executes groups"""
    local: str
    """memory shared by a group"""
    sector: str
    """smallest transfer of a memory"""
    wavefronts: str = "wavefronts"
    """passes through the banks of local memory"""
    arithmetic: str = "f32 arithmetic"
    """units for single precision"""
    has_occupancy: bool = True
    """whether several groups are resident on a core at once"""

    def resource(self, name: str) -> str:
        """Return the name of a pipeline or memory level, e.g. ``"load/store (shared memory, L1)"``.

        It starts with the name in estimates.
        """
        resources: Mapping[str, str] = {
            LOAD_STORE: f"{LOAD_STORE} ({self.local}, L1)",
            LOCAL_MEMORY: self.local,
            Pipeline.ALU: f"{Pipeline.ALU} ({self.arithmetic})",
            Pipeline.FP64: "fp64 arithmetic",
            Pipeline.SFU: "sfu (special functions, conversions)",
            Pipeline.INTEGER: "integer arithmetic",
            Pipeline.CONTROL: "control (branches)",
            Pipeline.BARRIER: "barriers",
            Pipeline.ATOMICS: "atomic updates of the same elements",
            ISSUE: "instruction issue",
            START: "starting groups",
        }
        return resources.get(name, name)

    def limit(self, name: str, of_local: float) -> str:
        """Return the bound of a kernel whose busiest resource is *name*, e.g. ``"DRAM bandwidth"``.

        *of_local* is the share of local memory in the work of that resource.
        """
        if name in (LOAD_STORE, LOCAL_MEMORY):
            return f"{self.local} bandwidth" if of_local > 1 / 2 else f"L1 throughput ({LOAD_STORE})"
        if name in (*Pipeline, ISSUE, START):
            return self.resource(name)
        return f"{name} bandwidth"


def vocabulary(device: Device) -> Vocabulary:
    """Return the names for *device*."""
    if device.lanes == Lanes.IN_TURN:
        return Vocabulary("vector", "core", "local memory", "cache line", "passes", "vector units", has_occupancy=False)
    if device.vendor == "AMD":
        return Vocabulary("wavefront", "CU", "LDS", "sector", "bank passes")
    return Vocabulary("warp", "SM", "shared memory", "sector")
