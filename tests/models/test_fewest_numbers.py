"""Which numbers of a device each model needs at least: those of the example that is to be copied, and of its table."""

import re
import runpy
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import loopy as lp
import pytest
from documents import SITE, TUTORIAL, prose, write_files

import loopyperf as lpp
from loopyperf.device.description import Device
from loopyperf.device.parts import Part
from loopyperf.errors import MissingNumberError
from loopyperf.models import DEVICE_MODELS

PAGE = SITE / "howto" / "add_device.md"
V100 = lpp.load_device("nvidia-v100")
TABLE = {
    model: tuple(numbers.replace('"', "").strip("`").split("`, `"))
    for models, numbers in re.findall(r"^\| (`.+`) \| (`.+`) \|$", prose(PAGE), re.MULTILINE)
    for model in models.strip("`").split("`, `")
}
"""model -> what it needs besides the example, by the page"""


@pytest.fixture(scope="module")
def multiplication() -> lp.TranslationUnit:
    return runpy.run_path(str(TUTORIAL / "matmul.py"))["tiled"]()


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The numbers that the page's example states."""
    monkeypatch.chdir(tmp_path)
    write_files(PAGE, tmp_path)
    runpy.run_path("describe.py")
    return [stated.number for part in lpp.load_device("my-gpu.toml").parts for stated in part.statements]


def v100_with(wanted: Iterable[str]) -> Device:
    """Return the V100 as somebody describes it who knows of all its numbers only the *wanted* ones."""
    named = set(wanted)

    def cut(part: Part) -> Part:
        kept = (each for each in part.numbers if ".".join(filter(None, (part.place, each[0]))) in named)
        return replace(part, numbers=tuple(kept))

    return replace(
        cut(V100),
        limits=cut(V100.limits),
        throughput=cut(V100.throughput),
        memory=tuple(each for each in map(cut, V100.memory) if each.numbers),
        instructions=tuple(each for each in map(cut, V100.instructions) if each.numbers),
    )


def test_the_page_has_a_row_for_every_model_but_the_one_of_the_example() -> None:
    assert sorted([*TABLE, "roofline"]) == sorted(DEVICE_MODELS)


@pytest.mark.parametrize("model", DEVICE_MODELS)
def test_what_the_page_says_that_a_model_needs_is_enough_and_none_of_it_too_much(
    model: str, example: list[str], multiplication: lp.TranslationUnit
) -> None:
    enough = [*example, *TABLE.get(model, ())]
    options = {"model": model, "n": 1024}
    assert float(lpp.estimate(multiplication, device=v100_with(enough), **options)) > 0
    # What the example has is what the roofline needs, of which others may do without the bandwidth of memory.
    for number in enough if model == "roofline" else TABLE[model]:
        fewer = v100_with(each for each in enough if each != number)
        with pytest.raises(MissingNumberError):
            lpp.estimate(multiplication, device=fewer, **options)
