"""The list of jobs on a made-up plane: filters, order, many jobs at once, and the way back."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from support.console import OpenConsole
from support.made_up import HOUR, MadeUp, Refused, head, job, now, ray_failure, verdict

TRACEBACK = ray_failure(
    3,
    """Traceback (most recent call last):
  File "x.py", line 3, in <module>
    import pandsa
ModuleNotFoundError: No module named 'pandsa'
""",
)


def too_small(name: str) -> dict[str, object]:
    return verdict(name, "infeasible", "64 CPU needed, 32 in total")


def fill(plane: MadeUp) -> None:
    minute = HOUR // 60
    waits = job("waits", "queued", submitted_at=now() - 9 * minute, owner="ann", tags=["linux"])
    huge = job("huge", "queued", submitted_at=now() - 12 * minute, demand={"CPU": 64})
    plane.jobs = [
        waits,
        huge,
        job("runs", submitted_at=now() - 30 * minute, owner="ann"),
        job("broke", "failed", submitted_at=now() - 40 * minute, owner="bob", message=TRACEBACK),
        job("silent", "failed", submitted_at=now() - 50 * minute, message=ray_failure(3)),
        job("old", "failed", submitted_at=now() - 5 * HOUR, message=TRACEBACK),
        job("done", "succeeded", submitted_at=now() - 6 * HOUR, owner="bob"),
    ]
    soon = verdict("centos", "too_soon", "next submission allowed in 28 s")
    busy = verdict("mac", "over_threshold", "busy: CPU 82 % in use, limit 70 %")
    plane.heads = [head(waits, 1, soon, busy), head(huge, 1, too_small("centos"), too_small("mac"))]


def ids(page: Page) -> list[str]:
    return page.locator(".virtual-row .c-id").all_inner_texts()


def expect_ids(page: Page, *names: str) -> None:
    expect(page.locator(".virtual-row .c-id")).to_have_text(list(names))


def test_a_list_says_why_jobs_wait_and_why_they_failed(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    fill(made_up)
    page = open_console(made_up).open("#/jobs")
    why = {
        "waits": "centos: too soon · mac: over threshold",
        "huge": "too small",
        "broke": "exit 3 ModuleNotFoundError: No module named 'pandsa'",
        "silent": "exit code 3, without output",
    }
    for name, text in why.items():
        row = page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))
        expect(row.locator(".c-why")).to_have_text(re.compile(rf"^{re.escape(text)}$"))
    assert "last available logs" not in page.locator("main").inner_text()


def test_jobs_are_found_by_owner_time_and_that_they_can_never_run(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    fill(made_up)
    page = open_console(made_up).open("#/jobs")
    page.locator("[name=owner]").select_option("bob")
    expect_ids(page, "broke", "done")
    page.locator("[name=since]").select_option("1h")
    expect_ids(page, "broke")
    page.locator("[name=owner]").select_option("No owner")
    expect_ids(page, "huge", "silent")
    page.locator("[name=owner]").select_option("")
    page.locator("[data-filter=never]").click()
    expect_ids(page, "huge")
    expect(page).to_have_url(re.compile(r"since=1h&never=1$"))
    page.reload()
    expect_ids(page, "huge")


def test_words_of_other_tools_are_taken_as_filters(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    made_up.jobs = [job("begins", "pending"), job("gone", "unknown"), job("done", "succeeded")]
    page = open_console(made_up).open("#/jobs?state=starting,unreachable")
    expect_ids(page, "begins", "gone")


def test_columns_sort_and_the_order_is_in_the_address(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    fill(made_up)
    page = open_console(made_up).open("#/jobs")
    expect_ids(page, "waits", "huge", "runs", "broke", "silent", "old", "done")
    page.locator("[data-sort=id]").click()
    expect_ids(page, "broke", "done", "huge", "old", "runs", "silent", "waits")
    page.locator("[data-sort=took]").click()
    expect(page.locator("[aria-sort=descending]")).to_contain_text("Duration")
    assert ids(page)[:3] == ["runs", "huge", "waits"]
    expect(page).to_have_url(re.compile(r"sort=-took$"))
    page.locator("[data-sort=submitted]").click()
    page.locator("[data-sort=submitted]").click()
    expect_ids(page, "done", "old", "silent", "broke", "runs", "huge", "waits")


def test_back_leads_to_the_same_place_of_the_list(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    made_up.jobs = [
        job(f"many-{n:03}", "succeeded", submitted_at=now() - n * 60_000) for n in range(300)
    ]
    page = open_console(made_up).open("#/jobs?state=succeeded&sort=submitted")
    page.get_by_role("searchbox").fill("many")
    box = page.locator(".virtual")

    def open_in_the_middle() -> None:
        box.evaluate("box => { box.scrollTop = 100 * 36 }")
        page.get_by_role("link", name="many-195", exact=True).click()
        expect(page.get_by_role("heading", name="many-195")).to_be_visible()

    def expect_the_middle() -> None:
        expect(page.get_by_role("link", name="many-195", exact=True)).to_be_in_viewport()
        assert box.evaluate("box => box.scrollTop") == 100 * 36
        expect(page).to_have_url(re.compile(r"#/jobs\?state=succeeded&sort=submitted&q=many$"))
        expect(page.get_by_role("searchbox")).to_have_value("many")

    open_in_the_middle()
    page.go_back()
    expect_the_middle()
    open_in_the_middle()
    page.locator(".back").click()
    expect_the_middle()
    # A link to the list begins at its top, without filters.
    page.locator(".nav").get_by_role("link", name="Jobs").click()
    expect(page.get_by_role("searchbox")).to_have_value("")
    assert box.evaluate("box => box.scrollTop") == 0


def test_back_leads_to_the_same_place_of_a_long_page(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    why = verdict("centos", "too_soon", "next submission allowed in 28 s")
    queued = [job(f"waits-{n:02}", "queued", priority=n) for n in range(40)]
    made_up.jobs = queued
    made_up.heads = [head(each, 1, why) for each in queued]
    page = open_console(made_up).open("#/queue")
    page.locator("[data-head=waits-30]").get_by_role("link").first.click()
    expect(page.get_by_role("heading", name="waits-30")).to_be_visible()
    assert page.evaluate("document.getElementById('main').scrollTop") == 0
    page.go_back()
    expect(page.locator("[data-head=waits-30]")).to_be_in_viewport()


def test_all_that_match_are_stopped_after_a_question_with_the_count(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    made_up.jobs = [
        *(
            job(f"sweep-{n:03}", "queued", tags=["sweep"], submitted_at=now() - n)
            for n in range(120)
        ),
        job("other", "queued"),
        job("sweep-done", "succeeded", tags=["sweep"]),
    ]
    page = open_console(made_up).open("#/jobs?tag=sweep")
    page.locator("[data-pick-all]").click()
    expect(page.locator("[data-selected='121']")).to_be_visible()
    page.locator("[data-bulk=stop]").click()
    dialog = page.get_by_role("dialog", name="Stop 120 jobs?")
    expect(dialog).to_contain_text("1 other selected job is left as it is")
    dialog.get_by_role("button", name="Cancel").click()
    assert made_up.posted() == []
    page.locator("[data-bulk=stop]").click()
    dialog.get_by_role("button", name="Stop 120").click()
    expect(page.get_by_text("120 jobs are stopping")).to_be_visible()
    assert sorted(made_up.posted()) == [f"POST /v1/jobs/sweep-{n:03}/stop" for n in range(120)]
    expect(page.locator("[data-selected]")).to_be_hidden()


def test_what_failed_is_reported_and_stays_selected(
    made_up: MadeUp, open_console: OpenConsole
) -> None:
    made_up.jobs = [job(f"ended-{n}", "failed", message="x") for n in range(5)]

    def refuse(*_: object) -> None:
        raise Refused(409, "wrong_state", "job ended-3 is still being cleaned up")

    made_up.answers["DELETE /v1/jobs/ended-3"] = refuse
    console = open_console(made_up)
    page = console.open("#/jobs")
    page.locator("[data-pick=ended-1]").click()
    page.locator("[data-pick=ended-4]").click(modifiers=["Shift"])
    expect(page.locator("[data-selected='4']")).to_be_visible()
    with console.expecting("409"):
        page.locator("[data-bulk=delete]").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete 4").click()
        report = page.get_by_role("dialog", name="1 request failed")
        expect(report).to_contain_text("3 jobs were deleted")
        expect(report).to_contain_text("job ended-3 is still being cleaned up")
    report.get_by_role("button", name="Close").click()
    expect_ids(page, "ended-0", "ended-3")
    expect(page.locator("[data-selected='1']")).to_be_visible()
    expect(page.locator("[data-pick=ended-3]")).to_be_checked()
