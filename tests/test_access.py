"""Access to a control plane: the stock clients of Ray, our SDK and our commands, with tokens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import requests
from ray.exceptions import AuthenticationError
from ray.job_submission import JobSubmissionClient

from support import tokens
from support.jobs import unique_id
from support.plane import REPOSITORY, MakePlane, Plane, binary
from support.ray_cluster import BIN, clean_environment
from support.waiting import PATIENCE, wait_until

PROGRAM = """
import ray_multicluster_scheduler as rms
with rms.initialize_scheduler_environment():
    job = rms.submit_job("echo from the SDK", submission_id="by-sdk")
    rms.wait_for_all_jobs([job])
    print([job.submission_id for job in rms.list_jobs()])
"""


@pytest.fixture
def guarded(make_plane: MakePlane) -> tuple[Plane, dict[str, str]]:
    plane = make_plane(submission_interval="0s")
    made = {
        owner: tokens.create(plane, owner, role)
        for owner, role in (("zorro", "submit"), ("diego", "submit"), ("grafana", "read"))
    }
    return plane, made


def test_the_stock_clients_of_ray_work_with_tokens_and_see_their_own(
    guarded: tuple[Plane, dict[str, str]], tmp_path: Path
) -> None:
    plane, made = guarded
    zorro = JobSubmissionClient(plane.address, headers=tokens.headers(made["zorro"]))
    job = zorro.submit_job(entrypoint="echo hello", submission_id="by-client")
    wait_until(lambda: zorro.get_job_status(job).is_terminal(), "the job has ended", 60 * PATIENCE)
    assert "hello" in zorro.get_job_logs(job)

    by_header = {"RAY_JOB_HEADERS": json.dumps(tokens.headers(made["diego"]))}
    rays_own_way = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": made["diego"]}

    def ray_job(
        *arguments: str, proof: dict[str, str] = by_header
    ) -> subprocess.CompletedProcess[str]:
        env = {**clean_environment(tmp_path), "RAY_ADDRESS": plane.address, **proof}
        command = [str(BIN / "ray"), "job", *arguments]
        return subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=120 * PATIENCE, check=False
        )

    submitted = ray_job("submit", "--submission-id", "by-cli", "--", "echo", "from", "the", "CLI")
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    assert "from the CLI" in submitted.stdout
    listed = ray_job("list").stdout
    assert "by-cli" in listed
    assert "by-client" not in listed
    assert "by-cli" in ray_job("list", proof=rays_own_way).stdout
    stopped = ray_job("stop", "by-client")
    assert stopped.returncode != 0
    assert "does not exist" in stopped.stdout + stopped.stderr

    with pytest.raises(AuthenticationError, match="Missing authentication token"):
        JobSubmissionClient(plane.address).list_jobs()


def test_our_sdk_and_our_commands_work_with_tokens(
    guarded: tuple[Plane, dict[str, str]], tmp_path: Path
) -> None:
    plane, made = guarded
    env = {**clean_environment(tmp_path), "RAY_MULTICLUSTER_ADDRESS": plane.address}
    env["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY / "python"), *sys.path])
    program = [sys.executable, "-c", PROGRAM]
    without = subprocess.run(program, env=env, capture_output=True, text=True, check=False)
    assert "AccessError" in without.stderr
    assert "RAY_MULTICLUSTER_TOKEN" in without.stderr

    env["RAY_MULTICLUSTER_TOKEN"] = made["zorro"]
    done = subprocess.run(
        program, env=env, capture_output=True, text=True, timeout=120 * PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "['by-sdk']"

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(binary()), *arguments], env=env, capture_output=True, text=True, check=False
        )

    assert "by-sdk" in command("jobs").stdout
    env["RAY_MULTICLUSTER_TOKEN"] = made["grafana"]
    assert "by-sdk" in command("jobs").stdout, "who reads sees everybody's"
    refused = command("stop", "by-sdk")
    assert refused.returncode == 4
    assert "needs the role submit or admin" in refused.stderr
    metrics = requests.get(
        f"{plane.address}/metrics", headers=tokens.headers(made["grafana"]), timeout=30
    )
    assert metrics.ok


def test_no_token_is_found_in_what_the_control_plane_writes_and_says(
    guarded: tuple[Plane, dict[str, str]],
) -> None:
    plane, made = guarded
    answers = [
        requests.get(plane.address + path, headers=tokens.headers(made["grafana"]), timeout=30).text
        for path in ("/v1/jobs", "/v1/clusters", "/v1/settings", "/v1/decisions", "/metrics")
    ]
    told = "".join([*answers, plane.output(), (plane.state / "tokens.json").read_text()])
    for token in made.values():
        assert token.removeprefix("rmc_") not in told


def test_owners_share_the_pool_and_each_sees_its_own_share(
    guarded: tuple[Plane, dict[str, str]],
) -> None:
    plane, made = guarded

    def ask(owner: str, path: str = "/v1/owners") -> requests.Response:
        return requests.get(plane.address + path, headers=tokens.headers(made[owner]), timeout=30)

    def submit(owner: str, job_id: str, **more: Any) -> None:
        body = {"id": job_id, "entrypoint": "sleep 600", **more}
        sent = requests.post(
            f"{plane.address}/v1/jobs", json=body, headers=tokens.headers(made[owner]), timeout=30
        )
        assert sent.status_code == 201, sent.text

    runs = unique_id("runs")
    submit("diego", runs, needs={"CPU": 1})
    wait_until(
        lambda: ask("diego", f"/v1/jobs/{runs}").json()["state"] == "running",
        "the job runs",
        60 * PATIENCE,
    )
    # Larger than any cluster: both wait.
    for owner in ("diego", "zorro"):
        submit(owner, f"{owner}-waits", needs={"CPU": 64})

    everyone = ask("grafana").json()
    assert everyone["half_life_seconds"] == 7 * 24 * 3600
    assert [row["name"] for row in everyone["items"]] == ["zorro", "diego"], everyone
    zorro, diego = everyone["items"]
    assert (zorro["turn"], diego["turn"]) == (1, 2)
    assert (zorro["holds"], diego["held"]) == (0.0, {"CPU": 1})
    assert 0 < diego["had"] <= diego["holds"] < 1
    assert (diego["live"], diego["queued"], diego["queued_job"]) == (1, 1, "diego-waits")
    assert zorro["text"].endswith("its share is 50 %: next in line")

    assert [row["name"] for row in ask("diego").json()["items"]] == ["diego"]
    assert "zorro" not in ask("diego").text
    turns = ask("grafana", "/v1/jobs/diego-waits/explain").json()["turns"]
    assert turns["next"] == "zorro"
    assert turns["text"].endswith("its share is 50 %: zorro goes first")
    own = ask("diego", "/v1/jobs/diego-waits/explain").json()
    assert "next" not in own["turns"]
    assert "other work goes first" in own["summary"]

    assert 'multicluster_owner_queued{owner="zorro"} 1.0' in ask("grafana", "/metrics").text
    assert "zorro" not in ask("diego", "/metrics").text

    plane.restart()
    # Shares are known once the clusters have told what they have.
    wait_until(
        lambda: ask("grafana").json()["items"][0]["name"] == "zorro", "it is zorro's turn", 60
    )
    after = ask("grafana").json()["items"][1]
    assert after["name"] == "diego"
    assert after["had"] >= diego["had"], "what it had survives a restart"
    stop = f"{plane.address}/v1/jobs/{runs}/stop"
    assert requests.post(stop, headers=tokens.headers(made["diego"]), timeout=30).ok
