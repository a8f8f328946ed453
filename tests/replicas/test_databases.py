"""Other databases than one calm server: a standby that takes over, with and without all commits,
PgBouncer, a full disk, a sync of 30 s. Run by `make chaos` (REPLICA_DATABASES=1).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from history.record import Job, now
from support.disk import MIB, NoDisk
from support.jobs import unique_id
from support.postgres import Database, Pooler, Postgres, a_server
from support.replicas import LEASE, Sampler
from support.waiting import wait_until

from .stage import Stage, staged

pytestmark = [
    pytest.mark.skipif(not os.environ.get("REPLICA_DATABASES"), reason="see REPLICA_DATABASES"),
    pytest.mark.timeout(600),
]


@pytest.fixture
def server() -> Iterator[Postgres]:
    """One of the test's own: it is killed for good."""
    with a_server() as one:
        yield one


@contextlib.contextmanager
def a_standby(server: Postgres) -> Iterator[Postgres]:
    standby = server.standby()
    try:
        yield standby
    finally:
        standby.remove()


def fail_over(stage: Stage, standby: Postgres) -> None:
    """The address of the database leads to the standby from now on."""
    standby.promote()
    stage.database.server = standby
    for replica in stage.replicas:
        replica.to_database.backend = standby.host
        replica.to_database.reset()


def test_after_a_switch_to_a_synchronous_standby_nothing_is_lost(
    server: Postgres, tmp_path: Path
) -> None:
    with a_standby(server) as standby, staged(tmp_path, server.database()) as stage:
        server.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        server.sql("SELECT pg_reload_conf()")
        state = "SELECT sync_state FROM pg_stat_replication"
        wait_until(lambda: server.sql(state) == [["sync"]], "it is synchronous")
        sampler = Sampler(stage.replicas)
        sampler.start()
        jobs = [stage.run("before", "sleep 3") for _ in range(20)]
        at = now()
        server.kill()
        # It was a standby of a standby that does not exist.
        standby.sql("ALTER SYSTEM SET synchronous_standby_names = ''")
        fail_over(stage, standby)
        standby.sql("SELECT pg_reload_conf()")
        print(f"synchronous standby: {stage.probe(at)}")
        stage.wait_for_end(*jobs)
        stage.judge()
        assert sampler.stop() == []


def test_a_standby_that_lost_commits_makes_nothing_run_twice(
    server: Postgres, tmp_path: Path
) -> None:
    with a_standby(server) as standby, staged(tmp_path, server.database()) as stage:
        known = [stage.run("known", "sleep 1") for _ in range(5)]
        stage.wait_for_end(*known)
        # The standby knows that they were accepted, and not that they were sent.
        queued = [a_job(stage, "queued") for _ in range(5)]
        with hold_back(stage):
            for job in queued:
                stage.client.submit(job)
            caught_up(server, standby)
            leave_behind(server, standby)
        wait_until(lambda: all(stage.sent_at(job.id) for job in queued), "they are sent")
        # And of these, it knows nothing.
        lost = [stage.run("lost", "sleep 2") for _ in range(5)]
        wait_until(lambda: all(stage.sent_at(job.id) for job in lost), "they are sent")
        stage.watcher.stop()
        before = stage.database.epoch()
        server.kill()
        fail_over(stage, standby)
        wait_until(lambda: stage.database.epoch() > before, "no leader goes on without its commits")
        # Their clients ask again, as after every error.
        for job in lost:
            stage.client.submit(job)
        stage.wait_for_end(*known, *queued, *lost)
        stage.judge()


