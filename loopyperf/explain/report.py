"""HTML reports: :func:`report`, and the :class:`Report` that it returns, rendered from Jinja2 templates.

Jinja2 escapes everything except plots, highlighted source, style and script, which are made here. The content security
policy of a page allows no other script and no network access.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from io import StringIO
from os import PathLike
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

from loopyperf.calibration.choice import FitChoice
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.display import NoteKind, ReportText, Shown, without
from loopyperf.errors import LoopyperfError, by_reason, in_short
from loopyperf.explain.explain import DeviceChoices, explain, paragraphs
from loopyperf.explain.explanation import (
    Explanation,
    LineCost,
    OnDevice,
    accesses_table,
    reasons,
    shares_of_peak,
    traffic_table,
)
from loopyperf.explain.plots import Figure, plot_roofline, with_legend
from loopyperf.explain.source_view import SourceLine
from loopyperf.files import without_folders, write_file
from loopyperf.kernel import Program
from loopyperf.models.catalog import MODELS
from loopyperf.models.result import LEVEL, Estimate
from loopyperf.stages.compile import Compiler
from loopyperf.units import amount, duration, in_percent, prefixed, printable, unbroken

try:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape
    from matplotlib import style
    from pygments import highlight
    from pygments.formatters.html import HtmlFormatter
    from pygments.lexers.python import PythonLexer
except ImportError as error:
    raise LoopyperfError(
        f"reports need Jinja2 and Pygments, which cannot be imported ({error}): pip install 'loopyperf[report]'"
    ) from error


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


def page_of(explanation: Explanation) -> str:
    """Return *explanation* as a self-contained HTML document.

    Paths are reduced to file names, except in the kernel's description, which is the user's own.
    """
    script = _file("page.js")
    digest = b64encode(sha256(script.encode()).digest()).decode()
    template = environment(TEMPLATE).get_template("page.html")
    page = template.render(
        report=explanation,
        level=in_percent(LEVEL),
        several=len(explanation.devices) > 1,
        assumed=_assumed,
        by_reason=by_reason,
        shares_of_peak=shares_of_peak,
        reasons=reasons,
        summaries={name: model.summary for name, model in MODELS.items()},
        paragraphs=[Markup(escape(paragraph)) for paragraph in paragraphs(explanation.about)],
        sizes=", ".join(_stated(explanation)),
        lines=list(_source(explanation)),
        amount=prefixed,
        traffic_table=traffic_table,
        accesses_table=accesses_table,
        roofline_chart=_roofline_chart,
        style=Markup(_style()),
        script=Markup(script),
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'",
        version=version("loopyperf"),
    )
    return printable(page)


def environment(folder: Path) -> Environment:
    """Return the environment of the templates in *folder*; it escapes everything."""
    found = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined)
    found.trim_blocks = found.lstrip_blocks = True
    found.finalize = _published
    found.filters.update(
        duration=duration,
        number=amount,
        percent=in_percent,
        coloured=_coloured,
        short=in_short,
        prose=_prose,
        breakable=_breakable,
    )
    return found


def _assumed(estimate: Estimate) -> list[str]:
    """Return the notes except the reason for a missing interval, which is in the headline."""
    return without(estimate.notes, NoteKind.NO_INTERVAL)


def _stated(explanation: Explanation) -> Iterator[str]:
    """Yield the sizes and the typical values as text."""
    yield from (f"{name} = {value}" for name, value in explanation.sizes.items())
    yield from (f"typically {name} = {value}" for name, value in explanation.typical.items())


# {{{ source with its costs


def _source(explanation: Explanation) -> Iterator[Mapping[str, Any]]:
    """Yield each source line with one cell per device, except other sources of costs that cost nothing."""
    for on_devices in zip(*map(explanation.lines, explanation.devices), strict=True):
        cells = [_cell(on, cost) for on, cost in zip(explanation.devices, on_devices, strict=True)]
        if on_devices[0].line.kind != "other" or any(cell["time"] for cell in cells):
            yield {"line": on_devices[0].line, "cells": cells}


def _cell(on: OnDevice, cost: LineCost) -> Mapping[str, Any]:
    """Return the cell of a line on a device: its time and share as text, and its stalls."""
    time, percent = on.cost_in_words(cost.seconds)
    share = cost.seconds / float(on.estimate.seconds) if time else 0.0
    return {
        "device": on.device,
        "share": share,
        "time": time,
        "percent": percent,
        "waits": on.remarks_at(cost.line.source),
    }


def _published(value: Any) -> Any:
    """Return *value* without folders, and with no-break spaces between numbers and units; markup is unchanged."""
    return unbroken(without_folders(value)) if isinstance(value, str) and not isinstance(value, Markup) else value


def _prose(words: str) -> Markup:
    """Return *words* as markup, with text in backticks as code and line breaks allowed in parameter names."""
    marked = CODE.sub(r"<code>\1</code>", str(escape(_published(words))))
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
    rooflines = {without_folders(on.name): on.roofline for on in explanation.devices if on.roofline is not None}
    title = f"Roofline of {explanation.kernel} on {', '.join(on.device for on in explanation.devices)}"
    # The page replaces the default colors, so a user's matplotlib style must not apply.
    with style.context("default"):
        ax = Figure(figsize=CHART, layout="constrained").subplots()
        plot_roofline(rooflines if len(rooflines) > 1 else next(iter(rooflines.values())), ax=ax)
        return Markup(embedded(with_legend(ax, grows=True), title, "roofline-"))


SVG, LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
SETTINGS: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "loopyperf"}
"""keep text as text, and make the output deterministic"""
OF_THE_PAGE = {"#000000": "currentColor", "#ffffff": "var(--ground)"}
"""colors of a light theme -> CSS values for any theme"""


def embedded(figure: Figure, title: str, prefix: str) -> str:
    """Return *figure* as an SVG element with accessible name *title*, and with *prefix* before all ids.

    Black becomes the text color of the page, and white its background.
    """
    buffer = StringIO()
    figure.patch.set_visible(False)
    for ax in figure.axes:
        ax.patch.set_visible(False)
    with style.context(SETTINGS):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(printable(buffer.getvalue()))  # names may have characters that XML lacks
    for each in root.findall(f"{{{SVG}}}metadata"):
        root.remove(each)
    for element in root.iter():
        for name, value in element.attrib.items():
            element.set(name, _of_the_page(name, value, prefix))
    width, height = (float(root.attrib.pop(name).removesuffix("pt")) for name in ("width", "height"))
    root.attrib.update({"role": "img", "aria-label": title, "style": f"aspect-ratio: {width:g} / {height:g}"})
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", LINK)
    return ElementTree.tostring(root, encoding="unicode")


def _of_the_page(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return prefix + value
    if name == f"{{{LINK}}}href" and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    for color, of_the_page in OF_THE_PAGE.items():
        value = re.sub(rf"{color}\b", of_the_page, value)
    return value.replace("url(#", f"url(#{prefix}")


def _style() -> str:
    dark = f"@media screen and (prefers-color-scheme: dark) {{\n{style_sheet(DARK)}\n}}"
    return "\n".join([_file("page.css"), style_sheet(LIGHT), dark])


@cache
def _file(name: str) -> str:
    return (TEMPLATE / name).read_text(encoding="utf-8")


# }}}


@dataclass(frozen=True, slots=True, repr=False)
class Report(Shown):
    """An HTML page that explains a kernel's run time."""

    explanation: Explanation
    """contents of the page"""

    def report_text(self) -> ReportText:
        """Return the explanation's first screen, and how to write the page."""
        summary = self.explanation.report_text()
        return replace(summary, remarks=(*summary.remarks, "save(path) writes the HTML page"))

    def html(self) -> str:
        """Return the page as one self-contained HTML document."""
        return page_of(self.explanation)

    @property
    def default_path(self) -> Path:
        """Return the file in the current folder that is named after the kernel, without separators and odd letters."""
        return Path(f"{re.sub(r'[^A-Za-z0-9_.-]+|^[.-]+', '_', self.explanation.kernel):.100}.html")

    def save(self, path: str | PathLike[str] | None = None) -> Path:
        """Write the page to *path*, by default :attr:`default_path`, and return its path.

        Raises :class:`ParameterError` if writing fails.
        """
        return write_file("the report", self.default_path if path is None else path, self.html())


