"""What a report's page shows of an explanation, ``loopyperf explain`` prints, but for what is named here with a reason.

A field that explanations are given fails these tests until :data:`FACTS` says how it is shown.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from html import unescape
from typing import Any

import pytest
from fitted import FREE
from kernels import doubled
from private_array_kernels import UNSURE
from reports.questions import DEVICES, two_launches
from reports.questions import MODELS as ASKED

import loopyperf as lpp
from loopyperf.cli.explain import show_explanation
from loopyperf.cli.shell_terms import in_shell_terms
from loopyperf.models.catalog import MODELS
from loopyperf.models.literature.advice import SMALL
from loopyperf.models.on_device.roofs import OF_ALL_LANES
from loopyperf.models.result import HEADINGS, NO_INTERVAL
from loopyperf.oracle.explanation.explanation import Explanation
from loopyperf.reports.folders import sentence_without_folders
from loopyperf.reports.page import page_of
from loopyperf.units import duration, in_percent, prefixed

Words = Callable[[Any], str | list[str]]
WIDE = "2000"
"""columns, so that no cell goes on in the next line: that 80 are enough is another test"""


def _note(note: str) -> str:
    return note.removeprefix(NO_INTERVAL)


def _line(line: dict[str, str]) -> list[str]:
    """Return what is shown of a line of the source; others have their costs, in the same table."""
    return (
        [line["text"], *([line["source"]] if line["kind"] == "instruction" else [])] if line["kind"] != "other" else []
    )


def _advice(advice: dict[str, Any]) -> list[str]:
    """Return what is shown of advice: benefits that are worth a word. Of parts the terminal has more than the page."""
    worth = [each for each in advice["benefits"] if each["seconds"] >= SMALL * advice["seconds"]]
    said = [(each["name"], each["meaning"], *each["evidence"], *each["techniques"]) for each in worth]
    times = [duration(each["seconds"]) for each in worth]
    return [
        *advice["scattered"],
        advice["launch"],
        duration(advice["seconds"]),
        advice["bound"],
        *(word for words in said for word in words),
        *times,
    ]


FACTS: dict[str, Words | None] = {
    "kernel": str,
    "sizes.*": str,
    "typical.*": str,
    "about": lambda words: words.split("\n\n"),
    "listing": _line,
    "refusals.*": str,
    "devices.device": None,  # the page has the full name alone
    "devices.name": str,
    "devices.first": str,
    "devices.clock": None,  # cycles are by it
    "devices.estimates.*.kernel": str,
    "devices.estimates.*.sizes.*": str,
    "devices.estimates.*.device": None,  # as above
    "devices.estimates.*.model": str,
    "devices.estimates.*.typical.*": str,
    "devices.estimates.*.counting": None,  # how a fit counts is no more on the page than here
    "devices.estimates.*.seconds": duration,
    "devices.estimates.*.bound": str,
    "devices.estimates.*.left_out": str,
    "devices.estimates.*.interval": duration,
    "devices.estimates.*.unsure": lambda array: (
        f"unsure whether the compiler keeps the private array {array} in registers"
    ),
    "devices.estimates.*.alternatives.seconds": duration,
    "devices.estimates.*.alternatives.arrays": str,
    "devices.estimates.*.alternatives.assumption": str,
    "devices.estimates.*.alternatives.reason": str,
    "devices.estimates.*.notes": _note,
    "devices.estimates.*.columns": None,  # headings of the parts: see the next one
    # Parts are shown by property and by line, see below. In a terminal those of the model that is shown first: the page
    # has a choice of models, where a command has the option --model.
    "devices.estimates.*.breakdown": None,
    "devices.refusals.*": str,
    "devices.roofline.typical.*": str,
    # Of the chart, whose axes and labels have them; in a terminal they are in a table.
    "devices.roofline.bandwidths.*": None,
    "devices.roofline.peaks.*": None,
    "devices.roofline.launches.intensities.*": None,
    "devices.roofline.launches.performance": lambda number: prefixed(number, "flop/s"),
    "devices.roofline.launches.predicted": duration,
    "devices.roofline.launches.roof": str,
    "devices.roofline.launches.memory": str,
    "devices.roofline.launches.name": str,
    "devices.roofline.launches.flops": lambda number: prefixed(number, "flop"),
    "devices.roofline.launches.moved.*": lambda number: prefixed(number, "B"),
    "devices.roofline.launches.seconds": duration,
    "devices.roofline.launches.bound": str,
    "devices.roofline.notes": str,
    "devices.advice": _advice,
    "devices.gaps": lambda reasons: list(reasons.values()),  # what they are of, the reasons say
}
"""where it is in an explanation -> how it is in words; None for what is not a fact of its own, with the reason"""


def said(value: Any, place: str = "") -> Iterator[str]:
    """Yield all facts of an explanation's plain values in words, and the names by which mappings have them."""
    if place in FACTS and not (isinstance(value, list) and place != "devices.estimates.*.breakdown"):
        in_words = FACTS[place]
        words = [] if in_words is None or value is None else in_words(value)
        yield from [words] if isinstance(words, str) else words
    elif isinstance(value, list):
        for each in value:
            yield from said(each, place)
    elif isinstance(value, dict):
        for name, each in value.items():
            beyond = f"{place}.*"
            is_name = any(known == beyond or known.startswith(f"{beyond}.") for known in FACTS)
            if is_name and FACTS.get(beyond, str) is not None:
                yield name
            yield from said(each, beyond if is_name else f"{place}.{name}".removeprefix("."))
    else:
        assert value is None, f"{place}: {value!r} is new; say in FACTS how it is shown"


