"""Several replicas of one control plane on one database, each with wires of its own."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from .plane import Plane, expect_ok, is_healthy
from .pool import Pool
from .postgres import Database
from .waiting import PATIENCE, wait_until
from .wire import Wire

#: Of the leader, in seconds.
LEASE = 1.5


class Replica:
    """One process, with a wire to the database and one to each cluster."""

    def __init__(
        self,
        name: str,
        directory: Path,
        database: Database,
        entries: list[dict[str, Any]],
        scheduler: dict[str, Any],
        env: dict[str, str],
        behind_wires: bool,
    ) -> None:
        self.name = name
        self.to_database = Wire(database.server.host)
        self.to_clusters: dict[str, Wire] = {}
        pool = Pool([], scheduler)
        for entry in entries:
            parts = urlsplit(entry["dashboard"])
            if behind_wires:
                wire = self.to_clusters[entry["name"]] = Wire(parts.netloc)
                entry = {**entry, "dashboard": f"http://{wire.address}{parts.path}"}
            pool.clusters.append(dict(entry))
        self.plane = Plane(directory / name, pool, env)
        self.plane.options = ["--store", database.url(self.to_database.address)]
        self.plane.options += ["--advertise", self.plane.address]
        self.is_frozen = False
        # One at a time: a storm and a keeper may both want to start it.
        self._lock = threading.RLock()

    @property
    def wires(self) -> list[Wire]:
        return [self.to_database, *self.to_clusters.values()]

    @property
    def is_live(self) -> bool:
        return not self.is_frozen and not self.plane.has_ended()

    def start(self) -> None:
        with self._lock:
            if self.plane.has_ended():
                self.plane.kill()
                self.plane.start()

    def stop(self) -> int:
        """SIGTERM: it hands the lead over, if it leads."""
        with self._lock:
            return self.plane.stop()

    def kill(self) -> None:
        with self._lock:
            self.is_frozen = False
            self.plane.kill()

    def freeze(self) -> None:
        """SIGSTOP."""
        if not self.plane.has_ended():
            self.is_frozen = True
            os.kill(self.plane.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        if not self.plane.has_ended():
            os.kill(self.plane.pid, signal.SIGCONT)
        self.is_frozen = False

    def seen(self, timeout: float = 2.0) -> dict[str, Any]:
        """What it says of who leads: GET /v1/plane."""
        return expect_ok(self.plane.request("GET", "/v1/plane", timeout=timeout))

    def is_leader(self) -> bool:
        with contextlib.suppress(requests.RequestException, AssertionError):
            return self.is_live and self.seen()["role"] == "leader"
        return False

    def close(self) -> None:
        for wire in self.wires:
            wire.disarm()
        self.thaw()
        self.plane.close()
        for wire in self.wires:
            wire.close()


class Replicas:
    """Takes requests as a Plane does, by any replica that is up."""

    def __init__(
        self,
        directory: Path,
        database: Database,
        entries: list[dict[str, Any]],
        count: int = 2,
        env: dict[str, str] | None = None,
        seed: int = 0,
        behind_wires: bool = True,
        **scheduler: Any,
    ) -> None:
        self.database = database
        directory.mkdir(parents=True, exist_ok=True)
        self.all = [
            Replica(f"r{n}", directory, database, entries, scheduler, env or {}, behind_wires)
            for n in range(count)
        ]
        self._dice = random.Random(seed)

    def __iter__(self) -> Iterator[Replica]:
        return iter(self.all)

    def __getitem__(self, name: str) -> Replica:
        return next(replica for replica in self.all if replica.name == name)

    def start(self) -> Replicas:
        """The first one makes the tables."""
        self.all[0].start()
        together(replica.start for replica in self.all)
        self.wait_for_leader()
        return self

    def live(self) -> list[Replica]:
        return [replica for replica in self.all if replica.is_live]

    def leader(self) -> Replica | None:
        """Which one says that it leads."""
        return next((replica for replica in self.live() if replica.is_leader()), None)

    def followers(self) -> list[Replica]:
        leader = self.wait_for_leader()
        return [replica for replica in self.live() if replica is not leader]

    def pair(self) -> tuple[Replica, Replica]:
        """The leader and a follower."""
        leader = self.wait_for_leader()
        return leader, next(replica for replica in self.live() if replica is not leader)

    def wait_for_leader(self, but: Replica | None = None, timeout: float = 30) -> Replica:
        """Any, or another than this one."""

        def look() -> Replica | None:
            leader = self.leader()
            return leader if leader is not but else None

        return wait_until(look, "a replica leads", timeout, every=0.05)

    def wait_for_followers(self, timeout: float = 30) -> None:
        """All are up, and see the same leader."""

        def agree() -> bool:
            views = [replica.seen()["leader"] for replica in self.all]
            return all(views) and len({view["epoch"] for view in views}) == 1

        wait_until(agree, "all replicas see the same leader", timeout, every=0.1)

    def wait_healthy(self, timeout: float = 60) -> None:
        wanted = {entry["name"] for entry in self.all[0].plane.pool.clusters}
        wait_until(
            lambda: (
                wanted <= {c["name"] for c in self.get("/v1/clusters")["items"] if is_healthy(c)}
            ),
            f"{sorted(wanted)} are healthy",
            timeout,
            every=0.1,
        )

    def request(self, method: str, path: str, **kwargs: Any) -> requests.Response:
        live = self.live()
        if not live:
            raise requests.ConnectionError("no replica is up")
        return self._dice.choice(live).plane.request(method, path, **kwargs)

    def get(self, path: str, **kwargs: Any) -> Any:
        return expect_ok(self.request("GET", path, **kwargs))

    def post(self, path: str, body: Any = None, **kwargs: Any) -> Any:
        return expect_ok(self.request("POST", path, json=body, **kwargs))

    def native_job(self, job_id: str) -> dict[str, Any]:
        return self.get(f"/v1/jobs/{job_id}")

    def mend(self) -> None:
        """Ends every fault: all run, and reach everything."""
        for replica in self.all:
            for wire in replica.wires:
                wire.disarm()
                wire.mode = type(wire.mode).PASS
            replica.thaw()
        together(replica.start for replica in self.all)

    def output(self) -> str:
        return "\n".join(f"--- {one.name}\n{one.plane.output()}" for one in self.all)

    def close(self) -> None:
        together(replica.close for replica in self.all)


class Sampler(threading.Thread):
    """Asks all replicas all the time who leads: never two that lead at the same time.

    Each claims to lead from the moment it was asked until it answered. Claims of different
    leaderships may touch in neither order only if the earlier one ended before the later began,
    so an answer under an old epoch that was asked for after one under a newer epoch had been given
    is a violation.
    """

    def __init__(self, replicas: Replicas, every: float = 0.05) -> None:
        super().__init__(daemon=True)
        self._replicas = replicas
        self._every = every
        self._over = threading.Event()
        #: (epoch, replica): when it was first answered, and when it was last asked for.
        self.first: dict[tuple[int, str], float] = {}
        self.last: dict[tuple[int, str], float] = {}

    def run(self) -> None:
        askers = [
            threading.Thread(target=self._ask, args=(one,), daemon=True) for one in self._replicas
        ]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()

    def stop(self) -> list[str]:
        """Ends it, and says what was wrong."""
        self._over.set()
        self.join(10)
        return self.found()

    def found(self) -> list[str]:
        wrong = []
        claims = sorted(self.first.items(), key=lambda claim: claim[0])
        for (epoch, name), _ in claims:
            for (later, other), begun in claims:
                asked = self.last[epoch, name]
                if later > epoch and asked > begun:
                    text = f"{name} answered as leader {epoch}, asked {asked - begun:.3f} s after"
                    wrong.append(f"{text} {other} had answered as leader {later}")
                if later == epoch and other > name:
                    wrong.append(f"{name} and {other} both led as {epoch}")
        return wrong

    def _ask(self, replica: Replica) -> None:
        session = requests.Session()
        while not self._over.wait(self._every):
            if replica.plane.has_ended():
                continue
            asked = time.monotonic()
            with contextlib.suppress(requests.RequestException, ValueError, KeyError):
                seen = session.get(f"{replica.plane.address}/v1/plane", timeout=20).json()
                if seen["role"] == "leader" and seen["leader"]:
                    claim = seen["leader"]["epoch"], replica.name
                    self.first.setdefault(claim, time.monotonic())
                    self.last[claim] = asked


def together(work: Iterable[Callable[[], object]]) -> None:
    """Does all of it at the same time; the first error is raised."""
    errors: list[BaseException] = []

    def run(one: Callable[[], object]) -> None:
        try:
            one()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120 * PATIENCE)
    if errors:
        raise errors[0]
