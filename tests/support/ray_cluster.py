"""One real Ray cluster of one node, on ports, in a directory and with a HOME of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import requests

from . import ports, processes
from .waiting import wait_until

BIN = Path(sys.executable).parent
GIB = 1 << 30

# `ray`, for a second node: without a machine's own address (see below) it would refuse one.
JOIN = """
from ray._private import ray_constants, services
from ray.scripts.scripts import main
ray_constants.ENABLE_RAY_CLUSTER = True
services.resolve_ip_for_localhost = lambda host: host
services.get_node_ip_address = lambda *_, **__: "127.0.0.1"
main()
"""
ROOT_PREFIX = "rmc-e2e-"


def clean_environment(home: Path) -> dict[str, str]:
    """The environment for Ray and its command line: nothing of the caller's own Ray setup."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "SCHEDULER_"))}
    env.update(
        # Ray keeps a token there, and turns authentication on by itself when it finds one.
        HOME=str(home),
        RAY_AUTH_MODE="disabled",
        RAY_USAGE_STATS_ENABLED="0",
        # Entrypoints say `python` and mean the one that has Ray.
        PATH=f"{BIN}:{os.environ['PATH']}",
        VIRTUAL_ENV=str(BIN.parent),
        # No proxy between processes of one machine.
        NO_PROXY="127.0.0.1,localhost",
        no_proxy="127.0.0.1,localhost",
        # Lines of a job's output arrive when they are printed.
        PYTHONUNBUFFERED="1",
        NO_COLOR="1",
    )
    return env


