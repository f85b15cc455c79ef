"""Pictures of a page that need no plotting library: memory as a chain of levels, and what warps do in a timeline.

Colors are classes that the style sheet of the page has rules for, in the light and in the dark.
"""

import re
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any
from xml.etree import ElementTree

from loopyperf.device.vocabulary import Vocabulary
from loopyperf.explain.plots.figures import Artist, Axes, Figure, style
from loopyperf.explain.plots.plot_roofline import Rooflines, drawn_launches, mark_of, rooflines_by_name, roofs_in_words
from loopyperf.explain.review import LaunchReview
from loopyperf.explain.roofline_chart import LaunchUnderRoofs
from loopyperf.explain.waiting import Span, Timeline
from loopyperf.units import amount, duration, in_percent, prefixed

# {{{ memory as a chain of levels

WIDE, BOX, TALL, GAP = 400, 130, 34, 46
"""of the chart, of a level's box, its height and the room between two of them, in units of the picture"""
THICK = 22.0
"""of the widest flow"""


def memory_chart(review: LaunchReview, words: Vocabulary) -> str:
    """Return as SVG the levels of memory of a device, with the bytes that flow between them during a launch."""
    traffic = review.traffic
    levels = [name for name in traffic.moved if traffic.moved[name]]
    chart = _Chart(TALL + len(levels) * (TALL + GAP), "Bytes that flow between the levels of memory")
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
    """Return the share of what loads ask *level* for that it has; empty for the last one."""
    names = list(review.traffic.loaded)
    if level not in names or level == names[-1] or not review.traffic.loaded[level]:
        return ""
    return f"{in_percent(1 - review.traffic.loaded[names[names.index(level) + 1]] / review.traffic.loaded[level])} hits"


class _Chart:
    """An SVG element that is being made."""

    def __init__(self, height: float, label: str, width: float = WIDE) -> None:
        box = f"0 0 {width:g} {height:g}"
        self.root = ElementTree.Element("svg", {"viewBox": box, "role": "img", "aria-label": label})

    def box(self, top: float, name: str, beside: str) -> None:
        """Draw a level, with some words *beside* it."""
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
        """Draw what flows between two levels, as wide as its *share* of the widest flow."""
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
        """Write *words*, if there are any."""
        if words:
            given = {"class": kind} if kind else {}
            text = ElementTree.SubElement(self.root, "text", given, x=f"{x:g}", y=f"{y:g}", **{"text-anchor": anchor})
            text.text = words

    def rect(self, kind: str, x: float, y: float, width: float, height: float, title: str = "") -> None:
        """Draw a rectangle of a *kind* that says its *title* under the pointer."""
        size = {"width": f"{max(width, 0.3):.4g}", "height": f"{height:g}"}
        rect = ElementTree.SubElement(self.root, "rect", {"class": kind, **size}, x=f"{x:.5g}", y=f"{y:g}")
        if title:
            ElementTree.SubElement(rect, "title").text = title

    def markup(self) -> str:
        """Return the picture."""
        return ElementTree.tostring(self.root, encoding="unicode")


# }}}


# {{{ what warps do, in a timeline

LEFT, ROW, ACROSS = 104, 11, 500
"""room for names, height of a row, and width of the whole"""


def wait_class(cause: str) -> str:
    """Return the class of what shows a *cause* of waiting."""
    return f"wait-{cause.replace(' ', '-')}"


def timeline_chart(timeline: Timeline, words: Vocabulary) -> str:
    """Return as SVG what some warps wait for, when they issue, and when pipelines are busy."""
    rows = len(timeline.warps) + len(timeline.pipelines)
    label = f"What {len(timeline.warps)} {words.warp}s do in {amount(round(timeline.cycles))} cycles"
    chart = _Chart((rows + 2.5) * ROW, label, ACROSS)
    scale = (ACROSS - LEFT - 4) / (timeline.cycles or 1.0)
    for row, warp in enumerate(timeline.warps):
        chart.text(LEFT - 6, (row + 0.8) * ROW, f"{words.warp} {warp}", "row", "end")
    for span in timeline.waits:
        chart.rect(wait_class(span.what), *_place(span, scale), ROW - 2, f"waits: {span.what}")
    for row, time in timeline.issues:
        chart.rect("issue", LEFT + time * scale, row * ROW, 0.9, ROW - 2)
    for span in _on_rows(timeline):
        x, y, width = _place(span, scale)
        chart.rect("taken", x, y + ROW / 2, width, ROW - 2, span.what)
    for row, name in enumerate(timeline.pipelines, len(timeline.warps)):
        chart.text(LEFT - 6, (row + 1.3) * ROW, words.resource(name), "row", "end")
    below = (rows + 1.8) * ROW
    chart.text(LEFT, below, "0", "row")
    chart.text(ACROSS - 4, below, f"{amount(round(timeline.cycles))} cycles", "row", "end")
    return chart.markup()


