"""The page of advice: what would have shortened the waits, and how to try it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from support.console import Console, OpenConsole
from support.plane import Plane

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    "chinese": {"locale": "zh-CN"},
}


def waits(mean: float) -> dict[str, float]:
    return {
        "mean_seconds": mean,
        "median_seconds": mean / 2,
        "p95_seconds": mean * 3,
        "longest_seconds": mean * 5,
    }


def line(kind: str, text: str, set_: str, mean: float) -> dict[str, Any]:
    return {
        "kind": kind,
        "text": text,
        "sure": "4,812 jobs in 14 d, better in both halves",
        "set": set_,
        "command": f"ray-multicluster replay --since 14d --set {set_}",
        "waits": waits(mean),
        "clusters": [
            {"cluster": "centos", "resource": "CPU", "mean": 0.41, "peak": 0.72},
            {"cluster": "mac", "resource": "memory", "mean": 0.52, "peak": 0.88},
        ],
    }


WORKING = {
    "state": "working",
    "tried": 3,
    "of": 14,
    "days": 14,
    "jobs": 0,
    "little": False,
    "basis": "",
    "summary": "replaying the history",
    "items": [],
    "notes": [],
}
DONE = {
    **WORKING,
    "state": "done",
    "tried": 14,
    "at": 1_700_000_000_000,
    "jobs": 4812,
    "basis": "4,812 jobs in 14 d",
    "summary": "mean wait 41 min, longest 3 h 20 min",
    "waited_seconds": 2400.0,
    "waits": waits(2460),
    "items": [
        line(
            "settings",
            "resource_threshold 0.7 → 0.9: mean wait 41 min → 6 min, mac at most 88 % full",
            "resource_threshold=0.9",
            360,
        ),
        line("cluster", "one more cluster like mac: mean wait 41 min → 2 min", "one_more=mac", 120),
        {
            "kind": "owners",
            "text": "research waits 9.1 × longer than trading: 45 min against 5 min",
            "sure": "4,812 jobs in 14 d",
            "clusters": [],
        },
    ],
    "notes": ["run times are taken as they were", "others use mac, too"],
}


def answering(console: Console, *answers: dict[str, Any]) -> list[str]:
    """The control plane gives these answers, then the last one again and again."""
    asked: list[str] = []

    def fulfill(route: Route) -> None:
        asked.append(route.request.url)
        answer = answers[min(len(asked), len(answers)) - 1]
        route.fulfill(status=200, content_type="application/json", body=json.dumps(answer))

    console.page.route("**/v1/advice*", fulfill)
    return asked


def test_a_pool_without_history_is_told_so(plane: Plane, open_console: OpenConsole) -> None:
    console = open_console(plane)
    page = console.page
    console.open("#/")
    page.get_by_role("link", name="Advice").click()
    expect(page.get_by_role("heading", name="Advice")).to_be_visible()
    expect(page.get_by_text("little history:")).to_be_visible()
    expect(page.get_by_text("Nothing was changed.")).to_be_visible()


def test_what_would_have_helped_is_shown_when_it_is_computed(
    plane: Plane, open_console: OpenConsole
) -> None:
    console = open_console(plane)
    page = console.page
    asked = answering(console, WORKING, DONE)
    console.open("#/advice?days=7")
    expect(page.get_by_text("3 of 14 replays")).to_be_visible()
    best = page.locator("[data-set='resource_threshold=0.9']")
    expect(best.get_by_role("heading")).to_contain_text("mean wait 41 min → 6 min")
    expect(best.get_by_text("better in both halves")).to_be_visible()
    expect(best.locator("code")).to_have_text(
        "ray-multicluster replay --since 14d --set resource_threshold=0.9"
    )
    expect(best.get_by_role("meter", name="Mean wait now")).to_have_attribute(
        "aria-valuenow", "2460"
    )
    expect(best.get_by_role("meter", name="With it")).to_have_attribute("aria-valuenow", "360")
    expect(page.get_by_text("research waits 9.1 × longer")).to_be_visible()
    assert asked[-1].endswith("days=7")
    page.get_by_label("History").select_option("31")
    expect(page).to_have_url(f"{plane.address}/#/advice?days=31")
    expect(best).to_be_visible()
    assert asked[-1].endswith("days=31")


@pytest.mark.parametrize("look", LOOKS)
def test_the_page_fits_in_every_look(plane: Plane, open_console: OpenConsole, look: str) -> None:
    console = open_console(plane, **LOOKS[look])
    page = console.page
    answering(console, DONE)
    console.open("#/advice")
    expect(page.locator("[data-set='one_more=mac']")).to_be_visible()
    console.fits(f"advice-{look}")
