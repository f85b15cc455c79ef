"""The pipeline model: a core that executes instruction dependence graphs is simulated, and profiled."""

from loopyperf.pipeline.execution import Execution, execution_on
from loopyperf.pipeline.schedulers import SCHEDULERS, Scheduler
from loopyperf.pipeline.simulator import Simulation, simulate

__all__ = ["SCHEDULERS", "Execution", "Scheduler", "Simulation", "execution_on", "simulate"]
