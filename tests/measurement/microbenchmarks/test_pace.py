"""Tests of paces: differences of two runs, if these exceed the scatter of the runs."""

from datetime import UTC, datetime

import pytest

from loopyperf.measurement.archive import Recording
from loopyperf.measurement.microbenchmarks.pace import paces
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Kind, Measurement
from tests.measurement.synthetic import run

PROTOCOL = Protocol(runs=6, dropped=2, probe_runs=1)
RUN = run(PROTOCOL)
MICROSECOND = 1e-6


def taken(rounds: int, *samples: float, kind: Kind = "measurement", **sizes: int) -> Measurement:
    return Measurement(
        run=RUN.id,
        kernel_class="chain",
        label="fma f32, group 32",
        sizes={"steps": 10, "groups": 4, **sizes, "rounds": rounds},
        kind=kind,
        samples=tuple(sample * MICROSECOND for sample in samples),
        taken=datetime.now(UTC),
    )


def found(*measurements: Measurement):
    return paces(Recording((RUN,), measurements), "chain")


def test_pace_excludes_the_launch_overhead() -> None:
    # 5 µs for the launch and 1 µs per round: 100 more rounds of 10 steps each
    (pace,) = found(taken(100, 900, 900, 105, 105, 105, 105), taken(200, 900, 900, 205, 205, 205, 205))
    assert pace.seconds == pytest.approx(100 * MICROSECOND)
    assert (pace.rounds, pace.steps, pace.kind) == (100, 1000, "fma f32")
    assert pace.seconds_each == pytest.approx(0.1 * MICROSECOND)
    assert pace.error == 0


def test_scatter_of_the_runs_determines_the_error() -> None:
    # The lower quartile of four samples is the second one.
    (pace,) = found(taken(100, 9, 9, 105, 106, 107, 120), taken(200, 9, 9, 205, 205, 205, 205))
    assert pace.error == pytest.approx(1 * MICROSECOND)


def test_differences_within_the_scatter_are_omitted() -> None:
    assert found(taken(100, 9, 9, 105, 135, 135, 135), taken(200, 9, 9, 205, 205, 205, 205)) == ()
    assert found(taken(100, 9, 9, 105, 105, 105, 105), taken(200, 9, 9, 105, 105, 105, 105)) == ()


def test_points_differ_in_any_size_except_the_rounds() -> None:
    two = [taken(rounds, *[rounds] * 6, groups=groups) for groups in (4, 8) for rounds in (100, 200)]
    assert [pace.sizes for pace in found(*two)] == [{"steps": 10, "groups": groups} for groups in (4, 8)]


def test_one_run_and_probes_give_no_pace() -> None:
    assert found(taken(100, *[100] * 6), taken(200, 200, kind="probe"), taken(400, 400, kind="probe")) == ()
