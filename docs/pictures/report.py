"""Take the picture of the tutorial's report, by Chromium, which ``make browser`` installs.

The page is that of the tutorial: the V100's answer about the matrix multiplication.

    .venv/bin/python docs/pictures/report.py docs/pictures/report.png
"""

import sys
from importlib import import_module
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory

from playwright.sync_api import sync_playwright

import loopyperf as lpp

TUTORIAL = Path(__file__).parents[1] / "tutorial"
WIDTH, HEIGHT = 900, 820


def main() -> None:
    """Take it into the file that is named."""
    sys.path.append(str(TUTORIAL))
    tiled = import_module("matmul").tiled

    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = lpp.report(tiled(), n=4096, device="nvidia-v100").save(Path(folder) / "report.html")
        browser = playwright.chromium.launch(executable_path=which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        tab.goto(page.as_uri())
        tab.screenshot(path=sys.argv[1])


if __name__ == "__main__":
    main()
