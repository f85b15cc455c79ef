"""The page of a report: the template, filled with an explanation.

Everything is escaped by Jinja2 unless it was made here: pictures, coloured source text, style and script. The page
carries a content security policy that lets no other script run and nothing be fetched.
"""

import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

from loopyperf.errors import LoopyperfError
from loopyperf.models.catalog import MODELS
from loopyperf.models.literature.advice import OF_SCATTERED, SCATTERED
from loopyperf.models.on_device.roofs import OF_ALL_LANES
from loopyperf.models.result import HEADINGS, LEVEL, NO_INTERVAL, Estimate
from loopyperf.oracle.explanation.about import paragraphs
from loopyperf.oracle.explanation.costs import LineCost
from loopyperf.oracle.explanation.explanation import Explanation, OnDevice
from loopyperf.oracle.explanation.listing import Line
from loopyperf.oracle.refusals import by_reason, in_short
from loopyperf.plots.figures import Figure, style
from loopyperf.plots.roofline import plot_roofline
from loopyperf.reports.colours import DARK, LIGHT, coloured, style_sheet
from loopyperf.reports.folders import without_folders
from loopyperf.reports.hover import said_of_roofline
from loopyperf.reports.pictures import embedded
from loopyperf.units import amount, duration, in_percent, prefixed, unbroken

try:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape
except ImportError as error:
    raise LoopyperfError(
        f"reports need Jinja2, which cannot be imported ({error}): pip install 'loopyperf[report]'"
    ) from error

TEMPLATE = Path(__file__).parent / "template"
SCRIPTS = ("sortable.min.js", "page.js")
CODE = re.compile("`([^`]+)`")
NUMBER = re.compile(r"[A-Za-z]\w*(?:\.\w+){2,}")
"""as devices' descriptions name theirs, e.g. ``memory.DRAM.latency``"""
CHART = (4.8, 4.2)
"""inches: on a telephone, its print is still large enough to be read"""


def page_of(explanation: Explanation) -> str:
    """Return *explanation* as an HTML document that needs nothing else."""
    explanation = without_folders(explanation)
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
    script = "\n".join(_file(name) for name in SCRIPTS)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    first = explanation.devices[0]
    return environment.get_template("page.html").render(
        report=explanation,
        paragraphs=paragraphs(explanation.about),
        sizes=", ".join(_stated(explanation)),
        headings=HEADINGS,
        level=in_percent(LEVEL),
        first=first,
        lines=explanation.lines(first.estimate),
        cell=_cell,
        assumed=_assumed,
        amount=prefixed,
        scattered=SCATTERED,
        of_scattered=OF_SCATTERED,
        of_all_lanes=OF_ALL_LANES,
        by_reason=by_reason,
        roofline_chart=_roofline_chart,
        summaries={name: model.summary for name, model in MODELS.items()},
        models=[name for name in MODELS if any(name in on.estimates for on in explanation.devices)],
        costs=_costs(explanation),
        style=Markup(_style()),
        script=Markup(script),
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'",
        version=version("loopyperf"),
    )


def _stated(explanation: Explanation) -> Iterator[str]:
    """Yield sizes, and what was stated of what the source does not tell."""
    yield from (f"{name} = {value}" for name, value in explanation.sizes.items())
    yield from (f"typically {name} = {value}" for name, value in explanation.typical.items())


def _assumed(estimate: Estimate) -> list[str]:
    """Return the notes, but for why there is no interval, which stands in the headline."""
    return [note for note in estimate.notes if not note.startswith(NO_INTERVAL)]


# {{{ the source with its costs


def _costs(explanation: Explanation) -> dict[str, Any]:
    """Return for each device and model the cells of the lines that cost anything, by the line's number."""
    cells = {
        str(number): {name: _cells(explanation, estimate) for name, estimate in on.estimates.items()}
        for number, on in enumerate(explanation.devices)
    }
    return {"first": [on.first for on in explanation.devices], "cells": cells}


def _cells(explanation: Explanation, estimate: Estimate) -> dict[int, Sequence[Any]]:
    lines = explanation.lines(estimate)
    return {number: _cell(cost, lines, estimate) for number, cost in enumerate(lines) if cost.parts}


def _cell(cost: LineCost, lines: Sequence[LineCost], estimate: Estimate) -> Sequence[Any]:
    """Return a line's seconds, these and their share in words, the length of its bar in percent, and its parts."""
    if not cost.parts:
        return "", "", "", 0, ""
    whole = float(estimate.seconds)
    longest = max((abs(each.seconds) for each in lines), default=0.0)
    bar = round(100 * abs(cost.seconds) / longest, 1) if longest else 0
    share = in_percent(cost.seconds / whole) if whole else ""
    many = len(cost.parts) > 1
    parts = ", ".join(f"{name} {duration(seconds)}" if many else name for name, seconds in cost.parts.items())
    return cost.seconds, unbroken(duration(cost.seconds)), unbroken(share), bar, unbroken(parts)


def _unbroken(value: Any) -> Any:
    """Return what is written: words without line ends between numbers and their units, markup as it is."""
    return unbroken(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _prose(words: str) -> Markup:
    """Return *words*, of which code is what stands between backticks; lines may end within the names of numbers."""
    marked = CODE.sub(r"<code>\1</code>", str(escape(unbroken(words))))
    return Markup(NUMBER.sub(lambda found: found[0].replace(".", ".<wbr>"), marked))


def _breakable(name: str) -> Markup:
    """Return *name*, whose lines may end after underscores."""
    return Markup(str(escape(name)).replace("_", "_<wbr>"))


def _coloured(line: Line) -> str | Markup:
    return Markup(coloured(line.text)) if line.kind in ("loop", "instruction") else line.text


# }}}


# {{{ pictures and files


def _roofline_chart(on: OnDevice, number: int) -> Markup:
    assert on.roofline is not None
    title = f"Roofline of {on.roofline.kernel} on {on.device}"
    # The colours of the page take the place of those by default, not of those that somebody draws in.
    with style.context("default"):
        ax = Figure(figsize=CHART, layout="constrained").subplots()
        figure = plot_roofline(on.roofline, ax=ax)
        return Markup(embedded(figure, title, f"roofline-{number}-", said_of_roofline(ax, on.roofline)))


def _style() -> str:
    dark = f"@media screen and (prefers-color-scheme: dark) {{\n{style_sheet(DARK)}\n}}"
    return "\n".join([_file("page.css"), style_sheet(LIGHT), dark])


def _file(name: str) -> str:
    return (TEMPLATE / name).read_text(encoding="utf-8")


# }}}
