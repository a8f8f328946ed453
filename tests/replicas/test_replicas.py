"""Two replicas on one database: either answers everything, and the change of leader is no event.

What a test measures is printed (`pytest -s`). The limits are generous, because the machine has
other work; `make chaos` measures a thousand changes.
"""

from __future__ import annotations

import asyncio
import io
import re
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from ray.job_submission import JobSubmissionClient

from history.record import Job, now
from support.jobs import unique_id
from support.plane import expect_ok
from support.postgres import Database, Postgres
from support.replicas import LEASE, Replica, Replicas, Sampler, together
from support.sse import EventStream
from support.waiting import PATIENCE, wait_until
from support.wire import Mode, Point

from .stage import Stage, staged

# Twice what is promised for a calm machine.
ACCEPTS_WITHIN = 6.0 * PATIENCE
SENDS_WITHIN = 10.0 * PATIENCE
HAND_OVER_WITHIN = 1.0 * PATIENCE


@pytest.fixture(scope="module")
def shared(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    database = postgres.database()
    with staged(tmp_path_factory.mktemp("replicas"), database) as stage:
        yield stage
    database.drop()


@pytest.fixture
def stage(shared: Stage) -> Iterator[Stage]:
    """Both replicas run. Afterwards every promise was kept, and no two led at the same time."""
    shared.mend()
    sampler = Sampler(shared.replicas)
    sampler.start()
    yield shared
    shared.judge()
    assert sampler.stop() == []


def test_any_replica_takes_a_submit_and_shows_the_same_list(stage: Stage) -> None:
    ids = set()
    for replica in stage.replicas:
        native, by_ray = stage.client.expect("native"), stage.client.expect("ray")
        body = {"id": native, "entrypoint": "true"}
        assert replica.plane.post("/v1/jobs", body)["id"] == native
        replica.plane.client.submit_job(submission_id=by_ray, entrypoint="true")
        ids |= {native, by_ray}

    def shown(replica: Replica) -> dict[str, str]:
        items = replica.plane.get("/v1/jobs?limit=1000")["items"]
        by_ray = {job.submission_id for job in replica.plane.client.list_jobs()}
        assert by_ray >= {item["id"] for item in items}
        return {item["id"]: item["state"] for item in items if item["id"] in ids}

    def same() -> bool:
        one, other = map(shown, stage.replicas)
        return one == other and one.keys() == ids and set(one.values()) == {"succeeded"}

    wait_until(same, "both show the same jobs as ended")


def test_replicas_may_start_on_an_empty_database_at_the_same_moment(
    stage: Stage, database: Database, tmp_path: Path
) -> None:
    entries = stage.replicas.all[0].plane.pool.clusters
    replicas = Replicas(tmp_path, database, entries, count=3, behind_wires=False)
    try:
        together(replica.start for replica in replicas)
        replicas.wait_for_followers()
        assert database.epoch() == 1, "only one took the lead"
    finally:
        replicas.close()


def test_every_replica_says_who_leads(stage: Stage) -> None:
    leader, follower = stage.replicas.pair()
    said = {one: one.plane.request("GET", "/readyz") for one in (leader, follower)}
    assert said[leader].status_code == said[follower].status_code == 200
    assert "leader" in said[leader].text
    assert "follower" in said[follower].text
    ours, theirs = leader.seen(), follower.seen()
    assert (ours["role"], theirs["role"]) == ("leader", "follower")
    assert ours["store"] == theirs["store"] == "postgres"
    assert ours["plane"] == theirs["plane"]
    told = [{**view["leader"], "since": view["leader"]["since"] // 1000} for view in (ours, theirs)]
    assert told[0] == told[1]
    assert ours["leader"]["address"] == leader.plane.address
    assert ours["leader"]["epoch"] == stage.database.epoch()
    assert ours["leads_since"] == ours["leader"]["since"]
    assert theirs.get("leads_since") is None

    def both_are_seen() -> bool:
        views = follower.seen()["replicas"]
        return {view["address"] for view in views} >= {one.plane.address for one in stage.replicas}

    wait_until(both_are_seen, "the replicas know each other")
    for one, leads in ((leader, "1"), (follower, "0")):
        metrics = one.plane.request("GET", "/metrics").text
        assert re.search(rf"^multicluster_leader {leads}(\.0)?$", metrics, re.MULTILINE)


def test_after_a_kill_of_the_leader_another_one_leads_and_jobs_go_on(stage: Stage) -> None:
    leader, follower = stage.replicas.pair()
    before = [stage.run("before", "sleep 2") for _ in range(5)]
    at = now()
    leader.kill()
    probe = stage.probe(at)
    print(f"kill -9: {probe}")
    assert probe.accepted < ACCEPTS_WITHIN
    assert probe.sent < SENDS_WITHIN
    assert stage.replicas.leader() is follower
    leader.start()
    stage.wait_for_end(*before)


def test_a_planned_hand_over_is_not_noticed_by_clients(stage: Stage) -> None:
    leader, follower = stage.replicas.pair()
    took: list[float] = []
    failed: list[str] = []
    over = threading.Event()

    def submit(by_ray: bool) -> None:
        while not over.is_set():
            job = stage.client.expect("hand-over")
            body = {"submission_id" if by_ray else "id": job, "entrypoint": "true"}
            path = "/api/jobs/" if by_ray else "/v1/jobs"
            began = time.monotonic()
            try:
                answer = follower.plane.request("POST", path, json=body, timeout=30)
                if not answer.ok:
                    failed.append(f"{answer.status_code} {answer.text}")
            except requests.RequestException as error:
                failed.append(repr(error))
            took.append(time.monotonic() - began)
            time.sleep(0.02)

    with ThreadPoolExecutor() as threads:
        loops = [threads.submit(submit, by_ray) for by_ray in (True, False)]
        time.sleep(0.5)
        began = time.monotonic()
        assert leader.stop() == 0
        exited = time.monotonic() - began
        assert stage.replicas.wait_for_leader() is follower
        time.sleep(0.5)
        over.set()
        for loop in loops:
            loop.result(60)
    print(
        f"hand-over: the longest submit of {len(took)} took {max(took):.2f} s, exit {exited:.2f} s"
    )
    assert failed == []
    assert max(took) < HAND_OVER_WITHIN
    leader.start()


def test_a_leader_that_was_frozen_for_longer_than_its_lease_follows_and_may_lead_again(
    stage: Stage,
) -> None:
    leader, follower = stage.replicas.pair()
    pid = leader.plane.pid
    stage.run("before", "sleep 1")
    at = now()
    leader.freeze()
    print(f"frozen: {stage.probe(at)}")
    time.sleep(LEASE)
    leader.thaw()
    # For a moment it knows only that it does not lead.
    wait_until(lambda: leader.seen().get("leader") is not None, "it follows", every=0.05)
    assert leader.seen()["role"] == "follower"
    assert leader.seen()["leader"]["address"] == follower.plane.address
    submit_to(stage, leader, "through-it")
    follower.kill()
    assert stage.replicas.wait_for_leader() is leader
    assert leader.plane.pid == pid, "it is still the same process"
    stage.run("after")


@pytest.mark.parametrize("point", list(Point))
def test_a_leader_frozen_at_any_point_of_a_commit_loses_nothing(stage: Stage, point: Point) -> None:
    leader, _ = stage.replicas.pair()
    if point is Point.LOST:
        trigger = leader.to_database.at_commit(point)
        jobs = [stage.run("lost-answer") for _ in range(3)]
        assert trigger.happened.wait(10)
    else:
        trigger = leader.to_database.at_commit(point, leader.freeze)
        with ThreadPoolExecutor() as threads:
            asked = [threads.submit(stage.run, "frozen") for _ in range(3)]
            assert trigger.happened.wait(10)
            stage.replicas.wait_for_leader(but=leader)
            leader.thaw()
            trigger.release()
            jobs = [one.result(60) for one in asked]
    stage.wait_for_end(*jobs)


def test_a_leader_that_cannot_reach_the_database_stops_answering_and_acting(stage: Stage) -> None:
    leader, follower = stage.replicas.pair()
    stage.run("before", "sleep 1")
    at = now()
    leader.to_database.mode = Mode.SWALLOW
    assert stage.replicas.wait_for_leader(but=leader) is follower
    print(f"partition: another one led after {now() - at:.2f} s")
    with pytest.raises((requests.RequestException, AssertionError)):
        # It cannot be accepted by the old leader, and it does not know the new one.
        leader.plane.post("/v1/jobs", unpromised(stage, "in-vain").native(), timeout=3)
    print(f"partition: {stage.probe(at, follower)}")
    leader.to_database.mode = Mode.PASS
    wait_until(lambda: leader.seen()["role"] == "follower", "it follows", every=0.05)
    submit_to(stage, leader, "again")


def test_events_and_a_followed_log_go_on_over_a_change_of_leader(stage: Stage) -> None:
    leader, follower = stage.replicas.pair()
    lines = [f"line {n}" for n in range(12)]
    body = "; ".join(f"echo {line}; sleep 0.5" for line in lines)
    job = stage.client.expect("followed")
    follower.plane.post("/v1/jobs", {"id": job, "entrypoint": body})
    with EventStream(f"{follower.plane.address}/v1/events") as events, ThreadPoolExecutor() as pool:
        told = pool.submit(asyncio.run, tail(follower.plane.client, job))
        wait_until(lambda: "line 1" in follower.plane.client.get_job_logs(job), "it writes")
        first = stage.run("early")
        events.wait_for(job=first.id, state="succeeded")
        leader.kill()
        stage.replicas.wait_for_leader(but=leader)
        last = stage.run("late")
        stage.wait_for_end(last)
        text = told.result(60)
        seen = list(events.seen)
    assert [line for line in text.splitlines() if line.startswith("line ")] == lines
    # Where a stream broke off, the client goes on from there, at any replica.
    with EventStream(
        f"{follower.plane.address}/v1/events", {"Last-Event-ID": str(seen[-1]["seq"])}
    ) as events:
        events.wait_for(job=last.id, state="succeeded")
        seen += events.seen
    numbers = [event["seq"] for event in seen]
    assert numbers == sorted(set(numbers)), "in order, none twice"
    states: dict[str, list[str]] = {}
    for event in seen:
        if event.get("job") in (first.id, last.id):
            states.setdefault(event["job"], []).append(event["state"])
    for one in (first, last):
        kept = follower.plane.get(f"/v1/jobs/{one.id}/events")["items"]
        assert states[one.id] == [event["state"] for event in kept], "without a gap"


def test_a_package_that_was_uploaded_through_one_replica_is_there_when_the_other_leads(
    stage: Stage,
) -> None:
    leader, follower = stage.replicas.pair()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("main.py", f"print('{unique_id('package')}')\n" * 200)
    content = packed.getvalue()
    name = f"_ray_pkg_{stage.dice.getrandbits(64):016x}.zip"
    expect_ok(follower.plane.request("PUT", f"/api/packages/gcs/{name}", data=content))
    leader.kill()
    assert stage.replicas.wait_for_leader() is follower
    assert follower.plane.request("GET", f"/api/packages/gcs/{name}").ok
    job = stage.run("packed", runtime_env={"working_dir": f"gcs://{name}"})
    stage.wait_for_end(job)
    # A fake fails a job whose package it does not have.
    assert stage.replicas.native_job(job.id)["ray_status"] == "SUCCEEDED"


# A migration adds only what older programs need not know: crates/store/src/postgres/schema.rs.
NEXT_VERSION = """
    BEGIN;
    SELECT pg_advisory_xact_lock(685842258783);
    ALTER TABLE multicluster.jobs ADD COLUMN next_version text;
    ALTER TABLE multicluster.lead ADD COLUMN next_version bigint NOT NULL DEFAULT 7;
    CREATE TABLE multicluster.next_version (id bigint PRIMARY KEY);
    UPDATE multicluster.state SET version = version + 1;
    COMMIT;
"""


def test_replicas_go_on_beside_a_newer_version_that_has_migrated_the_database(stage: Stage) -> None:
    leader, follower = stage.replicas.pair()
    with ThreadPoolExecutor() as threads:
        asked = [threads.submit(stage.run, "upgrade", "sleep 1") for _ in range(10)]
        stage.database.sql(NEXT_VERSION)
        jobs = [one.result(60) for one in asked]
    # An older one takes the lead of the migrated database, and another one opens it.
    leader.kill()
    jobs.append(stage.run("after"))
    assert stage.replicas.leader() is follower
    leader.start()
    stage.wait_for_end(*jobs)


def test_without_a_leader_requests_wait_for_a_while_and_say_so(stage: Stage) -> None:
    leader, follower = stage.replicas.pair()
    leader.kill()
    follower.to_database.mode = Mode.SWALLOW
    wait_until(lambda: follower.seen()["leader"] is None or follower.seen()["behind_ms"], "no news")
    asks: dict[str, Callable[[], Any]] = {
        "submit": lambda: follower.plane.request(
            "POST", "/v1/jobs", json=unpromised(stage, "homeless").native(), timeout=60
        ),
        "submit as Ray": lambda: follower.plane.request(
            "POST", "/api/jobs/", json={"entrypoint": "true"}, timeout=60
        ),
        "list": lambda: follower.plane.request("GET", "/v1/jobs", timeout=60),
        "clusters": lambda: follower.plane.request("GET", "/v1/clusters", timeout=60),
        "readyz": lambda: follower.plane.request("GET", "/readyz", timeout=60),
    }

    def timed(ask: Callable[[], Any]) -> tuple[requests.Response, float]:
        began = time.monotonic()
        return ask(), time.monotonic() - began

    with ThreadPoolExecutor() as threads:
        running = {name: threads.submit(timed, ask) for name, ask in asks.items()}
        got = {name: one.result(90) for name, one in running.items()}
    for name, (answer, took) in got.items():
        print(f"no leader: {name}: {answer.status_code} after {took:.1f} s: {answer.text[:200]!r}")
    for name in ("submit", "submit as Ray", "clusters", "list", "readyz"):
        answer, took = got[name]
        assert answer.status_code == 503, (name, answer.text)
        assert took < 15 * PATIENCE, (name, took)
    answer, took = got["submit"]
    assert answer.json()["code"] == "no_leader"
    assert answer.headers["retry-after"] == "1"
    assert took >= 8, "it waited for a leader"


def unpromised(stage: Stage, name: str) -> Job:
    """A job that somebody submits. Until it is accepted, it may run or not."""
    job = stage.history.job(unique_id(name), "sleep 0.1")
    job.asked = now()
    return job


def submit_to(stage: Stage, replica: Replica, name: str) -> Job:
    """Without a second try."""
    job = unpromised(stage, name)
    replica.plane.post("/v1/jobs", job.native())
    job.accepted = now()
    return job


async def tail(client: JobSubmissionClient, job: str) -> str:
    return "".join([lines async for lines in client.tail_job_logs(job)])
