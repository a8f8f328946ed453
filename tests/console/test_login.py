"""The console with tokens: login, logout, and revocation."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from support import tokens
from support.console import OpenConsole
from support.plane import MakePlane, Plane


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


@pytest.mark.parametrize("first", ["", "#/jobs?state=failed&q=fund"])
def test_after_the_login_one_is_where_the_link_pointed(
    lone_plane: Plane, open_console: OpenConsole, first: str
) -> None:
    token = tokens.create(lone_plane, "zorro", "submit")
    console = open_console(lone_plane)
    page = console.page
    page.goto(f"{lone_plane.address}/{first}")
    expect(page).to_have_url(f"{lone_plane.address}/login{first}")
    page.get_by_label("Token").fill("rmc_guess")
    with console.expecting("403"):
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("unknown, revoked or expired")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    console.wait_live()
    expect(page).to_have_url(f"{lone_plane.address}/{first}")
    if first:
        expect(page.get_by_role("searchbox")).to_have_value("fund")


def test_who_is_shut_out_returns_to_the_same_page(
    lone_plane: Plane, open_console: OpenConsole
) -> None:
    token = tokens.create(lone_plane, "zorro", "submit")
    console = open_console(lone_plane)
    page = console.page
    page.goto(f"{lone_plane.address}/#/queue")
    page.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")
    console.wait_live()
    with console.expecting("40[13]|net::ERR"):
        # As if the session had expired.
        page.context.clear_cookies()
        expect(page).to_have_url(f"{lone_plane.address}/login#/queue", timeout=60_000)
    page.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")
    console.wait_live()
    expect(page.get_by_role("heading", name="Queue")).to_be_visible()


def test_the_login_page_speaks_chinese(lone_plane: Plane, open_console: OpenConsole) -> None:
    token = tokens.create(lone_plane, "zorro", "submit")
    console = open_console(lone_plane, locale="zh-CN")
    page = console.page
    page.goto(lone_plane.address)
    console.screenshot("login-chinese")
    page.get_by_label("令牌").fill("rmc_guess")
    with console.expecting("403"):
        page.get_by_role("button", name="登录").click()
        expect(page.get_by_role("alert")).to_contain_text("令牌不存在")
    page.get_by_label("令牌").fill(token)
    page.get_by_role("button", name="登录").click()
    console.wait_live()
    expect(page.get_by_role("link", name="概览")).to_be_visible()
