"""A real Ray cluster that really autoscales, on this machine.

Ray's own autoscaler runs on its head and launches raylets beside it: see `growing_nodes.py`. Never
use Ray's own `AutoscalingCluster` for that: it ends every Ray cluster of the machine.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

from .ray_cluster import RayCluster
from .waiting import wait_until

PROVIDER = Path(__file__).parent / "growing_nodes.py"
# Ray's provider takes the head to be of this type, and the ids of its nodes count from this one.
HEAD_TYPE, HEAD_ID = "ray.head.default", "f" * 51 + "00000"
WORKER_TYPE = "worker"
HEAD_MEMORY, OBJECT_STORE = 2 << 30, 100 << 20


class ElasticCluster(RayCluster):
    """A head without CPUs, and as many workers as work waits for, up to `max_workers`."""

    def __init__(
        self,
        name: str,
        worker_cpus: int = 2,
        max_workers: int = 2,
        idle_timeout: float = 20,
        autoscaler_v2: bool = False,
        env: dict[str, str] | None = None,
        token: str | None = None,
    ):
        """`env` is for the head, e.g. `RAY_JOB_START_TIMEOUT_SECONDS`."""
        super().__init__(name, num_cpus=0, env=env, token=token)
        self.worker_cpus = worker_cpus
        self.max_workers = max_workers
        self.idle_timeout = idle_timeout
        self._orders = self.directory / "orders"
        self._orders.mkdir()
        code = self.directory / "provider"
        code.mkdir()
        shutil.copy(PROVIDER, code)
        self.env.update(
            RAY_FAKE_CLUSTER="1",
            AUTOSCALER_UPDATE_INTERVAL_S="1",
            ELASTIC_ORDERS=str(self._orders),
            PYTHONPATH=str(code),
        )
        if autoscaler_v2:
            self.env.update(
                RAY_enable_autoscaler_v2="1",
                RAY_CLOUD_INSTANCE_ID=HEAD_ID,
                RAY_OVERRIDE_NODE_ID_FOR_TESTING=HEAD_ID,
            )

    def options(self) -> dict[str, str]:
        config = self.directory / "autoscaling.json"
        config.write_text(json.dumps(self._config()))
        more = {"autoscaling_config": str(config), "memory": str(HEAD_MEMORY)}
        return {**super().options(), **more}

    def _config(self) -> dict[str, Any]:
        def kind(most: int, **resources: int) -> dict[str, Any]:
            return {
                "resources": resources,
                "node_config": {},
                "min_workers": 0,
                "max_workers": most,
            }

        commands = ("head_setup", "worker_setup", "setup", "initialization")
        commands += ("head_start_ray", "worker_start_ray")
        empty_lists = ("cluster_synced_files", "rsync_exclude", "rsync_filter")
        return {
            **{f"{when}_commands": [] for when in commands},
            **{name: [] for name in empty_lists},
            **{name: {} for name in ("auth", "docker", "file_mounts")},
            "cluster_name": self.name,
            "max_workers": self.max_workers,
            "idle_timeout_minutes": self.idle_timeout / 60,
            "upscaling_speed": 1.0,
            "file_mounts_sync_continuously": False,
            "head_node_type": HEAD_TYPE,
            "available_node_types": {
                HEAD_TYPE: kind(0, CPU=0),
                WORKER_TYPE: kind(
                    self.max_workers, CPU=self.worker_cpus, object_store_memory=OBJECT_STORE
                ),
            },
            "provider": {
                "type": "external",
                "module": "growing_nodes.Nodes",
                # Without it, Ray looks at port 6379 and waits there without a word.
                "gcs_address": self.gcs_address,
                "head_node_id": HEAD_ID,
                "launch_multiple": True,
                "use_node_id_as_ip": True,
                "disable_node_updaters": True,
                "disable_launch_config_check": True,
            },
        }

    def fail_launches(self, category: str | None = "InsufficientInstanceCapacity") -> None:
        """From now on no launch succeeds; with None, they do again."""
        self._order("fails", category)

    def delay_launches(self, seconds: float | None) -> None:
        """From now on each launch takes this long."""
        self._order("takes", None if seconds is None else str(seconds))

    def _order(self, name: str, content: str | None) -> None:
        if content is None:
            with contextlib.suppress(FileNotFoundError):
                (self._orders / name).unlink()
        else:
            (self._orders / name).write_text(content)

    def workers(self) -> list[dict[str, Any]]:
        """The nodes that are there, other than the head."""
        nodes = self.get("/api/v0/nodes")["data"]["result"]["result"]
        return [node for node in nodes if node["state"] == "ALIVE" and not node["is_head_node"]]

    def report(self) -> str:
        """What its autoscaler tells people."""
        return self.get("/api/cluster_status?format=1")["data"]["clusterStatus"]

    def shrink(self) -> None:
        """Back to the head alone, for the next test."""
        self.fail_launches(None)
        self.delay_launches(None)
        self.stop_all_jobs()
        timeout = self.idle_timeout + 60
        wait_until(lambda: not self.workers(), f"{self.name} has shrunk", timeout=timeout)
