"""A headless browser for tests of pages, with the requests and the errors of the page.

It is Debian's Chromium, started through Playwright; `make browser` installs it.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium")
QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="there is no chromium: make browser, as root on Debian, installs it"
)


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the browser, and close it at the end."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: make env")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield opened
        opened.close()


class Watched:
    """A page with its requests, console messages and errors."""

    def __init__(self, browser: Any, address: str, **options: Any) -> None:
        self.page = browser.new_context(**options).new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of the visible elements."""
        return [each.strip() for each in self.seen(selector).all_inner_texts()]

    def seen(self, selector: str) -> Any:
        """Return the visible elements."""
        return self.page.locator(selector).filter(visible=True)


@contextmanager
def watching(browser: Any, address: str, **options: Any) -> Iterator[Watched]:
    """Open a page; fail at the end if it had errors or messages, or requested anything except itself."""
    opened = Watched(browser, address, **options)
    yield opened
    assert opened.complaints == []
    assert set(opened.requests) == {address}
    opened.page.context.close()
