"""Secrets are never shown: not in answers, metrics, events, pages, errors or the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.plane import Plane, lonely
from support.waiting import wait_until

#: Secrets of the cluster, in every place it may have one; then those of a job.
NAMES = ("token", "file", "env", "header", "base", "database", "job", "flag")
SECRET = {name: f"hunter2-{name}" for name in NAMES}
#: The only answer that contains them, for clients that are about to run code there.
CONNECTION = "/v1/clusters/{name}/connection"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    (tmp_path / "token").write_text(SECRET["file"])
    (tmp_path / "database").write_text(SECRET["database"] + "\n")
    env = {"RAY_MULTICLUSTER_LOG": "debug", "CLUSTER_TOKEN": SECRET["env"]}
    plane = lonely(tmp_path, env, poll_interval="200ms", submission_interval="0s")
    away = plane.pool.clusters[0]
    plane.pool.clusters = [
        {
            **away,
            "token": SECRET["token"],
            "headers": {"X-Team": SECRET["header"]},
            # One whose name marks it as a secret, and two that are secret only by their source.
            "runtime_env": {
                "env_vars": {
                    "API_TOKEN": SECRET["base"],
                    "DATABASE": {"file": str(tmp_path / "database")},
                    "ENDPOINT": {"env": "CLUSTER_TOKEN"},
                }
            },
        },
        {**away, "name": "by-file", "token_file": str(tmp_path / "token")},
        {**away, "name": "by-env", "token_env": "CLUSTER_TOKEN"},
    ]
    plane.start()
    yield plane
    plane.close()


def test_no_answer_and_no_line_of_the_log_has_a_secret(plane: Plane) -> None:
    job = {
        "id": "secretive",
        "entrypoint": f"python train.py --token {SECRET['flag']}",
        "runtime_env": {"env_vars": {"HF_TOKEN": SECRET["job"], "db_password": SECRET["job"]}},
        "metadata": {"team": "quant"},
    }
    plane.post("/v1/jobs", job)
    other = {**job, "entrypoint": f"python other.py --token {SECRET['flag']}"}
    wrong = {**job, "id": "wrong", "runtime_env": {"env_vars": {"HF_TOKEN": [SECRET["job"]]}}}
    refusals = [
        plane.request("POST", "/v1/jobs", json=other),
        plane.request("POST", "/v1/jobs", json=wrong),
        plane.request("POST", "/api/jobs/", json={**job, "submission_id": "secretive"}),
    ]
    assert [answer.status_code for answer in refusals] == [409, 400, 400]
    wait_until(lambda: plane.cluster("away")["health"]["state"] == "unhealthy", "it is unhealthy")
    events = plane.request("GET", "/v1/events", params={"after": 0}, stream=True)
    told = ""
    for chunk in events.iter_content(None):
        told += chunk.decode()
        if "secretive" in told:
            break
    events.close()

    paths = [
        path for path, methods in plane.get("/v1/openapi.json")["paths"].items() if "get" in methods
    ]
    paths.remove(CONNECTION)
    paths = [path for path in paths if not path.endswith(("/events", "/follow", "/wait"))]
    paths += ["/v1/jobs/{id}/events", "/v1/jobs/{id}/resolved?cluster=away", "/v1/jobs?q=hunter2"]
    paths += ["/", "/metrics", "/api/jobs/", "/api/jobs/{id}", "/api/jobs/{id}/logs"]
    assert len(paths) > 20
    answers = {
        path: plane.request("GET", path.replace("{id}", "secretive").replace("{name}", "away"))
        for path in paths
    }
    said = {path: answer.text for path, answer in answers.items()}
    said["/v1/what-if"] = json.dumps(plane.post("/v1/what-if", {**job, "id": "other"}))
    said["/v1/events"] = told
    said["refusals"] = "".join(answer.text for answer in refusals)
    said["the log"] = plane.output()
    assert "secretive" in said["/v1/jobs"]
    assert "<redacted>" in said["/v1/jobs/{id}/resolved?cluster=away"]
    leaks = [
        (where, secret)
        for where, text in said.items()
        for secret in SECRET.values()
        if secret in text
    ]
    assert not leaks
    # They still exist, for clients that need them.
    connection = plane.request("GET", CONNECTION.replace("{name}", "away")).text
    assert SECRET["token"] in connection
    assert SECRET["base"] in connection
    variables = plane.get(CONNECTION.replace("{name}", "away"))["runtime_env"]["env_vars"]
    assert variables["DATABASE"] == SECRET["database"]
    assert variables["ENDPOINT"] == SECRET["env"]
    shown = plane.cluster("away")["runtime_env"]["env_vars"]
    assert shown["DATABASE"] == shown["ENDPOINT"] == "<redacted>"
