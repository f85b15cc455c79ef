"""A description that is written is read back as it was."""

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


def test_the_description_of_all_processors_survives() -> None:
    """Those of the catalog do by the laws of devices."""
    check_device(load_description(PROCESSOR))


def test_the_catalog_has_all_there_is_to_write() -> None:
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
def test_words_of_any_kind_survive(words: str, tmp_path: Path) -> None:
    device = small(note=words).stating(cores=Quantity(3, "cores", words))
    written = tmp_path / "small.toml"
    written.write_text(description_text(device), encoding="utf-8")
    assert load_description(written) == device


def test_facts_are_written_with_their_sources() -> None:
    shared, scheduling = SharedPipeline("alu", "measured by me"), Scheduling("oldest-first", "a thesis")
    text = description_text(small(pipelines=(("sfu", shared),), scheduling=scheduling))
    assert 'sfu = { pipeline = "alu", source = "measured by me" }' in text
    assert 'scheduling = { policy = "oldest-first", source = "a thesis" }' in text
