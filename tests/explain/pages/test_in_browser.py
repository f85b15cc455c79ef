"""Tests of the report page in a browser: columns, linked lines, keys, print, and no network requests."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import loopyperf as lpp
from tests.explain.pages.browser import Watched, chromium, needs_chromium, watching
from tests.explain.pages.report_kernels import HOSTILE, hostile, page_on_several_devices
from tests.kernels import triangle

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        # Hide the fits of the user.
        patch.setenv("LOOPYPERF_DATA", str(folder / "own data"))
        (folder / "page.html").write_text(page_on_several_devices(), encoding="utf-8")
    return (folder / "page.html").as_uri()


@pytest.fixture
def watched(browser: Any, address: str) -> Iterator[Watched]:
    with watching(browser, address, viewport={"width": 1200, "height": 900}) as opened:
        yield opened


def tops(watched: Watched, selector: str) -> list[float]:
    return [each.bounding_box()["y"] for each in watched.page.locator(selector).all()]


def test_each_device_has_a_column_or_a_row_on_a_phone(watched: Watched):
    answers = "#answers > article:not(.refused)"
    assert watched.texts(f"{answers} h2") == ["NVIDIA Tesla V100 PCIe", "NVIDIA A100 80GB SXM4", "AMD Radeon R9 Fury"]
    assert len(set(tops(watched, answers))) == 1
    watched.page.set_viewport_size({"width": 420, "height": 800})
    assert len(set(tops(watched, answers))) == 3


def test_lengths_of_bars_equal_their_shares(watched: Watched):
    rows = watched.page.locator("#answers .bars > div").all()
    pairs = [
        (each.locator(".bar").get_attribute("style"), each.locator(".percent").inner_text())
        for each in rows
        if each.is_visible()
    ]
    shares = [(float(style.split(": ")[1].rstrip("%")), text) for style, text in pairs if text.endswith("%")]
    assert len(shares) > 10
    assert [pair for pair in shares if abs(pair[0] - float(pair[1].split()[0])) > 0.51] == []


def test_keys_navigate_the_source_and_open_details(watched: Watched):
    keys = watched.page.keyboard
    keys.press("j")
    keys.press("j")
    focused = "document.activeElement.dataset.source"
    second = watched.page.evaluate(focused)
    keys.press("k")
    assert watched.page.evaluate(focused) not in (None, second)
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert watched.page.evaluate(outline) == "solid"
    is_open = "[...document.querySelectorAll('details')].every(each => each.open)"
    assert not watched.page.evaluate(is_open)
    keys.press("d")
    assert watched.page.evaluate(is_open)


def test_controls_and_images_have_accessible_names(watched: Watched):
    watched.page.keyboard.press("d")
    session = watched.page.context.new_cdp_session(watched.page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    roles = ("DisclosureTriangle", "region", "columnheader", "image")
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", "").strip())
        for node in nodes
        if not node["ignored"] and node["role"]["value"] in roles
    ]
    assert {role for role, _ in named} == set(roles)
    assert [role for role, name in named if not name] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_fits_any_width_and_text_has_enough_contrast(browser: Any, address: str, scheme: str):
    with watching(browser, address, color_scheme=scheme) as watched:
        watched.page.keyboard.press("d")
        for width in (360, 420, 700, 900, 1200):
            watched.page.set_viewport_size({"width": width, "height": 800})
            assert watched.page.evaluate("document.documentElement.scrollWidth") == width
            for selector in TEXTS:
                assert_contrast(watched, selector)


def test_text_of_source_and_roofline_has_enough_contrast(browser: Any, tmp_path: Path):
    page = lpp.report(triangle(), n=4096, device="nvidia-v100", models=["roofline"]).save(tmp_path / "page.html")
    for scheme in ("light", "dark"):
        with watching(browser, page.as_uri(), color_scheme=scheme) as watched:
            for sort in ("k", "n", "o", "p", "mi"):
                assert_contrast(watched, f"#source .code .{sort}")
            assert_contrast(watched, "#roofline svg text")


TEXTS = (
    "h1", "h1 small", ".time strong", ".time small", ".cause", ".bars dt", ".percent", ".findings b", ".findings small",
    "pre code", "summary", "#source .code code", "#source .code span", "#source .cost small", "#roofline svg text",
    ".legend", "footer p",
)  # fmt: skip
"""a selector for each kind of text"""
COLORS = """all => all.flatMap(each => {
    let behind = each;
    while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
    const {color, fill, backgroundImage} = getComputedStyle(each);
    const bars = backgroundImage.match(/rgb\\([^)]*\\)/g) ?? [];
    const isDrawn = each.namespaceURI.endsWith("svg"), text = isDrawn ? fill : color;
    const shapes = isDrawn ? [...each.parentElement.querySelectorAll("path")].map(it => getComputedStyle(it).fill) : [];
    return [getComputedStyle(behind).backgroundColor, ...bars, ...shapes].map(ground => [text, ground]);
})"""
"""the color of each text and the colors behind it: the background of its element, its bar, and its box in an image"""


def assert_contrast(watched: Watched, selector: str) -> None:
    """Fail if a visible text has less contrast than level AA of WCAG 2 requires, or if there is no text."""
    pairs = watched.seen(selector).evaluate_all(COLORS)
    assert pairs, selector
    assert [pair for pair in pairs if contrast(*pair) < 4.5] == [], selector


def contrast(text: str, ground: str) -> float:
    """Return the contrast ratio of two colors (WCAG 2)."""
    darker, lighter = sorted([luminance(text), luminance(ground)])
    return (lighter + 0.05) / (darker + 0.05)


def luminance(color: str) -> float:
    """Return the relative luminance of a color written ``rgb(r, g, b)`` (WCAG 2)."""
    parts = [int(part) / 255 for part in color[color.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_page_is_complete_without_scripts(browser: Any, address: str):
    with watching(browser, address, java_script_enabled=False) as watched:
        assert len(watched.texts(".cause")) == 3
        assert watched.page.locator("details").count() > 5
        assert watched.page.locator("svg").count() == 1  # the rooflines


def test_names_that_look_like_a_script_are_not_executed(browser: Any, tmp_path: Path):
    page = lpp.report(hostile(), n=4096, device="nvidia-v100", models=["roofline"], about=HOSTILE)
    watched = Watched(browser, page.save(tmp_path / "page.html").as_uri())
    dialogs: list[str] = []
    watched.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    assert watched.texts("h1")[0].startswith(HOSTILE)
    assert watched.texts(".about") == [HOSTILE]
    assert watched.page.locator("#source tr").evaluate_all("all => all.map(each => each.title)").count(HOSTILE) == 1
    assert watched.page.locator("b[onclick]").count() == 0
    assert (dialogs, watched.complaints) == ([], [])


def test_injected_script_does_not_run(browser: Any, address: str, tmp_path: Path):
    html = page_on_several_devices().replace("<main>", "<main><script>document.title = 'taken'</script>")
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    watched = Watched(browser, (tmp_path / "page.html").as_uri())
    assert watched.page.title() == "chain: run time"
    assert any("Content Security Policy" in each for each in watched.complaints)
