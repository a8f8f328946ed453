"""What needs an operator at a glance, and what a token may not do: on a made-up plane."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, Response, expect

from support.console import OpenConsole
from support.made_up import HOUR, MadeUp, head, job, now, ray_failure, verdict

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    "chinese": {"locale": "zh-CN"},
}
MISSING = "KeyError: 'fund'\n"
ALL = ["queued,running,failed"]


def fill(plane: MadeUp) -> None:
    minute = HOUR // 60
    waits = job("waits", "queued", submitted_at=now() - 9 * minute, owner="ann")
    huge = [
        job(f"huge-{n}", "queued", submitted_at=now() - 125 * minute - n, demand={"CPU": 64})
        for n in range(3)
    ]
    jobs = [
        waits,
        *huge,
        job("runs", submitted_at=now() - 30 * minute, owner="ann"),
        job("broke", "failed", submitted_at=now() - 40 * minute, message=ray_failure(1, MISSING)),
        job(
            "old", "failed", submitted_at=now() - 5 * HOUR, message=ray_failure(1, "OSError: full")
        ),
    ]
    plane.jobs = jobs
    plane.answers["GET /v1/jobs"] = lambda _path, query, _body: {
        "items": [each for each in jobs if each["state"] in query.get("state", ALL)[0]]
    }
    why = "64 CPU needed, 32 in total"
    small = [verdict(name, "infeasible", why) for name in ("centos", "mac")]
    soon = verdict("centos", "too_soon", "next submission allowed in 28 s")
    busy = verdict("mac", "over_threshold", "busy: CPU 82 % in use, limit 70 %")
    plane.heads = [head(waits, 1, soon, busy), head(huge[2], 3, *small)]


def expect_ids(page: Page, *names: str) -> None:
    expect(page.locator(".virtual-row .c-id")).to_have_text(list(names))


@pytest.mark.parametrize(
    ("figure", "jobs"),
    [
        ("Failed, last hour: 1", ["broke"]),
        ("Longest wait: 2 h", ["huge-2", "huge-1", "huge-0", "waits"]),
        ("Can never run: 3", ["huge-0", "huge-1", "huge-2"]),
        ("Queued: 4", ["waits", "huge-0", "huge-1", "huge-2"]),
        ("Running: 1", ["runs"]),
    ],
)
def test_each_figure_of_the_overview_leads_to_its_jobs(
    made_up: MadeUp, open_console: OpenConsole, figure: str, jobs: list[str]
) -> None:
    fill(made_up)
    page = open_console(made_up).open()
    page.get_by_role("link", name=figure, exact=True).click()
    expect_ids(page, *jobs)


def test_the_overview_shows_the_latest_failures_with_their_reasons(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    fill(made_up)
    page = open_console(made_up).open()
    rows = page.get_by_role("region", name="Recent failures").get_by_role("listitem")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("broke")
    expect(rows.first).to_contain_text("KeyError: 'fund'")
    expect(page.get_by_role("region", name="Running longest")).to_contain_text("runs")


@pytest.mark.parametrize("look", LOOKS)
def test_the_pages_fit_in_every_look(made_up: MadeUp, open_console: OpenConsole, look: str) -> None:
    fill(made_up)
    console = open_console(made_up, **LOOKS[look])
    page = console.open()
    for name, route, sign in [
        ("glance", "#/", ".figure-bad"),
        ("list", "#/jobs", ".virtual-row .exit"),
    ]:
        console.go(route)
        expect(page.locator(sign).first).to_be_visible()
        console.fits(f"{name}-{look}")


@pytest.mark.parametrize("width", [1280, 1000, 760])
@pytest.mark.parametrize("locale", ["en-GB", "zh-CN"])
def test_durations_and_tags_are_not_cut_in_the_middle(
    made_up: MadeUp, open_console: OpenConsole, locale: str, width: int
) -> None:
    day = 23 * HOUR + 58 * HOUR // 60
    tags = ["linux", "nightly", "tradebot", "fund"]
    made_up.jobs = [job("long", submitted_at=now() - day, tags=tags, owner="ann")]
    console = open_console(made_up, locale=locale, viewport={"width": width, "height": 800})
    page = console.open("#/jobs")
    fits = "cells => cells.every(cell => cell.scrollWidth <= cell.clientWidth)"
    expect(page.locator(".virtual-row .c-span")).to_contain_text("23")
    assert page.locator(".virtual-row .c-span, .virtual-row .c-time").evaluate_all(fits)
    box = page.locator(".virtual-row")
    assert box.evaluate("row => row.scrollWidth <= row.clientWidth"), "the columns fit"
    if width == 1280:
        assert page.locator(".virtual-row .c-tags").evaluate_all(fits)
        expect(page.locator(".virtual-row .tag-more")).to_have_text("+3")


def test_a_read_token_sees_no_live_buttons(made_up: MadeUp, open_console: OpenConsole) -> None:
    fill(made_up)
    made_up.version.update(owner="grafana", role="read")
    console = open_console(made_up)
    page = console.open("#/jobs")
    expect(page.get_by_text("grafana · Read only")).to_be_visible()
    expect(page.locator(".virtual-row").first).to_be_visible()
    assert page.get_by_role("checkbox").count() == 0
    assert page.get_by_role("link", name="Submit a job").count() == 0
    why = re.compile("^Your token has the role read; this needs the role (submit|admin).$")
    places = {
        "#/jobs/runs": ["stop"],
        "#/jobs/broke": ["rerun"],
        "#/clusters/mac": ["check", "cordon", "drain"],
    }
    for place, actions in places.items():
        console.go(place)
        for action in actions:
            button = page.locator(f"[data-action={action}]")
            expect(button).to_be_disabled()
            expect(button).to_have_attribute("title", why)
    console.go("#/submit")
    expect(page.get_by_role("button", name="Submit")).to_be_disabled()
    expect(page.get_by_text(why)).to_be_visible()


def test_a_submit_token_does_not_operate_clusters(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    fill(made_up)
    made_up.version.update(owner="ann", role="submit")
    console = open_console(made_up)
    page = console.open("#/jobs/runs")
    expect(page.locator("[data-action=stop]")).to_be_enabled()
    expect(page.locator(".facts").get_by_role("link", name="ann")).to_be_visible()
    console.go("#/clusters/mac")
    expect(page.locator("[data-action=drain]")).to_be_disabled()


def test_the_first_load_is_small(made_up: MadeUp, open_console: OpenConsole) -> None:
    console = open_console(made_up)
    loaded: dict[str, int] = {}

    def count(response: Response) -> None:
        if "/v1/" not in response.url:
            loaded[response.url] = len(response.body())

    console.page.on("response", count)
    console.open()
    assert len(loaded) >= 3, "the page, its script and its style"
    assert sum(loaded.values()) < 250_000, loaded
