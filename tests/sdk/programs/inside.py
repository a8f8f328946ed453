"""A job, and the work it submits: to its own cluster, and to another by name."""

from __future__ import annotations

import json
import os

import ray

import ray_multicluster_scheduler as rms


def where() -> str:
    return os.environ["CLUSTER_FLAVOUR"]


def from_within() -> list[str]:
    """A task that submits: its own cluster again."""
    _, ref = rms.submit_task(where)
    return [where(), ray.get(ref)]


class Keeper:
    def where(self) -> str:
        return os.environ["CLUSTER_FLAVOUR"]


def main() -> None:
    context = rms.current_context()
    assert context is not None
    found: dict[str, object] = {"job": context.job_id, "cluster": context.cluster}
    # More than fit at once, and no 40 seconds between them: Ray queues them.
    found["tasks"] = ray.get([rms.submit_task(where)[1] for _ in range(6)])
    found["batch"] = ray.get([ref for _, ref in rms.submit_tasks(lambda _: where(), range(3))])
    _, actor = rms.submit_actor(Keeper, tags=["tradebot", "fund"], name="keeper")
    found["actor"] = ray.get(actor.where.remote())
    found["tagged"] = ray.get(rms.submit_task(where, tags=["macos"])[1])
    try:
        rms.submit_actor(Keeper, name="keeper")
    except rms.ActorNameTakenError as error:
        found["taken"] = error.cluster
    found["nested"] = ray.get(rms.submit_task(from_within)[1])
    found["sub_job"] = rms.submit_job("echo from inside", submission_id=f"{context.job_id}-sub")
    rms.wait_for_all_jobs([found["sub_job"]])
    found["sub_job_cluster"] = rms.get_job_info(found["sub_job"]).cluster
    other = "mac" if context.cluster == "centos" else "centos"
    with rms.cluster_context(other):
        _, there = rms.submit_task(where)
    found["mixed"] = ray.get([there, rms.submit_task(where)[1]])
    print("found:", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
