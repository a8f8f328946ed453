"""examples/quant_prediction as it is, on two clusters with homes of their own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import yaml

from support import processes
from support.plane import REPOSITORY, MakePlane
from support.pool import Pool
from support.program import environment
from support.ray_cluster import Clusters
from support.waiting import PATIENCE

EXAMPLE = REPOSITORY / "examples" / "quant_prediction"
ACTORS = {
    "graph_prediction": {"graph-hs300", "graph-zz500", "graph-sz50"},
    "fund_prediction": {"fund-hs300", "fund-zz500"},
}


def test_the_users_program_runs_unchanged(
    clusters: Clusters, make_plane: MakePlane, tmp_path: Path
) -> None:
    """Each job on a cluster of its own, with its paths and variables; its actors beside it."""
    # Everybody has a copy below their own home: whoever submits, and each cluster.
    homes = {name: tmp_path / name / "zorro" for name in ("laptop", *clusters)}
    for home in homes.values():
        shutil.copytree(EXAMPLE, home / "project" / "quant_prediction")

    def as_in_the_example(pool: Pool) -> None:
        for ours in yaml.safe_load((EXAMPLE / "cluster.yaml").read_text())["clusters"]:
            variables = ours["runtime_env"]["env_vars"]
            theirs = variables["home_dir"]
            here = str(homes[ours["name"]])
            moved = {name: value.replace(theirs, here) for name, value in variables.items()}
            pool[ours["name"]].update(inject_sdk=True, runtime_env={"env_vars": moved})

    # Those of other tests may take a while to go.
    before = companions(clusters)
    plane = make_plane(as_in_the_example, submission_interval="40s")
    done = subprocess.run(
        [sys.executable, homes["laptop"] / "project" / "quant_prediction" / "main.py"],
        env=environment(plane, homes["laptop"]),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180 * PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr

    jobs = {job["id"].rsplit("-", 2)[0]: job for job in plane.get("/v1/jobs")["items"]}
    assert jobs.keys() == ACTORS.keys()
    assert {job["cluster"] for job in jobs.values()} == set(clusters)
    for script, job in jobs.items():
        cluster = clusters[job["cluster"]]
        on_ray = cluster.job(job["id"])
        assert on_ray is not None
        assert on_ray["status"] == "SUCCEEDED"
        assert on_ray["metadata"]["job_name"] == script
        folder = homes[cluster.name] / "project" / "quant_prediction"
        assert on_ray["entrypoint"] == f"python {folder}/jobs/{script}.py"
        printed = plane.get(f"/v1/jobs/{job['id']}/logs")["text"]
        flavour = {"centos": "CentOS under KubeRay", "mac": "a Mac"}[cluster.name]
        assert (
            f"{script} runs on {cluster.name} ({flavour}), with the models in {folder}" in printed
        )

        # As the cluster itself says, and of this job alone.
        actors = cluster.get("/api/v0/actors?limit=10000")["data"]["result"]["result"]
        ours = [actor for actor in actors if actor["class_name"].endswith("Predictor")]
        assert {actor["name"] for actor in ours} == ACTORS[script]
        assert {actor["job_id"] for actor in ours} == {on_ray["job_id"]}

    assert companions(clusters) <= before


def companions(clusters: Clusters) -> set[int]:
    """The processes that Ray starts for programs outside of a cluster; see docs/diagnosis.md."""
    pids = [pid for cluster in clusters.values() for pid in cluster.pids]
    return {pid for pid in pids if "specific-server" in processes.command_line(pid)}
