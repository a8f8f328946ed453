"""cluster.yaml for the stand-ins: the two clusters of the design, on 127.0.0.1."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

from .ray_cluster import RayCluster

# The homes of the design's clusters. They need not exist on the test machine: translation works on
# text.
HOMES = {"centos": "/home/zorro/", "mac": "/Users/zorro/"}

# There is no conda here, so jobs get variables only; test_placement reads conda back from jobs that
# Ray refuses to start.
STAND_INS: dict[str, dict[str, Any]] = {
    "centos": {
        "prefer": False,
        "weight": 1.0,
        "tags": ["linux", "x86_64"],
        "runtime_env": {"env_vars": {"home_dir": HOMES["centos"], "CLUSTER_FLAVOUR": "linux"}},
    },
    "mac": {
        "prefer": False,
        "weight": 1.0,
        "tags": ["macos", "arm64"],
        "runtime_env": {"env_vars": {"home_dir": HOMES["mac"], "CLUSTER_FLAVOUR": "darwin"}},
    },
}

# Faster than the production defaults, so that a test takes seconds.
SCHEDULER: dict[str, Any] = {
    "submission_interval": "0s",
    "poll_interval": "1s",
    "unhealthy_after": 2,
    "snapshot_max_age": "10s",
    # Ray shows usage every five seconds, and later on a busy machine.
    "settle_margin": "6s",
    "dispatch_timeout": "10s",
    "loss_grace": "5s",
    "retry_backoff": "200ms",
}


class Pool:
    """The content of cluster.yaml; tests may change `clusters`, `scheduler`, `sso` and `shares`."""

    def __init__(self, clusters: list[RayCluster], scheduler: dict[str, Any] | None = None):
        self.clusters = [
            {
                "name": cluster.name,
                "head_address": cluster.head_address,
                "dashboard": cluster.dashboard,
                **({"token_file": str(cluster.token_file)} if cluster.token_file else {}),
                **copy.deepcopy(STAND_INS.get(cluster.name, {})),
            }
            for cluster in clusters
        ]
        self.scheduler = {**SCHEDULER, **(scheduler or {})}
        #: `trusted_proxy` and `jwt`.
        self.sso: dict[str, Any] = {}
        self.shares: dict[str, Any] = {}
        self.cluster_files: list[str] = []

    def __getitem__(self, name: str) -> dict[str, Any]:
        """The entry of one cluster."""
        return next(entry for entry in self.clusters if entry["name"] == name)

    def write(self, path: Path) -> None:
        # Replaced in one step, as editors and ConfigMaps do: a reload never sees half a file.
        shares = {"shares": self.shares} if self.shares else {}
        content = {"clusters": self.clusters, "scheduler": self.scheduler, **self.sso, **shares}
        if self.cluster_files:
            content["cluster_files"] = self.cluster_files
        text = yaml.safe_dump(content)
        fresh = path.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(path)
