"""One Ray cluster of one node: how it starts, and when it accepts jobs."""

from __future__ import annotations

import json
import os
import socket
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import _env
from .ports import SIZE
from .processes import Family, Process

#: The least that Ray accepts is 75 MB.
OBJECT_STORE_BYTES = 100 << 20
MEMORY_PER_CPU = 2 << 30

#: Options of `ray start`, in the order of a block's first ports.
RAY_PORTS = (
    "port",
    "dashboard-port",
    "ray-client-server-port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "runtime-env-agent-port",
    "node-manager-port",
    "object-manager-port",
    "metrics-export-port",
)
#: Ports that Ray reads from the environment.
OTHER_PORTS = ("autoscaler-metrics", "dashboard-metrics")
#: Ports that every node has, not only the head.
NODE_PORTS = RAY_PORTS[3:]
#: The first port of the workers; the last one of the block is our claim to it.
WORKERS = 20

#: Our own servers are on this machine: no proxy in between.
_http = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Cluster:
    """The addresses and directories of a cluster, whether it runs or not."""

    name: str
    cpus: int
    first_port: int
    #: Set in the environment of everything that it starts, which identifies its processes.
    temp_dir: Path
    #: Its token, which all requests must show; None: anyone on this machine may use it.
    token_file: Path | None = None

    @property
    def dashboard(self) -> str:
        return f"http://127.0.0.1:{self.port('dashboard-port')}"

    @property
    def head_address(self) -> str:
        """Of Ray Client."""
        return f"127.0.0.1:{self.port('ray-client-server-port')}"

    @property
    def gcs_address(self) -> str:
        """For drivers on this machine: what a job has in RAY_ADDRESS."""
        return f"127.0.0.1:{self.port('port')}"

    def port(self, use: str) -> int:
        return self.first_port + (RAY_PORTS + OTHER_PORTS).index(use)

    def family(self, leader: Process | None = None) -> Family:
        return Family(f"{_env.SANDBOX}={self.temp_dir}", leader)

    def start_head(self, **options: object) -> list[str]:
        """Arguments of `ray` that start the head; `options` are more of `ray start`."""
        return [
            *self._start(self.first_port, RAY_PORTS, self.cpus),
            "--head",
            f"--node-name={self.name}",
            "--dashboard-host=127.0.0.1",
            *(f"--{name.replace('_', '-')}={value}" for name, value in options.items()),
        ]

    def start_node(self, first_port: int, cpus: int, **options: object) -> list[str]:
        """The same for another node, whose ports begin at `first_port`."""
        return [
            *self._start(first_port, NODE_PORTS, cpus),
            f"--address={self.gcs_address}",
            *(f"--{name.replace('_', '-')}={value}" for name, value in options.items()),
        ]

    def _start(self, first: int, uses: tuple[str, ...], cpus: int) -> list[str]:
        return [
            "start",
            "--disable-usage-stats",
            "--node-ip-address=127.0.0.1",
            f"--num-cpus={cpus}",
            # Fixed, like the CPUs, whatever the machine has.
            f"--memory={cpus * MEMORY_PER_CPU}",
            f"--object-store-memory={OBJECT_STORE_BYTES}",
            *(f"--{use}={first + number}" for number, use in enumerate(uses)),
            f"--min-worker-port={first + WORKERS}",
            f"--max-worker-port={first + SIZE - 2}",
        ]

    @property
    def authentication(self) -> dict[str, str]:
        """Variables for Ray's own programs that use this cluster."""
        if self.token_file is None:
            return {"RAY_AUTH_MODE": "disabled"}
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token_file)}

    @property
    def headers(self) -> dict[str, str]:
        """For requests to its dashboard."""
        if self.token_file is None:
            return {}
        return {"Authorization": f"Bearer {self.token_file.read_text().strip()}"}

    def environment(self, ray: Path, home: Path) -> dict[str, str]:
        """For `ray start` and all processes that it starts."""
        return {
            **clean_environment(home, ray.parent),
            **self.authentication,
            # Everything on 127.0.0.1, as Ray itself does on macOS. Without this, `ray start` uses
            # the machine's address, and anyone on the network could run code here.
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "AUTOSCALER_METRIC_PORT": str(self.port("autoscaler-metrics")),
            "DASHBOARD_METRIC_PORT": str(self.port("dashboard-metrics")),
            _env.SANDBOX: str(self.temp_dir),
        }

    def is_ready(self, timeout: float = 5.0) -> bool:
        """A node is alive, and both ends of the job API answer."""
        try:
            # The agent starts last, and is the cheapest to ask.
            agent = ("127.0.0.1", self.port("dashboard-agent-listen-port"))
            socket.create_connection(agent, timeout).close()
            nodes = self.get("/api/v0/nodes", timeout)["data"]["result"]["result"]
            jobs = self.get("/api/jobs/", timeout)
        except (OSError, ValueError, KeyError, TypeError):
            return False
        return any(node["state"] == "ALIVE" for node in nodes) and isinstance(jobs, list)

    def get(self, path: str, timeout: float = 20.0) -> Any:
        """The answer of its dashboard."""
        request = urllib.request.Request(self.dashboard + path, headers=self.headers)
        with _http.open(request, timeout=timeout) as answer:
            return json.load(answer)


def clean_environment(
    home: Path, bin: Path, given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment for Ray and its programs, without the caller's own Ray, settings and
    proxies, which have no place between processes of one machine.
    """
    given = os.environ if given is None else given
    kept = {name: value for name, value in given.items() if not _is_private(name.lower())}
    return {
        **kept,
        # Ray keeps a token there, and enables authentication automatically when it finds one.
        "HOME": str(home),
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        # Entrypoints say `python` and mean the one that has Ray.
        "PATH": os.pathsep.join([str(bin), given.get("PATH", os.defpath)]),
        # Lines of a job's output arrive when they are printed.
        "PYTHONUNBUFFERED": "1",
    }


def _is_private(name: str) -> bool:
    return name.startswith(("ray_", "scheduler_")) or name.endswith("_proxy") or name in PRIVATE


PRIVATE = ("pythonpath", "pythonhome", "cluster_config_file")
