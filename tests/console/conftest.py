"""A real browser. An error on a page that the test did not expect fails the test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from support import ports
from support.console import Console, OpenConsole
from support.made_up import MadeUp
from support.plane import REPOSITORY, Plane
from support.pool import Pool
from support.waiting import PATIENCE

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)


# Not for the session: while it lives, this thread has a running event loop, which breaks tests of
# Ray's own asynchronous calls.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    # A debug build reads the console from the disk, so it must be built.
    subprocess.run([REPOSITORY / "scripts/console"], check=True)
    found = subprocess.run(
        [REPOSITORY / "scripts/chromium"], check=True, stdout=subprocess.PIPE, text=True
    )
    path = found.stdout.strip()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS.split())
        yield browser
        browser.close()


@pytest.fixture
def open_console(browser: Browser, request: pytest.FixtureRequest) -> Iterator[OpenConsole]:
    """Consoles in browser contexts of their own; `options` are those of a context."""
    opened: list[tuple[BrowserContext, Console]] = []

    def make(plane: Plane | MadeUp, **options: Any) -> Console:
        options = {"viewport": {"width": 1280, "height": 800}, "locale": "en-GB", **options}
        context = browser.new_context(**options)
        context.set_default_timeout(30_000 * PATIENCE)
        console = Console(context, plane)
        opened.append((context, console))
        return console

    yield make
    for context, console in opened:
        if getattr(request.node, "failed_half_way", False):
            console.screenshot(f"failed-{request.node.name}")
        context.close()
    problems = [problem for _, console in opened for problem in console.problems]
    assert not problems, "\n".join(problems)


@pytest.fixture
def console(plane: Plane, open_console: OpenConsole) -> Console:
    return open_console(plane)


@pytest.fixture
def lone_plane(tmp_path: Path) -> Iterator[Plane]:
    """A real control plane whose one cluster never answers: for pages that need no cluster."""
    nobody = SimpleNamespace(
        name="centos",
        head_address="127.0.0.1:10001",
        dashboard=f"http://127.0.0.1:{ports.a_port()}",
        token_file=None,
    )
    plane = Plane(tmp_path / "plane", Pool([nobody]))  # type: ignore[list-item]
    plane.start()
    yield plane
    plane.close()


@pytest.fixture
def made_up() -> Iterator[MadeUp]:
    """A control plane whose answers the test chooses. It needs no cluster."""
    plane = MadeUp()
    yield plane
    plane.close()
