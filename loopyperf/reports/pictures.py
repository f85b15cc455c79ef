"""Figures of matplotlib inside a page: in the colours of its text, and with names of their own."""

import re
from collections.abc import Mapping
from io import StringIO
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.artist import Artist

from loopyperf.plots.figures import Figure

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
    with mpl.rc_context(SETTINGS):
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