def report(
    program: Program,
    /,
    *,
    device: DeviceChoices | None = None,
    model: str | None = None,
    models: Iterable[str] | None = None,
    fit: FitChoice | ResidualModel | None = None,
    compiler: Compiler = "model",
    about: str = "",
    findings: bool = True,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Report:
    """Return an HTML page about the run time of *program* at one size, on one or several devices.

    The page shows the cost of each source line, utilization, suggested changes, stall reasons, memory traffic, the
    estimates of all models, the roofline and the assumptions.

    Parameters
    ----------
    program : loopy.TranslationUnit
        Kernel or program.
    device : str, path or Device, or several of them, optional
        Names, parameter files or loaded devices. The default is the device of *fit*, or the one that
        ``LOOPYPERF_DEVICE`` names, or this machine's OpenCL device.
    model : str, optional
        The model to show first (see :func:`loopyperf.explain`).
    models : iterable of str, optional
        All models to evaluate. The default is all in :data:`loopyperf.MODELS`.
    fit : Fit, ResidualModel or path, optional
        A fit or residual model (see :func:`loopyperf.explain`).
    compiler : {"model", "nvrtc", "auto"}
        Source of register counts, as in :func:`loopyperf.estimate`.
    about : str, optional
        A description of the kernel. Empty lines separate paragraphs.
    findings : bool, optional
        Whether to simulate changes that may make the kernel faster.
    typical : mapping, optional
        Typical iteration counts of loops and shares of conditions that depend on data, by name.
    parameters : mapping, optional
        Sizes by name, for sizes that have the name of an option.
    **sizes : int
        Values of the kernel's integer parameters.

    Returns
    -------
    Report
        The page. ``save`` writes it, and ``explanation`` has the data.

    Raises
    ------
    LoopyperfError
        The errors of :func:`loopyperf.explain`, or Jinja2 or Pygments (the extra ``report``) are not installed.

    Examples
    --------
    >>> import loopy as lp, numpy as np, loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     name="doubled",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> page = lpp.report(knl, device="nvidia-titan-v", models=["pipeline", "roofline"], n=2**20)
    >>> page.html()[:15]
    '<!DOCTYPE html>'
    """
    explanation = explain(
        program,
        device=device,
        model=model,
        models=MODELS if models is None else models,
        fit=fit,
        compiler=compiler,
        about=about,
        findings=findings,
        typical=typical,
        parameters=parameters,
        **sizes,
    )
    return Report(explanation)