def _on_rows(timeline: Timeline) -> Iterator[Span]:
    """Yield when pipelines are busy, in rows below those of the warps."""
    yield from (span._replace(row=span.row + len(timeline.warps)) for span in timeline.busy)


def _place(span: Span, scale: float) -> tuple[float, float, float]:
    return LEFT + span.begin * scale, span.row * ROW, (span.end - span.begin) * scale


# }}}


SVG, LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
SETTINGS: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "loopyperf"}
"""text stays text, and the same figure is the same picture"""
OF_THE_PAGE = {"#000000": "currentColor", "#ffffff": "var(--ground)"}
"""colours of a light ground -> what they are on any page"""
REACH = "fill: none; stroke: transparent; stroke-width: 8"
"""of a line that says something: as wide as a pointer can hit"""


def embedded(figure: Figure, title: str, prefix: str, said: Mapping[Artist, str] | None = None) -> str:
    """Return *figure* as an SVG element, called *title* to who does not see it, all ids in it beginning with *prefix*.

    What is black takes the colour of the text around it; the ground, and what is white, are the ground of the page.
    Each mark of *said* says its words where the pointer rests on it.
    """
    words = {f"mark_{number}": each for number, each in enumerate((said or {}).values())}
    for name, mark in zip(words, said or {}, strict=True):
        mark.set_gid(name)
    buffer = StringIO()
    figure.patch.set_visible(False)
    for ax in figure.axes:
        ax.patch.set_visible(False)
        legend = ax.get_legend()
        # Names of launches are among these, in which a dollar is a dollar.
        for text in (*ax.texts, *(legend.get_texts() if legend else ())):
            text.set_parse_math(False)
    with style.context(SETTINGS):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for each in root.findall(f"{{{SVG}}}metadata"):
        root.remove(each)
    for group in root.iter(f"{{{SVG}}}g"):
        if group.get("id") in words:
            _let_say(group, words[group.attrib["id"]])
    for element in root.iter():
        for name, value in element.attrib.items():
            element.set(name, _of_the_page(name, value, prefix))
    width, height = (float(root.attrib.pop(name).removesuffix("pt")) for name in ("width", "height"))
    root.attrib.update({"role": "img", "aria-label": title, "style": f"aspect-ratio: {width:g} / {height:g}"})
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", LINK)
    return ElementTree.tostring(root, encoding="unicode")


def _let_say(group: ElementTree.Element, words: str) -> None:
    """Put *words* into a group of marks, for browsers to show, and something that can be hit over its thin lines."""
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
    for colour, of_the_page in OF_THE_PAGE.items():
        value = re.sub(rf"{colour}\b", of_the_page, value)
    return value.replace("url(#", f"url(#{prefix}")


def roofline_tooltips(ax: Axes, roofline: Rooflines) -> dict[Artist, str]:
    """Return what each roof and each launch of *roofline* says, one or several, that is drawn on *ax*, by its marks."""
    points = drawn_launches(roofline)
    words = roofs_in_words(*rooflines_by_name(roofline).values())
    words |= {
        mark_of("launch", point.number): _in_words(point.name, point.launch, point.roofline.model) for point in points
    }
    return {mark: words[name] for mark in ax.get_children() if (name := mark.get_gid()) is not None and name in words}


def _in_words(name: str, launch: LaunchUnderRoofs, model: str) -> str:
    at_most = f"{prefixed(launch.attainable, 'flop/s')} at most, {duration(launch.seconds)} at least"
    predicted = "" if launch.predicted is None else f"; {duration(launch.predicted)} by {model}, {_reached(launch)}"
    by_way_of = ", ".join(f"{each:.3g} flop/B by {memory}" for memory, each in launch.intensities.items())
    return f"{name}: {at_most}{predicted}; {by_way_of or 'nothing moved'}; bound: {launch.bound}"


def _reached(launch: LaunchUnderRoofs) -> str:
    return f"{prefixed(launch.performance, 'flop/s')}, {launch.share_in_words}"
