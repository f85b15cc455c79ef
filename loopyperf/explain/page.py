"""Render the HTML page of a report from Jinja2 templates.

Jinja2 escapes everything except plots, highlighted source, style and script, which are made here. The content security
policy of a page allows no other script and no network access.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

from loopyperf.display import NoteKind, without
from loopyperf.errors import LoopyperfError, by_reason, in_short
from loopyperf.explain.drawings import embedded, memory_chart
from loopyperf.explain.explain import paragraphs
from loopyperf.explain.explanation import Explanation, OnDevice
from loopyperf.explain.first_screen import accesses_table, reasons, shares_of_peak
from loopyperf.explain.plots.figures import Figure, style, with_legend
from loopyperf.explain.plots.plot_roofline import draw_roofline
from loopyperf.explain.source_view import SourceLine
from loopyperf.files import without_folders
from loopyperf.models.catalog import MODELS
from loopyperf.models.result import LEVEL, Estimate
from loopyperf.units import amount, duration, in_percent, prefixed, printable, unbroken

try:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape
    from pygments import highlight
    from pygments.formatters.html import HtmlFormatter
    from pygments.lexers.python import PythonLexer
except ImportError as error:
    raise LoopyperfError(
        f"reports need Jinja2 and Pygments, which cannot be imported ({error}): pip install 'loopyperf[report]'"
    ) from error


def _without_folders(explanation: Explanation) -> Explanation:
    """Return *explanation* with the folders of paths removed from reasons and notes.

    The kernel's source and description are not changed, because they are the user's own.
    """
    devices = tuple(_on_device(on) for on in explanation.devices)
    return replace(explanation, devices=devices, refusals=_reasons(explanation.refusals))


def _on_device(on: OnDevice) -> OnDevice:
    estimates = {
        name: replace(each, notes=tuple(map(without_folders, each.notes))) for name, each in on.estimates.items()
    }
    roofline = on.roofline and replace(on.roofline, notes=tuple(map(without_folders, on.roofline.notes)))
    return replace(
        on,
        name=without_folders(on.name),
        estimates=estimates,
        refusals=_reasons(on.refusals),
        roofline=roofline,
        gaps=_reasons(on.gaps),
    )


def _reasons(refusals: Mapping[str, str]) -> dict[str, str]:
    return {without_folders(name): without_folders(reason) for name, reason in refusals.items()}


LIGHT, DARK = "default", "github-dark"
"""Pygments styles"""


def coloured(text: str) -> str:
    """Return a statement in Loopy's syntax, which is close to Python, as highlighted and escaped HTML."""
    return highlight(text, PythonLexer(stripnl=False, ensurenl=False), HtmlFormatter(nowrap=True))


@cache
def style_sheet(style: str) -> str:
    """Return the CSS rules of a Pygments *style* for elements of class ``code``, without the background."""
    rules = cast("str", HtmlFormatter(style=style).get_style_defs(".code")).splitlines()
    return "\n".join(rule for rule in rules if rule.startswith(".code .") and ".hll" not in rule)


TEMPLATE = Path(__file__).parent / "template"
CODE = re.compile("`([^`]+)`")
NUMBER = re.compile(r"[A-Za-z]\w*(?:\.\w+){2,}")
"""matches names of device parameters, e.g. ``memory.DRAM.latency``"""
CHART = (4.8, 3.4)
"""size in inches without the legend, chosen so that the text is legible on a phone"""
REFRESHED = 2
"""reload interval of a watched page, in seconds"""
SHOWN = 0.01
"""share of the time, or of a peak; a smaller share has no bar"""


def page_of(explanation: Explanation, *, is_watched: bool = False) -> str:
    """Return *explanation* as a self-contained HTML document, which reloads itself if *is_watched*."""
    explanation = _without_folders(explanation)
    script = _file("page.js")
    digest = b64encode(sha256(script.encode()).digest()).decode()
    template = _environment().get_template("page.html")
    page = template.render(
        _on_first_screen(explanation),
        paragraphs=paragraphs(explanation.about),
        sizes=", ".join(_stated(explanation)),
        lines=list(_source(explanation)),
        code=None if explanation.code is None else _code(explanation),
        amount=prefixed,
        memory_chart=memory_chart,
        accesses_table=accesses_table,
        roofline_chart=_roofline_chart,
        style=Markup(_style()),
        script=Markup(script),
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'",
        refreshed=REFRESHED if is_watched else None,
        version=version("loopyperf"),
    )
    return printable(page)


def first_screen_of(explanation: Explanation) -> str:
    """Return the first screen of the page as HTML for a notebook, whose own elements keep their style."""
    nested = re.sub(r"^( *)(?::root|html|body)(?= \{)", r"\1&", _style(), flags=re.MULTILINE)
    screen = _environment().get_template("first_screen.html").render(_on_first_screen(_without_folders(explanation)))
    style = f"<style>\n.loopyperf-report {{\n{nested}\n}}\n</style>"
    return printable(f'<div class="loopyperf-report">\n{style}\n{screen}</div>')


