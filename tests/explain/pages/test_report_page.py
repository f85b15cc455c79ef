"""Tests of the report page: well-formed, complete, small, and escaped."""

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

import loopy as lp
import pytest
from matplotlib import style
from matplotlib.figure import Figure

import loopyperf as lpp
from loopyperf.device.device_library import BUNDLED
from loopyperf.errors import LoopyperfError
from loopyperf.explain.explanation import accesses_table, shares_of_peak
from loopyperf.explain.report import Report, embedded
from loopyperf.files import without_folders
from loopyperf.models.result import Alternative
from loopyperf.units import duration, in_percent, prefixed
from tests.explain.pages.report_kernels import DEVICES, HOSTILE, MODELS, hostile, page_on_several_devices, two_launches
from tests.kernels import floats, integers, make_kernel

VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"])
"""elements without an end tag"""


class Page(HTMLParser):
    """The contents of a page; an element that is not closed correctly is an error."""

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
        # Only SVG has self-closing elements.
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


def test_page_is_well_formed_and_loads_nothing(html: str):
    page = Page(html)
    assert {name: number for name, number in page.ids.items() if number > 1} == {}
    assert page.names["svg"] == 1  # the rooflines
    outside = [each for each in page.references if not each.startswith("#") and each != "data:,"]
    assert outside == []
    assert [each for each in page.references if each.startswith("#") and each[1:] not in page.ids] == []
    assert "@import" not in html
    assert [each for each in re.findall(r"url\(([^)]*)\)", html) if not each.startswith("#")] == []


def test_page_is_small_and_deterministic(html: str):
    assert len(html.encode()) < 300_000
    assert html == page_on_several_devices()


def test_policy_allows_only_the_script_of_the_page(html: str):
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)[1].replace("&#39;", "'")
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.split("; ")[0] == "default-src 'none'"
    assert f"script-src 'sha256-{digest}'" in policy


def test_page_shows_every_estimate_finding_and_reason(html: str):
    text = " ".join("".join(Page(html).texts).split())
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
        longest, terms = on.diagnosis.longest, on.diagnosis.words
        bars = [(each.name, in_percent(each.share)) for each in shares_of_peak(longest, terms)]
        accesses = accesses_table(longest, terms).rows
        stalls = () if longest.waiting is None else longest.waiting.total.items()
        for words in (*bars, *accesses, *((cause, in_percent(share)) for cause, share in stalls)):
            assert all(str(each) in text for each in words)
        assert all(note.removeprefix("no prediction interval: ") in text for note in on.estimate.notes)
        traffic = longest.traffic
        assert all(prefixed(each, "B") in text for each in (*traffic.loaded.values(), *traffic.stored.values()) if each)


def test_incomplete_time_is_shown_as_a_lower_bound():
    found = lpp.explain(hostile(), n=4096, device="amd-r9-fury", models=["linear"])
    (on,) = found.devices
    part = replace(on.estimate, left_out=("f32 pow",), interval=None)
    page = Report(replace(found, devices=(replace(on, estimates={"linear": part}),))).html()
    text = " ".join(" ".join(Page(page).texts).split())
    assert f"at least {duration(float(part))} (without f32 pow)" in text
    assert f"at least {duration(float(on.estimate))}" not in " ".join(Page(Report(found).html()).texts)


def test_names_that_look_like_html_are_escaped():
    plain = lpp.report(hostile(), n=4096, device="nvidia-v100", models=["roofline"], about=HOSTILE)
    (on,) = plain.explanation.devices
    estimate = replace(on.estimate, notes=(HOSTILE,), unsure=(HOSTILE,))
    on = replace(on, name=HOSTILE, estimates={"roofline": estimate}, refusals={"volkov": HOSTILE})
    explanation = replace(plain.explanation, devices=(on,), refusals={HOSTILE: HOSTILE}, sizes={HOSTILE: 1})
    page = Page(replace(plain, explanation=explanation).html())
    assert page.handlers == []
    assert page.names["script"] == 1
    # At least once each: kernel, size, docstring, device, two reasons for missing estimates, uncertain array, note.
    assert " ".join(page.texts).count(HOSTILE) >= 8


def test_page_contains_no_folders_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOOPYPERF_DATA", str(tmp_path / "own data"))
    devices = ["nvidia-v100", "nobodys-device", tmp_path / "hidden" / "mine.toml"]
    plain = lpp.report(two_launches(), n=4096, device=devices, models=["roofline", "linear"])
    (on,) = plain.explanation.devices
    estimate = replace(on.estimate, notes=(f"the fit {tmp_path / 'mine.json'} is old",))
    gaps = {"roofline": r"see C:\Users\me\x.toml: it lacks L1/L2"}
    on = replace(on, estimates={"roofline": estimate}, roofline=None, gaps=gaps)
    content = str(replace(plain.explanation, devices=(on,)).to_dict())
    assert str(tmp_path) in content
    html = replace(plain, explanation=replace(plain.explanation, devices=(on,))).html()
    assert str(tmp_path) not in html
    text = " ".join(Page(html).texts)
    for words in ("mine.toml", "the fit mine.json is old", "see x.toml: it lacks L1/L2", "<data folder>/devices"):
        assert words in text


