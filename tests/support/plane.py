"""The control plane under test: the real binary, a config file, a state directory."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any, Callable, Protocol

import requests
from ray.job_submission import JobSubmissionClient

from . import ports, processes
from .pool import Pool
from .ray_cluster import clean_environment
from .waiting import PATIENCE, wait_until

# The planes started in this process, for the report of a failed test.
RUNNING: list[Plane] = []

REPOSITORY = Path(__file__).resolve().parents[2]


def binary() -> Path:
    path = Path(
        os.environ.get("RAY_MULTICLUSTER_BIN") or REPOSITORY / "target/debug/ray-multicluster"
    )
    assert path.is_file(), (
        f"the control plane is missing: {path}\n"
        "hint: cargo build -p multicluster-cli, or name it in RAY_MULTICLUSTER_BIN"
    )
    return _linked(path)


@functools.cache
def _linked(path: Path) -> Path:
    """A link of this process's own: a concurrent build, such as that of test_wheels.py in another
    worker, replaces the file itself.
    """
    own = path.parent / "in-tests" / str(os.getpid()) / path.name
    own.parent.mkdir(parents=True, exist_ok=True)
    own.unlink(missing_ok=True)
    os.link(path, own)
    atexit.register(shutil.rmtree, own.parent, ignore_errors=True)
    return own


class Asked(Protocol):
    """What takes requests: a control plane, or several replicas of one."""

    def request(self, method: str, path: str, **kwargs: Any) -> requests.Response: ...

    def get(self, path: str, **kwargs: Any) -> Any: ...

    def post(self, path: str, body: Any = None, **kwargs: Any) -> Any: ...


class Plane:
    """One control plane. `start`, `stop`, `kill`, `restart`; port and state stay the same."""

    def __init__(self, directory: Path, pool: Pool, env: dict[str, str] | None = None):
        self.directory = directory
        self.directory.mkdir(exist_ok=True)
        self.pool = pool
        # A folder of its own: the plane watches the folder, and log lines must not trigger it.
        self.config = directory / "config" / "cluster.yaml"
        self.config.parent.mkdir()
        self.state = directory / "state"
        self.log = directory / "plane.log"
        self.port = ports.a_port()
        self.address = f"http://127.0.0.1:{self.port}"
        # Jobs run on this machine too, so they can reach it.
        for entry in pool.clusters:
            entry.setdefault("plane_address", self.address)
        self._env = env or {}
        #: The command that starts it, such as `nsenter`.
        self.prefix: list[str] = []
        #: More options of `serve`.
        self.options: list[str] = []
        self._process: subprocess.Popen[str] | None = None
        self._stdout: list[str] = []

    def add_env(self, env: dict[str, str]) -> None:
        """For its next start."""
        self._env = {**self._env, **env}

    @property
    def client(self) -> JobSubmissionClient:
        """Ray's own client, pointed here."""
        return JobSubmissionClient(self.address)

    @property
    def pid(self) -> int:
        assert self._process is not None, "the control plane was not started"
        return self._process.pid

    def start(self, timeout: float = 30.0) -> Plane:
        """Returns when the one ready line was printed, which has the address."""
        assert self._process is None, "the control plane runs already"
        self.pool.write(self.config)
        home = self.directory / "home"
        home.mkdir(exist_ok=True)
        command = [*self.prefix, str(binary()), "serve", "--config", str(self.config)]
        command += ["--listen", f"127.0.0.1:{self.port}", "--state-dir", str(self.state)]
        command += self.options
        self._stdout.clear()
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                command,
                env={**clean_environment(home), **self._env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Ctrl-C is for pytest, which then stops the plane.
                start_new_session=True,
            )
        self._process = process
        if self not in RUNNING:
            RUNNING.append(self)
        self._is_ready = False
        spoke = threading.Event()
        threading.Thread(target=self._read, args=(process, spoke), daemon=True).start()
        if not spoke.wait(timeout * PATIENCE) or not self._is_ready:
            self.kill()
            raise AssertionError(f"the control plane did not get ready:\n{self.output()[-4000:]}")
        return self

    def wait_healthy(self, *names: str, timeout: float = 60.0) -> None:
        """Waits until these clusters (default: all) accept work."""
        wanted = set(names) or {entry["name"] for entry in self.pool.clusters}
        wait_until(
            lambda: wanted <= {c["name"] for c in self.clusters() if is_healthy(c)},
            f"{sorted(wanted)} are healthy",
            timeout,
        )

    def stop(self, timeout: float = 20.0) -> int:
        """SIGTERM; returns the exit code."""
        assert self._process is not None, "the control plane was not started"
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(timeout * PATIENCE)
        self._process = None
        return code

    def has_ended(self) -> bool:
        """Whether it has exited, or was killed."""
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        """SIGKILL: it has no chance to finish anything."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """SIGTERM and start."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Ends it in any state, by force if necessary."""
        if self._process is not None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.kill()
        if self in RUNNING:
            RUNNING.remove(self)

    def output(self) -> str:
        log = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "".join(self._stdout) + log

    def resident_bytes(self) -> int:
        return processes.resident_bytes(self.pid)

    def request(self, method: str, path: str, **kwargs: Any) -> requests.Response:
        kwargs.setdefault("timeout", 30)
        return requests.request(method, self.address + path, **kwargs)

    def get(self, path: str, **kwargs: Any) -> Any:
        return expect_ok(self.request("GET", path, **kwargs))

    def post(self, path: str, body: Any = None, **kwargs: Any) -> Any:
        return expect_ok(self.request("POST", path, json=body, **kwargs))

    def clusters(self) -> list[dict[str, Any]]:
        return self.get("/v1/clusters")["items"]

    def cluster(self, name: str) -> dict[str, Any]:
        return self.get(f"/v1/clusters/{name}")

    def native_job(self, job_id: str) -> dict[str, Any]:
        return self.get(f"/v1/jobs/{job_id}")

    def _read(self, process: subprocess.Popen[str], spoke: threading.Event) -> None:
        """To the end, past the ready line: a full pipe would block the plane."""
        assert process.stdout is not None
        with contextlib.suppress(ValueError):
            for line in process.stdout:
                self._stdout.append(line)
                if re.search(rf"127\.0\.0\.1:{self.port}\b", line):
                    self._is_ready = True
                    spoke.set()
        spoke.set()


def lonely(directory: Path, env: dict[str, str] | None = None, **settings: Any) -> Plane:
    """A control plane whose only cluster does not exist: submitted work waits."""
    pool = Pool([], settings)
    pool.clusters = [
        {"name": "away", "head_address": "127.0.0.1:1", "dashboard": "http://127.0.0.1:1"}
    ]
    return Plane(directory / "plane", pool, env)


# Creates planes for one test: see `make_plane` in conftest.
MakePlane = Callable[..., Plane]


def expect_ok(answer: requests.Response) -> Any:
    assert answer.ok, f"{answer.request.method} {answer.url}: {answer.status_code} {answer.text}"
    return answer.json() if answer.content else None


def is_healthy(cluster: dict[str, Any]) -> bool:
    return cluster["health"]["state"] == "healthy"
