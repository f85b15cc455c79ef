"""Lines, marks and areas differ without their colours, which are seen on paper and on a dark ground."""

import re
from importlib.resources import files
from itertools import combinations, islice

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from loopyperf.explain.plots.figures import COLORS, HALVES, SHADES, area_styles, hollow, line_styles, point_styles

Floats = NDArray[np.float64]
LEAST = 3.0
"""contrast of what is no text with its ground: WCAG 2.1, 1.4.11"""
STYLE = files("loopyperf.explain").joinpath("template/page.css").read_text(encoding="utf-8")
GROUNDS = ["#ffffff", *re.findall(r"--ground: (#[0-9a-f]{6})", STYLE)]
"""of print, and of a report in the dark"""


def linear(color: str) -> Floats:
    """Return the parts of *color* in amounts of light (IEC 61966-2-1)."""
    parts = np.array(to_rgb(color))
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2.1."""
    dark, light = sorted(float(linear(color) @ [0.2126, 0.7152, 0.0722]) for color in (one, other))
    return (light + 0.05) / (dark + 0.05)


def test_a_report_has_a_dark_ground() -> None:
    assert len(GROUNDS) == 2
    assert contrast(*GROUNDS) > 15


def test_colours_are_seen_on_both_grounds(subtests: pytest.Subtests) -> None:
    for ground in GROUNDS:
        for color in [*COLORS, *SHADES, "grey"]:
            with subtests.test(ground=ground, color=color):
                assert contrast(color, ground) >= LEAST


def test_hatching_is_seen_on_its_area() -> None:
    for style in islice(area_styles(), len(COLORS)):
        assert contrast(style["facecolor"], style["edgecolor"]) >= LEAST


# Machado, Oliveira and Fernandes, A Physiologically-based Model for Simulation of Color Vision Deficiency (2009),
# table 1, severity 1.0: of amounts of light.
VISIONS = {
    "trichromat": np.eye(3),
    "protanope": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranope": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanope": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lightness(light: Floats) -> Floats:
    """Return CIELAB's L*, a* and b* of amounts of red, green and blue light, for the white of sRGB."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratio = to_xyz @ np.clip(light, 0, 1) / [0.9505, 1.0, 1.089]
    x, y, z = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISIONS)
def test_colours_are_told_apart_with_any_sort_of_cones(vision: str) -> None:
    seen = [lightness(np.array(VISIONS[vision]) @ linear(color)) for color in COLORS]
    # The nearest two of Okabe and Ito's own colours are 16 apart.
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)) > 16


def test_no_two_of_fifty_lines_look_the_same_without_colours() -> None:
    looks = [(style["marker"], style["fillstyle"], style["linestyle"]) for style in islice(line_styles(), 50)]
    assert len(set(looks)) == 50
    # Where marks lie close together, or there is one alone, either is enough.
    assert (
        len({(marker, fill) for marker, fill, _ in looks}) == len({(marker, dash) for marker, _, dash in looks}) == 50
    )


@pytest.mark.parametrize("fills", [None, HALVES], ids=["hollow", "halves"])
def test_no_two_of_fifty_sorts_of_marks_look_the_same_without_colours(fills) -> None:
    styles = list(islice(point_styles() if fills is None else point_styles(fills), 50))
    looks = {(style["marker"], style["fillstyle"]) for style in styles}
    assert len(looks) == 50
    assert fills is None or not looks & {(hollow(style)["marker"], "none") for style in styles}


def picture(hatch: str) -> Floats:
    """Return the greys of a grey area that is hatched so, as large as a short bar."""
    figure = Figure(figsize=(0.4, 0.4), dpi=150)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.axis("off")
    ax.bar([0.5], [1], width=1, facecolor="0.5", hatch=hatch, edgecolor="white", linewidth=0)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., 0] / 255.0


def test_no_two_of_twenty_areas_look_the_same_without_colours() -> None:
    pictures = {style["hatch"]: picture(style["hatch"]) for style in islice(area_styles(), 20)}
    assert len(pictures) == 20
    # An eighth of all points differs by a fifth of the way from black to white: that is a line in eight.
    differing = {
        (one, other): float(np.mean(np.abs(pictures[one] - pictures[other]) > 0.2))
        for one, other in combinations(pictures, 2)
    }
    assert not [pair for pair, share in differing.items() if share < 0.125]