def _on_first_screen(explanation: Explanation) -> dict[str, Any]:
    """Return the names in the template of the first screen."""
    return {
        "report": explanation,
        "level": in_percent(LEVEL),
        "several": len(explanation.devices) > 1,
        "assumed": _assumed,
        "by_reason": by_reason,
        "shares_of_peak": shares_of_peak,
        "reasons": reasons,
        "summaries": {name: model.summary for name, model in MODELS.items()},
    }


def _environment() -> Environment:
    environment = Environment(loader=FileSystemLoader(TEMPLATE), autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.finalize = _unbroken
    environment.filters.update(
        duration=duration,
        number=amount,
        percent=in_percent,
        coloured=_coloured,
        short=in_short,
        prose=_prose,
        breakable=_breakable,
    )
    return environment


def _assumed(estimate: Estimate) -> list[str]:
    """Return the notes except the reason for a missing interval, which is in the headline."""
    return without(estimate.notes, NoteKind.NO_INTERVAL)


def _stated(explanation: Explanation) -> Iterator[str]:
    """Yield the sizes and the typical values as text."""
    yield from (f"{name} = {value}" for name, value in explanation.sizes.items())
    yield from (f"typically {name} = {value}" for name, value in explanation.typical.items())


# {{{ source with its costs, and generated code


def _source(explanation: Explanation) -> Iterator[Mapping[str, Any]]:
    """Yield each source line with one cell per device, except other sources of costs that cost nothing."""
    costs = [explanation.lines(on) for on in explanation.devices]
    for number, line in enumerate(explanation.listing):
        pairs = zip(explanation.devices, costs, strict=True)
        cells = [_cell(on, line, each[number].seconds if each[number].parts else 0.0) for on, each in pairs]
        if line.kind != "other" or any(cell["time"] for cell in cells):
            yield {"line": line, "cells": cells}


def _cell(on: OnDevice, line: SourceLine, seconds: float) -> Mapping[str, Any]:
    """Return the cell of a *line* on a device: its time and share as text, and its stalls."""
    whole = float(on.estimate.seconds)
    share = seconds / whole if whole else 0.0
    is_shown = abs(share) >= SHOWN
    return {
        "device": on.device,
        "share": share if is_shown else 0.0,
        "time": unbroken(duration(seconds)) if is_shown else "",
        "percent": unbroken(in_percent(share)) if is_shown else "",
        "waits": on.remarks_at(line.source),
    }


def _code(explanation: Explanation) -> Mapping[str, Any]:
    """Return the generated code with syntax highlighting."""
    assert explanation.code is not None
    lines = [(Markup(coloured(each.text)), each.source) for each in explanation.code.lines]
    return {"language": explanation.code.language, "lines": lines}


def _unbroken(value: Any) -> Any:
    """Return *value* with no-break spaces between numbers and units; markup is unchanged."""
    return unbroken(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _prose(words: str) -> Markup:
    """Return *words* as markup, with text in backticks as code and line breaks allowed in parameter names."""
    marked = CODE.sub(r"<code>\1</code>", str(escape(unbroken(words))))
    return Markup(NUMBER.sub(lambda found: found[0].replace(".", ".<wbr>"), marked))


def _breakable(name: str) -> Markup:
    """Return *name* with line breaks allowed after underscores."""
    return Markup(str(escape(name)).replace("_", "_<wbr>"))


def _coloured(line: SourceLine) -> str | Markup:
    return Markup(coloured(line.text)) if line.kind in ("loop", "instruction") else line.text


# }}}


# {{{ roofline chart and style


def _roofline_chart(explanation: Explanation) -> Markup:
    """Return the rooflines of all devices in one chart."""
    rooflines = {on.name: on.roofline for on in explanation.devices if on.roofline is not None}
    title = f"Roofline of {explanation.kernel} on {', '.join(on.device for on in explanation.devices)}"
    # The page replaces the default colors, so a user's matplotlib style must not apply.
    with style.context("default"):
        ax = Figure(figsize=CHART, layout="constrained").subplots()
        drawn = rooflines if len(rooflines) > 1 else next(iter(rooflines.values()))
        tooltips = draw_roofline(ax, drawn)
        return Markup(embedded(with_legend(ax, grows=True), title, "roofline-", tooltips))


def _style() -> str:
    dark = f"@media screen and (prefers-color-scheme: dark) {{\n{style_sheet(DARK)}\n}}"
    return "\n".join([_file("page.css"), style_sheet(LIGHT), dark])


@cache
def _file(name: str) -> str:
    return (TEMPLATE / name).read_text(encoding="utf-8")


# }}}
