"""A job on its chosen cluster, read back from that cluster's own job info."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.jobs import hints, unique_id, wait_for, wait_for_all
from support.plane import MakePlane, Plane
from support.pool import HOMES, Pool
from support.ray_cluster import Clusters, where
from support.waiting import wait_until

FLAVOURS = {"centos": "linux", "mac": "darwin"}


def submit(plane: Plane, cluster: str, entrypoint: str, **runtime_env: Any) -> str:
    return plane.client.submit_job(
        entrypoint=entrypoint,
        submission_id=unique_id(cluster),
        runtime_env=runtime_env or None,
        metadata=hints(cluster, required=True),
    )


def seen_by_ray(clusters: Clusters, cluster: str, job_id: str) -> dict[str, Any]:
    assert where(clusters, job_id) == [cluster]
    job = clusters[cluster].job(job_id)
    assert job is not None
    return job


def test_two_jobs_in_a_row_carry_each_its_own_clusters_conda_variables_and_paths(
    make_plane: MakePlane, clusters: Clusters
) -> None:
    """There is no conda here: Ray records the value it was sent, then fails to set it up."""
    conda = {"centos": "ts", "mac": "ts-arm"}

    def with_conda(pool: Pool) -> None:
        for name, environment in conda.items():
            pool[name]["runtime_env"]["conda"] = environment

    plane = make_plane(with_conda)
    entrypoint = "python /home/zorro/project/predict.py --out=/Users/zorro/results"
    for name, home in HOMES.items():
        job_id = submit(plane, name, entrypoint)
        wait_until(lambda c=clusters[name], j=job_id: c.job(j), f"{job_id} is on {name}")
        job = seen_by_ray(clusters, name, job_id)
        assert job["runtime_env"]["conda"] == conda[name]
        assert job["runtime_env"]["env_vars"]["home_dir"] == home
        assert job["runtime_env"]["env_vars"]["CLUSTER_FLAVOUR"] == FLAVOURS[name]
        assert job["entrypoint"] == f"python {home}project/predict.py --out={home}results"
        plane.client.stop_job(job_id)


@pytest.mark.parametrize("name", ["centos", "mac"])
def test_a_job_finds_its_cluster_and_the_plane_in_its_environment(plane: Plane, name: str) -> None:
    job_id = submit(plane, name, "env")
    wait_for(plane.client, job_id, "SUCCEEDED")
    lines = plane.client.get_job_logs(job_id).splitlines()
    variables = dict(line.split("=", 1) for line in lines if "=" in line)
    assert variables["home_dir"] == HOMES[name]
    assert variables["CLUSTER_FLAVOUR"] == FLAVOURS[name]
    assert variables["RAY_MULTICLUSTER_CURRENT_CLUSTER"] == name
    assert variables["RAY_MULTICLUSTER_JOB_ID"] == job_id
    assert variables["RAY_MULTICLUSTER_ADDRESS"] == plane.address


def test_the_jobs_own_values_win_and_leave_no_trace_in_the_next_job(
    plane: Plane, clusters: Clusters
) -> None:
    """The prototype shared one dictionary between jobs and clusters."""
    own = submit(plane, "mac", "true", env_vars={"CLUSTER_FLAVOUR": "mine", "EXTRA": "1"})
    plain = submit(plane, "mac", "true")
    other = submit(plane, "centos", "true")
    wait_for_all(plane.client, [own, plain, other])

    def variables(name: str, job_id: str) -> dict[str, str]:
        return seen_by_ray(clusters, name, job_id)["runtime_env"]["env_vars"]

    assert variables("mac", own)["CLUSTER_FLAVOUR"] == "mine"
    assert variables("mac", own)["EXTRA"] == "1"
    assert variables("mac", own)["home_dir"] == HOMES["mac"], "what the job left out stays"
    assert variables("mac", plain)["CLUSTER_FLAVOUR"] == "darwin"
    assert "EXTRA" not in variables("mac", plain)
    assert variables("centos", other)["CLUSTER_FLAVOUR"] == "linux"
    assert "EXTRA" not in variables("centos", other)


def test_paths_are_translated_token_by_token_and_quoting_is_kept(
    plane: Plane, clusters: Clusters
) -> None:
    entrypoint = (
        "echo '/home/zorro/with space/a.csv' \"/home/zorro/$NAME\" --config=/home/zorro/c.yaml "
        "/Users/zorro/already/here /home/zorrow/other /opt/data && echo /home/zorro"
    )
    wanted = (
        "echo '/Users/zorro/with space/a.csv' \"/Users/zorro/$NAME\" --config=/Users/zorro/c.yaml "
        "/Users/zorro/already/here /home/zorrow/other /opt/data && echo /Users/zorro"
    )
    variables = {"NAME": "model.pt", "DATA": "/home/zorro/data:/opt/data", "FAR": "/srv/home/zorro"}
    job_id = submit(plane, "mac", entrypoint, env_vars=variables)
    wait_for(plane.client, job_id, "SUCCEEDED")
    job = seen_by_ray(clusters, "mac", job_id)
    assert job["entrypoint"] == wanted
    translated = job["runtime_env"]["env_vars"]
    assert translated["DATA"] == "/Users/zorro/data:/opt/data"
    assert translated["FAR"] == "/srv/home/zorro"
    assert "/Users/zorro/model.pt" in plane.client.get_job_logs(job_id)
    # For the caller it stays the submitted job.
    assert plane.client.get_job_info(job_id).entrypoint == entrypoint


def test_a_working_directory_follows_the_job_to_either_cluster(
    plane: Plane, clusters: Clusters, tmp_path: Path
) -> None:
    """One upload to the plane, which the caller's client then skips; two clusters that need it."""
    (tmp_path / "main.py").write_text(f"print('program of', {str(tmp_path)!r})\n")
    ids = {name: submit(plane, name, "python main.py", working_dir=str(tmp_path)) for name in HOMES}
    for name, job_id in ids.items():
        wait_for(plane.client, job_id, "SUCCEEDED")
        assert f"program of {tmp_path}" in plane.client.get_job_logs(job_id)
        assert where(clusters, job_id) == [name]


def test_the_sdk_is_injected_where_a_cluster_asks_for_it(make_plane: MakePlane) -> None:
    def on_mac(pool: Pool) -> None:
        pool["mac"]["inject_sdk"] = True

    plane = make_plane(on_mac)
    probe = "python -c 'import ray_multicluster_scheduler as sdk; print(\"at\", sdk.__file__)'"
    with_sdk = submit(plane, "mac", probe)
    without = submit(plane, "centos", probe)
    wait_for(plane.client, with_sdk, "SUCCEEDED")
    assert "py_modules_files" in plane.client.get_job_logs(with_sdk)
    info = wait_for(plane.client, without, "FAILED")
    assert "No module named 'ray_multicluster_scheduler'" in info.message
