"""Ray's autoscaler as we rely on it, without us in between."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests

from support.elastic import ElasticCluster
from support.waiting import holds_for, wait_until


def submit(cluster: ElasticCluster, job: str, entrypoint: str, cpus: int) -> None:
    body = {"entrypoint": entrypoint, "submission_id": job, "entrypoint_num_cpus": cpus}
    url = cluster.dashboard + "/api/jobs/"
    requests.post(url, json=body, headers=cluster.headers, timeout=30).raise_for_status()


def status(cluster: ElasticCluster, job: str) -> str:
    return (cluster.job(job) or {})["status"]


def test_a_job_that_waits_makes_it_grow_and_its_end_makes_it_shrink(
    elastic: ElasticCluster,
) -> None:
    assert elastic.workers() == []
    submit(elastic, "grow", "sleep 1", cpus=2)
    wait_until(lambda: status(elastic, "grow") == "SUCCEEDED", "the job has run", timeout=60)
    [worker] = elastic.workers()
    assert worker["resources_total"]["CPU"] == 2
    assert worker["node_ip"] == "127.0.0.1"
    wait_until(lambda: not elastic.workers(), "the idle worker is gone", timeout=60)


def test_launches_that_fail_are_reported_and_the_job_waits(elastic: ElasticCluster) -> None:
    elastic.fail_launches("InsufficientInstanceCapacity")
    submit(elastic, "stuck", "true", cpus=2)
    failure = "worker: InsufficientInstanceCapacity"
    wait_until(lambda: failure in elastic.report(), "the failure is reported", timeout=30)
    holds_for(lambda: status(elastic, "stuck") == "PENDING", 2, "the job waits")
    elastic.fail_launches(None)
    wait_until(lambda: status(elastic, "stuck") == "SUCCEEDED", "it grows after all", timeout=60)


@pytest.fixture(scope="module")
def second() -> Iterator[ElasticCluster]:
    cluster = ElasticCluster("second", autoscaler_v2=True)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


def test_the_second_autoscaler_reports_only_to_people(second: ElasticCluster) -> None:
    second.fail_launches()
    submit(second, "stuck", "true", cpus=2)
    wait_until(lambda: "worker: LaunchFailed" in second.report(), "it is reported", timeout=60)
    assert second.get("/api/cluster_status")["data"]["clusterStatus"] is None
    second.fail_launches(None)
    wait_until(lambda: status(second, "stuck") == "SUCCEEDED", "it grows after all", timeout=60)
