"""One real Ray cluster of one node, on ports, in a directory and with a HOME of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import requests

from ray_multicluster_scheduler._sandbox import cluster
from ray_multicluster_scheduler._sandbox.ports import is_free

from . import ports, processes
from .waiting import wait_until

BIN = Path(sys.executable).parent

# `ray`, for a second node: without an address of the machine (see below) it would refuse one.
JOIN = """
from ray._private import ray_constants, services
from ray.scripts.scripts import main
ray_constants.ENABLE_RAY_CLUSTER = True
services.resolve_ip_for_localhost = lambda host: host
services.get_node_ip_address = lambda *_, **__: "127.0.0.1"
main()
"""
ROOT_PREFIX = "rmc-e2e-"


def clean_environment(home: Path, bin: Path = BIN) -> dict[str, str]:
    """The environment for Ray and its command line, without the caller's own Ray setup.

    `bin` is that of the virtual environment whose Ray is meant.
    """
    proxies = {k: v for k, v in os.environ.items() if k.lower().endswith("_proxy")}
    return {
        **cluster.clean_environment(home, bin),
        # For pip, in a job's own environment; no proxy between processes of one machine.
        **proxies,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "VIRTUAL_ENV": str(bin.parent),
        "NO_COLOR": "1",
    }


class RayCluster:
    """Starts with `start()`; every port stays the same over `kill()` and `restart()`."""

    def __init__(
        self,
        name: str,
        num_cpus: int = 4,
        resources: dict[str, float] | None = None,
        env: dict[str, str] | None = None,
        token: str | None = None,
        bin: Path = BIN,
    ):
        """With a token, Ray accepts no request without it. `bin` has the `ray` that starts it."""
        self.name = name
        self.num_cpus = num_cpus
        self.resources = resources or {}
        self.env = env or {}
        self.bin = bin
        # Short: Ray puts sockets below it, and a socket's path may have 107 characters.
        self.directory = Path(tempfile.mkdtemp(prefix=ROOT_PREFIX, dir="/tmp"))
        (self.directory / "owner").write_text(str(os.getpid()))
        self.home = self.directory / "home"
        self.home.mkdir()
        self._block = ports.a_block()
        self.token, self.token_file = token, None
        if token is not None:
            self.token_file = self.directory / "token"
            self.token_file.write_text(token)
            self.token_file.chmod(0o600)
        self.at = cluster.Cluster(
            name, num_cpus, self._block.first, self.directory, self.token_file
        )
        self._incarnation = 0

    @property
    def dashboard(self) -> str:
        return self.at.dashboard

    @property
    def head_address(self) -> str:
        """Of Ray Client. Only programs with tasks and actors of their own connect to it."""
        return self.at.head_address

    @property
    def gcs_address(self) -> str:
        """For drivers on this machine: what a job has in RAY_ADDRESS."""
        return self.at.gcs_address

    @property
    def headers(self) -> dict[str, str]:
        """For requests to Ray itself, past the control plane."""
        return self.at.headers

    @property
    def authentication(self) -> dict[str, str]:
        """For Ray's own programs that use it directly: variables of their environment."""
        return self.at.authentication

    @property
    def pids(self) -> list[int]:
        return processes.belonging_to(self.directory)

    def start(self) -> RayCluster:
        try:
            self._start()
        except AssertionError:
            # Ray gives its own processes a fixed time to start; a busy machine needs longer.
            self._clear()
            self._start()
        return self

    def _start(self) -> None:
        self._incarnation += 1
        taken = [port for port in self._block.ports if not is_free(port)]
        assert not taken, f"ports of Ray cluster {self.name} are in use: {taken}"
        self._ray(str(self.bin / "ray"), *self.at.start_head(**self.options()))
        wait_until(self.is_usable, f"Ray cluster {self.name} takes jobs", timeout=120)

    def options(self) -> dict[str, str]:
        """More options of `ray start` for the head."""
        # A directory per start: files of an earlier start are not mistaken for new ones.
        temp_dir = str(self.directory / str(self._incarnation))
        return {"resources": json.dumps(self.resources), "temp_dir": temp_dir}

    def add_node(self, num_cpus: int, labels: dict[str, str] | None = None) -> None:
        """Another node beside the head, with ports of its own."""
        told = ",".join(f"{name}={value}" for name, value in (labels or {}).items())
        started = self.at.start_node(ports.a_block().first, num_cpus, labels=told)
        self._ray(sys.executable, "-c", JOIN, *started)

    def _ray(self, *command: str) -> None:
        env = self.at.environment(self.bin / "ray", self.home)
        log = self.directory / "start.log"
        with log.open("ab") as out:
            # Its own session: Ctrl-C is for pytest, which then cleans up.
            done = subprocess.run(
                [*self.launcher(), *command],
                env={
                    **env,
                    **clean_environment(self.home, self.bin),
                    **self.authentication,
                    **self.env,
                },
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                timeout=180,
                check=False,
            )
        if done.returncode != 0:
            text = log.read_text(errors="replace")[-3000:]
            self.kill()
            raise AssertionError(f"ray start for {self.name} gave {done.returncode}:\n{text}")

    def launcher(self) -> list[str]:
        """The command that starts it, if it is not started directly."""
        return []

    def is_usable(self) -> bool:
        return self.at.is_ready(timeout=20)

    def kill(self) -> None:
        """SIGKILL to every process of it, jobs included: the machine lost power."""
        processes.kill_all_of(self.directory)

    def restart(self) -> None:
        """A new head on the same ports, without the old one's jobs."""
        self._clear()
        self.start()

    def _clear(self) -> None:
        self.kill()
        wait_until(
            lambda: all(map(is_free, self._block.ports)),
            f"the ports of {self.name} are free again",
        )

    def freeze(self) -> None:
        """It hangs: the kernel accepts connections, but there is never an answer."""
        processes.send(self.pids, signal.SIGSTOP)

    def thaw(self) -> None:
        processes.send(self.pids, signal.SIGCONT)

    def ensure_usable(self) -> None:
        """For use after a test that broke it on purpose."""
        self.thaw()
        try:
            wait_until(self.is_usable, f"{self.name} is usable", timeout=10)
        except AssertionError:
            self.restart()

    def stop_all_jobs(self) -> None:
        """For use after a test that failed halfway: the next one finds an idle cluster."""
        for job in self.get("/api/jobs/"):
            if job["submission_id"] and job["status"] in {"PENDING", "RUNNING"}:
                url = f"{self.dashboard}/api/jobs/{job['submission_id']}/stop"
                requests.post(url, headers=self.headers, timeout=20)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def get(self, path: str, timeout: float = 20) -> Any:
        answer = requests.get(self.dashboard + path, headers=self.headers, timeout=timeout)
        answer.raise_for_status()
        return answer.json()

    def job(self, submission_id: str) -> dict[str, Any] | None:
        """Ray's own view of a job; None if it does not know it."""
        url = f"{self.dashboard}/api/jobs/{submission_id}"
        answer = requests.get(url, headers=self.headers, timeout=20)
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        return answer.json()

    def submission_ids(self) -> set[str]:
        return {job["submission_id"] for job in self.get("/api/jobs/") if job["submission_id"]}


Clusters = dict[str, RayCluster]


def where(clusters: Clusters, submission_id: str) -> list[str]:
    """The clusters that have such a job, as they themselves report."""
    return [name for name, cluster in clusters.items() if cluster.job(submission_id)]


def remove_abandoned() -> None:
    """Ends the clusters of test runs that were killed before they could clean up."""
    for directory in Path("/tmp").glob(f"{ROOT_PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            if not processes.is_running(int((directory / "owner").read_text())):
                processes.kill_all_of(directory)
                shutil.rmtree(directory, ignore_errors=True)
