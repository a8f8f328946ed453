"""The native API `/v1` by plain HTTP: jobs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import requests

from support.jobs import appends, unique_id
from support.plane import MakePlane, Plane
from support.ray_cluster import Clusters, where
from support.sse import EventStream
from support.waiting import wait_until


def submit(plane: Plane, entrypoint: str = "true", **fields: Any) -> str:
    return plane.post("/v1/jobs", {"entrypoint": entrypoint, **fields})["id"]


def ended(plane: Plane, job_id: str, state: str = "succeeded") -> dict[str, Any]:
    """Long polls until the job has ended, and checks how."""

    def look() -> dict[str, Any] | None:
        job = plane.get(f"/v1/jobs/{job_id}/wait?timeout=20s")
        return job if job["state"] in {"succeeded", "failed", "stopped"} else None

    job = wait_until(look, f"{job_id} has ended", timeout=90)
    assert job["state"] == state, job
    return job


def error(answer: requests.Response, status: int, code: str) -> str:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert set(body) == {"code", "message", "hint"}
    assert body["code"] == code
    return f"{body['message']} hint: {body['hint']}"


def test_every_route_is_described(plane: Plane) -> None:
    document = plane.get("/v1/openapi.json")
    assert document["openapi"].startswith("3.")
    paths = document["paths"]
    for path in ("/v1/jobs", "/v1/jobs/batch", "/v1/clusters", "/v1/what-if", "/v1/events"):
        assert path in paths
    # Routes without parameters that only read answer, and not with a 404.
    for path, methods in paths.items():
        if "get" in methods and "{" not in path and path != "/v1/events":
            assert plane.request("GET", path).status_code == 200, path


def test_a_job_is_shown_with_its_history_and_its_log(plane: Plane, clusters: Clusters) -> None:
    job_id = unique_id("native")
    answer = plane.request(
        "POST",
        "/v1/jobs",
        json={
            "id": job_id,
            # Ray writes its own line at the start, and not always before the job's first.
            "entrypoint": "sleep 1; seq 1 50",
            "preferred_cluster": "mac",
            "tags": ["macos", "nightly"],
            "priority": 3,
            "metadata": {"team": "quant"},
            "entrypoint_num_cpus": 1,
        },
    )
    assert answer.status_code == 201
    assert answer.json() == {"id": job_id}
    ended(plane, job_id)
    job = plane.native_job(job_id)
    assert job["kind"] == "job"
    assert job["ray_status"] == "SUCCEEDED"
    assert job["entrypoint"] == "sleep 1; seq 1 50"
    assert job["cluster"] == "mac"
    assert where(clusters, job_id) == ["mac"]
    assert job["tags"] == ["macos", "nightly"]
    assert job["priority"] == 3
    assert job["metadata"]["team"] == "quant"
    # A very short job may never have been seen running.
    moments = ("submitted_at", "dispatched_at", "running_at", "ended_at")
    told = [job[moment] for moment in moments if moment in job]
    assert told == sorted(told)
    assert len(told) >= 3
    (attempt,) = job["history"]
    assert (attempt["attempt"], attempt["cluster"]) == (1, "mac")
    assert (attempt["submission_id"], attempt["outcome"]) == (job_id, "succeeded")
    assert plane.get(f"/v1/jobs/{job_id}/attempts")["items"] == [attempt]
    logs = plane.get(f"/v1/jobs/{job_id}/logs?lines=3")
    assert logs["text"] == "48\n49\n50\n"
    assert logs["truncated"] is True


def test_the_same_request_again_is_the_same_job(plane: Plane) -> None:
    body = {"id": unique_id("same"), "entrypoint": "echo once"}
    assert plane.request("POST", "/v1/jobs", json=body).status_code == 201
    again = plane.request("POST", "/v1/jobs", json=body)
    assert again.status_code == 200
    assert again.json() == {"id": body["id"], "duplicate": "same_id"}
    other = plane.request("POST", "/v1/jobs", json={**body, "entrypoint": "echo other"})
    assert body["id"] in error(other, 409, "conflict")
    ended(plane, body["id"])


def test_an_identical_job_that_waits_is_not_queued_twice(plane: Plane) -> None:
    body = {"entrypoint": f"echo {unique_id('identical')}", "entrypoint_num_cpus": 64}
    first = plane.post("/v1/jobs", body)
    second = plane.post("/v1/jobs", body)
    assert second == {"id": first["id"], "duplicate": "same_content"}
    assert plane.request("POST", f"/v1/jobs/{first['id']}/stop").status_code == 202
    ended(plane, first["id"], "stopped")
    third = plane.post("/v1/jobs", body)
    assert third["id"] != first["id"]
    plane.post(f"/v1/jobs/{third['id']}/stop")


def test_a_batch_of_jobs_is_accepted_item_by_item_and_each_counts_by_itself(
    make_plane: MakePlane, clusters: Clusters
) -> None:
    plane = make_plane(submission_interval="60s")
    tag = unique_id("batch")
    jobs: list[dict[str, Any]] = [{"entrypoint": f"echo {n}", "tags": [tag]} for n in range(4)]
    jobs.insert(2, {"entrypoint": "true", "preferred_cluster": "windows"})
    answer = plane.post("/v1/jobs/batch", {"jobs": jobs})
    assert (answer["accepted"], answer["refused"]) == (4, 1)
    results = answer["results"]
    assert results[2]["error"]["code"] == "unknown_cluster"
    ids = [result["id"] for result in results if "id" in result]
    # One for each cluster; the next has to wait a minute (only tasks share a submission).
    ran, waiting = ids[:2], ids[2:]
    for job_id in ran:
        ended(plane, job_id)
    assert {name for job_id in ran for name in where(clusters, job_id)} == set(clusters)
    for job_id in waiting:
        why = plane.get(f"/v1/jobs/{job_id}/explain")
        assert why["state"] == "queued"
        assert {c["reason"] for c in why["clusters"]} == {"too_soon"}, why
    listed = plane.get(f"/v1/jobs?tag={tag}")["items"]
    assert {job["id"] for job in listed} == set(ids)


def test_lists_come_in_pages_newest_first_and_filtered(plane: Plane) -> None:
    tag = unique_id("page")
    ids = [
        submit(plane, f"echo {n}", tags=[tag], entrypoint_num_cpus=64, id=unique_id(f"page{n}"))
        for n in range(5)
    ]
    found: list[str] = []
    cursor, pages = "", 0
    while True:
        page = plane.get(f"/v1/jobs?tag={tag}&limit=2" + (f"&cursor={cursor}" if cursor else ""))
        assert len(page["items"]) <= 2
        found += [job["id"] for job in page["items"]]
        pages += 1
        if not (cursor := page.get("next_cursor", "")):
            break
    assert found == ids[::-1]
    assert pages == 3
    plane.post(f"/v1/jobs/{ids[0]}/stop")

    def with_state(*states: str) -> list[str]:
        query = "&".join(f"state={state}" for state in states)
        return [job["id"] for job in plane.get(f"/v1/jobs?tag={tag}&{query}")["items"]]

    wait_until(lambda: with_state("stopped") == [ids[0]], "one is stopped", timeout=10)
    assert with_state("queued") == ids[:0:-1]
    assert len(with_state("queued", "stopped")) == 5
    assert error(plane.request("GET", "/v1/jobs?state=sleeping"), 400, "bad_query")
    assert error(plane.request("GET", "/v1/jobs?limit=0"), 400, "bad_query")
    for job_id in ids[1:]:
        plane.post(f"/v1/jobs/{job_id}/stop")


def test_a_job_that_waits_is_explained_cluster_by_cluster(plane: Plane) -> None:
    job_id = submit(plane, "true", id=unique_id("why"), entrypoint_num_cpus=64, tags=["linux"])
    why = plane.get(f"/v1/jobs/{job_id}/explain")
    assert why["state"] == "queued"
    assert (why["queue"], why["ahead"]) == ("jobs", 0)
    reasons = {verdict["cluster"]: verdict["reason"] for verdict in why["clusters"]}
    assert reasons == {"centos": "infeasible", "mac": "missing_tags"}
    texts = {verdict["cluster"]: verdict["text"] for verdict in why["clusters"]}
    assert "64" in texts["centos"]
    assert "linux" in texts["mac"]
    queues = plane.get("/v1/queue")
    assert queues["waiting"] >= 1
    assert any(queue["name"] == "jobs" and queue["waiting"] for queue in queues["items"])
    plane.post(f"/v1/jobs/{job_id}/stop")


def test_every_placement_is_written_down_with_what_each_cluster_said(plane: Plane) -> None:
    job_id = submit(plane, "true", id=unique_id("decided"), tags=["arm64"])
    ended(plane, job_id)
    (decision,) = plane.get(f"/v1/jobs/{job_id}/decisions")["items"]
    assert (decision["job"], decision["attempt"], decision["cluster"]) == (job_id, 1, "mac")
    verdicts = {verdict["cluster"]: verdict for verdict in decision["clusters"]}
    assert verdicts["mac"]["verdict"] == "chosen"
    assert verdicts["centos"]["reason"] == "missing_tags"
    assert decision in plane.get("/v1/decisions?limit=50")["items"]


def test_what_if_tells_where_a_job_would_go_and_submits_nothing(plane: Plane) -> None:
    before = len(plane.get("/v1/jobs?limit=1000")["items"])
    chosen = plane.post("/v1/what-if", {"entrypoint": "true", "tags": ["arm64"]})
    assert chosen["chosen"] == "mac"
    waits = plane.post("/v1/what-if", {"entrypoint": "true", "entrypoint_num_cpus": 64})
    assert "chosen" not in waits
    assert {verdict["reason"] for verdict in waits["clusters"]} == {"infeasible"}
    unknown = plane.post("/v1/what-if", {"entrypoint": "true", "preferred_cluster": "windows"})
    assert "windows" in unknown["refused"]
    assert len(plane.get("/v1/jobs?limit=1000")["items"]) == before


def test_a_failed_job_is_retried_as_it_asked_and_run_again_on_demand(
    plane: Plane, clusters: Clusters, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    job_id = submit(
        plane, appends("ran", ran, "exit 4"), id=unique_id("again"), max_retries=1, tags=["linux"]
    )
    ended(plane, job_id, "failed")
    assert [a["outcome"] for a in plane.native_job(job_id)["history"]] == ["failed", "failed"]
    assert where(clusters, f"{job_id}-a2") == ["centos"]
    assert len(ran.read_text().split()) == 2
    # At an operator's request, under the same id, with all its retries.
    assert plane.request("POST", f"/v1/jobs/{job_id}/rerun").status_code == 202
    wait_until(lambda: len(ran.read_text().split()) == 4, "it ran twice more")
    ended(plane, job_id, "failed")
    assert len(plane.native_job(job_id)["history"]) == 4
    assert error(plane.request("POST", f"/v1/jobs/{job_id}/stop"), 409, "wrong_state")
    assert plane.request("DELETE", f"/v1/jobs/{job_id}").status_code == 204
    assert error(plane.request("GET", f"/v1/jobs/{job_id}"), 404, "unknown_job")


@pytest.mark.parametrize(
    ("entrypoint", "code", "lists", "runs"),
    [
        ("exit 75", 75, {"retry_on": [75]}, 2),
        ("exit 2", 2, {"retry_on": [75]}, 1),
        ("exit 2", 2, {"never_retry_on": [2]}, 1),
        # The program takes the place of the shell, so the signal itself is reported.
        ("exec sh -c 'kill -9 $$'", -9, {"retry_on": [-9]}, 2),
        # The shell waits for the program, and reports the signal in its own exit code.
        ("sh -c 'kill -9 $$'; exit $?", 137, {"retry_on": [137]}, 2),
    ],
    ids=["listed", "not listed", "excluded", "killed", "killed below a shell"],
)
def test_the_exit_code_that_ray_reports_decides_whether_a_job_is_retried(
    plane: Plane, entrypoint: str, code: int, lists: dict[str, list[int]], runs: int
) -> None:
    job_id = submit(plane, entrypoint, id=unique_id("codes"), max_retries=1, **lists)
    ended(plane, job_id, "failed")
    job = plane.native_job(job_id)
    assert len(job["history"]) == runs
    assert plane.get(f"/api/jobs/{job_id}")["driver_exit_code"] == code
    said = plane.get(f"/v1/jobs/{job_id}/explain")["summary"]
    assert (f"not retried: exit code {code} is" in said) == (runs == 1), said
    assert {name: job[name] for name in lists} == lists


def test_a_job_that_is_stopped_has_its_grace_to_save_its_work(plane: Plane, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    # Longer than the 3 s that Ray waits by default.
    entrypoint = f"trap 'sleep 6; echo saved > {saved}; exit 0' TERM; while :; do sleep 0.2; done"
    job_id = submit(plane, entrypoint, id=unique_id("grace"), stop_grace="20s", preemptible=True)
    wait_until(lambda: plane.native_job(job_id)["state"] == "running", "it runs")
    shown = plane.native_job(job_id)
    assert (shown["preemptible"], shown["stop_grace"]) == (True, 20)
    assert plane.request("POST", f"/v1/jobs/{job_id}/stop").status_code == 202
    ended(plane, job_id, "stopped")
    assert saved.read_text() == "saved\n"


def test_events_tell_a_jobs_life_as_it_happens_and_later(plane: Plane) -> None:
    with EventStream(f"{plane.address}/v1/events") as events:
        began = time.monotonic()
        job_id = submit(plane, "sleep 2", id=unique_id("life"))
        events.wait_for(job=job_id, state="queued")
        assert time.monotonic() - began < 5
        events.wait_for(job=job_id, state="running")
        end = events.wait_for(job=job_id, state="succeeded")
    told = [event["state"] for event in events.seen if event.get("job") == job_id]
    assert [s for s in told if s != "pending"] == ["queued", "dispatching", "running", "succeeded"]
    kept = plane.get(f"/v1/jobs/{job_id}/events")["items"]
    assert [event["state"] for event in kept] == told
    # A client that was away continues where it was.
    before = {"Last-Event-ID": str(kept[0]["seq"])}
    with EventStream(f"{plane.address}/v1/events?job={job_id}", before) as events:
        events.wait_for(seq=end["seq"])
    assert [event["state"] for event in events.seen] == told[1:]


SECRET = "hunter2-do-not-show"


def test_secrets_reach_the_job_and_are_shown_to_nobody(plane: Plane, clusters: Clusters) -> None:
    with EventStream(f"{plane.address}/v1/events") as events:
        job_id = submit(
            plane,
            f"test ${{#API_TOKEN}} = {len(SECRET)} && exit 5",
            id=unique_id("secret"),
            runtime_env={"env_vars": {"API_TOKEN": SECRET, "LEVEL": "info"}},
            tags=["linux"],
        )
        ended(plane, job_id, "failed")
        events.wait_for(job=job_id, state="failed")
    on_ray = clusters["centos"].job(job_id)
    assert on_ray is not None
    assert on_ray["driver_exit_code"] == 5, "the job saw all of it"
    assert on_ray["runtime_env"]["env_vars"]["API_TOKEN"] == SECRET
    shown = plane.native_job(job_id)
    assert shown["runtime_env"]["env_vars"]["LEVEL"] == "info"
    everything = [shown, events.seen, plane.client.get_job_info(job_id), plane.output()]
    everything += [plane.request("GET", path).text for path in ("/metrics", "/api/jobs/")]
    assert SECRET not in str(everything)


@pytest.mark.parametrize(
    "path", ["/v1/jobs/no-such-job", "/v1/jobs/no-such-job/wait", "/v1/jobs/no-such-job/decisions"]
)
def test_an_unknown_job_is_a_404(plane: Plane, path: str) -> None:
    assert "no-such-job" in error(plane.request("GET", path), 404, "unknown_job")


def test_a_typing_error_is_answered_with_what_was_meant(plane: Plane) -> None:
    answer = plane.request("POST", "/v1/jobs", json={"entrypont": "true"})
    assert "did you mean entrypoint?" in error(answer, 400, "bad_body")
