"""Tests that ``loopyperf explain --details`` prints every fact of the report page."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from html import unescape

import pytest

import loopyperf as lpp
from loopyperf.cli.explaining import show_explanation
from loopyperf.explain.explanation import Explanation, OnDevice, accesses_table, reasons, shares_of_peak
from loopyperf.explain.report import page_of
from loopyperf.files import without_folders
from loopyperf.units import duration, in_percent, prefixed
from tests.explain.pages.report_kernels import DEVICES, two_launches
from tests.explain.pages.report_kernels import MODELS as MODEL_NAMES
from tests.kernels import doubled
from tests.minimal_fit import FREE
from tests.private_array_kernels import UNSURE

WIDE = "2000"
"""columns, wide enough that no cell is wrapped; another test checks 80 columns"""


def facts(answer: Explanation) -> Iterator[str]:
    """Yield the texts that both the terminal and the page must show."""
    yield from (answer.kernel, *answer.about.split("\n\n"), *map(str, answer.sizes.values()), *answer.refusals.values())
    yield from (line.text for line in answer.listing if line.kind != "other")
    for on in answer.devices:
        yield from device_facts(on)


def device_facts(on: OnDevice) -> Iterator[str]:
    estimate = on.estimate
    yield from (on.name, on.first, duration(float(estimate.seconds)), on.cause, *on.refusals.values())
    yield from (duration(float(each.seconds)) for each in on.estimates.values())
    yield from (str(each) for each in estimate.alternatives)
    yield from (note.removeprefix("no prediction interval: ") for note in estimate.notes)
    for gap, reason in on.gaps.items():
        yield from [reason] if gap in ("roofline", "diagnosis") else []
    if on.diagnosis is not None and on.diagnosis.launches:
        yield from diagnosis_facts(on)
    if on.roofline is not None:
        for launch in on.roofline.launches:
            yield from (launch.name, launch.bound, *(prefixed(each, "B") for each in launch.moved.values()))


def diagnosis_facts(on: OnDevice) -> Iterator[str]:
    found = on.diagnosis
    assert found is not None
    for each in shares_of_peak(found.longest, found.words):
        yield from (each.name, in_percent(each.share), each.note.removeprefix("◀ "))
    for finding in found.findings[:3]:
        yield from (finding.change, *reasons(finding, found), *(() if finding.recipe.calls else finding.recipe.advice))
        yield from () if finding.seconds is None else (duration(finding.seconds),)
    for finding in [each for each in found.findings if each.recipe.calls][:1]:
        yield from finding.recipe.how
    yield found.longest.traffic.in_words
    yield from (cell for row in accesses_table(found.longest, found.words).rows for cell in map(str, row))
    if found.longest.waiting is not None:
        yield from (f"{cause} {in_percent(share)}" for cause, share in found.longest.waiting.total.items())


def plain(text: str) -> str:
    """Return *text* in lower case, with single spaces, and without code marks and bars."""
    return " ".join(re.sub("[█▏▎▍▌▋▊▉]", " ", text.replace("`", "")).split()).lower()


def page_text(answer: Explanation) -> str:
    """Return the visible text of the page."""
    html = re.sub(r"(?s)<(script|style)\b.*?</\1>", " ", page_of(answer))
    return plain(unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<wbr>|</?(?:span|code|b|small)\b[^>]*>", "", html))))


@cache
def explain_several_devices() -> Explanation:
    return lpp.explain(two_launches(), n=2**20, device=DEVICES, models=MODEL_NAMES, about="b, then c.\n\nAll of it.")


@cache
def explain_with_alternatives() -> Explanation:
    """Return an explanation with alternatives."""
    return lpp.explain(UNSURE["a triangle"](), n=64, device="nvidia-v100", models=["roofline", "volkov", "pipeline"])


@cache
def explain_with_a_fit_only() -> Explanation:
    """Return an explanation from a fit only; without device parameters, it has no roofline."""
    weights = {**FREE, "launches": 1e-6}
    fit = lpp.Fit(model="linear", device="Made Up", slug="made-up-1", counting="executed", weights=weights)
    return lpp.explain(doubled(), n=4096, fit=fit)


@pytest.mark.parametrize("make", [explain_several_devices, explain_with_alternatives, explain_with_a_fit_only])
def test_terminal_shows_every_fact_of_the_page(
    make: Callable[[], Explanation], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    answer = make()
    monkeypatch.setenv("COLUMNS", WIDE)
    show_explanation(answer, details=True)
    printed, page = plain(capsys.readouterr().out), page_text(answer)
    expected = [fact for fact in facts(answer) if fact]
    assert len(expected) > 10
    assert [fact for fact in expected if plain(without_folders(fact)) not in page] == []
    assert [fact for fact in expected if plain(fact) not in printed] == []


def test_first_screen_shows_at_most_three_findings():
    answer = explain_several_devices()
    on = next(each for each in answer.devices if each.diagnosis is not None and each.diagnosis.findings)
    many = replace(on.diagnosis, findings=on.diagnosis.findings * 5)
    shown = str(replace(on, diagnosis=many))
    assert "3. " in shown
    assert "4. " not in shown
    assert "with smaller gains" in shown