class RayCluster:
    """Starts with `start()`; every port stays the same over `kill()` and `restart()`."""

    def __init__(
        self,
        name: str,
        num_cpus: int = 4,
        resources: dict[str, float] | None = None,
        env: dict[str, str] | None = None,
    ):
        self.name = name
        self.num_cpus = num_cpus
        self.resources = resources or {}
        self.env = env or {}
        # Short: Ray puts sockets below it, and a socket's path may have 107 characters.
        self.directory = Path(tempfile.mkdtemp(prefix=ROOT_PREFIX, dir="/tmp"))
        (self.directory / "owner").write_text(str(os.getpid()))
        self.home = self.directory / "home"
        self.home.mkdir()
        self._ports = ports.a_block()
        self._incarnation = 0

    @property
    def dashboard(self) -> str:
        return f"http://127.0.0.1:{self._port('dashboard')}"

    @property
    def head_address(self) -> str:
        """Of Ray Client. Only programs with tasks and actors of their own connect to it."""
        return f"127.0.0.1:{self._port('client')}"

    @property
    def gcs_address(self) -> str:
        """For drivers on this machine: what a job has in RAY_ADDRESS."""
        return f"127.0.0.1:{self._port('gcs')}"

    @property
    def pids(self) -> list[int]:
        return processes.belonging_to(self.directory)

    def start(self) -> RayCluster:
        self._incarnation += 1
        taken = [port for port in self._ports if not ports.is_free(port)]
        assert not taken, f"ports of Ray cluster {self.name} are in use: {taken}"
        self._ray_start(
            "--head",
            "--dashboard-host=127.0.0.1",
            f"--port={self._port('gcs')}",
            f"--dashboard-port={self._port('dashboard')}",
            f"--ray-client-server-port={self._port('client')}",
            f"--dashboard-agent-listen-port={self._port('agent')}",
            f"--dashboard-agent-grpc-port={self._port('agent_grpc')}",
            f"--runtime-env-agent-port={self._port('runtime_env')}",
            f"--node-manager-port={self._port('node_manager')}",
            f"--object-manager-port={self._port('object_manager')}",
            f"--metrics-export-port={self._port('metrics')}",
            f"--min-worker-port={self._ports[len(PORTS)]}",
            f"--max-worker-port={self._ports[-1]}",
            f"--num-cpus={self.num_cpus}",
            # As the CPUs, whatever the machine has.
            f"--memory={self.num_cpus * 2 * GIB}",
            f"--resources={json.dumps(self.resources)}",
            # A directory per start: nothing of the last one is taken for this one's.
            f"--temp-dir={self.directory / str(self._incarnation)}",
        )
        wait_until(self.is_usable, f"Ray cluster {self.name} takes jobs", timeout=120)
        return self

    def add_node(self, num_cpus: int, labels: dict[str, str] | None = None) -> None:
        """Another node beside the head, with ports of its own."""
        taken = ports.a_block()
        uses = ("dashboard-agent-listen", "dashboard-agent-grpc", "runtime-env-agent")
        uses += ("node-manager", "object-manager", "metrics-export")
        self._ray_start(
            f"--address={self.gcs_address}",
            *(f"--{use}-port={port}" for use, port in zip(uses, taken)),
            f"--min-worker-port={taken[len(uses)]}",
            f"--max-worker-port={taken[-1]}",
            f"--num-cpus={num_cpus}",
            f"--memory={num_cpus * 2 * GIB}",
            f"--labels={','.join(f'{name}={value}' for name, value in (labels or {}).items())}",
        )

    def _ray_start(self, *options: str) -> None:
        command = [
            *self.launcher(),
            *([str(BIN / "ray")] if "--head" in options else [sys.executable, "-c", JOIN]),
            "start",
            "--node-ip-address=127.0.0.1",
            f"--object-store-memory={100 * 1024 * 1024}",
            "--disable-usage-stats",
            *options,
        ]
        env = {**clean_environment(self.home), **self.env}
        # Without it Ray takes 127.0.0.1 for the machine's own address, and listens there.
        env["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        env["AUTOSCALER_METRIC_PORT"] = str(self._port("autoscaler_metrics"))
        env["DASHBOARD_METRIC_PORT"] = str(self._port("dashboard_metrics"))
        log = self.directory / "start.log"
        with log.open("ab") as out:
            # Its own session: an interrupt at the keyboard is for pytest, which then cleans up.
            done = subprocess.run(
                command,
                env=env,
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
        """What starts it, if not we ourselves."""
        return []

    def is_usable(self) -> bool:
        """A node is alive, and both ends of the job API answer (the version alone comes early)."""
        nodes = self.get("/api/v0/nodes")["data"]["result"]["result"]
        alive = any(node["state"] == "ALIVE" for node in nodes)
        with socket.create_connection(("127.0.0.1", self._port("agent")), timeout=2):
            return alive and isinstance(self.get("/api/jobs/"), list)

    def kill(self) -> None:
        """SIGKILL to every process of it, jobs included: the machine lost power."""
        processes.kill_all_of(self.directory)

    def restart(self) -> None:
        """A new head on the same ports, that knows nothing of the old one's jobs."""
        try:
            self._start_anew()
        except AssertionError:
            # Ray gives its own processes a fixed time to come up; a busy machine needs longer.
            self._start_anew()

    def _start_anew(self) -> None:
        self.kill()
        wait_until(
            lambda: all(ports.is_free(port) for port in self._ports),
            f"the ports of {self.name} are free again",
        )
        self.start()

    def freeze(self) -> None:
        """It hangs: connections are taken by the kernel, and nobody ever answers."""
        processes.send(self.pids, signal.SIGSTOP)

    def thaw(self) -> None:
        processes.send(self.pids, signal.SIGCONT)

    def ensure_usable(self) -> None:
        """For after a test that broke it on purpose."""
        self.thaw()
        try:
            wait_until(self.is_usable, f"{self.name} is usable", timeout=10)
        except AssertionError:
            self.restart()

    def stop_all_jobs(self) -> None:
        """For after a test that failed half way: the next one finds an idle cluster."""
        for job in self.get("/api/jobs/"):
            if job["submission_id"] and job["status"] in {"PENDING", "RUNNING"}:
                url = f"{self.dashboard}/api/jobs/{job['submission_id']}/stop"
                requests.post(url, timeout=20)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def get(self, path: str, timeout: float = 20) -> Any:
        answer = requests.get(self.dashboard + path, timeout=timeout)
        answer.raise_for_status()
        return answer.json()

    def job(self, submission_id: str) -> dict[str, Any] | None:
        """What Ray itself says about a job; None if it does not know it."""
        answer = requests.get(f"{self.dashboard}/api/jobs/{submission_id}", timeout=20)
        if answer.status_code == 404:
            return None
        answer.raise_for_status()
        return answer.json()

    def submission_ids(self) -> set[str]:
        return {job["submission_id"] for job in self.get("/api/jobs/") if job["submission_id"]}

    def _port(self, use: str) -> int:
        return self._ports[PORTS.index(use)]


# The first ports of a cluster's block, by use; the workers have the rest.
PORTS = (
    "gcs",
    "dashboard",
    "client",
    "agent",
    "agent_grpc",
    "runtime_env",
    "node_manager",
    "object_manager",
    "metrics",
    "autoscaler_metrics",
    "dashboard_metrics",
)


Clusters = dict[str, RayCluster]


def where(clusters: Clusters, submission_id: str) -> list[str]:
    """On which clusters there is such a job, as they themselves say."""
    return [name for name, cluster in clusters.items() if cluster.job(submission_id)]


def remove_abandoned() -> None:
    """Ends the clusters of test runs that were killed before they could clean up."""
    for directory in Path("/tmp").glob(f"{ROOT_PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            if not processes.is_running(int((directory / "owner").read_text())):
                processes.kill_all_of(directory)
                shutil.rmtree(directory, ignore_errors=True)
