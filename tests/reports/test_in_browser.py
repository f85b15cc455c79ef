"""The page in a browser: it shows, sorts, switches and prints, by mouse and by keys, and asks nobody for anything."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernels import triangle
from reports.browsing import Watched, chromium, needs_chromium, watching
from reports.printed import compact, printed
from reports.questions import HOSTILE, MODELS, hostile, page_on_several_devices, two_launches

import loopyperf as lpp
from loopyperf.units import prefixed

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("page")
    with pytest.MonkeyPatch.context() as patch:
        # No test sees a person's own fits.
        patch.setenv("LOOPYPERF_DATA", str(folder / "own data"))
        (folder / "page.html").write_text(page_on_several_devices(), encoding="utf-8")
    return (folder / "page.html").as_uri()


@pytest.fixture
def watched(browser: Any, address: str) -> Iterator[Watched]:
    with watching(browser, address) as opened:
        yield opened


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
    watched.page.select_option("#model", "linear")
    assert "by linear" in headline(watched)
    watched.page.select_option("#device", "0")
    assert "by pipeline" in headline(watched)
    enabled = watched.page.locator("#model option:not([disabled])").all_inner_texts()
    assert enabled == ["roofline", "volkov", "pipeline"]
    watched.page.select_option("#device", label="AMD Radeon R9 Fury")
    assert "by linear" in headline(watched)


def test_devices_are_told_by_the_model_that_is_shown_and_the_unknown_one_is_among_them(watched: Watched):
    names = ["NVIDIA Tesla V100 PCIe", "NVIDIA A100 80GB SXM4", "AMD Radeon R9 Fury", "nobodys-device"]
    assert watched.texts("#devices tbody th") == names
    watched.page.select_option("#model", "volkov")
    assert watched.texts("#devices tbody td:nth-child(3)") == ["volkov", "volkov", "volkov", ""]
    watched.page.select_option("#device", label="AMD Radeon R9 Fury")
    watched.page.select_option("#model", "linear")
    assert watched.texts("#devices tbody td:nth-child(3)") == ["pipeline", "pipeline", "linear", ""]


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
    with watching(browser, address, java_script_enabled=False) as watched:
        session = watched.page.context.new_cdp_session(watched.page)
        nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", "").strip())
        for node in nodes
        if not node["ignored"] and node["role"]["value"] in ("button", "combobox", "region", "columnheader", "image")
    ]
    assert {role for role, _ in named} == {"button", "combobox", "region", "columnheader", "image"}
    assert [role for role, name in named if not name] == []


def focused_by_tab(watched: Watched, most: int = 5) -> Iterator[Any]:
    """Yield what has the focus after each press of the key, so many times at most."""
    for _ in range(most):
        watched.page.keyboard.press("Tab")
        yield watched.page.evaluate_handle("document.activeElement").as_element()


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
    button = "#devices th:nth-child(2) button"
    assert any(each.evaluate("(each, button) => each.matches(button)", button) for each in focused_by_tab(watched))
    keys.press("Enter")
    times = sorted_by(watched, "ascending")
    keys.press("Space")
    assert sorted_by(watched, "descending")[:-1] == times[-2::-1]
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert watched.page.evaluate(outline) == "solid"


def test_by_tab_alone_everything_that_is_seen_and_can_have_the_focus_has_it_once(watched: Watched):
    seen = watched.seen("select, button, [tabindex='0']").count()
    everything = "[...document.querySelectorAll('*')].indexOf(document.activeElement)"
    reached = [each.evaluate(everything) for each in focused_by_tab(watched, seen)]
    assert reached == sorted(set(reached))


SAID = "h1, h2, h3, h4, p, dt, dd, li, th, td.code, td.time, td.share, tfoot td"
"""all sorts of what a page says, outside of pictures"""


def test_it_prints_on_paper_what_is_seen_but_for_what_nobody_can_press(watched: Watched):
    # Names of columns and small print differ by width, and on paper there is less than on this screen.
    watched.page.set_viewport_size({"width": 810, "height": 800})
    on_screen = watched.texts(SAID) + watched.seen("svg text").all_text_contents()
    watched.page.emulate_media(media="print")
    assert watched.texts(".choice") == []
    on_paper = printed(watched.page.pdf(format="A4"))
    assert len(on_screen) > 100
    assert [each for each in on_screen if compact(each) not in on_paper] == []
    assert compact("on NVIDIA Tesla V100 PCIe, by pipeline") in on_paper
    assert compact("by volkov:") not in on_paper


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
    options = {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
    wider = "[...document.querySelectorAll('.scroll')].filter(each => each.scrollWidth > each.clientWidth).length"
    with watching(browser, address, **options) as watched:
        assert watched.page.evaluate("document.documentElement.scrollWidth") == width
        assert watched.page.evaluate(wider) == 0
        for selector in TEXTS:
            assert_stands_out(watched, selector)


def test_at_any_width_all_tables_have_room_on_every_device(watched: Watched):
    wider = """[...document.querySelectorAll('.scroll')].filter(each => each.scrollWidth > each.clientWidth)
        .map(each => each.getAttribute('aria-label'))"""
    names = watched.page.locator("#device option").all_inner_texts()
    assert len(names) > 1
    for name in names:
        watched.page.select_option("#device", label=name)
        for width in (360, 500, 672, 673, 700, 768, 800, 801, 900, 959, 961, 1100):
            watched.page.set_viewport_size({"width": width, "height": 800})
            assert watched.page.evaluate(wider) == [], (name, width)
            assert watched.page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("width", [400, 1200])
def test_a_page_without_room_for_all_columns_says_so(browser: Any, address: str, width: int):
    with watching(browser, address, viewport={"width": width, "height": 800}) as watched:
        assert watched.page.locator("#source thead .wide").first.is_visible() is (width == 1200)
        assert watched.page.get_by_text("no room for some columns").is_visible() is (width == 400)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_of_source_and_picture_stand_out_from_the_ground(browser: Any, tmp_path: Path, scheme: str):
    page = lpp.report(triangle(), n=4096, device="nvidia-v100", models=["roofline"]).save(tmp_path / "page.html")
    with watching(browser, page.as_uri(), color_scheme=scheme) as watched:
        for sort in ("k", "n", "o", "p", "mi"):
            assert_stands_out(watched, f"#source .code .{sort}")
        assert watched.page.locator("svg g:has(> text) path").count() > 0, "names of memories have boxes"
        assert_stands_out(watched, "svg text")


TEXTS = (
    "h1", "h1 small", "select", ".choice label", ".headline strong", "thead button", "tbody th", ".refused td",
    "#source .time", "#source .share", "td.share", "#source .id", "#source .code code", "#source .code span",
    "svg text", "article li", "footer p",
)  # fmt: skip
"""one of each sort of text"""
COLOURS = """all => all.flatMap(each => {
    let behind = each;
    while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
    const {color, fill, backgroundImage} = getComputedStyle(each);
    const bars = backgroundImage.match(/rgb\\([^)]*\\)/g) ?? [];
    const isDrawn = each.namespaceURI.endsWith("svg"), text = isDrawn ? fill : color;
    const shapes = isDrawn ? [...each.parentElement.querySelectorAll("path")].map(it => getComputedStyle(it).fill) : [];
    return [getComputedStyle(behind).backgroundColor, ...bars, ...shapes].map(ground => [text, ground]);
})"""
"""the colour of each text and of what is behind it: the ground of what it is in, its bar, and its box in a picture"""


def assert_stands_out(watched: Watched, selector: str) -> None:
    """Fail where a text that is seen has less contrast than level AA of WCAG 2 asks for, or there is none."""
    pairs = watched.seen(selector).evaluate_all(COLOURS)
    assert pairs, selector
    assert [pair for pair in pairs if contrast(*pair) < 4.5] == [], selector


def contrast(text: str, ground: str) -> float:
    """Return the contrast ratio of two colours (WCAG 2)."""
    darker, lighter = sorted([luminance(text), luminance(ground)])
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour written ``rgb(r, g, b)`` (WCAG 2)."""
    parts = [int(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_without_scripts_everything_is_below_each_other(browser: Any, address: str):
    with watching(browser, address, java_script_enabled=False) as watched:
        # Three models on each of three devices, and a fit's on one.
        assert len(watched.texts(".headline p:first-child")) == 3 * 3 + 1
        assert pictures(watched) == 3


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def under_the_pointer(watched: Watched, mark: Any) -> str | None:
    """Return what the browser says while the pointer rests on the middle of *mark*: the title of what it hits."""
    mark.scroll_into_view_if_needed()
    box = mark.bounding_box()
    at = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
    watched.page.mouse.move(*at)
    return watched.page.evaluate(
        "at => document.elementFromPoint(...at).closest('g:has(> title)')?.querySelector(':scope > title').textContent",
        at,
    )


def test_launches_and_roofs_say_their_values_under_the_pointer(watched: Watched):
    (on,) = lpp.explain(two_launches(), n=2**20, device="nvidia-v100", models=MODELS).devices
    roofs = {f"{name}, {prefixed(each, 'B/s')}" for name, each in on.roofline.bandwidths.items()}
    roofs |= {f"{name}, {prefixed(each, 'flop/s')}" for name, each in on.roofline.peaks.items()}
    assert len(roofs) == 7
    rows = [plain(row).split("\t") for row in watched.texts("table[data-alike=launches] tbody tr")]
    launches = {f"{name}: {performance} at most, {least} at least" for name, performance, least, *_ in rows}
    assert len(launches) == 2
    said = {under_the_pointer(watched, mark) for mark in watched.seen("svg g:has(> title)").all()}
    assert {each.partition(";")[0] for each in said} == roofs | launches
    # c = b + b: a flop for 12 bytes.
    assert any("0.0833 flop/B by DRAM; bound: DRAM" in each for each in said)


def test_bars_say_what_they_are_long_for(watched: Watched):
    whole = " ".join(headline(watched).split()[:2])
    costs = watched.seen("table[data-alike=costs] tbody tr").all()
    models = watched.seen("table[data-alike=models] tbody tr[data-row]").all()
    assert (len(costs), len(models)) == (3, 3)
    for row, name, time in ((row, *row.locator("th, td:nth-child(4)").all_inner_texts()) for row in costs):
        assert plain(row.locator(".share").get_attribute("title")) == plain(f"{name}: {time} of {whole}")
    for row, name, time in ((row, *row.locator("th, td:nth-child(2)").all_inner_texts()) for row in models):
        assert plain(row.locator(".share").get_attribute("title")) == plain(f"{name}: {time}, the longest {whole}")
    for model in ("pipeline", "volkov"):
        watched.page.select_option("#model", model)
        times, parts = watched.texts("#source .time"), watched.texts("#source .parts")
        said = [f"{time}: {part}" for time, part in zip(times, parts, strict=True) if time]
        shares = watched.seen("#source .share[title]:not([title=''])").all()
        assert [each.get_attribute("title") for each in shares] == said != []


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
