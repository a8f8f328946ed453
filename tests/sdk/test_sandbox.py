"""`ray-multicluster sandbox` with the real Ray: up, used, and removed without a trace."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from ray.job_submission import JobSubmissionClient

from support import processes
from support.plane import binary
from support.ray_cluster import BIN, clean_environment
from support.waiting import PATIENCE, wait_until

# A job that ignores SIGTERM, in its own session, like all of Ray's jobs.
STUBBORN = "python -c 'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)'"


class Sandbox:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = clean_environment(home)

    def __call__(self, *arguments: object) -> str:
        command = [str(binary()), "sandbox", *map(str, arguments)]
        done = subprocess.run(
            command,
            env=self.env,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=180 * PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def clusters(self) -> dict[str, dict[str, Any]]:
        told = json.loads(self("status", "--output", "json"))
        return {row["name"]: row for row in told["clusters"]}


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    sandbox = Sandbox(tmp_path)
    yield sandbox
    sandbox("down")


def test_a_pool_that_leaves_no_process_behind(sandbox: Sandbox) -> None:
    project = sandbox.home / "project" / "mine"
    project.mkdir(parents=True)
    (project / "mine.py").write_text("print('mine')")
    sandbox("up", "one", "--cpus", 2, "--ray", BIN / "ray", "--project", project)

    one = sandbox.clusters()["one"]
    assert one["state"] == "up"
    directory = sandbox.home / ".ray_scheduler" / "sandbox"
    (entry,) = yaml.safe_load((directory / "cluster.yaml").read_text())["clusters"]
    assert (entry["dashboard"], entry["head_address"]) == (one["dashboard"], one["head_address"])
    variables = entry["runtime_env"]["env_vars"]
    assert variables["home_dir"] == one["home"]
    # At the same place below the cluster's home as below the user's.
    assert variables["PYTHONPATH"] == f"{one['home']}/project/mine"
    assert (Path(one["home"]) / "project/mine/mine.py").read_text() == "print('mine')"
    # Only its user can use it, and the control plane of its user.
    token_file = Path(entry["token_file"])
    assert token_file.parent == directory
    assert stat.S_IMODE(token_file.stat().st_mode) == 0o600
    headers = {"Authorization": f"Bearer {token_file.read_text().strip()}"}
    nodes = f"{one['dashboard']}/api/v0/nodes"
    assert requests.get(nodes, timeout=20).status_code == 401
    answer = requests.get(nodes, headers=headers, timeout=20).json()
    (node,) = answer["data"]["result"]["result"]
    # It cannot be reached from the network.
    assert node["node_ip"] == "127.0.0.1"
    assert node["resources_total"]["CPU"] == 2

    client = JobSubmissionClient(one["dashboard"], headers=headers)
    job = client.submit_job(entrypoint=STUBBORN)
    wait_until(lambda: client.get_job_status(job) == "RUNNING", "the job runs", 90)
    mark = f"RAY_MULTICLUSTER_SANDBOX={one['temp_dir']}"
    before = [pid for pid in processes.all_pids() if belongs(pid, one["pid"], mark)]
    assert len(before) > 10

    # Again: the same processes.
    sandbox("up")
    assert sandbox.clusters()["one"]["pid"] == one["pid"]
    # Its first process dies; it comes back under the same address.
    os.kill(one["pid"], signal.SIGKILL)
    wait_until(lambda: sandbox.clusters()["one"]["state"] == "down", "it is seen to be down")
    sandbox("up")
    again = sandbox.clusters()["one"]
    assert (again["state"], again["dashboard"]) == ("up", one["dashboard"])
    assert again["pid"] != one["pid"]
    assert left(before) == []

    mark = f"RAY_MULTICLUSTER_SANDBOX={again['temp_dir']}"
    before = [pid for pid in processes.all_pids() if belongs(pid, again["pid"], mark)]
    assert "one down" in sandbox("down")
    assert left(before) == []
    assert not Path(again["temp_dir"]).exists()
    assert not Path(one["temp_dir"]).exists()
    assert not (directory / "cluster.yaml").exists()
    assert not token_file.exists()
    assert sandbox.clusters() == {}


def belongs(pid: int, session: int, mark: str) -> bool:
    """According to the kernel: by its session, or the mark that it was started with."""
    try:
        if os.getsid(pid) == session:
            return processes.is_running(pid)
        return mark in Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return False


def left(pids: list[int]) -> list[str]:
    return [processes.command_line(pid)[:120] for pid in pids if processes.is_running(pid)]
