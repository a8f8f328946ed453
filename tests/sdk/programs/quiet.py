"""Tasks and actors on two clusters, connections that come and go, and a fork in between."""

from __future__ import annotations

import multiprocessing
import os
import sys

import ray

import ray_multicluster_scheduler as rms


def where() -> str:
    return os.environ["CLUSTER_FLAVOUR"]


class Model:
    def where(self) -> str:
        return where()


def use_both() -> None:
    clusters = ("centos", "mac")
    tasks = [rms.submit_task(where, preferred_cluster=cluster)[1] for cluster in clusters]
    actors = [rms.submit_actor(Model, preferred_cluster=cluster)[1] for cluster in clusters]
    found = ray.get([*tasks, *(actor.where.remote() for actor in actors)])
    assert found == ["linux", "darwin"] * 2, found


if __name__ == "__main__":
    with rms.initialize_scheduler_environment():
        use_both()
        child = multiprocessing.get_context("fork").Process(target=sys.exit)
        child.start()
        child.join()
        assert child.exitcode == 0
    with rms.initialize_scheduler_environment():
        use_both()
    print("all is well")
