"""The page in a browser: it shows, sorts, switches and prints, by mouse and by keys, and asks nobody for anything.

The browser is Debian's Chromium, without a window, by way of Playwright; `make browser` installs it.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reports.questions import HOSTILE, hostile, page_on_several_devices

import loopyperf as lpp

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make env")
CHROMIUM = shutil.which("chromium")
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no chromium: make browser, as root on Debian, installs it"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        # No test sees a person's own fits.
        patch.setenv("LOOPYPERF_DATA", str(folder / "own data"))
        (folder / "page.html").write_text(page_on_several_devices(), encoding="utf-8")
    return (folder / "page.html").as_uri()


class Watched:
    """A page, and what it asked for and complained of."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.page = browser.new_context(**options).new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of those elements that are seen."""
        return [each.inner_text().strip() for each in self.page.locator(selector).all() if each.is_visible()]


@pytest.fixture
def watched(browser: Any, address: str) -> Iterator[Watched]:
    opened = Watched(browser, address)
    yield opened
    assert opened.complaints == []
    assert opened.requests == [address]
    opened.page.context.close()


def headline(watched: Watched) -> str:
    (shown,) = watched.texts(".headline p:first-child")
    return shown


def pictures(watched: Watched) -> int:
    return sum(each.is_visible() for each in watched.page.locator("svg").all())


def seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]


def test_one_device_and_one_model_are_shown_and_their_lines_add_up_to_the_time(watched: Watched):
    assert "on NVIDIA Tesla V100 PCIe, by pipeline" in headline(watched)
    costs = [seconds(text) for text in watched.texts("#source .time") if text]
    # Times have three digits.
    assert sum(costs) == pytest.approx(seconds(" ".join(headline(watched).split()[:2])), rel=0.01)
    assert pictures(watched) == 1


def test_a_model_and_a_device_are_chosen_and_everything_follows(watched: Watched):
    before = watched.texts("#source .time")
    watched.page.select_option("#model", "volkov")
    assert "by volkov" in headline(watched)
    assert watched.texts("tr[aria-current] th") == ["volkov"]
    assert watched.texts("#source .time") != before
    watched.page.select_option("#device", label="NVIDIA A100 80GB SXM4")
    assert "on NVIDIA A100 80GB SXM4, by volkov" in headline(watched)


def test_where_the_model_has_no_answer_the_devices_own_is_shown_until_another_device_has_one(watched: Watched):
    watched.page.select_option("#device", label="AMD Radeon R9 Fury")
    assert "by linear" in headline(watched)
    assert watched.page.locator("#model option:not([disabled])").all_inner_texts() == ["linear", "roofline"]
    assert pictures(watched) == 1
    watched.page.select_option("#device", "0")
    assert "by pipeline" in headline(watched)


def test_devices_are_told_by_the_model_that_is_shown_and_the_unknown_one_is_among_them(watched: Watched):
    names = ["NVIDIA Tesla V100 PCIe", "NVIDIA A100 80GB SXM4", "AMD Radeon R9 Fury", "nobodys-device"]
    assert watched.texts("#devices tbody th") == names
    watched.page.select_option("#model", "volkov")
    assert watched.texts("#devices tbody td:nth-child(3)") == ["volkov", "volkov", "linear", ""]


def sorted_by(watched: Watched, column: str) -> list[str]:
    watched.page.wait_for_selector(f"#devices th[aria-sort={column}]")
    watched.page.wait_for_timeout(50)  # sorted a moment after the click
    return watched.texts("#devices tbody td:nth-child(2)")


def test_a_table_is_sorted_by_a_click_and_those_without_an_answer_stay_last(watched: Watched):
    watched.page.click("#devices th:nth-child(2) button")
    times = sorted_by(watched, "ascending")
    assert times[:-1] == sorted(times[:-1], key=seconds)
    assert times[-1] == "–"
    watched.page.click("#devices th:nth-child(2) button")
    assert sorted_by(watched, "descending")[:-1] == times[-2::-1]


def test_sorted_lines_keep_their_costs_when_another_model_is_chosen(watched: Watched):
    watched.page.click("#source th:nth-child(3) button")
    watched.page.wait_for_timeout(50)
    watched.page.select_option("#model", "volkov")
    shown = dict(zip(watched.texts("#source .number"), watched.texts("#source .time"), strict=True))
    watched.page.reload()
    watched.requests.pop()
    watched.page.select_option("#model", "volkov")
    assert shown == dict(zip(watched.texts("#source .number"), watched.texts("#source .time"), strict=True))


def column(watched: Watched, table: str, number: int) -> list[float]:
    """Return what a column that is seen is sorted by, without what has no number."""
    cells = watched.page.locator(f"{table} tbody td:nth-child({number})").all()
    keys = [each.get_attribute("data-sort") for each in cells if each.is_visible()]
    return [float(key) for key in keys if key]


def test_lines_are_sorted_again_when_another_model_or_device_is_chosen(watched: Watched):
    watched.page.click("#source th:nth-child(3) button")
    watched.page.wait_for_selector("#source th[aria-sort=descending]")
    watched.page.wait_for_timeout(50)
    lines = 0
    for select, option in (("#model", "volkov"), ("#device", "1"), ("#device", "2"), ("#device", "0")):
        watched.page.select_option(select, option)
        times = column(watched, "#source", 3)
        assert times == sorted(times, reverse=True)
        lines = max(lines, len(times))
    assert lines > 1


