"""A real Airflow with SQLite, in a directory of its own: every component a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import requests

from support import ports, processes
from support.plane import Plane
from support.waiting import PATIENCE, wait_until

HERE = Path(__file__).parent
DAGS = HERE / "dags"

COMPONENTS = {
    2: {
        "webserver": ["--workers", "1"],
        "scheduler": ["--skip-serve-logs"],
        "triggerer": ["--skip-serve-logs"],
    },
    3: {
        "api-server": ["--workers", "1"],
        "scheduler": ["--skip-serve-logs"],
        "dag-processor": [],
        "triggerer": ["--skip-serve-logs"],
    },
}


def environment(name: str) -> Path:
    """The folder with the programs of one of the environments."""
    return Path(os.environ["INTEGRATIONS"]) / name / "bin"


class Airflow:
    def __init__(self, major: int, directory: Path, plane: Plane) -> None:
        self.major = major
        self.directory = directory
        self.bin = environment(f"airflow{major}")
        self.port = ports.a_port()
        # What the DAGs of the tests read and write.
        self.files = directory / "files"
        self.files.mkdir()
        self._plane = plane
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._session = requests.Session()

    # -- processes

    def start(self) -> None:
        self._configure()
        self.run("db", "migrate")
        for component in COMPONENTS[self.major]:
            self.start_component(component)
        wait_until(lambda: self._get("/health" if self.major == 2 else "/monitor/health"), "up", 90)

    def start_component(self, name: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [self.bin / "airflow", name, *COMPONENTS[self.major][name]],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop_component(self, name: str) -> None:
        """SIGTERM, as an operator restarts it."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        process.wait(60 * PATIENCE)

    def close(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()
        processes.kill_all_of(self.directory)

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.bin / "airflow", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120 * PATIENCE,
        )
        assert done.returncode == 0, f"airflow {arguments}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _configure(self) -> None:
        connection = {
            "conn_type": "ray_multicluster",
            "host": "127.0.0.1",
            "port": self._plane.port,
            "extra": {"prefix": f"af{self.major}"},
        }
        secret = "0123456789abcdef0123456789abcdef"
        of_major = {
            2: {
                "WEBSERVER__WEB_SERVER_PORT": self.port,
                "WEBSERVER__WEB_SERVER_HOST": "127.0.0.1",
                "WEBSERVER__SECRET_KEY": secret,
                "API__AUTH_BACKENDS": "airflow.api.auth.backend.default",
            },
            3: {
                "API__PORT": self.port,
                "API__HOST": "127.0.0.1",
                "API__SECRET_KEY": secret,
                "API_AUTH__JWT_SECRET": secret,
                "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{self.port}/execution/",
                "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
                "DAG_PROCESSOR__REFRESH_INTERVAL": 5,
            },
        }[self.major]
        settings = {
            "CORE__DAGS_FOLDER": DAGS,
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": 12,
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.directory}/airflow.db",
            "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": 1,
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": 0.2,
            "SCHEDULER__ENABLE_HEALTH_CHECK": "False",
            "TRIGGERER__JOB_HEARTBEAT_SEC": 1,
            **of_major,
        }
        home = self.directory / "home"
        home.mkdir()
        self.environment = {
            "PATH": f"{self.bin}:/usr/bin:/bin",
            "HOME": str(home),
            "AIRFLOW_HOME": str(self.directory),
            "NO_PROXY": "*",
            # SQLite with LocalExecutor, which Airflow 2 wants nobody to run in production.
            "_AIRFLOW__SKIP_DATABASE_EXECUTOR_COMPATIBILITY_CHECK": "1",
            "INTEGRATION_FILES": str(self.files),
            "AIRFLOW_CONN_RAY_MULTICLUSTER_DEFAULT": json.dumps(connection),
            "AIRFLOW_CONN_RAY_STOCK": json.dumps(
                {"conn_type": "ray", "extra": {"address": self._plane.address}}
            ),
            **{f"AIRFLOW__{name}": str(value) for name, value in settings.items()},
        }
        (self.directory / "webserver_config.py").write_text("AUTH_ROLE_PUBLIC = 'Admin'\n")

    # -- what a person does in its UI

    def trigger(self, dag: str) -> str:
        """The id of the run."""
        body = {"conf": {}} if self.major == 2 else {"logical_date": None}
        wait_until(lambda: self._get(f"/dags/{dag}"), f"DAG {dag} is parsed", 90)
        return self._post(f"/dags/{dag}/dagRuns", body)["dag_run_id"]

    def task(self, dag: str, run: str, task: str) -> dict[str, Any]:
        return self._get(f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}")

    def wait_for(self, dag: str, run: str, task: str, *states: str, timeout: float = 90) -> None:
        def look() -> bool:
            now = self.task(dag, run, task)["state"]
            if now in ("failed", "success", "upstream_failed") and now not in states:
                raise Ended(f"{task} is {now}:\n{self.log(dag, run, task)[-6000:]}")
            return now in states

        wait_until(look, f"{dag}.{task} is {states}", timeout)

    def mark_failed(self, dag: str, run: str, task: str) -> None:
        path = f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}"
        body: dict[str, Any] = {"new_state": "failed"}
        if self.major == 2:
            body["dry_run"] = False
        self._request("PATCH", path, body)

    def clear(self, dag: str, run: str, task: str) -> None:
        body = {
            "dry_run": False,
            "task_ids": [task],
            "dag_run_id": run,
            "only_failed": False,
            # As the UI does: the run goes on.
            "reset_dag_runs": True,
        }
        self._post(f"/dags/{dag}/clearTaskInstances", body)

    def log(self, dag: str, run: str, task: str) -> str:
        """All tries of it."""
        folder = self.directory / "logs" / f"dag_id={dag}" / f"run_id={run}" / f"task_id={task}"
        return "\n".join(
            file.read_text(errors="replace") for file in sorted(folder.rglob("*.log*"))
        )

    def _get(self, path: str) -> Any:
        return self._request("GET", path)

    def _post(self, path: str, body: Any) -> Any:
        return self._request("POST", path, body)

    def _request(self, method: str, path: str, body: Any = None) -> Any:
        at = f"http://127.0.0.1:{self.port}"
        if self.major == 3 and "Authorization" not in self._session.headers:
            token = self._session.get(f"{at}/auth/token", timeout=30).json()["access_token"]
            self._session.headers["Authorization"] = f"Bearer {token}"
        root = "/api/v1" if self.major == 2 else "/api/v2"
        answer = self._session.request(method, f"{at}{root}{path}", json=body, timeout=30)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()


class Ended(BaseException):
    """Not an Exception: waiting for another state would be in vain."""
