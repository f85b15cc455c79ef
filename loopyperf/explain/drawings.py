"""Draw the SVG pictures of a report: memory levels, and embedded matplotlib figures.

Colors are CSS classes, for which the page's style sheet has rules in light and dark mode.
"""

import re
from collections.abc import Mapping
from io import StringIO
from typing import Any
from xml.etree import ElementTree

from loopyperf.device.vocabulary import Vocabulary
from loopyperf.explain.plots.figures import Artist, Figure, style
from loopyperf.explain.review import LaunchReview
from loopyperf.units import in_percent, prefixed, printable

# {{{ memory levels

WIDE, BOX, TALL, GAP = 400, 130, 34, 46
"""width of the chart, width and height of a level's box, and gap between boxes, in SVG units"""
THICK = 22.0
"""width of the widest arrow"""


def memory_chart(review: LaunchReview, words: Vocabulary) -> str:
    """Return an SVG chart of a device's memory levels, with the bytes moved between them by a launch."""
    traffic = review.traffic
    levels = [name for name in traffic.moved if traffic.moved[name]]
    chart = _Chart(TALL + len(levels) * (TALL + GAP), "Bytes moved between memory levels")
    most = max(traffic.moved.values(), default=0.0) or 1.0
    chart.box(0, f"{words.core}s", f"{words.local} {prefixed(traffic.local, 'B')}" if traffic.local else "")
    for number, name in enumerate(levels):
        top = TALL + number * (TALL + GAP)
        loaded, stored = traffic.loaded.get(name, 0.0), traffic.stored.get(name, 0.0)
        chart.flow(BOX * 0.3, top, loaded / most, is_up=True)
        chart.flow(BOX * 0.75, top, stored / most, is_up=False)
        flows = [f"{prefixed(each, 'B')} {way}" for each, way in ((loaded, "loaded"), (stored, "stored")) if each]
        chart.text(BOX + 12, top + GAP / 2 + 4, ", ".join(flows))
        chart.box(top + GAP, name, _hits(review, name))
    return chart.markup()


def _hits(review: LaunchReview, level: str) -> str:
    """Return the load hit rate of *level*, as text; empty for the last level."""
    names = list(review.traffic.loaded)
    if level not in names or level == names[-1] or not review.traffic.loaded[level]:
        return ""
    return f"{in_percent(1 - review.traffic.loaded[names[names.index(level) + 1]] / review.traffic.loaded[level])} hits"


class _Chart:
    """Builds an SVG element."""

    def __init__(self, height: float, label: str) -> None:
        box = f"0 0 {WIDE:g} {height:g}"
        self.root = ElementTree.Element("svg", {"viewBox": box, "role": "img", "aria-label": label})

    def box(self, top: float, name: str, beside: str) -> None:
        """Draw the box of a level, with the text *beside* it."""
        ElementTree.SubElement(
            self.root,
            "rect",
            {"class": "level"},
            x="0.5",
            y=f"{top + 0.5:g}",
            width=f"{BOX}",
            height=f"{TALL - 1}",
            rx="4",
        )
        self.text(BOX / 2, top + TALL / 2 + 4, name, anchor="middle")
        self.text(BOX + 12, top + TALL / 2 + 4, beside, "faint")

    def flow(self, x: float, top: float, share: float, *, is_up: bool) -> None:
        """Draw an arrow between two levels, with a width of *share* times the widest one."""
        if not share:
            return
        half, head = max(0.75, THICK * share / 2), 8.0
        start, end = (top + GAP - 1, top + 1) if is_up else (top + 1, top + GAP - 1)
        neck = end + head if is_up else end - head
        wing = half + 4
        right = [(x + half, start), (x + half, neck), (x + wing, neck)]
        left = [(2 * x - a, b) for a, b in reversed(right)]
        points = " ".join(f"{a:.4g},{b:.4g}" for a, b in (*right, (x, end), *left))
        ElementTree.SubElement(self.root, "polygon", {"class": "loaded" if is_up else "stored"}, points=points)

    def text(self, x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> None:
        """Write *words* unless they are empty."""
        if words:
            given = {"class": kind} if kind else {}
            text = ElementTree.SubElement(self.root, "text", given, x=f"{x:g}", y=f"{y:g}", **{"text-anchor": anchor})
            text.text = words

    def markup(self) -> str:
        """Return the picture as SVG markup."""
        return ElementTree.tostring(self.root, encoding="unicode")


# }}}


SVG, LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
SETTINGS: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "loopyperf"}
"""keep text as text, and make the output deterministic"""
OF_THE_PAGE = {"#000000": "currentColor", "#ffffff": "var(--ground)"}
"""colors of a light theme -> CSS values for any theme"""
REACH = "fill: none; stroke: transparent; stroke-width: 8"
"""style of the invisible area around a line with a tooltip, wide enough for a pointer"""


def embedded(figure: Figure, title: str, prefix: str, tooltips: Mapping[Artist, str] | None = None) -> str:
    """Return *figure* as an SVG element with accessible name *title*, and with *prefix* before all ids.

    Black becomes the text color of the page, and white its background. *tooltips* maps marks to their tooltips.
    """
    words = {f"mark_{number}": each for number, each in enumerate((tooltips or {}).values())}
    for name, mark in zip(words, tooltips or {}, strict=True):
        mark.set_gid(name)
    buffer = StringIO()
    figure.patch.set_visible(False)
    for ax in figure.axes:
        ax.patch.set_visible(False)
        legend = ax.get_legend()
        # The texts include names of launches, in which $ must not start math.
        for text in (*ax.texts, *(legend.get_texts() if legend else ())):
            text.set_parse_math(False)
    with style.context(SETTINGS):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(printable(buffer.getvalue()))  # names may have characters that XML lacks
    for each in root.findall(f"{{{SVG}}}metadata"):
        root.remove(each)
    for group in root.iter(f"{{{SVG}}}g"):
        if group.get("id") in words:
            _add_tooltip(group, words[group.attrib["id"]])
    for element in root.iter():
        for name, value in element.attrib.items():
            element.set(name, _of_the_page(name, value, prefix))
    width, height = (float(root.attrib.pop(name).removesuffix("pt")) for name in ("width", "height"))
    root.attrib.update({"role": "img", "aria-label": title, "style": f"aspect-ratio: {width:g} / {height:g}"})
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", LINK)
    return ElementTree.tostring(root, encoding="unicode")


def _add_tooltip(group: ElementTree.Element, words: str) -> None:
    """Add a tooltip to a group of marks, and a wider invisible area over its thin lines."""
    for path in group.findall(f"{{{SVG}}}path"):
        ElementTree.SubElement(group, path.tag, {**path.attrib, "style": REACH})
    title = ElementTree.Element(f"{{{SVG}}}title")
    title.text = words
    group.insert(0, title)


def _of_the_page(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return prefix + value
    if name == f"{{{LINK}}}href" and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    for color, of_the_page in OF_THE_PAGE.items():
        value = re.sub(rf"{color}\b", of_the_page, value)
    return value.replace("url(#", f"url(#{prefix}")
