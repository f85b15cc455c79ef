"""The page: well-formed, whole, small, and its own whatever kernels are called."""

import hashlib
import re
import subprocess
import sys
from base64 import b64encode
from collections import Counter
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib import style
from matplotlib.figure import Figure

import loopyperf as lpp
from loopyperf.device.device_library import BUNDLED
from loopyperf.errors import LoopyperfError
from loopyperf.explain.drawings import REACH, SVG, embedded
from loopyperf.explain.page import sentence_without_folders
from loopyperf.explain.report import Report
from loopyperf.models.result import Alternative
from loopyperf.units import duration, prefixed
from tests.explain.pages.questions import DEVICES, HOSTILE, MODELS, hostile, page_on_several_devices, two_launches

VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])
"""elements that have no end"""


class Page(HTMLParser):
    """What a page holds; an element that is not closed where it should be is an error."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.names = Counter[str]()
        self.ids = Counter[str]()
        self.handlers: list[str] = []
        self.references: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names[tag] += 1
        for name, value in attrs:
            if name == "id":
                self.ids[value or ""] += 1
            if name.startswith("on"):
                self.handlers.append(name)
            if name in ("src", "href", "xlink:href", "action"):
                self.references.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # Only SVG has these.
        assert "svg" in self.open
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.texts.append(data)


@pytest.fixture
def html() -> str:
    return page_on_several_devices()


def test_a_page_is_well_formed_with_distinct_ids_and_asks_for_nothing(html: str):
    page = Page(html)
    assert {name: number for name, number in page.ids.items() if number > 1} == {}
    assert page.names["svg"] == 3 + 3 + 1  # memory and warps of each device that is described, and the rooflines
    outside = [each for each in page.references if not each.startswith("#") and each != "data:,"]
    assert outside == []
    assert [each for each in page.references if each.startswith("#") and each[1:] not in page.ids] == []
    assert "@import" not in html
    assert [each for each in re.findall(r"url\(([^)]*)\)", html) if not each.startswith("#")] == []


def test_a_page_is_small_and_the_same_each_time(html: str):
    assert len(html.encode()) < 300_000
    assert html == page_on_several_devices()


def test_no_script_runs_but_the_pages_own(html: str):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)[1].replace("&#39;", "'")
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.split("; ")[0] == "default-src 'none'"
    assert f"script-src 'sha256-{digest}'" in policy


def test_a_page_shows_every_estimate_and_every_reason(html: str):
    text = " ".join(" ".join(Page(html).texts).split())
    for words in ("chain", "b, then c", "no device called 'nobodys-device'; nearest"):
        assert words in text
    found = lpp.explain(two_launches(), n=2**20, device=DEVICES, models=MODELS)
    for each in (each for on in found.devices for each in on.estimates.values()):
        assert duration(float(each)) in text
        assert each.bound in text
    for on in found.devices:
        assert f"{on.cause[0].upper()}{on.cause[1:]}." in text
        for finding in on.diagnosis.findings[:3]:
            assert finding.evidence in text
            assert all(line in text for line in finding.recipe.how)


def test_a_time_that_lacks_something_is_at_least_that():
    found = lpp.explain(hostile(), n=4096, device="amd-r9-fury", models=["linear"])
    (on,) = found.devices
    part = replace(on.estimate, left_out=("f32 pow",), interval=None)
    page = Report(replace(found, devices=(replace(on, estimates={"linear": part}),))).html()
    text = " ".join(" ".join(Page(page).texts).split())
    assert f"at least {duration(float(part))} (without f32 pow)" in text
    assert f"at least {duration(float(on.estimate))}" not in " ".join(Page(Report(found).html()).texts)


def test_names_that_end_what_a_page_begins_are_text_on_it():
    plain = lpp.report(hostile(), n=4096, device="nvidia-v100", models=["roofline"], about=HOSTILE)
    (on,) = plain.explanation.devices
    estimate = replace(on.estimate, notes=(HOSTILE,), unsure=(HOSTILE,))
    on = replace(on, name=HOSTILE, estimates={"roofline": estimate}, refusals={"volkov": HOSTILE})
    explanation = replace(plain.explanation, devices=(on,), refusals={HOSTILE: HOSTILE}, sizes={HOSTILE: 1})
    page = Page(replace(plain, explanation=explanation).html())
    assert page.handlers == []
    assert page.names["script"] == 1
    # The kernel and its size, what it is about, the device, two reasons for two who have no answer, an unsure array, a
    # note: each of these at least once.
    assert " ".join(page.texts).count(HOSTILE) >= 8


def test_a_page_says_nothing_of_the_folders_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOOPYPERF_DATA", str(tmp_path / "own data"))
    devices = ["nvidia-v100", "nobodys-device", tmp_path / "hidden" / "mine.toml"]
    plain = lpp.report(two_launches(), n=4096, device=devices, models=["roofline", "linear"])
    (on,) = plain.explanation.devices
    estimate = replace(on.estimate, notes=(f"the fit {tmp_path / 'mine.json'} is old",))
    on = replace(on, estimates={"roofline": estimate}, gaps={"advice": r"see C:\Users\me\x.toml: it lacks L1/L2"})
    said = str(replace(plain.explanation, devices=(on,)).to_dict())
    assert str(tmp_path) in said
    html = replace(plain, explanation=replace(plain.explanation, devices=(on,))).html()
    assert str(tmp_path) not in html
    text = " ".join(Page(html).texts)
    for words in ("mine.toml", "the fit mine.json is old", "see x.toml: it lacks L1/L2", "<data folder>/devices"):
        assert words in text


@pytest.mark.parametrize(
    "sentence", ["n // 16 groups, L1/L2 and stride 2/2", "docs/devices.md says so", "see https://ui.perfetto.dev/a/b"]
)
def test_what_is_no_path_of_the_machine_stays(sentence: str):
    assert sentence_without_folders(sentence) == sentence


def test_an_interval_and_what_is_unsure_are_on_the_page():
    plain = lpp.report(two_launches(), n=4096, device="nvidia-v100", models=["roofline"])
    (on,) = plain.explanation.devices
    other = Alternative(2e-3, ("acc",), "the private array acc is in registers", "it is indexed by a variable")
    estimate = replace(on.estimate, interval=(1e-3, 3e-3), unsure=("acc",), alternatives=(other,))
    devices = (replace(on, estimates={"roofline": estimate}),)
    text = " ".join(Page(replace(plain, explanation=replace(plain.explanation, devices=devices)).html()).texts)
    assert "80 % interval: 1 ms to 3 ms" in text.replace("\N{NO-BREAK SPACE}", " ")
    assert str(other) in text
    assert "Unknown whether the compiler keeps the private array acc in registers" in text


def test_a_dollar_in_a_name_is_a_dollar_and_what_is_black_takes_the_colour_of_the_text():
    ax = Figure().subplots()
    ax.plot([1, 2], [1, 2], label="k$x$ <b>", color="black")
    ax.legend()
    picture = embedded(ax.figure, 'a "title"', "p-")
    assert "k$x$ &lt;b&gt;" in picture
    assert "currentColor" in picture
    assert "#000000" not in picture
    assert set(re.findall(r' id="(..)', picture)) == {"p-"}
    assert 'aria-label="a &quot;title&quot;"' in picture


def test_lines_may_end_within_the_name_of_a_number_that_a_device_lacks(own_data: Path):
    # On a telephone of 360 px, the table of models has no room for "memory.DRAM.bandwidth" in one line.
    (own_data / "devices").mkdir(parents=True)
    text = (BUNDLED / "amd-r9-fury.toml").read_text(encoding="utf-8")
    (own_data / "devices" / "amd-r9-fury.toml").write_text(re.sub("(?m)^bandwidth = ", "# ", text), encoding="utf-8")
    assert "memory.<wbr>DRAM.<wbr>bandwidth" in page_on_several_devices()


def test_what_stands_behind_a_name_takes_the_colour_of_the_page():
    ax = Figure().subplots()
    ax.text(0.5, 0.5, "DRAM", bbox={"facecolor": ax.get_facecolor(), "edgecolor": "none"})
    picture = embedded(ax.figure, "", "p-")
    assert "fill: var(--ground)" in picture
    assert "#ffffff" not in picture


def test_a_page_is_the_same_in_whatever_style_somebody_draws():
    ask = partial(lpp.report, two_launches(), n=2**20, device="amd-r9-fury", models=["roofline"])
    light = ask().html()
    with style.context("dark_background"):
        assert ask().html() == light


def test_a_mark_says_its_words_and_a_thin_line_can_be_hit():
    ax = Figure().subplots()
    (line,) = ax.plot([1, 2], [1, 2], linewidth=0.5)
    name = ax.text(1, 1, "x")
    root = ElementTree.fromstring(embedded(ax.figure, "", "p-", {line: HOSTILE, name: "x, 1"}))
    said, drawn, reach = root.findall(".//*[@id='p-mark_0']/*")
    assert (said.tag, said.text) == (f"{{{SVG}}}title", HOSTILE)
    assert reach.attrib == {**drawn.attrib, "style": REACH} != drawn.attrib
    assert root.find(f".//*[@id='p-mark_1']/{{{SVG}}}title").text == "x, 1"


def test_every_roof_and_every_launch_of_a_roofline_says_its_values():
    html = lpp.report(two_launches(), n=2**20, device="amd-r9-fury", models=["roofline"]).html()
    # Two levels of one height are one. A flop of the first launch moves 8 B (a, b), one of the second 12 B (b twice and
    # c): 2^20 of them take 2^20 * 8 B / 512 GB/s and 2^20 * 12 B / 512 GB/s.
    (on,) = lpp.explain(two_launches(), n=2**20, device="amd-r9-fury", models=["roofline"]).devices
    by_model = [
        f"{duration(each.predicted)} by pipeline, {prefixed(each.performance, 'flop/s')}, {each.share_in_words}"
        for each in on.roofline.launches
    ]
    assert all("% of its roof (DRAM)" in each for each in by_model)
    reads = {memory: f"0.0833 flop/B by {memory}" for memory in ("L1", "L2", "DRAM")}
    second = f"42.6 Gflop/s at most, 24.6 µs at least; {by_model[1]}; {', '.join(reads.values())}; bound: DRAM"
    nearer = ", ".join(reads.values()).replace("0.0833", "0.125")
    first = f"64 Gflop/s at most, 16.4 µs at least; {by_model[0]}; {nearer}; bound: DRAM"
    assert set(re.findall("<title>(.*?)</title>", html.partition('id="roofline"')[2])) == {
        "DRAM, 512 GB/s",
        # as on its relatives
        *("L1, 3.58 TB/s", "L2, 1.13 TB/s", "local, 7.17 TB/s", "special functions, 896 Gflop/s"),
        "f64 multiply-adds, 448 Gflop/s",
        "f32 multiply-adds and issue limit, 7.17 Tflop/s",
        f"chain: {first}",
        f"chain_0: {second}",
    }


def test_a_report_is_saved_where_it_is_told_or_says_that_it_cannot_be(tmp_path: Path):
    found = lpp.report(hostile(), n=4096, device="nvidia-v100", models=["roofline"])
    assert isinstance(found, lpp.Report)
    assert found.save(tmp_path / "r.html").read_text(encoding="utf-8") == found.html()
    with pytest.raises(LoopyperfError, match="cannot be written to"):
        found.save(tmp_path / "nowhere" / "r.html")


@pytest.mark.parametrize("module", ["jinja2", "matplotlib", "pygments"])
def test_without_what_it_needs_the_extra_is_named(module: str):
    lines = f"import sys; sys.modules[{module!r}] = None; import loopyperf; loopyperf.report"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"pip install 'loopyperf\[(report|plots)\]'$", done.stderr.splitlines()[-1])


def test_the_function_stays_the_function_after_its_package_is_imported():
    lines = "import loopyperf.explain, loopyperf; assert callable(loopyperf.report); assert callable(loopyperf.report)"
    subprocess.run([sys.executable, "-c", lines], check=True)
