"""Tests that lines, marks and areas differ without color, and are visible on light and dark backgrounds."""

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
MIN_CONTRAST = 3.0
"""minimum contrast of graphical objects with their background: WCAG 2.1, 1.4.11"""
STYLE = files("loopyperf.explain").joinpath("template/page.css").read_text(encoding="utf-8")
BACKGROUNDS = ["#ffffff", *re.findall(r"--ground: (#[0-9a-f]{6})", STYLE)]
"""of print, and of a report in dark mode"""


def linear(color: str) -> Floats:
    """Return the components of *color* as linear light (IEC 61966-2-1)."""
    parts = np.array(to_rgb(color))
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2.1."""
    dark, light = sorted(float(linear(color) @ [0.2126, 0.7152, 0.0722]) for color in (one, other))
    return (light + 0.05) / (dark + 0.05)


def test_report_has_a_dark_background() -> None:
    assert len(BACKGROUNDS) == 2
    assert contrast(*BACKGROUNDS) > 15


def test_colors_contrast_with_both_backgrounds(subtests: pytest.Subtests) -> None:
    for ground in BACKGROUNDS:
        for color in [*COLORS, *SHADES, "grey"]:
            with subtests.test(ground=ground, color=color):
                assert contrast(color, ground) >= MIN_CONTRAST


def test_hatching_contrasts_with_its_area() -> None:
    for style in islice(area_styles(), len(COLORS)):
        assert contrast(style["facecolor"], style["edgecolor"]) >= MIN_CONTRAST


# Machado, Oliveira and Fernandes, A Physiologically-based Model for Simulation of Color Vision Deficiency (2009),
# table 1, severity 1.0; the matrices apply to linear light.
VISIONS = {
    "trichromat": np.eye(3),
    "protanope": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranope": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanope": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def cielab(light: Floats) -> Floats:
    """Return CIELAB's L*, a* and b* of linear red, green and blue light, for the white point of sRGB."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratio = to_xyz @ np.clip(light, 0, 1) / [0.9505, 1.0, 1.089]
    x, y, z = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISIONS)
def test_colors_are_distinct_with_color_vision_deficiency(vision: str) -> None:
    seen = [cielab(np.array(VISIONS[vision]) @ linear(color)) for color in COLORS]
    # The two closest colors of Okabe and Ito's palette are 16 apart.
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)) > 16


def test_fifty_lines_are_distinct_without_color() -> None:
    looks = [(style["marker"], style["fillstyle"], style["linestyle"]) for style in islice(line_styles(), 50)]
    assert len(set(looks)) == 50
    # Marker and fill style are enough (dense markers, a single marker), and so are marker and dashes.
    assert (
        len({(marker, fill) for marker, fill, _ in looks}) == len({(marker, dash) for marker, _, dash in looks}) == 50
    )


@pytest.mark.parametrize("fills", [None, HALVES], ids=["hollow", "halves"])
def test_fifty_markers_are_distinct_without_color(fills) -> None:
    styles = list(islice(point_styles() if fills is None else point_styles(fills), 50))
    looks = {(style["marker"], style["fillstyle"]) for style in styles}
    assert len(looks) == 50
    assert fills is None or not looks & {(hollow(style)["marker"], "none") for style in styles}


def picture(hatch: str) -> Floats:
    """Return the gray levels of a gray area with *hatch*, as large as a short bar."""
    figure = Figure(figsize=(0.4, 0.4), dpi=150)
    ax = figure.add_axes((0, 0, 1, 1))
    ax.axis("off")
    ax.bar([0.5], [1], width=1, facecolor="0.5", hatch=hatch, edgecolor="white", linewidth=0)
    ax.set(xlim=(0, 1), ylim=(0, 1))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., 0] / 255.0


def test_twenty_areas_are_distinct_without_color() -> None:
    pictures = {style["hatch"]: picture(style["hatch"]) for style in islice(area_styles(), 20)}
    assert len(pictures) == 20
    # An eighth of the pixels must differ by a fifth of the range from black to white: one line in eight.
    differing = {
        (one, other): float(np.mean(np.abs(pictures[one] - pictures[other]) > 0.2))
        for one, other in combinations(pictures, 2)
    }
    assert not [pair for pair, share in differing.items() if share < 0.125]
