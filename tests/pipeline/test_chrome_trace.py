"""Chrome traces follow the format, and their spans add up to the simulated cycles."""

import json
from fractions import Fraction

import pytest

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg
from loopyperf.pipeline import Execution, Profile, execution_profile, simulate
from loopyperf.pipeline.profiling import Track, chrome_trace, trace_document
from tests.trace_format import check, nanoseconds, tracks

EXAMPLE = Idg.from_edges(["comp", "comp", "mem", "comp", "comp", "mem"], [(0, 2), (1, 2), (2, 3), (3, 4), (4, 5)])
TIMING = {"comp": Lambdas(1, 4), "mem": Lambdas(2, 6), "barrier": Lambdas(1, 10)}
HELD = Idg.from_edges(["comp", "barrier", "mem", "comp"], [(0, 1), (1, 2), (2, 3)])
LOOP = Idg.from_edges(["mem", "comp"], [(0, 1), (1, 0, 1)], trips=7)
PROFILES = {
    "one warp": execution_profile(simulate(EXAMPLE, TIMING, Execution(1, 1, 1))),
    "several warps": execution_profile(simulate(EXAMPLE, TIMING, Execution(3, 2, 2))),
    "groups one after the other": execution_profile(simulate(EXAMPLE, TIMING, Execution(2, 1, 3))),
    "barriers": execution_profile(simulate(HELD, TIMING, Execution(2, 2, 5))),
    "a loop": execution_profile(simulate(LOOP, TIMING, Execution(2, 2, 2), issue_limit=0.5)),
}
every_profile = pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
CLOCK = 1.38e9


def outermost(track: list[dict]) -> list[dict]:
    """Return the spans of a track that lie in no other span."""
    found: list[dict] = []
    for event in track:
        if not found or nanoseconds(event)[0] >= nanoseconds(found[-1])[1]:
            found.append(event)
    return found


@every_profile
@pytest.mark.parametrize("clock", [1e6, CLOCK], ids=["in cycles", "in time"])
def test_trace_follows_the_format(profile: Profile, clock: float) -> None:
    document = trace_document([Track(profile, "one", clock), Track(profile, "other", clock)], {"said": "all"})
    check(document)
    assert json.loads(json.dumps(document)) == document


@every_profile
def test_spans_of_a_warp_have_no_gaps_and_end_with_the_run(profile: Profile) -> None:
    # The trace has 1 us per cycle, so its times are cycles.
    warps = {name: each for (core, name), each in tracks(json.loads(chrome_trace(profile))).items() if "warps" in core}
    assert len(warps) == profile.scenario.execution.total_warps
    ends: list[float] = []
    for track in warps.values():
        spans = outermost(track)
        expected_start = spans[0]["ts"]
        for span in spans:
            assert span["ts"] == expected_start
            expected_start += span["dur"]
        ends.append(expected_start)
    assert max(ends) == profile.cycles


@every_profile
def test_spans_of_each_pipeline_add_up_to_its_busy_time(profile: Profile) -> None:
    found = tracks(json.loads(chrome_trace(profile)))
    busy = {name: sum(each["dur"] for each in track) for (core, name), track in found.items() if "pipelines" in core}
    assert busy == {name: share * profile.cycles for name, share in profile.fill.items()}


@every_profile
def test_waits_add_up_to_those_of_the_profile(profile: Profile) -> None:
    events = json.loads(chrome_trace(profile))["traceEvents"]
    waits = [event for event in events if event.get("cat") == "wait"]
    for cause, cycles in profile.waiting.items():
        assert sum(each["dur"] for each in waits if each["name"] == cause) == cycles


def test_trace_of_one_warp_matches_hand_computation() -> None:
    # comp issues at 0, and at 1, when the pipeline is free; mem at 5, when the second comp completes; then instructions
    # issue at 11, 15 and 19, and the run ends at 25.
    found = tracks(json.loads(chrome_trace(PROFILES["one warp"])))
    own = found["core: warps", "warp 0 of group 0"]
    assert [(each["name"], each["ts"], each["dur"]) for each in own if each["cat"] == "instruction"] == [
        ("comp", 0, 1),
        ("comp", 1, 4),
        ("mem", 5, 6),
        ("comp", 11, 4),
        ("comp", 15, 4),
        ("mem", 19, 6),
    ]
    assert [(each["name"], each["ts"], each["dur"]) for each in own if each["cat"] == "wait"][:2] == [
        ("pipeline busy", 0, 1),
        ("dependency", 1, 4),
    ]
    busy = found["core: pipelines", "mem"]
    assert [(each["ts"], each["dur"]) for each in busy] == [(5, 2), (19, 2)]
    assert busy[0]["args"]["why not earlier"] == "dependency"
    assert busy[0]["args"]["waited for"] == "comp"


def test_events_have_clock_times_and_cycles() -> None:
    document = trace_document([Track(PROFILES["one warp"], clock=CLOCK)])
    last = max((each for each in document["traceEvents"] if each["ph"] == "X"), key=lambda each: each["ts"])
    assert (last["args"]["cycle"], last["args"]["cycles"]) == (19, 6)
    # At 1.38 GHz, 19 cycles take 13.8 ns and 25 cycles take 18.1 ns.
    assert nanoseconds(last) == (14, 18)


def test_bounded_trace_has_the_first_issued_instructions() -> None:
    profile = PROFILES["several warps"]
    for most in (1, 20, 41, 10_000):
        track = Track(profile, most=most)
        document = trace_document([track])
        check(document)
        spans = [each for each in document["traceEvents"] if each["ph"] == "X"]
        assert len(spans) <= most
        assert list(track.shown) == list(profile.issues[: len(track.shown)])
    assert track.cycles == profile.cycles
    assert Track(profile, most=20).cycles == Track(profile, most=20).shown[-1].time < profile.cycles
    assert Track(profile, most=1).cycles == 0


def test_completion_times_follow_from_the_latencies() -> None:
    found = PROFILES["one warp"].issues
    assert [issue.complete - issue.time for issue in found] == [4, 4, 6, 4, 4, 6]
    store = execution_profile(simulate(Idg.from_edges(["store"], []), {"store": Lambdas(2, 6)}, Execution(1, 1, 1)))
    assert [issue.complete for issue in store.issues] == [Fraction(2)]
