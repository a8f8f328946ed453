"""A job, and which copy of the package it, its tasks and its actors import."""

from __future__ import annotations

import json

import ray


def found() -> list[str]:
    import ray_multicluster_scheduler as package

    return [package.__version__, package.__file__]


class Keeper:
    def found(self) -> list[str]:
        return found()


def main() -> None:
    copies = {"driver": found()}
    ray.init()
    task, own_env = ray.remote(num_cpus=0)(found), {"env_vars": {"ANOTHER": "1"}}
    copies["task"] = ray.get(task.remote())
    copies["task_with_own_env"] = ray.get(task.options(runtime_env=own_env).remote())
    copies["actor"] = ray.get(ray.remote(num_cpus=0)(Keeper).remote().found.remote())
    print("found:", json.dumps(copies), flush=True)


if __name__ == "__main__":
    main()
