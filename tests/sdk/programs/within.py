"""A job that makes the users' calls on its own cluster, then waits for a file."""

from __future__ import annotations

import os
import sys
import time

import ray

from ray_multicluster_scheduler.app.client_api import (
    initialize_scheduler_environment,
    submit_actor,
    submit_task,
)


def flavour() -> str:
    return os.environ["CLUSTER_FLAVOUR"]


class Keeper:
    def flavour(self) -> str:
        return flavour()


def main() -> None:
    manager = initialize_scheduler_environment()
    _, ref = submit_task(func=flavour)
    _, actor = submit_actor(actor_class=Keeper, resource_requirements={"CPU": 1})
    print("found:", *ray.get([ref, actor.flavour.remote()]), flush=True)
    deadline = time.monotonic() + 120
    while not os.path.exists(sys.argv[1]) and time.monotonic() < deadline:
        time.sleep(0.2)
    manager.stop()


if __name__ == "__main__":
    main()
