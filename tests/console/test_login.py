"""The console with tokens: login, logout, and revocation."""

from __future__ import annotations

from playwright.sync_api import expect

from support import tokens
from support.console import OpenConsole
from support.plane import MakePlane


def test_people_log_in_and_out_and_who_is_not_let_in_any_more_is_told(
    make_plane: MakePlane, open_console: OpenConsole
) -> None:
    plane = make_plane()
    token = tokens.create(plane, "zorro", "submit")
    console = open_console(plane)
    page = console.page

    page.goto(plane.address)
    expect(page).to_have_url(f"{plane.address}/login")
    console.screenshot("login-light")
    page.get_by_label("Token").fill("rmc_guess")
    with console.expecting("403"):
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("unknown, revoked or expired")

    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    console.wait_live()
    expect(page.get_by_text("zorro")).to_be_visible()
    console.screenshot("logged-in-light")
    assert token not in page.evaluate("document.cookie"), "no script can read it"

    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(f"{plane.address}/login")

    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    console.wait_live()
    with console.expecting("403|net::ERR"):
        # Its event stream is ended, without a click.
        tokens.revoke_all(plane)
        expect(page).to_have_url(f"{plane.address}/login", timeout=60_000)
