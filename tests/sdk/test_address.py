"""`ray_multicluster_scheduler://…` as an address of Ray's own job clients."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ray.job_submission import JobSubmissionClient

import ray_multicluster_scheduler as rms
from ray_multicluster_scheduler import ConfigurationError
from support.jobs import unique_id, wait_for
from support.plane import REPOSITORY, Plane
from support.ray_cluster import BIN, clean_environment
from support.user import User

info = rms.get_job_submission_client_cluster_info


def test_hints_ride_in_the_address_of_the_stock_command_line(plane: Plane, tmp_path: Path) -> None:
    place = plane.address.partition("://")[2]
    address = f"ray_multicluster_scheduler://{place}?tags=macos&tags=fund&priority=5"
    job = unique_id("address")
    command = ["job", "submit", "--address", address, "--submission-id", job, "--", "echo", "here"]
    done = subprocess.run(
        [str(BIN / "ray"), *command],
        env={**clean_environment(tmp_path), "PYTHONPATH": str(REPOSITORY / "python")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = plane.native_job(job)
    assert (shown["cluster"], shown["priority"]) == ("mac", 5)
    assert sorted(shown["tags"]) == ["fund", "macos"]
    # The same by Ray's SDK.
    client = JobSubmissionClient(f"ray_multicluster_scheduler://{plane.address}?tags=linux")
    other = client.submit_job(entrypoint="true")
    wait_for(client, other, "SUCCEEDED")
    assert plane.native_job(other)["cluster"] == "centos"


def test_a_hint_that_does_not_exist_is_refused(plane: Plane) -> None:
    client = JobSubmissionClient(f"ray_multicluster_scheduler://{plane.address}?tag=linux")
    with pytest.raises(RuntimeError, match=r"multicluster\.tags"):
        client.submit_job(entrypoint="true")


def test_headers_and_variables_carry_hints_too(plane: Plane) -> None:
    client = JobSubmissionClient(plane.address, headers={"X-Multicluster-Priority": "7"})
    job = client.submit_job(
        entrypoint="printenv multicluster.preferred_cluster || echo unset",
        runtime_env={"env_vars": {"multicluster.preferred_cluster": "mac"}},
    )
    wait_for(client, job, "SUCCEEDED")
    shown = plane.native_job(job)
    assert (shown["cluster"], shown["priority"]) == ("mac", 7)
    assert client.get_job_logs(job).split()[-1] == "unset", "a hint is not a variable of the job"


def test_auto_is_the_users_own_control_plane_with_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = User(tmp_path)
    for name, value in user.environment.items():
        monkeypatch.setenv(name, value)
    for name in set(os.environ) - set(user.environment):
        monkeypatch.delenv(name)
    monkeypatch.setenv("CLUSTER_CONFIG_FILE", str(user.config()))
    try:
        found = info("auto?priority=2", metadata={"team": "quant"})
        assert found.metadata == {"multicluster.priority": "2", "team": "quant"}
        assert found.headers["Authorization"].startswith("Bearer ")
        client = JobSubmissionClient("ray_multicluster_scheduler://auto")
        assert client.list_jobs() == [], "it lets us in"
    finally:
        user.leave()


def test_the_token_of_the_environment_is_for_named_control_planes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_MULTICLUSTER_TOKEN", "mine")
    found = info("https://plane:8700/", headers={"X-Team": "quant"})
    assert found.address == "https://plane:8700"
    assert found.headers == {"Authorization": "Bearer mine", "X-Team": "quant"}
    with pytest.raises(ConfigurationError, match="after"):
        info("plane:8700?tags")
    with pytest.raises(ConfigurationError, match="--address= is not the address"):
        info("?tags=linux")