def test_replicas_work_through_pgbouncer_in_transaction_mode(
    server: Postgres, tmp_path: Path
) -> None:
    pooler = Pooler(server)
    stage = Stage(tmp_path, Database(server, server.database().name))
    try:
        for replica in stage.replicas:
            replica.to_database.backend = pooler.host
        stage.start()
        sampler = Sampler(stage.replicas)
        sampler.start()
        jobs = [stage.run("before", "sleep 2") for _ in range(10)]
        leader = stage.replicas.wait_for_leader()
        at = now()
        leader.kill()
        print(f"PgBouncer, kill -9: {stage.probe(at)}")
        leader.start()
        leader = stage.replicas.wait_for_leader()
        at = now()
        assert leader.stop() == 0
        print(f"PgBouncer, hand-over: {stage.probe(at)}")
        leader.start()
        stage.wait_for_end(*jobs)
        stage.judge()
        assert sampler.stop() == []
    finally:
        stage.close()
        pooler.close()


def test_a_database_whose_disk_is_full_refuses_new_jobs_and_loses_none(tmp_path: Path) -> None:
    try:
        full = a_server("-c max_wal_size=64MB -c min_wal_size=32MB", disk=160 * MIB)
        server = full.__enter__()
    except NoDisk as why:
        pytest.skip(str(why))
    with contextlib.ExitStack() as stack:
        stack.push(full)
        stage = stack.enter_context(staged(tmp_path, server.database()))
        sampler = Sampler(stage.replicas)
        sampler.start()
        before = [stage.run("before", "sleep 2") for _ in range(5)]
        assert server.disk is not None
        server.disk.fill()
        noise = {"env_vars": {"NOISE": secrets.token_hex(100_000)}}
        with ThreadPoolExecutor() as threads:
            asked = [threads.submit(stage.run, "large", runtime_env=dict(noise)) for _ in range(8)]
            wait_until(lambda: stage.client.repeated, "a client is told to come back later")
            time.sleep(2 * LEASE)
            assert not all(one.done() for one in asked)
            server.disk.make_room()
            at = now()
            # With no room for its log either, it ends.
            if not server.pids():
                server.restart()
            print(f"disk full: {stage.client.repeated}; then {stage.probe(at)}")
            large = [one.result(120) for one in asked]
        stage.wait_for_end(*before, *large)
        stage.judge()
        assert sampler.stop() == []


def test_a_sync_of_30_s_delays_answers_and_loses_nothing(server: Postgres, tmp_path: Path) -> None:
    with staged(tmp_path, server.database()) as stage, ThreadPoolExecutor() as threads:
        sampler = Sampler(stage.replicas)
        sampler.start()
        before = [stage.run("before", "sleep 2") for _ in range(5)]
        server.shim.hang_syncs(True)
        asked = [threads.submit(stage.run, "meanwhile") for _ in range(5)]
        time.sleep(30)
        assert not any(one.done() for one in asked), "nothing is accepted that is not on disk"
        server.shim.hang_syncs(False)
        at = now()
        print(f"a sync of 30 s: {stage.client.repeated}; then {stage.probe(at)}")
        stage.wait_for_end(*before, *(one.result(60) for one in asked))
        stage.judge()
        assert sampler.stop() == []


def a_job(stage: Stage, name: str) -> Job:
    return stage.history.job(unique_id(name), "sleep 2")


@contextlib.contextmanager
def hold_back(stage: Stage) -> Iterator[None]:
    """Jobs are accepted, and not sent."""
    for cluster in stage.fakes:
        stage.replicas.post(f"/v1/clusters/{cluster}/cordon")
    yield
    for cluster in stage.fakes:
        stage.replicas.post(f"/v1/clusters/{cluster}/uncordon")


def caught_up(server: Postgres, standby: Postgres) -> None:
    at = server.sql("SELECT pg_current_wal_flush_lsn()")[0][0]
    query = f"SELECT pg_last_wal_replay_lsn() >= '{at}'"
    wait_until(lambda: standby.sql(query) == [["t"]], "the standby has caught up")


def leave_behind(server: Postgres, standby: Postgres) -> None:
    """From now on, the standby gets nothing more. A frozen one would still read what was sent."""
    standby.sql("ALTER SYSTEM SET primary_conninfo = ''")
    standby.sql("SELECT pg_reload_conf()")
    left = "SELECT count(*) FROM pg_stat_replication"
    wait_until(lambda: server.sql(left) == [["0"]], "the standby has left")
