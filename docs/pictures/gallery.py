"""Draw the pictures of docs/howto/pictures.md, of the tutorial's matrix multiplication, into a folder.

They are what the models say today, and ``tests/test_pictures.py`` compares the words and numbers in them.

    .venv/bin/python docs/pictures/gallery.py docs/pictures
"""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from saving import save

import loopyperf as lpp
from loopyperf.explain import plots

DOCS = Path(__file__).parents[1]
DEVICE = "nvidia-v100"


def pictures() -> dict[str, Callable[[], Figure]]:
    """Return file name -> what draws it; hatches take less room as pixels."""
    sys.path.append(str(DOCS / "tutorial"))
    tiled = import_module("matmul").tiled  # beside the documents
    knl = tiled()
    fury = lpp.estimate(knl, n=4096, device="amd-r9-fury")
    sizes = lpp.estimate(knl, n=np.array([256, 512, 1024, 2048]), device=DEVICE, model="pipeline")
    return {
        "roofline.svg": lambda: plots.plot_roofline(lpp.roofline(knl, n=128, device=DEVICE)),
        "roofline_variants.svg": lambda: plots.plot_roofline(
            {f"tiles of {tile}": lpp.roofline(tiled(tile), n=128, device=DEVICE) for tile in (4, 8, 16)}
        ),
        "roofline_devices.svg": lambda: plots.plot_roofline(
            [lpp.roofline(knl, n=128, device=each) for each in (DEVICE, "amd-r9-fury")]
        ),
        "breakdown.svg": lambda: plots.plot_breakdown(fury),
        "sizes.svg": lambda: plots.plot_sizes(sizes, "n"),
        "occupancy.svg": lambda: plots.plot_over_occupancy(lpp.compare_occupancies(knl, n=1024, device=DEVICE)),
        "profile.png": lambda: plots.plot_profile(lpp.trace(knl, n=1024, device=DEVICE).launches[0].profile),
        "mix.png": lambda: plots.plot_mix(
            {f"tiles of {tile}": lpp.instruction_graph(tiled(tile), n=1024).mix() for tile in (8, 16, 32)}
        ),
        "benefits.svg": lambda: plots.plot_benefits(
            {f"tiles of {tile}": lpp.advise(tiled(tile), n=1024, device=DEVICE)[0] for tile in (4, 8, 16)}
        ),
    }


def main() -> None:
    """Draw all of them into the folder that is named."""
    for name, draw in pictures().items():
        save(draw(), Path(sys.argv[1]) / name)


if __name__ == "__main__":
    main()
