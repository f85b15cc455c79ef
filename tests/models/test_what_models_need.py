"""What a model answers for a device whose description lacks numbers: with those of relatives, and it says so."""

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
from loopyperf.stages.stages import staged
from tests.kernels import doubled, triangle

KNOWN = lpp.load_device("nvidia-v100")
SIZE = {"n": 256}
NEEDS_NO_LATENCY = ("roofline",)
NEEDS_LATENCIES_OF_MEMORY = ("gpumech-gto", "gpumech-rr", "gpumech-rr-corrected", "mwp-cwp")
"""alone: in these models, computation has none"""
LATENCIES = "assumed latencies of nvidia-v100: "


def without_latencies_of_arithmetic(device: Device) -> Device:
    return replace(device, instructions=tuple(replace(each, completion=None) for each in device.instructions))


def without_latencies(device: Device) -> Device:
    """Return *device* as nobody has described who measured no latency of any kind."""
    levels = tuple(replace(each, latency=None) for each in device.memory)
    return replace(without_latencies_of_arithmetic(device), memory=levels)


@cache
def timed(device: Device) -> TimedProgram:
    return staged(lpp.kernel_profile(triangle(), device=device, parameters=SIZE), device).timed


def asked(model: str, device: Device) -> ModelTime:
    return DEVICE_MODELS[model].time(timed(device))


def seconds(model: str, device: Device) -> float:
    return float(asked(model, device).seconds)


def latencies_assumed(model: str, device: Device) -> str:
    """Return what *model* says of latencies that it assumed, in its one note on them; empty for nothing."""
    notes = [note.removeprefix(LATENCIES) for note in asked(model, device).notes if note.startswith(LATENCIES)]
    assert len(notes) <= 1
    return "".join(notes)


def test_a_model_says_which_latencies_it_assumed_and_of_no_others(subtests: pytest.Subtests) -> None:
    """The nearest relative of a V100 that lacks some is the V100 of the catalog, so that the answer is the same."""
    for model in DEVICE_MODELS:
        with subtests.test(model=model):
            bare = without_latencies(KNOWN)
            assert seconds(model, bare) == seconds(model, KNOWN)
            said = latencies_assumed(model, bare)
            assert ("DRAM 433 cycles" in said) is (model not in NEEDS_NO_LATENCY)
            knows_computation = model not in (*NEEDS_NO_LATENCY, *NEEDS_LATENCIES_OF_MEMORY)
            assert ("add f32 4 cycles" in said) is knows_computation
            assert ("(as on nvidia-v100)" in said) is (model not in NEEDS_NO_LATENCY)
            assert "DRAM" not in latencies_assumed(model, without_latencies_of_arithmetic(KNOWN))
            assert latencies_assumed(model, KNOWN) == ""


def test_the_r9_fury_whose_latencies_nobody_has_published_is_answered_by_every_model() -> None:
    found = lpp.compare(doubled(group=256), n=2**20, device="amd-r9-fury")
    assert set(DEVICE_MODELS) <= set(found.estimates)
    assert lpp.roofline(doubled(group=256), n=2**20, device="amd-r9-fury").launches
    # 8 MiB through 512 GB/s, and the launch of 129 µs that Stevens and Klöckner measured
    assert found.seconds["roofline"] == pytest.approx(2 * 4 * 2**20 / 512e9 + 129e-6, rel=0.01)


# {{{ lower bounds


def bounds_said(device: Device, model: str = "volkov") -> list[str]:
    found = lpp.estimate(doubled(group=256), n=2**20, device=device, model=model)
    return [note for note in found.notes if note.startswith("at least ")]


def test_an_answer_that_rests_on_assumed_numbers_for_more_than_half_of_its_time_says_how_long_it_takes_at_least() -> (
    None
):
    """One group: nearly all of its time is the latency of device memory, which only the bare description lacks."""
    levels = tuple(replace(each, latency=None) for each in KNOWN.memory)
    bare = replace(KNOWN, memory=levels)
    one_group = {"n": 256, "model": "pipeline"}
    known, guessed = (lpp.estimate(doubled(group=256), device=device, **one_group) for device in (KNOWN, bare))
    assert known.seconds == guessed.seconds
    assert not [note for note in known.notes if note.startswith("at least ")]
    (said,) = (note for note in guessed.notes if note.startswith("at least "))
    assert guessed.notes[0] == said
    told = re.fullmatch(
        r"at least ([\d.]+) ns from known device parameters; (\d+) % of the time depends on assumed ones", said
    )
    assert told is not None
    busiest = max(cost.seconds for cost in guessed.breakdown.costs() if cost.property != "latency")
    assert float(told[1]) * 1e-9 <= float(guessed.seconds)
    assert float(told[1]) * 1e-9 == pytest.approx(float(busiest), rel=0.01)
    assert 50 < int(told[2]) <= 100


def test_what_is_bound_by_a_stated_bandwidth_is_no_lower_bound() -> None:
    # 8 MiB go through the stated bandwidth of DRAM, whatever the latencies are.
    assert bounds_said(without_latencies(KNOWN)) == []
    assert bounds_said(without_latencies(KNOWN), "roofline") == []


# }}}


def test_of_memories_one_is_enough(subtests: pytest.Subtests) -> None:
    for model in DEVICE_MODELS:
        with subtests.test(model=model):
            alone = replace(KNOWN, memory=tuple(each for each in KNOWN.memory if each.name in ("local", "DRAM")))
            assert seconds(model, alone) > 0


def test_a_timed_program_is_all_that_a_model_is_told(subtests: pytest.Subtests) -> None:
    for model in DEVICE_MODELS:
        with subtests.test(model=model):
            again = pickle.loads(pickle.dumps(timed(KNOWN)))
            found = DEVICE_MODELS[model].time(again)
            assert (found.seconds, found.notes) == (seconds(model, KNOWN), asked(model, KNOWN).notes)


def test_a_launch_balanced_otherwise_depends_on_no_earlier_balance() -> None:
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
