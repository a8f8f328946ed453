"""A program that is connected to Ray clusters, and carries out calls of a test.

Its changes to `ray` stay in its process, and its connections serve a whole file of tests.
The program's side is support/asked.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from . import processes
from .asked import MARK
from .plane import REPOSITORY
from .ray_cluster import Clusters, RayCluster, clean_environment
from .waiting import PATIENCE

PROGRAMS = REPOSITORY / "tests" / "sdk" / "programs"


class RayProgram:
    """Each call runs in a thread of the program, so several may be under way."""

    def __init__(self, name: str, clusters: Clusters, home: Path):
        self._log = home / f"{name}.log"
        env = {
            **clean_environment(home),
            "PYTHONPATH": f"{REPOSITORY / 'python'}:{REPOSITORY / 'tests'}",
            # As on the clusters, and so in their jobs: 127.0.0.1 is used as it is.
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "CLUSTERS": json.dumps({name: facts(one) for name, one in clusters.items()}),
        }
        env.update({key: value for key, value in os.environ.items() if key.startswith("SDK_")})
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAMS / f"{name}.py")],
                env=env,
                cwd=home,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._lock = threading.Lock()
        self._asked: list[Future[Any]] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def call(self, name: str, *arguments: Any, timeout: float = 90) -> Any:
        """Calls a function of the program; an error there is an error here."""
        return self.answer(self.begin(name, *arguments), timeout)

    def begin(self, name: str, *arguments: Any) -> Future[Any]:
        with self._lock:
            future: Future[Any] = Future()
            self._asked.append(future)
            question = {"id": len(self._asked) - 1, "call": name, "arguments": arguments}
            print(json.dumps(question), file=self.process.stdin, flush=True)
        return future

    def answer(self, future: Future[Any], timeout: float = 90) -> Any:
        try:
            return future.result(timeout * PATIENCE)
        except Exception as error:
            raise AssertionError(f"{error!r}\n{self._log.read_text()[-4000:]}") from None

    def end(self) -> None:
        """Its input ends, and with it the program."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(30 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the program does not end") from None

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            for line in said:
                if line.startswith(MARK):
                    answer = json.loads(line[len(MARK) :])
                    future = self._asked[answer["id"]]
                    if "error" in answer:
                        future.set_exception(RuntimeError(answer["error"]))
                    else:
                        future.set_result(answer["value"])
        for future in self._asked:
            if not future.done():
                future.set_exception(RuntimeError("the program ended"))


def facts(cluster: RayCluster) -> dict[str, str | None]:
    """The facts that the control plane would report about a cluster."""
    version = cluster.get("/api/version")
    return {
        "head_address": cluster.head_address,
        "token": cluster.token,
        "ray_version": version["ray_version"],
        "incarnation": version["session_name"],
        "gcs_address": cluster.gcs_address,
    }


def servers(cluster: RayCluster) -> list[int]:
    """The processes that serve Ray Client connections on its head, one for each."""
    return [pid for pid in cluster.pids if "--mode=specific-server" in processes.command_line(pid)]
