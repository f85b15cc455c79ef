"""Tests that instruction mixes recover the simulator's pipelines and issue limit."""

from dataclasses import replace

import pytest

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import MeasurementError
from loopyperf.idg import Idg
from loopyperf.measurement.microbenchmarks.instruction_benchmarks import measured_mix
from loopyperf.measurement.microbenchmarks.pace import Estimated
from loopyperf.pipeline import Execution, simulate

BETAS = (1, 2, 4, 6, 8, 12, 16, 24)
ROUNDS = 30
WARPS = 40
LATENCIES = {"fma": Lambdas(1, 18), "special": Lambdas(6, 40)}


def cycles(beta: int, subsystems: tuple[str, str], limit: float | None = None) -> float:
    """Return the cycles of a core per round of one of its warps."""
    kinds = [*["fma"] * beta, "special"]
    graph = Idg.from_edges(kinds, [*((n, n + 1) for n in range(beta)), (beta, 0, 1)], trips=ROUNDS)
    of = dict(zip(("fma", "special"), subsystems, strict=True))
    graph = replace(graph, instructions=tuple(replace(each, subsystem=of[each.kind]) for each in graph.instructions))
    execution = Execution(1, WARPS, WARPS)
    return simulate(graph, lambda each: LATENCIES[each.kind], execution, issue_limit=limit).cycles / ROUNDS / WARPS


def test_one_pipeline_takes_longer_with_every_instruction() -> None:
    mix = measured_mix(BETAS, [cycles(beta, ("alu", "alu")) for beta in BETAS])
    assert mix.separate is False
    # The pipeline fills and drains once in 30 rounds.
    assert mix.slope.value == pytest.approx(1, rel=0.01)


def test_two_pipelines_hide_the_shorter_work() -> None:
    mix = measured_mix(BETAS, [cycles(beta, ("alu", "sfu")) for beta in BETAS])
    assert mix.separate is True
    assert mix.slope.value == pytest.approx(1, rel=0.05)
    # The first kind alone has the same slope, so there is no evidence of a limit.
    assert mix.issue_limit(Estimated(1, 0.01)) is None


def test_issue_limit_slower_than_the_pipeline_is_found() -> None:
    # The pipeline could execute two multiply-adds per cycle, but the core issues one instruction.
    mix = measured_mix(BETAS, [cycles(beta, ("alu", "sfu"), limit=1.0) for beta in BETAS])
    limit = mix.issue_limit(Estimated(0.5, 0.005))
    assert limit.value == pytest.approx(1, rel=0.05)
    assert abs(limit.value - 1) < 4 * limit.error


def test_instructions_added_by_the_compiler_only_shift_the_line() -> None:
    times = [max(6, (beta + 3) * 1.0) for beta in BETAS]
    mix = measured_mix(BETAS, times)
    assert (mix.separate, mix.slope.value) == (True, pytest.approx(1))


def test_inconclusive_times_give_no_result() -> None:
    mix = measured_mix((1, 2, 4, 8, 16), (5, 9, 7, 20, 18))
    assert mix.separate is None
    assert mix.issue_limit(Estimated(0.1, 0.01)) is None


def test_too_few_mixes_are_refused() -> None:
    with pytest.raises(MeasurementError, match="three or more points"):
        measured_mix((1, 2), (3, 4))
