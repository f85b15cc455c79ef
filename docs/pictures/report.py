"""Take the screenshot of the report in the tutorial with Chromium, which ``make browser`` installs.

The report is that of the tutorial's matrix multiplication on a V100.

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
    """Save the screenshot to the file given on the command line."""
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
