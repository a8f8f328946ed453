"""The page of owners: what each is entitled to, had and holds, and whose turn is next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests
from playwright.sync_api import expect

from support import tokens
from support.console import Console, OpenConsole
from support.jobs import unique_id
from support.plane import MakePlane, Plane
from support.waiting import PATIENCE, wait_until

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    "chinese": {"locale": "zh-CN"},
}


@pytest.fixture
def shared(make_plane: MakePlane) -> Iterator[tuple[Plane, dict[str, str]]]:
    """Diego's job runs; jobs of diego and zorro wait, and it is zorro's turn."""
    plane = make_plane(submission_interval="0s")
    roles = {"zorro": "submit", "diego": "submit", "grafana": "read"}
    made = {owner: tokens.create(plane, owner, role) for owner, role in roles.items()}

    def post(owner: str, path: str, **body: Any) -> None:
        headers = tokens.headers(made[owner])
        sent = requests.post(plane.address + path, json=body, headers=headers, timeout=30)
        assert sent.ok, sent.text

    runs = unique_id("runs")
    post("diego", "/v1/jobs", id=runs, entrypoint="sleep 600", needs={"CPU": 1})
    for owner in ("diego", "zorro"):
        post(owner, "/v1/jobs", id=f"{owner}-waits", entrypoint="x", needs={"CPU": 64})

    def rows() -> list[dict[str, Any]]:
        headers = tokens.headers(made["grafana"])
        answer = requests.get(f"{plane.address}/v1/owners", headers=headers, timeout=30)
        return list(answer.json()["items"])

    wait_until(
        lambda: [row["name"] for row in rows()] == ["zorro", "diego"] and rows()[1]["live"] == 1,
        "one runs and two wait",
        60 * PATIENCE,
    )
    yield plane, made
    post("diego", f"/v1/jobs/{runs}/stop")


def log_in(console: Console, token: str) -> None:
    page = console.page
    page.goto(console.plane.address)
    page.locator("[name=token]").fill(token)
    page.keyboard.press("Enter")
    console.wait_live()


def test_owners_are_shown_with_their_shares_and_turns(
    shared: tuple[Plane, dict[str, str]], open_console: OpenConsole
) -> None:
    plane, made = shared
    console = open_console(plane)
    log_in(console, made["grafana"])
    page = console.page
    page.get_by_role("link", name="Owners").click()
    expect(page.get_by_role("heading", name="Owners")).to_be_visible()
    expect(page.locator("[data-owner]")).to_have_count(2)
    zorro, diego = page.locator("[data-owner=zorro]"), page.locator("[data-owner=diego]")
    expect(zorro.get_by_text("next in line", exact=True)).to_be_visible()
    expect(diego.get_by_text("2nd in line")).to_be_visible()
    expect(zorro.get_by_role("meter", name="Entitled")).to_have_attribute("aria-valuenow", "50")
    expect(zorro.get_by_role("meter", name="Holds")).to_have_attribute("aria-valuenow", "0")
    expect(diego.get_by_text("1 CPU")).to_be_visible()
    diego.locator("a[title=diego-waits]").click()
    expect(page.get_by_role("heading", name="diego-waits")).to_be_visible()
    expect(page.get_by_text("its share is 50 %: zorro goes first")).to_be_visible()


def test_an_owner_sees_its_own_row_only(
    shared: tuple[Plane, dict[str, str]], open_console: OpenConsole
) -> None:
    plane, made = shared
    console = open_console(plane)
    log_in(console, made["diego"])
    console.go("#/owners")
    page = console.page
    expect(page.locator("[data-owner]")).to_have_count(1)
    expect(page.locator("[data-owner=diego]")).to_be_visible()
    assert "zorro" not in page.locator("main").inner_text()


@pytest.mark.parametrize("look", LOOKS)
def test_the_page_fits_in_every_look(
    shared: tuple[Plane, dict[str, str]], open_console: OpenConsole, look: str
) -> None:
    plane, made = shared
    console = open_console(plane, **LOOKS[look])
    log_in(console, made["grafana"])
    console.go("#/owners")
    page = console.page
    expect(page.locator("[data-owner=zorro]")).to_be_visible()
    console.fits(f"owners-{look}")
