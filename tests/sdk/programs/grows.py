"""A task and an actor for which the only cluster has to grow."""

from __future__ import annotations

import os

import ray

import ray_multicluster_scheduler as rms


def pid() -> int:
    return os.getpid()


class Model:
    def pid(self) -> int:
        return os.getpid()


if __name__ == "__main__":
    with rms.initialize_scheduler_environment():
        _, task = rms.submit_task(pid, resource_requirements={"CPU": 2})
        assert ray.get(task)
        _, actor = rms.submit_actor(Model, resource_requirements={"CPU": 2})
        assert ray.get(actor.pid.remote())
    print("both ran")
