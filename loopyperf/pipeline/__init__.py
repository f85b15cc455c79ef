"""The pipeline model: simulate and profile a core that executes instruction dependence graphs."""

from loopyperf.device.occupancy import Execution, execution_on
from loopyperf.pipeline.intervals import Interval, intervals
from loopyperf.pipeline.profiling import Profile, chrome_trace, execution_profile, what_if
from loopyperf.pipeline.scenario import SCHEDULERS, Scheduler
from loopyperf.pipeline.simulator import GroupTimes, Simulation, group_times, simulate, warp_latency

__all__ = [
    "SCHEDULERS",
    "Execution",
    "GroupTimes",
    "Interval",
    "Profile",
    "Scheduler",
    "Simulation",
    "chrome_trace",
    "execution_on",
    "execution_profile",
    "group_times",
    "intervals",
    "simulate",
    "warp_latency",
    "what_if",
]
