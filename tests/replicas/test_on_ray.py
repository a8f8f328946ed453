"""The stock `ray job submit` above two real Ray clusters, while the leader is killed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.jobs import unique_id
from support.pool import Pool
from support.postgres import Database
from support.ray_cli import RayCli
from support.ray_cluster import Clusters
from support.replicas import Replicas
from support.waiting import wait_until


def test_ray_job_submit_at_a_follower_goes_on_while_the_leader_is_killed(
    clusters: Clusters, database: Database, tmp_path: Path
) -> None:
    entries = Pool(list(clusters.values())).clusters
    replicas = Replicas(tmp_path / "replicas", database, entries, behind_wires=False)
    ran = tmp_path / "ran"
    ran.touch()
    home = tmp_path / "home"
    home.mkdir()
    job = unique_id("failover")
    wanted = [f"line {n}" for n in range(12)]
    entrypoint = "; ".join([f"echo begun >> {ran}", *(f"echo {one}; sleep 1" for one in wanted)])
    try:
        replicas.start().wait_healthy()
        leader, follower = replicas.pair()
        cli = RayCli(follower.plane.address, home)
        with ThreadPoolExecutor() as threads:
            told = threads.submit(
                cli.job, "submit", "--submission-id", job, "--", "sh", "-c", entrypoint
            )
            wait_until(lambda: "begun" in ran.read_text(), "the job runs")
            leader.kill()
            output = told.result().ok()
        lines = [line for line in output.splitlines() if line.startswith("line ")]
        assert lines == wanted, "the log goes on, once"
        assert "succeeded" in output
        assert replicas.leader() is follower
        assert ran.read_text().splitlines() == ["begun"]
        # And one that is submitted while nobody leads.
        leader.start()
        replicas.wait_for_followers()
        with ThreadPoolExecutor() as threads:
            cli = RayCli(leader.plane.address, home)
            follower.kill()
            told = threads.submit(cli.job, "submit", "--", "true")
            assert "succeeded" in told.result().ok()
    finally:
        replicas.close()
