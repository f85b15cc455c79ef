"""A model is refused for what it needs of a device's description, and for nothing else."""

from dataclasses import replace

import pytest
from kernels import doubled, triangle

import loopyperf as lpp
from loopyperf.device.description import Device
from loopyperf.device.parts import Part
from loopyperf.errors import MissingNumberError
from loopyperf.models import DEVICE_MODELS

KNOWN = lpp.load_device("nvidia-v100")
SIZE = {"n": 256}
NEEDS_NO_LATENCY = ("roofline",)
NEEDS_LATENCIES_OF_MEMORY = ("gpumech-gto", "gpumech-rr", "gpumech-rr-corrected", "mwp-cwp")
"""alone: in these models, computation has none"""


def without(part: Part, name: str) -> Part:
    """Return *part* with no number called *name*."""
    return replace(part, numbers=tuple(each for each in part.numbers if each[0] != name))


def without_latencies_of_arithmetic(device: Device) -> Device:
    return replace(device, instructions=tuple(without(each, "completion") for each in device.instructions))


def without_latencies(device: Device) -> Device:
    """Return *device* as nobody has described who measured no latency of any kind."""
    levels = tuple(without(each, "latency") for each in device.memory)
    return replace(without_latencies_of_arithmetic(device), memory=levels)


def seconds(model: str, device: Device) -> float:
    return float(lpp.estimate(triangle(), model=model, device=device, parameters=SIZE).seconds)


@pytest.mark.parametrize("model", DEVICE_MODELS)
def test_only_models_that_know_latencies_are_refused_where_none_is_described(model: str) -> None:
    if model in NEEDS_NO_LATENCY:
        assert seconds(model, without_latencies(KNOWN)) == seconds(model, KNOWN)
    else:
        with pytest.raises(MissingNumberError, match=r"memory\.\w+\.latency|how long '.*' takes \(completion"):
            seconds(model, without_latencies(KNOWN))


@pytest.mark.parametrize("model", DEVICE_MODELS)
def test_models_in_which_computation_has_no_latency_need_none_of_it(model: str) -> None:
    if model in (*NEEDS_NO_LATENCY, *NEEDS_LATENCIES_OF_MEMORY):
        assert seconds(model, without_latencies_of_arithmetic(KNOWN)) == seconds(model, KNOWN)
    else:
        with pytest.raises(MissingNumberError, match=r"how long '.*' takes \(completion"):
            seconds(model, without_latencies_of_arithmetic(KNOWN))


def test_the_r9_fury_whose_latencies_nobody_has_published_has_a_roofline() -> None:
    found = lpp.compare(doubled(group=256), n=2**20, device="amd-r9-fury")
    assert set(found.estimates) == {"linear", "roofline"}
    assert lpp.roofline(doubled(group=256), n=2**20, device="amd-r9-fury").launches
    # 8 MiB through 512 GB/s, and the launch of 129 µs that Stevens and Klöckner measured
    assert found.seconds["roofline"] == pytest.approx(2 * 4 * 2**20 / 512e9 + 129e-6, rel=0.01)
    assert "memory.DRAM.latency" in found.refusals["pipeline"]


@pytest.mark.parametrize("model", DEVICE_MODELS)
def test_of_memories_one_is_enough(model: str) -> None:
    alone = replace(KNOWN, memory=tuple(each for each in KNOWN.memory if each.name in ("local", "DRAM")))
    assert seconds(model, alone) > 0