def summaries_and_parts(answer: Explanation) -> Iterator[str]:
    """Yield what models assume, and what is shown of the parts of each device's first estimate."""
    for on in answer.devices:
        yield from (MODELS[name].summary for name in (*on.estimates, *on.refusals))
        whole = float(on.estimate.seconds)
        yield from HEADINGS[on.estimate.columns][:1]
        for cost in on.estimate.breakdown.costs():
            yield from (*cost.in_words(on.estimate.columns), in_percent(cost.seconds / whole))
    first = answer.devices[0].estimate
    for line in answer.lines(first):
        if line.parts:
            yield from (duration(line.seconds), in_percent(line.seconds / float(first.seconds)), *line.parts)
        if len(line.parts) > 1:
            yield from (f"{name} {duration(seconds)}" for name, seconds in line.parts.items())


def plain(text: str) -> str:
    """Return *text* with one space between words, and no marks around code."""
    return " ".join(text.replace("`", "").split())


def page_text(answer: Explanation) -> str:
    """Return what a reader sees of the page."""
    html = re.sub(r"(?s)<(script|style)\b.*?</\1>", " ", page_of(answer))
    return plain(unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<wbr>|</?(?:span|code|b|small)\b[^>]*>", "", html))))


@cache
def of_several_devices() -> Explanation:
    return lpp.explain(two_launches(), n=2**20, device=DEVICES, models=ASKED, about="b, then c.\n\nAll of it.")


@cache
def of_unsure_times() -> Explanation:
    """Return an explanation with alternatives, and as no model has all, with an interval and a part left out."""
    answer = lpp.explain(UNSURE["a triangle"](), n=64, device="nvidia-v100", models=["roofline", "volkov", "pipeline"])
    (on,) = answer.devices
    between = replace(
        on.estimates["volkov"], interval=(1e-3, 3e-3), left_out=("f32 pow",), notes=(), typical={"i": 4711}
    )
    stated = replace(on.roofline, typical={"i": 4711}) if on.roofline is not None else None
    devices = (replace(on, estimates={**on.estimates, "volkov": between}, roofline=stated),)
    return replace(answer, devices=devices, typical={"i": 4711})


@cache
def of_a_fit_alone() -> Explanation:
    """Return an explanation by the fit of a device without a description, which has no roofline and no advice."""
    weights = {**FREE, "launches": 1e-6}
    fit = lpp.Fit(model="linear", device="Made Up", slug="made-up-1", counting="executed", weights=weights)
    return lpp.explain(doubled(), n=4096, fit=fit)


ANSWERS = pytest.mark.parametrize("make", [of_several_devices, of_unsure_times, of_a_fit_alone])


@ANSWERS
def test_every_fact_of_the_page_is_in_the_terminal(
    make: Callable[[], Explanation], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    answer = make()
    monkeypatch.setenv("COLUMNS", WIDE)
    show_explanation(answer)
    printed, page = plain(capsys.readouterr().out), page_text(answer)
    below = [on.roofline.below_all_roofs for on in answer.devices if on.roofline is not None]
    below += [OF_ALL_LANES] if any(below) else []
    facts = [
        plain(words)
        for words in (*said(answer.to_dict()), *summaries_and_parts(answer), *below, *([OF_ALL_LANES] if below else []))
    ]
    assert [fact for fact in facts if plain(sentence_without_folders(fact)) not in page] == []
    assert [fact for fact in facts if plain(in_shell_terms(fact)) not in printed] == []


def test_what_is_compared_has_every_kind_of_fact():
    # A path that no answer here has is compared with nothing.
    seen: set[str] = set()
    for answer in (of_several_devices(), of_unsure_times(), of_a_fit_alone()):
        seen |= {place for place in FACTS if _found(answer.to_dict(), place.split("."))}
    assert {place for place in FACTS if place not in seen} == set()


def _found(value: Any, place: list[str]) -> bool:
    if isinstance(value, list):
        return any(_found(each, place) for each in value)
    if not place:
        return value is not None
    if not isinstance(value, dict):
        return False
    here = value.values() if place[0] == "*" else [value[place[0]]] if place[0] in value else []
    return any(_found(each, place[1:]) for each in here)