@pytest.mark.parametrize(
    "sentence", ["n // 16 groups, L1/L2 and stride 2/2", "docs/devices.md says so", "see https://ui.perfetto.dev/a/b"]
)
def test_text_that_is_not_a_path_of_the_machine_is_kept(sentence: str):
    assert without_folders(sentence) == sentence


def test_page_shows_the_interval_and_uncertain_arrays():
    plain = lpp.report(two_launches(), n=4096, device="nvidia-v100", models=["roofline"])
    (on,) = plain.explanation.devices
    other = Alternative(2e-3, ("acc",), "the private array acc is in registers", "it is indexed by a variable")
    estimate = replace(on.estimate, interval=(1e-3, 3e-3), unsure=("acc",), alternatives=(other,))
    devices = (replace(on, estimates={"roofline": estimate}),)
    text = " ".join(Page(replace(plain, explanation=replace(plain.explanation, devices=devices)).html()).texts)
    assert "80 % interval: 1 ms to 3 ms" in text.replace("\N{NO-BREAK SPACE}", " ")
    assert str(other) in text
    assert "Unknown whether the compiler keeps the private array acc in registers" in text


def test_embedded_figure_is_escaped_and_uses_the_text_color():
    ax = Figure().subplots()
    ax.plot([1, 2], [1, 2], label="k <b>", color="black")
    ax.legend()
    picture = embedded(ax.figure, 'a "title"', "p-")
    assert "k &lt;b&gt;" in picture
    assert "currentColor" in picture
    assert "#000000" not in picture
    assert set(re.findall(r' id="(..)', picture)) == {"p-"}
    assert 'aria-label="a &quot;title&quot;"' in picture


def test_names_of_missing_parameters_allow_line_breaks(own_data: Path):
    # On a phone with 360 px, the table of models has no room for "memory.DRAM.bandwidth" in one line.
    (own_data / "devices").mkdir(parents=True)
    text = (BUNDLED / "amd-r9-fury.toml").read_text(encoding="utf-8")
    (own_data / "devices" / "amd-r9-fury.toml").write_text(re.sub("(?m)^bandwidth = ", "# ", text), encoding="utf-8")
    assert "memory.<wbr>DRAM.<wbr>bandwidth" in page_on_several_devices()


def test_boxes_behind_labels_have_the_background_color_of_the_page():
    ax = Figure().subplots()
    ax.text(0.5, 0.5, "DRAM", bbox={"facecolor": ax.get_facecolor(), "edgecolor": "none"})
    picture = embedded(ax.figure, "", "p-")
    assert "fill: var(--ground)" in picture
    assert "#ffffff" not in picture


def test_page_does_not_depend_on_the_style_of_matplotlib():
    build = partial(lpp.report, two_launches(), n=2**20, device="amd-r9-fury", models=["roofline"])
    light = build().html()
    with style.context("dark_background"):
        assert build().html() == light


def test_report_is_saved_and_an_unwritable_path_is_refused(tmp_path: Path):
    found = lpp.report(hostile(), n=4096, device="nvidia-v100", models=["roofline"])
    assert isinstance(found, lpp.Report)
    assert found.save(tmp_path / "r.html").read_text(encoding="utf-8") == found.html()
    with pytest.raises(LoopyperfError, match="cannot be written to"):
        found.save(tmp_path / "nowhere" / "r.html")


@pytest.mark.parametrize(
    "module", ["jinja2", *(pytest.param(each, marks=pytest.mark.slow) for each in ("matplotlib", "pygments"))]
)
def test_error_without_a_dependency_names_the_extra(module: str):
    lines = f"import sys; sys.modules[{module!r}] = None; import loopyperf; loopyperf.report"
    done = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.search(r"pip install 'loopyperf\[(report|plots)\]'$", done.stderr.splitlines()[-1])


def test_report_is_a_function_after_importing_the_package():
    lines = "import loopyperf.explain, loopyperf; assert callable(loopyperf.report); assert callable(loopyperf.report)"
    subprocess.run([sys.executable, "-c", lines], check=True)


def test_page_of_an_oddly_named_kernel_is_well_formed_and_stays_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("../../x", "/x", ".x", "odd\x1b]0;x\x07name", "x" * 300):
        knl = make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]", floats("a, b", "n"), integers("n"), name=name)
        knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
        saved = lpp.report(knl, n=4096, device="nvidia-v100", models=["roofline"], findings=False).save()
        assert saved.resolve().parent == tmp_path
        assert not set(map(chr, {*range(32)} - {9, 10})) & set(saved.read_text(encoding="utf-8"))
    assert len(list(tmp_path.glob("*.html"))) >= 4
