"""Tests of traces: their events, the part of the run that they show, and their cycles."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import loopyperf as lpp
from loopyperf.cli.command_table import program
from loopyperf.errors import ParameterError
from loopyperf.pipeline import simulate
from tests.explain.pages.report_kernels import two_launches
from tests.kernels import doubled, triangle
from tests.trace_format import check, nanoseconds, tracks

V100 = {"device": "nvidia-v100"}
DOUBLED = f"{Path(__file__).parents[1] / 'kernels.py'}:doubled"


def test_short_run_is_traced_in_full_with_the_cycles_of_the_model() -> None:
    found = lpp.trace(doubled(group=64), n=64 * 80 * 4, **V100)
    check(found.document)
    (launch,) = found.launches
    # 320 groups on 80 cores: the model simulates the same groups, and the estimate adds nothing.
    assert (launch.explicit.groups, launch.total_groups, launch.summary) == (4, 4, ())
    estimate = lpp.estimate(doubled(group=64), n=64 * 80 * 4, model="pipeline", **V100)
    executing = float(estimate) - estimate.breakdown.by_property()["launches"]
    cycles = executing * lpp.load_device("nvidia-v100").clock
    assert float(launch.profile.cycles) == pytest.approx(cycles, rel=1e-6)
    warps = {name: track for (core, name), track in tracks(found.document).items() if "warps" in core}
    assert len(warps) == 4 * 2
    ends = [max(nanoseconds(event)[1] for event in track) for track in warps.values()]
    assert max(ends) == pytest.approx(1e9 * executing, abs=1)


def test_predictor_replaces_the_device_and_gives_only_the_time() -> None:
    found = lpp.trace(doubled(), n=100, predictor=lpp.predictor(model="pipeline", **V100))
    assert found.document == lpp.trace(doubled(), n=100, **V100).document
    by_roofline = lpp.trace(doubled(), n=100, predictor=lpp.predictor(model="roofline", **V100))
    assert by_roofline.document["traceEvents"] == found.document["traceEvents"]
    assert by_roofline.estimate.model == "roofline"
    with pytest.raises(ParameterError, match="predictor= already has a device"):
        lpp.trace(doubled(), n=100, predictor=lpp.predictor(model="pipeline", **V100), **V100)


def test_event_names_are_expressions_of_the_source() -> None:
    found = lpp.trace(doubled(group=64), n=64, **V100)
    names = {event["name"] for event in found.document["traceEvents"] if event.get("cat") == "instruction"}
    assert {"a[i_inner + i_outer*64]", "b[i_inner + i_outer*64]"} <= names
    (core, _), *_ = tracks(found.document)
    assert core.startswith("core of doubled: ")


def test_file_contains_the_notes_on_omitted_parts() -> None:
    found = lpp.trace(triangle(group=64), n=1_000_000, events=2_000, **V100)
    check(found.document)
    assert 1_000 < found.events <= 2_000
    (launch,) = found.launches
    assert launch.explicit.groups < launch.total_groups
    assert [note for note in found.notes if "are simulated instruction by instruction" in note]
    assert [note for note in found.notes if "fewer iterations" in note]
    assert found.document["otherData"]["notes"] == list(found.notes)
    read = " ".join(str(found).split())
    assert all(note in read for note in found.notes)
    (metadata,) = found.document["otherData"]["launches"]
    assert metadata["groups"] == launch.explicit.groups < metadata["groups_of_core"]


def test_more_events_cover_more_cycles() -> None:
    few, many = (lpp.trace(doubled(), n=100_000, events=events, **V100) for events in (500, 5_000))
    assert few.events <= 500 < many.events <= 5_000
    assert few.launches[0].track.cycles < many.launches[0].track.cycles


def test_only_launches_with_loops_omit_iterations() -> None:
    few = lpp.trace(two_launches(), n=100_000, events=200, **V100)
    assert [launch.explicit.is_shortened for launch in few.launches] == [False, False]
    assert not any("fewer iterations" in sentence for sentence in few.notes)
    (launch,) = lpp.trace(triangle(), n=100_000, events=500, **V100).launches
    assert launch.explicit.is_shortened
    assert any("fewer iterations" in sentence for sentence in launch.summary)


def test_traced_part_equals_a_simulation_of_its_graphs() -> None:
    (launch,) = lpp.trace(doubled(), n=10_000, **V100).launches
    scenario = launch.explicit.simulation.scenario
    issued = [pair for program in scenario.programs for pair in program.issued]
    again = simulate(
        [scenario.graphs[program] for program in scenario.order],
        lambda instruction: next(lambdas for each, lambdas in issued if each == instruction),
        scenario.execution,
        scheduler=scenario.scheduler,
        issue_limit=scenario.issue_limit,
    )
    assert again.exact_cycles == launch.profile.cycles


@pytest.mark.parametrize("events", [99, 0, -1, 1e4, True])
def test_too_few_events_are_refused(events: object) -> None:
    with pytest.raises(ParameterError, match="events must be an integer >= 100"):
        lpp.trace(doubled(), n=64, events=events, **V100)


def test_command_writes_the_file_and_prints_a_summary(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    arguments = ["trace", DOUBLED, "--set", "n=100000", "--device", "nvidia-v100", "-o", str(path), "--events", "500"]
    printed = CliRunner().invoke(program, arguments)
    found = lpp.trace(doubled(), n=100_000, events=500, **V100)
    assert printed.stdout.split() == f"{found}\nwrote {path}; open it at https://ui.perfetto.dev".split()
    assert json.loads(path.read_text(encoding="utf-8")) == found.document
    metadata = json.loads(CliRunner().invoke(program, [*arguments, "--json"]).stdout)
    assert metadata == {"path": str(path), "events": found.events, **found.document["otherData"]}
