"""The page of one job on a made-up plane: why it failed, its log, its attempts; who did what."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from support.console import OpenConsole
from support.made_up import MadeUp, job, now, ray_failure

TRACEBACK = ray_failure(
    3,
    """Traceback (most recent call last):
  File "x.py", line 3, in <module>
    import pandsa
ModuleNotFoundError: No module named 'pandsa'
""",
)
REASON = "ModuleNotFoundError: No module named 'pandsa'"
SETUP = "Failed to set up runtime environment.\nERROR: No matching distribution found for pandsa"
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    "chinese": {"locale": "zh-CN"},
}


def attempt(number: int, **more: Any) -> dict[str, Any]:
    at = now() - 600_000 + number * 60_000
    return {
        "attempt": number,
        "cluster": "centos" if number == 1 else "mac",
        "submission_id": f"train-a{number}",
        "dispatched_at": at,
        "running_at": at + 2000,
        "ended_at": at + 30_000,
        "outcome": "failed",
        "message": TRACEBACK,
        **more,
    }


def event(seq: int, state: str, number: int, **more: Any) -> dict[str, Any]:
    about = {"type": "job", "seq": seq, "job": "train", "state": state, "attempt": number}
    return {**about, "at": now() - 600_000 + seq * 10_000, "cluster": "centos", **more}


def fill(plane: MadeUp) -> None:
    plane.jobs = [job("train", "failed", message=TRACEBACK, attempts=2, owner="ann")]
    plane.details["train"] = {
        "history": [attempt(1), attempt(2)],
        "dashboard_url": "http://mac:8265/#/jobs/train-a2",
    }
    plane.job_events["train"] = [
        event(1, "queued", 1),
        event(2, "running", 1),
        event(3, "queued", 1, message=TRACEBACK, by="ann"),
        event(4, "running", 2),
        event(5, "failed", 2, message=TRACEBACK),
    ]
    lines = [f"epoch {n} loss 0.{1000 - n}\n" for n in range(400)]
    lines[250] = "epoch 250 LOSS is nan\n"
    text = "".join(lines)
    cut = text.index("epoch 200")
    plane.logs["train"] = [
        {"attempt": 1, "cluster": "centos", "from": 0, "text": "first try\n"},
        {"attempt": 2, "cluster": "mac", "from": 0, "text": text[:cut]},
        {"attempt": 2, "cluster": "mac", "from": cut, "text": text[cut:]},
    ]


def test_the_reason_is_the_headline_and_is_not_repeated(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    fill(made_up)
    page = open_console(made_up).open("#/jobs/train")
    expect(page.locator(".message-bad summary")).to_have_text(f"{REASON} · exit 3")
    expect(page.locator(".timeline li")).to_have_count(5)
    assert REASON not in page.locator(".timeline").inner_text()
    expect(page.locator(".timeline li").nth(2)).to_contain_text("by ann")
    expect(page.locator(".attempts li").first).to_contain_text(REASON)
    seen = page.locator("main").inner_text()
    assert "last available logs" not in seen
    page.locator(".message-bad summary").click()
    expect(page.locator(".message-bad pre")).to_contain_text("last available logs")


def test_the_cause_that_the_control_plane_found_comes_first(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    made_up.jobs = [
        job("pip", "failed", message=f"{SETUP}\n[notice] a new release", cause=SETUP.split("\n")[1])
    ]
    console = open_console(made_up)
    page = console.open("#/jobs")
    expect(page.locator(".c-why").last).to_have_text(SETUP.split("\n")[1])
    console.go("#/jobs/pip")
    expect(page.locator(".message-bad summary")).to_have_text(SETUP.split("\n")[1])


def test_the_log_is_searched_and_a_match_leads_to_its_line(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    fill(made_up)
    page = open_console(made_up).open("#/jobs/train")
    log = page.locator(".log pre")
    expect(log).to_contain_text("epoch 399")
    page.get_by_label("Search the log").fill("loss IS")
    expect(page.locator("[data-found='1']")).to_be_visible()
    line = page.locator(".log-found button")
    expect(line).to_contain_text("252")
    expect(line.locator("mark")).to_have_text("LOSS is")
    line.click()
    expect(log).to_be_visible()
    page.wait_for_function("getSelection().toString() === 'epoch 250 LOSS is nan'")
    inside = """() => {
      const line = getSelection().getRangeAt(0).getBoundingClientRect();
      const box = document.querySelector('.log pre').getBoundingClientRect();
      return line.top > box.top && line.bottom < box.bottom;
    }"""
    assert page.evaluate(inside), "the line is on the screen"
    page.get_by_label("Search the log").fill("epoch")
    expect(page.locator("[data-found='400']")).to_be_visible()
    page.get_by_label("Search the log").fill("nothing like it")
    expect(page.locator("[data-found='0']")).to_be_visible()


def test_each_attempt_has_its_log_and_logs_are_downloaded(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    fill(made_up)
    page = open_console(made_up).open("#/jobs/train")
    expect(page.locator(".log pre")).to_contain_text("epoch 399")
    with page.expect_download() as latest:
        page.locator("[data-action=download]").click()
    assert latest.value.suggested_filename == "train.log"
    assert Path(latest.value.path()).read_text().endswith("epoch 399 loss 0.601\n")
    page.locator("[name=attempt]").select_option("1")
    expect(page.locator("[data-attempt='1'] pre")).to_have_text("first try\n")
    with page.expect_download() as first:
        page.locator("[data-action=download]").click()
    assert first.value.suggested_filename == "train-attempt-1.log"
    assert Path(first.value.path()).read_text() == "first try\n"
    page.locator("[name=attempt]").select_option("0")
    expect(page.locator(".log pre")).to_contain_text("epoch 399")


def test_a_long_log_is_downloaded_whole(made_up: MadeUp, open_console: OpenConsole) -> None:
    fill(made_up)
    path = "/v1/jobs/train/logs"
    end = {"id": "train", "attempt": 2, "source": "cluster", "text": "the end", "truncated": True}
    made_up.answers[f"GET {path}"] = end
    page = open_console(made_up).open("#/jobs/train")
    with page.expect_download() as whole:
        page.locator("[data-action=download]").click()
    text = Path(whole.value.path()).read_text()
    assert text.startswith("epoch 0 loss 0.1000\n")
    assert text.endswith("epoch 399 loss 0.601\n")


def test_a_job_that_failed_before_it_started_says_where_to_look(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    made_up.jobs = [job("setup", "failed", message=SETUP)]
    never = attempt(1, outcome="not_started", message=SETUP)
    del never["running_at"]
    made_up.details["setup"] = {"history": [never]}
    page = open_console(made_up).open("#/jobs/setup")
    hint = page.locator("[data-never-started]")
    expect(hint).to_contain_text("The command never started")
    expect(hint).to_contain_text("runtime_env_setup-*.log")
    link = hint.get_by_role("link", name="Ray dashboard of centos")
    expect(link).to_have_attribute("href", "http://centos:8265")
    expect(link).to_have_attribute("target", "_blank")


def test_a_job_leads_to_its_page_in_ray(made_up: MadeUp, open_console: OpenConsole) -> None:
    fill(made_up)
    console = open_console(made_up)
    page = console.open("#/jobs/train")
    link = page.get_by_role("link", name="Open in the Ray dashboard")
    expect(link).to_have_attribute("href", "http://mac:8265/#/jobs/train-a2")
    # What a configuration says is no script.
    made_up.clusters[1]["dashboard"] = "javascript:alert(1)"
    console.go("#/clusters/mac")
    expect(page.get_by_text("javascript:alert(1)")).to_be_visible()
    assert page.locator("[href^=javascript]").count() == 0


def test_events_name_owners_and_who_did_it(made_up: MadeUp, open_console: OpenConsole) -> None:
    made_up.events = [
        event(1, "stopped", 1, owner="bob", by="ann"),
        {
            "type": "cluster",
            "seq": 2,
            "at": now(),
            "cluster": "mac",
            "change": "cordoned",
            "by": "ann",
            "message": "disk swap",
        },
        {
            "type": "config",
            "seq": 3,
            "at": now(),
            "change": "refused",
            "message": "cluster.yaml:4: unknown key dashbord",
        },
        event(4, "running", 1, owner="zorro"),
    ]
    page = open_console(made_up).open("#/events")
    rows = page.locator(".virtual-row")
    expect(rows).to_have_count(4)
    expect(rows.nth(3)).to_contain_text("by ann")
    expect(rows.nth(1)).to_contain_text("unknown key dashbord")
    page.locator("[name=owner]").select_option("ann")
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Clusters").click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("disk swap")


def test_a_refused_reload_is_a_banner_on_every_page(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    message = "cluster.yaml:4: unknown key dashbord\n  hint: did you mean dashboard?"
    pool = made_up.answer("GET", "/v1/pool", {}, None)
    refused = {**pool, "config_problem": {"at": now() - 240_000, "message": message}}
    made_up.answers["GET /v1/pool"] = refused
    console = open_console(made_up)
    page = console.open("#/events")
    banner = page.locator("[data-config-problem]")
    expect(banner).to_contain_text("unknown key dashbord 4 min ago")
    banner.locator("summary").click()
    expect(banner).to_contain_text("did you mean dashboard?")
    expect(banner).to_contain_text("What was last valid in the file stays in force")
    made_up.answers["GET /v1/pool"] = pool
    expect(banner).to_be_hidden(timeout=15_000)


@pytest.mark.parametrize("look", LOOKS)
def test_the_page_fits_in_every_look(made_up: MadeUp, open_console: OpenConsole, look: str) -> None:
    fill(made_up)
    console = open_console(made_up, **LOOKS[look])
    page = console.open("#/jobs/train")
    expect(page.locator(".log pre")).to_contain_text("epoch 399")
    fits(page, "job")
    console.screenshot(f"log-{look}")
    page.locator(".log-search input").fill("loss")
    expect(page.locator("[data-found='400']")).to_be_visible()
    fits(page, "search")
    console.screenshot(f"log-search-{look}")


def fits(page: Page, name: str) -> None:
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"{name} is {wide} px too wide"
    assert not re.search("undefined|NaN", page.locator("main .split-side").inner_text()), name
