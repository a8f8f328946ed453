"""The setup for the storm: a control plane on a small disk, above real clusters and fakes."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import requests

from support.plane import Plane
from support.pool import Pool
from support.ray_cluster import Clusters

from .disk import MIB, Disk, NoDisk
from .fakes import Fake
from .keeper import Keeper
from .proxy import Proxy
from .shim import Shim

# Small enough to be filled quickly, large enough for a thousand jobs.
DISK = 128 * MIB

# So that a cluster whose circuit opened is tried again within the measured time.
SCHEDULER = {"breaker_cooldown": "5s"}


class Stage:
    """`centos` real and `steady` fake are reached directly, `mac` and `shaky` through a proxy."""

    def __init__(self, directory: Path, clusters: Clusters, seed: int) -> None:
        self.dice = random.Random(seed)
        self.clusters = clusters
        self.ledger = directory / "ledger"
        self.fakes = {name: Fake(name, self.ledger) for name in ("steady", "shaky")}
        self.proxies = {
            "mac": Proxy(clusters["mac"].dashboard, seed + 1),
            "shaky": Proxy(self.fakes["shaky"].dashboard, seed + 2),
        }
        self.shim = Shim(directory)
        self.plane = Plane(directory / "plane", self._pool(), self.shim.env)
        self.disk: Disk | None = None
        self.no_disk = ""
        try:
            self.disk = Disk(self.plane.state, DISK)
            self.plane.prefix = self.disk.enter
        except (NoDisk, OSError) as why:
            self.no_disk = str(why)
        self.keeper = Keeper(self.plane)

    def _pool(self) -> Pool:
        pool = Pool(list(self.clusters.values()), SCHEDULER)
        for entry in pool.clusters:
            entry["tags"] = ["real"]
        pool["mac"]["dashboard"] = self.proxies["mac"].url
        at = {"steady": self.fakes["steady"].dashboard, "shaky": self.proxies["shaky"].url}
        for name, dashboard in at.items():
            entry = {"name": name, "head_address": "127.0.0.1:1", "dashboard": dashboard}
            pool.clusters.append({**entry, "tags": ["fake"]})
        return pool

    def start(self) -> None:
        self.plane.start()
        self.plane.wait_healthy()
        self.keeper.start()

    def readiness(self) -> str:
        """The answer of /readyz; empty if there is none."""
        with contextlib.suppress(requests.RequestException):
            return self.plane.request("GET", "/readyz", timeout=8).text.strip()
        return ""

    def cannot_write(self) -> str:
        """The same, if the problem is that the state cannot be written."""
        said = self.readiness()
        return (
            said
            if said.startswith("not ready: the state directory has not been writable for")
            else ""
        )

    def close(self) -> None:
        if self.keeper.is_alive():
            self.keeper.close()
        self.plane.close()
        for fake in self.fakes.values():
            fake.kill()
        for proxy in self.proxies.values():
            proxy.close()
        if self.disk is not None:
            self.disk.close()


@contextlib.contextmanager
def staged(directory: Path, clusters: Clusters, seed: int) -> Iterator[Stage]:
    stage = Stage(directory, clusters, seed)
    try:
        yield stage
    finally:
        stage.close()
