"""Tests of the page of a difference: well-formed, complete, escaped, and usable on a narrow screen."""

from functools import cache
from pathlib import Path

import pytest

import loopyperf as lpp
from loopyperf.units import duration
from tests.explain.pages.browser import chromium, needs_chromium, watching
from tests.explain.pages.report_kernels import hostile
from tests.explain.pages.test_report_page import Page
from tests.slow_kernels import product


@cache
def difference() -> lpp.Difference:
    return lpp.diff(product(), product(mended=True), n=512, device="nvidia-v100")


def read(html: str) -> str:
    return " ".join(" ".join(Page(html).texts).split())


def test_page_is_well_formed_and_loads_nothing():
    page = Page(difference().html())
    assert (page.handlers, page.names["script"], page.names["img"]) == ([], 0, 0)
    assert page.references == ["data:,"]
    assert "default-src 'none'" in difference().html()


def test_page_contains_the_numbers_of_both_sides():
    found, words = difference(), read(difference().html())
    assert found.why in words
    seconds = (found.before, found.after, *(each.before for each in found.lines), *(each.after for each in found.lines))
    assert [duration(each) for each in seconds if each and duration(each) not in words] == []
    pairs = [each for every in found.quantities.values() for each in every]
    assert [each.name for each in pairs if " ".join([each.name, *each.words]) not in words] == []
    assert [each.name for each in found.resources if " ".join([each.name, *each.words]) not in words] == []


def test_names_of_kernels_are_escaped():
    words = lpp.diff(hostile(), n=(64, 128), device="nvidia-v100").html()
    assert Page(words).names["b"] == 0
    assert "&lt;/script&gt;" in words


def test_page_is_saved_to_the_given_path(tmp_path: Path):
    saved = difference().save(tmp_path / "diff.html")
    assert saved.read_text(encoding="utf-8") == difference().html()
    with pytest.raises(lpp.ParameterError, match="the page cannot be written"):
        difference().save(tmp_path / "nowhere" / "diff.html")


@needs_chromium
def test_page_does_not_scroll_horizontally(tmp_path: Path):
    saved = difference().save(tmp_path / "diff.html")
    with chromium() as browser:
        for width, scheme in ((1100, "light"), (420, "dark")):
            options = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
            with watching(browser, saved.as_uri(), **options) as shown:
                assert shown.page.evaluate("document.documentElement.scrollWidth") == width
