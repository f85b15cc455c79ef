"""The page of a difference: both sides in columns beside each other, in one file that needs no network.

Everything is escaped by Jinja2 but the style. The content security policy lets nothing be fetched and no script run.
"""

from functools import partial
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from loopyperf.oracle.difference.difference import Difference, signed
from loopyperf.oracle.difference.parts import LinePair
from loopyperf.reports.folders import sentence_without_folders
from loopyperf.units import duration, unbroken

TEMPLATE = Path(__file__).parent / "template"
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page_of_difference(difference: Difference) -> str:
    """Return *difference* as an HTML document that needs nothing else."""
    environment = Environment(loader=FileSystemLoader(TEMPLATE), autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    environment.finalize = _unbroken
    environment.filters.update(duration=duration, signed=signed)
    longest = max((abs(each.change) for each in difference.lines), default=0.0)
    return environment.get_template("diff.html").render(
        difference=difference,
        title=" and ".join(dict.fromkeys(each.kernel for each in difference.compared)),
        bar=partial(_bar, longest),
        of_longer=partial(_bar, max(difference.before, difference.after)),
        sign=_sign,
        notes=tuple(map(sentence_without_folders, difference.notes)),
        style=Markup((TEMPLATE / "page.css").read_text(encoding="utf-8")),
        policy=POLICY,
        version=version("loopyperf"),
    )


def _sign(pair: LinePair, place: int) -> str:
    """Return what stands before a text of a line that not both sides have: minus for the first, plus for the second."""
    if pair.before is None or (place and len(pair.texts) > 1):
        return "+ "
    return "\N{MINUS SIGN} " if pair.after is None or len(pair.texts) > 1 else ""


def _bar(longest: float, seconds: float) -> float:
    """Return the length of a bar in percent of the longest."""
    return round(100 * abs(seconds) / longest, 1) if longest else 0.0


def _unbroken(value: object) -> object:
    """Return words without line ends between numbers and their units, and markup as it is."""
    return unbroken(value) if isinstance(value, str) and not isinstance(value, Markup) else value
