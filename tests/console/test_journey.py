"""What people do with the console, on two real clusters."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from support.console import Console, OpenConsole
from support.jobs import unique_id
from support.plane import MakePlane, Plane
from support.waiting import PATIENCE

# Ray starts a job in seconds on an idle machine and in many on a busy one.
RAY_MS = 60_000 * PATIENCE
SOON_MS = 10_000 * PATIENCE

# Keeps every state that the job's own page showed.
RECORD_STATES = """() => {
  window.states = [];
  const look = () => {
    const state = document.querySelector('.page-head [data-state]')?.dataset.state;
    if (state && window.states.at(-1) !== state) window.states.push(state);
  };
  const all = {subtree: true, childList: true, attributes: true};
  new MutationObserver(look).observe(document.body, all);
}"""


def test_the_overview_shows_both_clusters(console: Console) -> None:
    page = console.open()
    for name in ("centos", "mac"):
        card = page.locator(f"[data-cluster={name}]")
        expect(card.locator("[data-condition=healthy]")).to_be_visible()
        expect(card.get_by_role("meter", name="CPU")).to_be_visible()
        expect(card).to_contain_text("accepts a submission now")
    expect(page.get_by_text("2 / 2")).to_be_visible()


def test_a_job_is_submitted_waits_says_why_runs_and_succeeds_without_a_reload(
    make_plane: MakePlane, open_console: OpenConsole
) -> None:
    plane = make_plane(submission_interval="8s")
    # It takes the slot of mac, so that the next one waits.
    plane.post("/v1/jobs", {"entrypoint": "true", "preferred_cluster": "mac"})
    console = open_console(plane)
    page = console.open("#/submit")
    page.evaluate(RECORD_STATES)
    job_id = unique_id("form")

    page.get_by_label("Command").fill(
        "for i in 1 2 3 4 5; do echo tick $i; sleep 1; done; echo token=$API_TOKEN"
    )
    page.get_by_label("Preferred cluster").select_option("mac")
    page.get_by_label("ID", exact=True).fill(job_id)
    preview = page.locator(".preview")
    expect(preview).to_contain_text("It would be queued")
    expect(preview.locator("[data-reason=too_soon]")).to_be_visible()
    page.get_by_role("button", name="Submit").click()

    expect(page.get_by_role("heading", name=job_id)).to_be_visible()
    why = page.locator("[data-why]")
    expect(why.locator("[data-reason=too_soon]")).to_be_visible()
    expect(why.locator("[data-reason=other_cluster]")).to_be_visible()

    log = page.locator(".log pre")
    expect(log).to_contain_text("tick 1", timeout=RAY_MS)
    assert page.locator(".page-head [data-state=running]").is_visible(), "the log is live"
    expect(log).to_contain_text("tick 5", timeout=RAY_MS)
    expect(page.locator(".page-head [data-state=succeeded]")).to_be_visible(timeout=RAY_MS)
    expect(page.locator("[data-log=ended]")).to_be_visible(timeout=RAY_MS)
    assert why.count() == 0

    seen = page.evaluate("window.states")
    in_order = [state for state in seen if state in ("queued", "running", "succeeded")]
    assert in_order == ["queued", "running", "succeeded"], seen
    expect(page.locator("[data-resolved=mac] [data-runtime-env]")).to_contain_text("home_dir")
    expect(page.get_by_text("Attempt 1")).to_be_visible()
    assert console.is_same_load()


def test_secrets_are_not_shown(console: Console, plane: Plane) -> None:
    job_id = unique_id("secret")
    env = {"env_vars": {"API_TOKEN": "hunter2", "MODE": "test"}}
    plane.post("/v1/jobs", {"id": job_id, "entrypoint": "true", "runtime_env": env})
    page = console.open(f"#/jobs/{job_id}")
    shown = page.locator("[data-runtime-env]")
    expect(shown).to_contain_text("<redacted>")
    expect(shown).to_contain_text('"MODE": "test"')
    assert "hunter2" not in page.content()


def test_a_running_job_is_stopped_and_run_again(console: Console, plane: Plane) -> None:
    job_id = unique_id("stopped")
    plane.post("/v1/jobs", {"id": job_id, "entrypoint": "echo begun; sleep 600"})
    page = console.open("#/jobs")
    page.get_by_role("link", name=job_id).click()
    expect(page.locator(".log pre")).to_contain_text("begun", timeout=RAY_MS)

    page.locator("[data-action=stop]").click()
    dialog = page.get_by_role("dialog", name=f"Stop {job_id}?")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    assert plane.native_job(job_id)["state"] == "running", "cancelled is not stopped"

    page.locator("[data-action=stop]").click()
    dialog.get_by_role("button", name="Stop").click()
    expect(page.locator(".page-head [data-state=stopped]")).to_be_visible(timeout=RAY_MS)

    page.locator("[data-action=rerun]").click()
    page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    expect(page.locator(".page-head [data-state=running]")).to_be_visible(timeout=RAY_MS)
    expect(page.locator(".attempts")).to_contain_text("Attempt 2")
    plane.post(f"/v1/jobs/{job_id}/stop")
    expect(page.locator(".page-head [data-state=stopped]")).to_be_visible(timeout=RAY_MS)
    assert console.is_same_load()


def test_a_cluster_is_cordoned_with_a_note_and_uncordoned(
    make_plane: MakePlane, open_console: OpenConsole
) -> None:
    plane = make_plane()
    console = open_console(plane)
    page = console.open("#/clusters/mac")
    page.locator("[data-action=cordon]").click()
    page.get_by_label("Reason").fill("disk swap, back at noon")
    page.get_by_role("dialog").get_by_role("button", name="Cordon").click()
    expect(page.locator("[data-condition=cordoned]")).to_be_visible()
    expect(page.locator("[data-note]")).to_contain_text("disk swap, back at noon")
    assert plane.cluster("mac")["cordoned"] == "disk swap, back at noon"

    # The owner of work that waits because of it can read the note.
    job_id = unique_id("waits")
    job = {"id": job_id, "entrypoint": "true", "preferred_cluster": "mac", "required": True}
    plane.post("/v1/jobs", job)
    console.go("#/queue")
    head = page.locator(f"[data-head={job_id}]")
    expect(head.locator("[data-reason=cordoned]")).to_be_visible(timeout=SOON_MS)
    expect(head).to_contain_text("disk swap, back at noon")

    console.go("#/clusters/mac")
    page.locator("[data-action=uncordon]").click()
    expect(page.locator("[data-condition=healthy]")).to_be_visible()
    console.go(f"#/jobs/{job_id}")
    expect(page.locator(".page-head [data-state=succeeded]")).to_be_visible(timeout=RAY_MS)
    assert console.is_same_load()


def test_events_appear_by_themselves_and_can_be_paused(console: Console, plane: Plane) -> None:
    page = console.open("#/events")
    first, second = unique_id("event"), unique_id("event")
    plane.post("/v1/jobs", {"id": first, "entrypoint": "true"})
    expect(row_of(page, first)).to_be_visible(timeout=SOON_MS)
    page.get_by_role("button", name="Pause").click()
    plane.post("/v1/jobs", {"id": second, "entrypoint": "true"})
    expect(page.get_by_role("button", name="Resume")).not_to_contain_text("(0 new)")
    assert row_of(page, second).count() == 0
    page.get_by_role("button", name="Resume").click()
    expect(row_of(page, second)).to_be_visible()
    page.get_by_role("button", name="Clusters").click()
    expect(row_of(page, second)).to_be_hidden()


def row_of(page: Page, job_id: str) -> Locator:
    return page.get_by_role("row").filter(has_text=job_id).first
