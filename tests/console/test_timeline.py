"""The timeline: what ran where, and how full and how slow the pool was. On a pool without Ray, with
histories that are made up."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from support.console import Console, OpenConsole
from support.plane import Plane
from support.pool import Pool

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    "chinese": {"locale": "zh-CN"},
}
HOUR = 3_600_000
OWNERS = ["ann", "bob", "carol", "dave", "erin", "frank", "grace", "heidi"]


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Plane]:
    """Two clusters that never answer."""
    clusters = [
        SimpleNamespace(
            name=name, head_address="127.0.0.1:1", dashboard="http://127.0.0.1:1", token_file=None
        )
        for name in ("centos", "mac")
    ]
    plane = Plane(tmp_path, Pool(clusters))
    plane.start()
    yield plane
    plane.close()


def runs(now: int) -> list[dict[str, Any]]:
    """A day on two clusters, the latest ended first."""
    chance = random.Random(19)
    made = []
    for nth in range(160):
        cluster = "centos" if chance.random() < 0.6 else "mac"
        ended = now - int(chance.random() ** 1.3 * 24 * HOUR) - 60_000
        ran = chance.choice([20, 300, 900, 2400, 5400])
        made.append(
            {
                **({} if nth % 9 == 0 else {"id": f"report-{nth}"}),
                "submitted_at": ended - (ran + 60) * 1000,
                "started_at": ended - ran * 1000,
                "ended_at": ended,
                "ran_seconds": ran,
                "state": chance.choice(["succeeded"] * 8 + ["failed", "stopped"]),
                "cluster": cluster,
                "owner": OWNERS[int(chance.random() ** 2 * len(OWNERS))],
                "priority": 0,
                "demand": {"CPU": 4},
                "tags": [],
                "required": False,
                "inside": False,
            }
        )
    return sorted(made, key=lambda run: -run["ended_at"])


def history(since: int, now: int) -> dict[str, Any]:
    """Fuller by day; nothing is known of two hours in the middle."""
    step = next(s for s in (300, 1800, 7200) if (now - since) / s / 1000 <= 400) * 1000
    moments = list(range(since // step * step, now, step))
    middle = (since + now) // 2
    moments = [at for at in moments if abs(at - middle) > HOUR]
    day = [abs((at // HOUR) % 24 - 12) / 12 for at in moments]
    count = len(moments)
    cluster = {
        "cpu": [round(0.2 + 0.6 * share, 3) for share in day],
        "gpu": [None] * count,
        "memory": [round(0.1 + 0.3 * share, 3) for share in day],
        "live": [int(9 * share) for share in day],
        "waiting": [0] * count,
        "healthy": [True] * count,
    }
    lists = {
        name: [0] * count for name in ("submitted", "started", "succeeded", "failed", "stopped")
    }
    return {
        "step_seconds": step // 1000,
        "at": moments[-1],
        "moments": moments,
        "clusters": {"centos": cluster, "mac": {**cluster, "gpu": [0.5] * count}},
        "pool": {**lists, "waiting": [int(4 * s) for s in day], "live": [int(18 * s) for s in day]},
        "waits": {
            "moments": moments[::2],
            "jobs": [3] * len(moments[::2]),
            "p50": [5 + 20 * share for share in day[::2]],
            "p90": [20 + 90 * share for share in day[::2]],
            "p99": [40 + 300 * share for share in day[::2]],
        },
    }


def make_up(page: Page) -> list[dict[str, list[str]]]:
    """The page gets these histories; returns what it asked for of the runs."""
    now = int(time.time() * 1000)
    asked: list[dict[str, list[str]]] = []

    def answer(route: Route, body: Any) -> None:
        route.fulfill(status=200, content_type="application/json", body=json.dumps(body))

    def answer_runs(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        asked.append(query)
        since, until = (int(query[name][0]) for name in ("since", "until"))
        within = [
            run
            for run in runs(now)
            if run["ended_at"] >= since and run["ended_at"] - run["ran_seconds"] * 1000 < until
        ]
        answer(route, {"items": within})

    def answer_history(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        if "since" in query:
            answer(route, history(int(query["since"][0]), now))
        else:
            route.continue_()

    page.route("**/v1/runs*", answer_runs)
    page.route("**/v1/history*", answer_history)
    return asked


def drag(console: Console, since: float, until: float) -> None:
    box = console.page.locator("svg.lanes").first.bounding_box()
    assert box
    mouse, y = console.page.mouse, box["y"] + 5
    mouse.move(box["x"] + since * box["width"], y)
    mouse.down()
    mouse.move(box["x"] + until * box["width"], y, steps=5)
    mouse.up()


def test_what_ran_where_is_shown_zoomed_and_opened(idle: Plane, open_console: OpenConsole) -> None:
    console = open_console(idle)
    page = console.page
    asked = make_up(page)
    console.open("#/")
    page.get_by_role("link", name="Timeline").click()
    expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
    centos = page.get_by_role("img", name=re.compile(r"^centos, \d+ jobs, \d+ Succeeded"))
    expect(centos).to_be_visible()
    expect(page.locator(".runs-head .legend-item")).to_have_count(3)
    page.get_by_role("button", name="By owner").click()
    expect(page.locator(".runs-head .legend-item")).to_have_count(7)
    expect(page.get_by_text("2 other owners")).to_be_visible()
    drag(console, 0.5, 0.75)
    expect(page).to_have_url(re.compile(r"zoom=\d{13}-\d{13}"))
    expect(page.get_by_role("button", name="Show all")).to_be_visible()
    since, until = (int(asked[-1][name][0]) for name in ("since", "until"))
    assert abs((until - since) - 6 * HOUR) < HOUR / 4, "a quarter of the day is asked for"
    page.get_by_role("button", name="Show all").click()
    expect(page).not_to_have_url(re.compile("zoom="))
    # The job of a bar: found by moving over the first line.
    box = centos.bounding_box()
    assert box
    for x in range(0, 1000, 5):
        page.mouse.move(box["x"] + box["width"] * x / 1000, box["y"] + 5)
        pointed = page.locator("[data-pointed]").get_attribute("data-pointed")
        if pointed:
            break
    expect(page.locator(".runs-read")).to_contain_text("centos")
    # The made-up job is not there.
    with console.expecting("404"):
        page.mouse.down()
        page.mouse.up()
        expect(page).to_have_url(re.compile(f"#/jobs/{pointed}$"))
        page.wait_for_timeout(500)


def test_charts_show_a_day_a_week_or_a_month(idle: Plane, open_console: OpenConsole) -> None:
    console = open_console(idle)
    page = console.page
    make_up(page)
    console.open("#/timeline")
    expect(page.get_by_text("in steps of 5 min")).to_be_visible()
    for name in ("centos", "mac", "Running and queued"):
        expect(page.get_by_role("img", name=name, exact=True)).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("^Waits of .* jobs"))).to_be_visible()
    page.get_by_role("button", name="30 days").click()
    expect(page.get_by_text("in steps of 2 h")).to_be_visible()
    expect(page).to_have_url(re.compile("days=30"))


def test_a_new_pool_says_that_nothing_ran(idle: Plane, open_console: OpenConsole) -> None:
    console = open_console(idle)
    console.open("#/timeline")
    expect(console.page.get_by_text("No job ran in this time")).to_be_visible()
    expect(console.page.get_by_text("in steps of 5 min")).to_be_visible()


@pytest.mark.parametrize("look", LOOKS)
def test_the_page_fits_in_every_look(idle: Plane, open_console: OpenConsole, look: str) -> None:
    console = open_console(idle, **LOOKS[look])
    page = console.page
    make_up(page)
    console.open("#/timeline" if look != "dark" else "#/timeline?by=owner&days=30")
    expect(page.locator(".charts .chart")).to_have_count(4)
    console.fits(f"timeline-{look}")
