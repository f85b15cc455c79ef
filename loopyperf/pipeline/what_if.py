"""What would be if: a simulation once more with other latencies, bank conflicts or occupancy, all else as it was."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import starmap

from loopyperf.device.lambdas import Cycles, Lambdas
from loopyperf.errors import SimulationError
from loopyperf.idg.program import Instruction
from loopyperf.pipeline.scenario import Scenario
from loopyperf.pipeline.simulator import Simulation, simulated
from loopyperf.pipeline.timed_graph import TimedGraph


def what_if(
    simulation: Simulation,
    *,
    lambdas: Mapping[str, Lambdas] | None = None,
    rates: Mapping[str, float] | None = None,
    conflicts: Mapping[str, Cycles] | None = None,
    concurrent_groups: int | None = None,
) -> Simulation:
    """Return *simulation* with what is given changed.

    *lambdas* are latencies by subsystem, *rates* how many times as many instructions a subsystem takes in a cycle,
    *conflicts* by how many further accesses those of a subsystem are each delayed (their conflict degree),
    *concurrent_groups* the groups that reside on the core at once. Raises :class:`SimulationError` for a subsystem on
    which nothing runs, and for a rate that is not above 0.
    """
    scenario = simulation.scenario
    programs = _changed(scenario, lambdas or {}, rates or {}, conflicts or {})
    execution = scenario.execution
    if concurrent_groups is not None:
        execution = replace(execution, concurrent_groups=concurrent_groups)
    return simulated(replace(scenario, programs=programs, execution=execution))


def _changed(
    scenario: Scenario, lambdas: Mapping[str, Lambdas], rates: Mapping[str, float], conflicts: Mapping[str, Cycles]
) -> tuple[TimedGraph, ...]:
    strangers = [name for name in (*lambdas, *rates, *conflicts) if name not in scenario.subsystems]
    if strangers:
        known = ", ".join(map(repr, scenario.subsystems))
        raise SimulationError(f"nothing runs on {strangers[0]!r}, so that changing it changes nothing: name {known}")
    for name, rate in rates.items():
        if not rate > 0:
            raise SimulationError(f"the rate of {name!r} is {rate}: it is to be above 0, 2 for twice as many a cycle")

    def changed(instruction: Instruction, known: Lambdas) -> Lambdas:
        name = instruction.subsystem
        found = lambdas.get(name, known)
        found = Lambdas(found.issue / rates[name], found.completion) if name in rates else found
        return found.with_conflicts(conflicts[name]) if name in conflicts else found

    return tuple(replace(each, lambdas=tuple(starmap(changed, each.issued))) for each in scenario.programs)
