"""Device files that are written and read again are equal."""

from dataclasses import replace
from pathlib import Path

import pytest

from loopyperf.device.description import CoreLimits, Device, Throughput
from loopyperf.device.device_files import description_text, load_description
from loopyperf.device.device_library import BUNDLED
from loopyperf.device.parts import Quantity, Scheduling, SharedPipeline
from loopyperf.testing import check_device

CATALOG = sorted(BUNDLED.glob("*.toml"))
PROCESSOR = BUNDLED.parent / "processor.toml"


def test_generic_processor_passes_check_device() -> None:
    """check_device includes the round trip through a file; test_catalog.py applies it to the catalog."""
    check_device(load_description(PROCESSOR))


def test_catalog_covers_all_kinds_of_fields() -> None:
    devices = [load_description(path) for path in [*CATALOG, PROCESSOR]]
    assert any(device.lanes == "in turn" for device in devices)
    assert any(device.pipelines for device in devices)
    assert any(device.scheduling for device in devices)
    assert any(device.register_allocation == "group" for device in devices)
    assert any(level.holds_local_memory for device in devices for level in device.memory)


def small(**changes: object) -> Device:
    device = Device(
        slug="small",
        name="Small",
        vendor="nobody",
        architecture="none",
        limits=CoreLimits(slug="small", place="limits"),
        throughput=Throughput(slug="small", place="throughput"),
    )
    return replace(device, **changes)


@pytest.mark.parametrize(
    "words", ['a "quoted" word', "back\\slash", "two\nlines\ttabbed", "λ ± 1 %", "\x7f", "[x] # y"]
)
def test_special_characters_survive_a_round_trip(words: str, tmp_path: Path) -> None:
    device = small(note=words).stating(cores=Quantity(3, "cores", words))
    file = tmp_path / "small.toml"
    file.write_text(description_text(device), encoding="utf-8")
    assert load_description(file) == device


def test_facts_are_saved_with_their_sources() -> None:
    shared, scheduling = SharedPipeline("alu", "measured by me"), Scheduling("oldest-first", "a thesis")
    text = description_text(small(pipelines=(("sfu", shared),), scheduling=scheduling))
    assert 'sfu = { pipeline = "alu", source = "measured by me" }' in text
    assert 'scheduling = { policy = "oldest-first", source = "a thesis" }' in text
