"""The nodes of an elastic cluster, as Ray's autoscaler launches them: raylets on this machine.

Runs in the process of Ray's monitor, whose environment names the directory of its orders.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import ray.util
from ray._private import ray_constants, services
from ray.autoscaler._private.fake_multi_node.node_provider import FakeMultiNodeProvider
from ray.autoscaler.node_launch_exception import NodeLaunchException

# As for nodes that are added by hand: without an address of the machine, Ray would refuse them.
ray_constants.ENABLE_RAY_CLUSTER = True
services.resolve_ip_for_localhost = lambda host: host
services.get_node_ip_address = ray.util.get_node_ip_address = lambda *_, **__: "127.0.0.1"

ORDERS = "ELASTIC_ORDERS"


class Nodes(FakeMultiNodeProvider):
    """Launches fail or take long when there is an order to do so."""

    def create_node_with_resources_and_labels(
        self, node_config: Any, tags: Any, count: int, resources: Any, labels: Any
    ) -> None:
        time.sleep(float(order("takes") or 0))
        category = order("fails")
        if category:
            raise NodeLaunchException(category, "as ordered by a test", None)
        super().create_node_with_resources_and_labels(node_config, tags, count, resources, labels)


def order(name: str) -> str | None:
    """The content of a file in the directory of orders."""
    path = Path(os.environ[ORDERS]) / name
    return path.read_text() if path.exists() else None
