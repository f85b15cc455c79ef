"""What would be if: a simulation once more with other latencies, bank conflicts or occupancy, all else as it was."""

from collections.abc import Mapping
from dataclasses import replace

from loopyperf.device.lambdas import Cycles, Lambdas
from loopyperf.errors import SimulationError
from loopyperf.idg.metrics.lambdas import Timing, latencies
from loopyperf.idg.program import Instruction
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.simulator import Simulation, simulated


def what_if(
    simulation: Simulation,
    *,
    lambdas: Mapping[str, Lambdas] | None = None,
    conflicts: Mapping[str, Cycles] | None = None,
    concurrent_groups: int | None = None,
) -> Simulation:
    """Return *simulation* with what is given changed.

    *lambdas* are latencies by subsystem, *conflicts* by how many further accesses those of a subsystem are each
    delayed (their conflict degree), *concurrent_groups* the groups that reside on the core at once. Raises
    :class:`SimulationError` for a subsystem on which nothing runs.
    """
    scenario = simulation.scenario
    timing = _changed(scenario, lambdas or {}, conflicts or {})
    execution = scenario.execution
    if concurrent_groups is not None:
        execution = replace(execution, concurrent_groups=concurrent_groups)
    return simulated(replace(scenario, timing=timing, execution=execution))


def _changed(scenario: Scenario, lambdas: Mapping[str, Lambdas], conflicts: Mapping[str, Cycles]) -> Timing:
    strangers = [name for name in (*lambdas, *conflicts) if name not in scenario.subsystems]
    if strangers:
        known = ", ".join(map(repr, scenario.subsystems))
        raise SimulationError(f"nothing runs on {strangers[0]!r}, so that changing it changes nothing: name {known}")

    def timing(instruction: Instruction) -> Lambdas:
        name = instruction.subsystem
        found = lambdas[name] if name in lambdas else latencies([instruction], scenario.timing)[0]
        return found.with_conflicts(conflicts[name]) if name in conflicts else found

    return timing
