"""The page itself: its size, keyboard access, what it remembers, how it looks."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from support.console import Console, OpenConsole
from support.jobs import unique_id
from support.plane import MakePlane, Plane
from support.waiting import PATIENCE, wait_until

RAY_MS = 60_000 * PATIENCE
MOST_BYTES = 300_000
FIRST_PAINT_MS = 1000

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    "chinese": {"locale": "zh-CN"},
}


def test_the_first_load_is_small_and_quick(console: Console) -> None:
    page = console.open()
    expect(page.locator("[data-cluster=mac] .meter").first).to_be_visible()
    measured = page.evaluate(
        """() => {
          const loads = performance.getEntriesByType('resource')
            .concat(performance.getEntriesByType('navigation'));
          const paint = performance.getEntriesByName('first-contentful-paint')[0];
          return {
            bytes: loads.reduce((sum, load) => sum + load.transferSize, 0),
            paint: paint.startTime,
            files: loads.filter(load => load.name.includes('/assets/')).length,
          };
        }"""
    )
    print(measured)
    assert measured["files"] >= 2, "the script and the style were counted"
    assert measured["bytes"] < MOST_BYTES
    assert measured["paint"] < FIRST_PAINT_MS * PATIENCE


def test_everything_can_be_reached_by_keys(console: Console, plane: Plane) -> None:
    job_id = unique_id("keys")
    plane.post("/v1/jobs", {"id": job_id, "entrypoint": "sleep 600"})
    page = console.open()
    page.keyboard.press("?")
    shortcuts = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(shortcuts).to_be_visible()
    page.keyboard.press("Escape")
    expect(shortcuts).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("j")
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()

    page.keyboard.press("/")
    page.keyboard.type(job_id)
    expect(page.locator("[data-count='1']")).to_be_visible()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == job_id
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name=job_id)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("searchbox")).to_have_value(job_id)
    page.go_forward()

    tab_to(page, "[data-action=stop]")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    tab_to(page, "dialog .danger")
    page.keyboard.press("Enter")
    expect(page.locator(".page-head [data-state=stopped]")).to_be_visible(timeout=RAY_MS)


def tab_to(page: Page, selector: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", "one sees where one is"
            return
    raise AssertionError(f"sixty times Tab did not lead to {selector}")


def test_language_and_theme_are_remembered(console: Console) -> None:
    page = console.open()
    expect(page.get_by_role("link", name="Overview")).to_be_visible()
    page.get_by_role("button", name="切换到简体中文").click()
    expect(page.get_by_role("link", name="概览")).to_be_visible()
    page.locator("[data-theme-switch=system]").click()
    page.locator("[data-theme-switch=light]").click()
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")

    page.reload()
    expect(page.get_by_role("link", name="概览")).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    expect(page.locator("[data-theme-switch=dark]")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == dark
    page.get_by_role("button", name="Switch to English").click()
    expect(page.get_by_role("link", name="Overview")).to_be_visible()


def test_what_is_not_there_says_so(console: Console) -> None:
    page = console.open("#/nowhere")
    expect(page.get_by_text("Page not found")).to_be_visible()
    console.go("#/clusters/moc")
    expect(page.get_by_text("Cluster moc not found")).to_be_visible()
    with console.expecting("404"):
        console.go("#/jobs/nobody")
        expect(page.get_by_text("Job nobody not found")).to_be_visible()
    console.screenshot("unknown-job-light")


@pytest.fixture(scope="module")
def lived_in(plane: Plane) -> dict[str, str]:
    """One job for each kind of page: failed, running, and one whose demand no cluster can meet."""
    ids = {name: unique_id(name) for name in ("failed", "running", "waiting")}
    env = {"env_vars": {"API_TOKEN": "s3cret", "MODE": "nightly"}}
    speak = "for i in $(seq 200); do echo epoch $i loss 0.$((1000 - i)); done"
    wanted: list[dict[str, Any]] = [
        {"id": ids["failed"], "entrypoint": f"{speak}; exit 3", "max_retries": 1},
        {"id": ids["running"], "entrypoint": f"{speak}; sleep 600", "tags": ["linux", "nightly"]},
        {"id": ids["waiting"], "entrypoint": "python train.py", "entrypoint_num_cpus": 64},
    ]
    for job in wanted:
        plane.post("/v1/jobs", {**job, "runtime_env": env})
    wait_until(
        lambda: (
            plane.native_job(ids["failed"])["state"] == "failed"
            and plane.native_job(ids["running"])["state"] == "running"
        ),
        "one has failed and one runs",
        120,
    )
    return ids


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_fits_in_every_look(
    plane: Plane, lived_in: dict[str, str], open_console: OpenConsole, look: str
) -> None:
    console = open_console(plane, **LOOKS[look])
    page = console.open()
    pages = {
        "overview": ("#/", ".card .meter"),
        "jobs": ("#/jobs", ".virtual-row"),
        "job-running": (f"#/jobs/{lived_in['running']}", ".log pre"),
        "job-failed": (f"#/jobs/{lived_in['failed']}", ".message-bad"),
        "job-waiting": (f"#/jobs/{lived_in['waiting']}", "[data-reason=infeasible]"),
        "queue": ("#/queue", "[data-head]"),
        "cluster": ("#/clusters/centos", ".chart"),
        "events": ("#/events", ".virtual-row"),
        "submit": ("#/submit", ".preview .verdicts"),
    }
    for name, (route, sign) in pages.items():
        console.go(route)
        expect(page.locator(sign).first).to_be_visible()
        console.fits(f"{name}-{look}")
        assert page.locator(".problem").count() == 0, name


def test_an_empty_pool_is_not_an_error(make_plane: MakePlane, open_console: OpenConsole) -> None:
    plane = make_plane()
    console = open_console(plane)
    page = console.open()
    expect(page.get_by_text("The queue is empty")).to_be_visible()
    expect(page.get_by_text("No jobs placed yet")).to_be_visible()
    console.screenshot("overview-empty-light")
    console.go("#/jobs")
    expect(page.get_by_text("No jobs yet")).to_be_visible()
    console.screenshot("jobs-empty-light")
    console.go("#/queue")
    expect(page.get_by_text("The queue is empty")).to_be_visible()
    console.screenshot("queue-empty-light")
