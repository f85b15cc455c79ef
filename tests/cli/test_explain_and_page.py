"""What a report's page says of an explanation, ``loopyperf explain --details`` prints."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from html import unescape

import pytest

import loopyperf as lpp
from loopyperf.cli.explain_command import show_explanation
from loopyperf.explain.explanation import Explanation, OnDevice
from loopyperf.explain.first_screen import accesses_table, reasons, shares_of_peak
from loopyperf.explain.page import page_of, sentence_without_folders
from loopyperf.models.result import NO_INTERVAL
from loopyperf.units import duration, in_percent, prefixed
from tests.explain.pages.questions import DEVICES, two_launches
from tests.explain.pages.questions import MODELS as ASKED
from tests.fitted import FREE
from tests.kernels import doubled
from tests.private_array_kernels import UNSURE

WIDE = "2000"
"""columns, so that no cell goes on in the next line: that 80 are enough is another test"""


def facts(answer: Explanation) -> Iterator[str]:
    """Yield what both are to say, in words."""
    yield from (answer.kernel, *answer.about.split("\n\n"), *map(str, answer.sizes.values()), *answer.refusals.values())
    yield from (line.text for line in answer.listing if line.kind != "other")
    for on in answer.devices:
        yield from of_device(on)


def of_device(on: OnDevice) -> Iterator[str]:
    estimate = on.estimate
    yield from (on.name, on.first, duration(float(estimate.seconds)), on.cause, *on.refusals.values())
    yield from (duration(float(each.seconds)) for each in on.estimates.values())
    yield from (str(each) for each in estimate.alternatives)
    yield from (note.removeprefix(NO_INTERVAL) for note in estimate.notes)
    for gap, reason in on.gaps.items():
        yield from [reason] if gap in ("roofline", "advice", "diagnosis") else []
    if on.diagnosis is not None and on.diagnosis.launches:
        yield from of_diagnosis(on)
    if on.roofline is not None:
        for launch in on.roofline.launches:
            yield from (launch.name, launch.bound, *(prefixed(each, "B") for each in launch.moved.values()))
    for advice in on.advice:
        yield from (advice.launch, duration(advice.seconds), advice.bound)
        yield from (
            word for each in advice.worth for word in (each.name, each.meaning, *each.evidence, *each.techniques)
        )


def of_diagnosis(on: OnDevice) -> Iterator[str]:
    found = on.diagnosis
    assert found is not None
    for each in shares_of_peak(found.longest, found.words):
        yield from (each.name, in_percent(each.share), each.note.removeprefix("◀ "))
    for finding in found.findings[:3]:
        yield from (finding.change, duration(finding.seconds), *reasons(finding, found), *finding.recipe.how)
    yield found.longest.traffic.in_words
    yield from (cell for row in accesses_table(found.longest, found.words).rows for cell in map(str, row))
    if found.longest.waiting is not None:
        yield from (f"{cause} {in_percent(share)}" for cause, share in found.longest.waiting.total.items())


def plain(text: str) -> str:
    """Return *text* in small letters, with one space between words, and no marks around code, nor bars."""
    return " ".join(re.sub("[█▏▎▍▌▋▊▉]", " ", text.replace("`", "")).split()).lower()


def page_text(answer: Explanation) -> str:
    """Return what a reader sees of the page."""
    html = re.sub(r"(?s)<(script|style)\b.*?</\1>", " ", page_of(answer))
    return plain(unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<wbr>|</?(?:span|code|b|small)\b[^>]*>", "", html))))


@cache
def of_several_devices() -> Explanation:
    return lpp.explain(two_launches(), n=2**20, device=DEVICES, models=ASKED, about="b, then c.\n\nAll of it.")


@cache
def of_unsure_times() -> Explanation:
    """Return an explanation with alternatives."""
    return lpp.explain(UNSURE["a triangle"](), n=64, device="nvidia-v100", models=["roofline", "volkov", "pipeline"])


@cache
def of_a_fit_alone() -> Explanation:
    """Return an explanation by the fit of a device without a description, which has no roofline and no advice."""
    weights = {**FREE, "launches": 1e-6}
    fit = lpp.Fit(model="linear", device="Made Up", slug="made-up-1", counting="executed", weights=weights)
    return lpp.explain(doubled(), n=4096, fit=fit)


@pytest.mark.parametrize("make", [of_several_devices, of_unsure_times, of_a_fit_alone])
def test_every_fact_of_the_page_is_in_the_terminal(
    make: Callable[[], Explanation], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    answer = make()
    monkeypatch.setenv("COLUMNS", WIDE)
    show_explanation(answer, details=True)
    printed, page = plain(capsys.readouterr().out), page_text(answer)
    said = [fact for fact in facts(answer) if fact]
    assert len(said) > 10
    assert [fact for fact in said if plain(sentence_without_folders(fact)) not in page] == []
    assert [fact for fact in said if plain(fact) not in printed] == []


def test_what_would_help_is_no_more_than_three_on_the_first_screen():
    answer = of_several_devices()
    on = next(each for each in answer.devices if each.diagnosis is not None and each.diagnosis.findings)
    many = replace(on.diagnosis, findings=on.diagnosis.findings * 5)
    shown = str(replace(on, diagnosis=many))
    assert "3. " in shown
    assert "4. " not in shown
    assert "with smaller gains" in shown
