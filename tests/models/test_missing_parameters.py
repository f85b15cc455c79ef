"""Models on devices with missing parameters: they use those of related devices and note it."""

import pickle
import re
from dataclasses import replace
from functools import cache

import pytest

import loopyperf as lpp
from loopyperf.device.description import Device
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.result import ModelTime
from loopyperf.pipeline.timed_program import TimedProgram
from tests import sample_and_all
from tests.kernels import doubled, triangle
from tests.profiles import timed_on

KNOWN = lpp.load_device("nvidia-v100")
SIZE = {"n": 256}
NEEDS_NO_LATENCY = ("roofline",)
NEEDS_LATENCIES_OF_MEMORY = ("gpumech-gto", "gpumech-rr", "gpumech-rr-corrected", "mwp-cwp")
"""and no others: in these models, computation has no latency"""
LATENCIES = "assumed latencies of nvidia-v100: "


def without_latencies_of_arithmetic(device: Device) -> Device:
    return replace(device, instructions=tuple(replace(each, completion=None) for each in device.instructions))


def without_latencies(device: Device) -> Device:
    """Return *device* as if no latencies had been measured."""
    levels = tuple(replace(each, latency=None) for each in device.memory)
    return replace(without_latencies_of_arithmetic(device), memory=levels)


@cache
def timed(device: Device) -> TimedProgram:
    return timed_on(lpp.kernel_profile(triangle(), device=device, parameters=SIZE), device)


def model_time(model: str, device: Device) -> ModelTime:
    return DEVICE_MODELS[model].time(timed(device))


def seconds(model: str, device: Device) -> float:
    return float(model_time(model, device).seconds)


def latencies_assumed(model: str, device: Device) -> str:
    """Return the latencies that *model* assumed, from its note on them; empty if it has no such note."""
    notes = [note.removeprefix(LATENCIES) for note in model_time(model, device).notes if note.startswith(LATENCIES)]
    assert len(notes) <= 1
    return "".join(notes)


@sample_and_all(3)
def test_models_note_exactly_the_latencies_that_they_assume(subtests: pytest.Subtests, step: int) -> None:
    """The nearest relative of a V100 without latencies is the V100 of the catalog, so the time is the same."""
    for model in list(DEVICE_MODELS)[::step]:
        with subtests.test(model=model):
            bare = without_latencies(KNOWN)
            assert seconds(model, bare) == seconds(model, KNOWN)
            reported = latencies_assumed(model, bare)
            assert ("DRAM 433 cycles" in reported) is (model not in NEEDS_NO_LATENCY)
            knows_computation = model not in (*NEEDS_NO_LATENCY, *NEEDS_LATENCIES_OF_MEMORY)
            assert ("add f32 4 cycles" in reported) is knows_computation
            assert ("(as on nvidia-v100)" in reported) is (model not in NEEDS_NO_LATENCY)
            assert "DRAM" not in latencies_assumed(model, without_latencies_of_arithmetic(KNOWN))
            assert latencies_assumed(model, KNOWN) == ""


def test_every_model_supports_the_r9_fury_without_known_latencies() -> None:
    found = lpp.compare(doubled(group=256), n=2**20, device="amd-r9-fury")
    assert set(DEVICE_MODELS) <= set(found.estimates)
    assert lpp.roofline(doubled(group=256), n=2**20, device="amd-r9-fury").launches
    # 8 MiB at 512 GB/s, and the launch overhead of another GPU of AMD
    assert found.seconds["roofline"] == pytest.approx(2 * 4 * 2**20 / 512e9 + 2.4e-6, rel=0.01)


# {{{ lower bounds


def lower_bound_notes(device: Device, model: str = "volkov") -> list[str]:
    found = lpp.estimate(doubled(group=256), n=2**20, device=device, model=model)
    return [note for note in found.notes if "it is at least " in note]


def test_estimate_with_mostly_assumed_time_notes_a_lower_bound() -> None:
    """One group: nearly all of its time is the latency of DRAM, which is missing only in *bare*."""
    levels = tuple(replace(each, latency=None) for each in KNOWN.memory)
    known_device = replace(KNOWN, launch_overhead=0.0)
    bare = replace(known_device, memory=levels)
    one_group = {"n": 256, "model": "pipeline"}
    known, guessed = (lpp.estimate(doubled(group=256), device=device, **one_group) for device in (known_device, bare))
    assert known.seconds == guessed.seconds
    assert not [note for note in known.notes if "it is at least " in note]
    (reported,) = (note for note in guessed.notes if "it is at least " in note)
    assert guessed.notes[0] == reported
    match = re.fullmatch(
        r"(\d+) % of the time is computed from assumed .*; .* alone, it is at least ([\d.]+) ns", reported
    )
    assert match is not None
    busiest = max(cost.seconds for cost in guessed.breakdown.costs() if cost.property != "latency")
    assert float(match[2]) * 1e-9 <= float(guessed.seconds)
    assert float(match[2]) * 1e-9 == pytest.approx(float(busiest), rel=0.01)
    assert 50 < int(match[1]) <= 100


def test_no_lower_bound_is_noted_if_bound_by_a_known_bandwidth() -> None:
    # 8 MiB are moved at the published bandwidth of DRAM, whatever the latencies are.
    assert lower_bound_notes(without_latencies(KNOWN)) == []
    assert lower_bound_notes(without_latencies(KNOWN), "roofline") == []


# }}}


@sample_and_all(3)
def test_models_need_only_dram_besides_local_memory(subtests: pytest.Subtests, step: int) -> None:
    for model in list(DEVICE_MODELS)[::step]:
        with subtests.test(model=model):
            alone = replace(KNOWN, memory=tuple(each for each in KNOWN.memory if each.name in ("local", "DRAM")))
            assert seconds(model, alone) > 0


@sample_and_all(3)
def test_model_time_depends_only_on_the_timed_program(subtests: pytest.Subtests, step: int) -> None:
    for model in list(DEVICE_MODELS)[::step]:
        with subtests.test(model=model):
            again = pickle.loads(pickle.dumps(timed(KNOWN)))
            found = DEVICE_MODELS[model].time(again)
            assert (found.seconds, found.notes) == (seconds(model, KNOWN), model_time(model, KNOWN).notes)


def test_balance_of_a_launch_replaces_an_earlier_one() -> None:
    (launch,) = timed(KNOWN).launches
    once, twice = launch.with_balance(0.7), launch.with_balance(0.3).with_balance(0.7)
    assert once == twice != launch.with_balance(0.3)
    levels = {level.name for level in KNOWN.memory if level.per == "device"}
    for (_, program), (_, other) in zip(launch.shared(), once.shared(), strict=True):
        changed = {
            one.pipeline
            for times, others in zip(program.times, other.times, strict=True)
            for one, each in zip(times, others, strict=True)
            if one != each
        }
        assert changed <= levels
