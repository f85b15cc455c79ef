"""The pipeline model: simulate and profile a core that executes instruction dependence graphs."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from loopyperf.device.occupancy import Execution, execution_on
from loopyperf.pipeline.intervals import Interval, intervals
from loopyperf.pipeline.scenario import SCHEDULERS, Scheduler
from loopyperf.pipeline.simulator import GroupTimes, Simulation, group_times, simulate, warp_latency

if TYPE_CHECKING:
    from loopyperf.pipeline.profiling import Profile, execution_profile, what_if

__all__ = [
    "SCHEDULERS",
    "Execution",
    "GroupTimes",
    "Interval",
    "Profile",
    "Scheduler",
    "Simulation",
    "execution_on",
    "execution_profile",
    "group_times",
    "intervals",
    "simulate",
    "warp_latency",
    "what_if",
]


def __getattr__(name: str) -> Any:
    """Import the names of ``profiling.py`` on first use: an estimate needs none."""
    if name in ("Profile", "execution_profile", "what_if"):
        return getattr(import_module("loopyperf.pipeline.profiling"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the names of ``profiling.py`` too."""
    return __all__
