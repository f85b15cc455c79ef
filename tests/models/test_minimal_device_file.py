"""The documentation's example of a device file has the fewest parameters with which every model works."""

import runpy
from dataclasses import replace
from pathlib import Path

import loopy as lp
import pytest

import loopyperf as lpp
from loopyperf.device.description import AnyPart, Device
from loopyperf.errors import MissingNumberError
from loopyperf.models.catalog import DEVICE_MODELS
from tests.documents import SITE, TUTORIAL, write_files

PAGE = SITE / "howto" / "add_device.md"


@pytest.fixture(scope="module")
def multiplication() -> lp.TranslationUnit:
    return runpy.run_path(str(TUTORIAL / "matmul.py"))["tiled"]()


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Device:
    """The device of the page's example."""
    monkeypatch.chdir(tmp_path)
    write_files(PAGE, tmp_path)
    runpy.run_path("describe.py")
    return lpp.load_device("my-gpu.toml")


def without(device: Device, number: str) -> Device:
    """Return *device* without the parameter *number*."""

    def cut(part: AnyPart) -> AnyPart:
        place, _, name = number.rpartition(".")
        return replace(part, **{name: None}) if place == part.place else part

    return replace(cut(device), throughput=cut(device.throughput), memory=tuple(map(cut, device.memory)))


def test_example_has_the_four_parameters_that_every_model_needs(
    example: Device, multiplication: lp.TranslationUnit
) -> None:
    numbers = [stated.number for part in example.parts for stated in part.statements]
    assert len(numbers) == 4
    for model in DEVICE_MODELS:
        options = {"model": model, "n": 1024}
        assert float(lpp.estimate(multiplication, device=example, **options).seconds) > 0
        for number in numbers:
            with pytest.raises(MissingNumberError, match=number):
                lpp.estimate(multiplication, device=without(example, number), **options)