@pytest.mark.parametrize(("table", "number"), [("costs", 4), ("models", 2), ("launches", 3)])
def test_a_table_of_another_device_is_sorted_as_the_one_that_was(watched: Watched, table: str, number: int):
    alike = f'table[data-alike="{table}"]'
    button = watched.page.locator(f"{alike} thead tr > :nth-child({number}) button")
    next(each for each in button.all() if each.is_visible()).click()
    watched.page.wait_for_timeout(50)
    first = watched.page.locator(f"{alike} th[aria-sort]").first.get_attribute("aria-sort")
    watched.page.select_option("#device", "1")
    found = column(watched, alike, number)
    assert len(found) > 1
    assert found == sorted(found, reverse=first == "descending")


def test_everything_that_can_be_pressed_or_chosen_has_a_name(browser: Any, address: str):
    # Without scripts nothing is hidden, so that the views of all models and devices are looked at.
    watched = Watched(browser, address, java_script_enabled=False)
    session = watched.page.context.new_cdp_session(watched.page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", "").strip())
        for node in nodes
        if not node["ignored"] and node["role"]["value"] in ("button", "combobox", "region", "columnheader", "image")
    ]
    assert {role for role, _ in named} == {"button", "combobox", "region", "columnheader", "image"}
    assert [role for role, name in named if not name] == []
    watched.page.context.close()


def test_keys_alone_choose_and_sort(watched: Watched):
    keys = watched.page.keyboard
    keys.press("Tab")
    assert watched.page.evaluate("document.activeElement.id") == "device"
    keys.press("ArrowDown")
    assert "on NVIDIA A100" in headline(watched)
    keys.press("Tab")
    assert watched.page.evaluate("document.activeElement.id") == "model"
    keys.press("Home")
    assert "by roofline" in headline(watched)
    watched.page.focus("#devices th:nth-child(2) button")
    keys.press("Enter")
    times = sorted_by(watched, "ascending")
    keys.press("Space")
    assert sorted_by(watched, "descending")[:-1] == times[-2::-1]
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert watched.page.evaluate(outline) == "solid"


def test_it_prints_on_paper_without_what_nobody_can_press(watched: Watched):
    watched.page.emulate_media(media="print")
    assert watched.texts(".choice") == []
    assert headline(watched)
    printed = watched.page.pdf(format="A4")
    assert printed.startswith(b"%PDF-")
    assert len(printed) > 10_000


def test_on_paper_headings_can_be_said_again_and_no_bar_is_a_black_line(watched: Watched):
    watched.page.emulate_media(media="print")

    def style(selector: str, name: str) -> str:
        return watched.page.locator(selector).first.evaluate(f"each => getComputedStyle(each).{name}")

    # Chromium does not repeat a head that holds boxes of its own, as buttons are.
    assert style("#source thead", "display") == "table-header-group"
    assert style("#source th button", "display") == "contents"
    # A gradient from a colour to nothing is a black line where the bar has no length.
    assert "rgba(0, 0, 0, 0)" not in style("#source td.share", "backgroundImage")


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_at_any_width_nothing_sticks_out_and_text_stands_out_from_the_ground(
    browser: Any, address: str, width: int, scheme: str
):
    watched = Watched(browser, address, viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = watched.page
    assert page.evaluate("document.documentElement.scrollWidth") == width
    wider = "[...document.querySelectorAll('.scroll')].filter(each => each.scrollWidth > each.clientWidth).length"
    assert page.evaluate(wider) == 0
    for selector in ("body", "#source .time", "#source .id", ".refused", "#source .code .k", "svg text"):
        colour = "fill" if selector.startswith("svg") else "color"
        found = page.locator(selector).first
        if found.count():
            text = luminance(found.evaluate(f"e => getComputedStyle(e).{colour}"))
            ground = luminance(page.locator("html").evaluate("e => getComputedStyle(e).backgroundColor"))
            # WCAG 2, level AA
            assert (max(text, ground) + 0.05) / (min(text, ground) + 0.05) >= 4.5, selector
    page.context.close()


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour written ``rgb(r, g, b)`` (WCAG 2)."""
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_without_scripts_everything_is_below_each_other(browser: Any, address: str):
    watched = Watched(browser, address, java_script_enabled=False)
    # Three models on two devices, the fit's and the roofline on one.
    assert len(watched.texts(".headline p:first-child")) == 8
    assert pictures(watched) == 3


def test_names_that_look_like_a_script_are_shown_and_not_run(browser: Any, tmp_path: Path):
    page = lpp.report(hostile(), n=4096, device="nvidia-v100", models=["roofline"], about=HOSTILE)
    watched = Watched(browser, page.save(tmp_path / "page.html").as_uri())
    dialogs: list[str] = []
    watched.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    assert watched.texts("h1")[0].startswith(HOSTILE)
    assert watched.texts(".about") == [HOSTILE]
    assert HOSTILE in watched.texts("#source .id")
    assert watched.page.locator("b[onclick]").count() == 0
    assert "by roofline" in headline(watched)
    assert (dialogs, watched.complaints) == ([], [])


def test_a_script_that_is_put_into_a_page_does_not_run(browser: Any, address: str, tmp_path: Path):
    html = page_on_several_devices().replace("<main>", "<main><script>document.title = 'taken'</script>")
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    watched = Watched(browser, (tmp_path / "page.html").as_uri())
    assert watched.page.title() == "chain: run time"
    assert any("Content Security Policy" in each for each in watched.complaints)
