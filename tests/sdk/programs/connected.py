"""Uses the given clusters from several threads; then stays connected until its input ends."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import ray

import ray_multicluster_scheduler as rms


def flavour() -> str:
    return os.environ["CLUSTER_FLAVOUR"]


class Keeper:
    def flavour(self) -> str:
        return flavour()


def use(cluster: str) -> tuple[str, list[str]]:
    _, ref = rms.submit_task(flavour, preferred_cluster=cluster)
    _, actor = rms.submit_actor(Keeper, preferred_cluster=cluster)
    return cluster, ray.get([ref, actor.flavour.remote()])


def main() -> None:
    with rms.initialize_scheduler_environment():
        with ThreadPoolExecutor(4) as threads:
            for cluster, flavours in threads.map(use, sys.argv[1:] * 2):
                print("found:", cluster, *flavours)
        print("ready", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
