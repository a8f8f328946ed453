"""The control plane goes away and comes back; the page stays and catches up."""

from __future__ import annotations

import shutil

from playwright.sync_api import expect

from support.console import OpenConsole
from support.jobs import unique_id
from support.plane import MakePlane
from support.waiting import PATIENCE

RAY_MS = 60_000 * PATIENCE
# Chromium itself reports requests without an answer, and streams that break off.
NOBODY_THERE = (
    r"net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE)"
)


def test_after_a_restart_the_page_shows_what_happened_meanwhile(
    make_plane: MakePlane, open_console: OpenConsole
) -> None:
    plane = make_plane()
    before, meanwhile = unique_id("before"), unique_id("meanwhile")
    plane.post("/v1/jobs", {"id": before, "entrypoint": "sleep 6"})
    console = open_console(plane)
    page = console.open("#/jobs")
    row = page.get_by_role("row").filter(has_text=before)
    expect(row.locator("[data-state=running]")).to_be_visible(timeout=RAY_MS)

    with console.expecting(NOBODY_THERE):
        plane.stop()
        banner = page.get_by_text("The control plane is not responding. Reconnecting…")
        expect(banner).to_be_visible()
        console.screenshot("away-light")
        expect(row).to_be_visible()
        plane.start()
        plane.post("/v1/jobs", {"id": meanwhile, "entrypoint": "true"})
        console.wait_live()
        expect(banner).to_be_hidden()

    expect(page.get_by_role("row").filter(has_text=meanwhile)).to_be_visible()
    expect(row.locator("[data-state=succeeded]")).to_be_visible(timeout=RAY_MS)
    console.go("#/events")
    told = page.get_by_role("row").filter(has_text=meanwhile)
    expect(told.first).to_be_visible()
    queued = told.locator("[data-state=queued]")
    expect(queued).to_have_count(1)
    assert console.is_same_load()


def test_another_control_plane_at_the_same_address_voids_what_was_shown(
    make_plane: MakePlane, open_console: OpenConsole
) -> None:
    plane = make_plane()
    old, new = unique_id("old"), unique_id("new")
    plane.post("/v1/jobs", {"id": old, "entrypoint": "true"})
    console = open_console(plane)
    page = console.open("#/jobs")
    expect(page.get_by_role("row").filter(has_text=old)).to_be_visible()

    with console.expecting(NOBODY_THERE):
        plane.kill()
        shutil.rmtree(plane.state)
        plane.start()
        console.wait_live()
    expect(page.get_by_text("No jobs yet")).to_be_visible()
    # Its events have lower numbers than those seen before, and are received nevertheless.
    plane.wait_healthy()
    plane.post("/v1/jobs", {"id": new, "entrypoint": "true"})
    row = page.get_by_role("row").filter(has_text=new)
    expect(row.locator("[data-state=succeeded]")).to_be_visible(timeout=RAY_MS)
    assert page.get_by_role("row").filter(has_text=old).count() == 0
    assert console.is_same_load()
