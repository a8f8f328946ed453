"""The console as a user has it open, in a browser that records problems."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Callable

from playwright.sync_api import BrowserContext, Page

from .made_up import MadeUp
from .plane import REPOSITORY, Plane

SCREENSHOTS = REPOSITORY / "target/console-screenshots"


class Console:
    """One page of it. Unexpected errors are in `problems` at the end."""

    def __init__(self, context: BrowserContext, plane: Plane | MadeUp):
        self.plane = plane
        self.page: Page = context.new_page()
        self.problems: list[str] = []
        self._expected: list[re.Pattern[str]] = []
        self.page.on("console", lambda message: self._heard(message.type, message.text))
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        self.page.on("request", lambda request: self._asked(request.url))

    def open(self, route: str = "#/") -> Page:
        """Loads the page and waits until it is live."""
        self.page.goto(f"{self.plane.address}/{route}")
        self.wait_live()
        # Lost with every load, so it shows whether there was another.
        self.page.evaluate("window.sameLoad = true")
        return self.page

    def go(self, route: str) -> None:
        """To another page of the console, without a load."""
        self.page.evaluate("route => { location.hash = route }", route)

    def wait_live(self) -> None:
        self.page.locator("[data-connection=live]").wait_for(state="attached")

    def is_same_load(self) -> bool:
        return bool(self.page.evaluate("window.sameLoad === true"))

    @contextmanager
    def expecting(self, pattern: str) -> Iterator[None]:
        """Allows the browser's own reports of requests that fail on purpose."""
        self._expected.append(re.compile(pattern))
        yield
        # Messages arrive with the next call to the browser.
        self.page.evaluate("1")
        self._expected.pop()

    def screenshot(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")

    def fits(self, name: str) -> None:
        """Takes a picture of the page when nothing moves any more, and looks at what is on it."""
        self.page.wait_for_timeout(600)
        self.screenshot(name)
        wide = self.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} is {wide} px too wide"
        shown = self.page.locator("main").inner_text()
        assert not re.search("undefined|NaN", shown), name

    def _heard(self, kind: str, text: str) -> None:
        if kind == "error" and not any(each.search(text) for each in self._expected):
            self.problems.append(f"console error: {text}")

    def _asked(self, url: str) -> None:
        if not url.startswith((self.plane.address + "/", "data:")):
            self.problems.append(f"request to another host: {url}")


# Opens the console of a plane in a browser context of its own: see `open_console` in conftest.
OpenConsole = Callable[..., Console]
