"""The setup for the storm: a control plane on a small disk, above real clusters and fakes."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import requests

from history.client import CANNOT_WRITE, Client
from history.record import History
from history.watch import Watcher
from support.disk import MIB, Disk, NoDisk
from support.plane import Plane
from support.pool import Pool
from support.ray_cluster import Clusters
from support.shim import Shim

from .fakes import Fake
from .keeper import Keeper
from .proxy import Proxy

# Small enough to be filled quickly, large enough for a thousand jobs.
DISK = 128 * MIB

# A field of submit requests that the Ray of `old` does not know.
UNKNOWN_FIELD = "entrypoint_memory"


class Stage:
    """`centos` real and `steady` fake are reached directly, `mac` real, `shaky` and `old` fake
    through a proxy. `old` has an old Ray, which reports no session."""

    def __init__(self, directory: Path, clusters: Clusters, seed: int, retained: int) -> None:
        self.dice = random.Random(seed)
        self.clusters = clusters
        #: So many ended jobs are remembered, and as many tasks.
        self.retained = retained
        self.history = History(directory / "ledger", clusters.values())
        ledger = self.history.ledger
        self.fakes = {name: Fake(name, ledger) for name in ("steady", "shaky")}
        self.fakes["old"] = Fake("old", ledger, "--no-session", "--unknown-field", UNKNOWN_FIELD)
        self.proxies = {
            "mac": Proxy(clusters["mac"].dashboard, seed + 1),
            "shaky": Proxy(self.fakes["shaky"].dashboard, seed + 2),
            "old": Proxy(self.fakes["old"].dashboard, seed + 3),
        }
        self.shim = Shim(directory)
        self.plane = Plane(directory / "plane", self._pool(), self.shim.env)
        self.client = Client(self.plane, self.history)
        self.watcher = Watcher(self.plane, self.history, seed)
        self.disk: Disk | None = None
        self.no_disk = ""
        try:
            self.disk = Disk(self.plane.state, DISK)
            self.plane.prefix = self.disk.enter
        except (NoDisk, OSError) as why:
            self.no_disk = str(why)
        self.keeper = Keeper(self.plane)

    def _pool(self) -> Pool:
        # A cluster whose circuit opened is tried again within the measured time.
        scheduler = {"breaker_cooldown": "5s", "retain_finished": self.retained}
        pool = Pool(list(self.clusters.values()), scheduler)
        for entry in pool.clusters:
            entry["tags"] = ["real"]
        for name, fake in self.fakes.items():
            entry = {"name": name, "head_address": "127.0.0.1:1", "dashboard": fake.dashboard}
            pool.clusters.append({**entry, "tags": ["fake"]})
        for name, proxy in self.proxies.items():
            pool[name]["dashboard"] = proxy.url
        return pool

    def start(self) -> None:
        self.plane.start()
        self.plane.wait_healthy()
        self.keeper.start()
        self.watcher.start()

    def readiness(self) -> str:
        """The answer of /readyz; empty if there is none."""
        with contextlib.suppress(requests.RequestException):
            return self.plane.request("GET", "/readyz", timeout=8).text.strip()
        return ""

    def cannot_write(self) -> str:
        """The same, if the problem is that the state cannot be written."""
        said = self.readiness()
        return said if said.removeprefix("not ready: ").startswith(CANNOT_WRITE) else ""

    def close(self) -> None:
        if self.keeper.is_alive():
            self.watcher.stop()
            self.keeper.close()
        self.plane.close()
        for fake in self.fakes.values():
            fake.kill()
        for proxy in self.proxies.values():
            proxy.close()
        if self.disk is not None:
            self.disk.close()


@contextlib.contextmanager
def staged(directory: Path, clusters: Clusters, seed: int, retained: int) -> Iterator[Stage]:
    stage = Stage(directory, clusters, seed, retained)
    try:
        yield stage
    finally:
        stage.close()
