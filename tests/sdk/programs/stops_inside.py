"""A job script as users write them: it stops what it initialized, and continues with Ray."""

from __future__ import annotations

import time

import ray

from ray_multicluster_scheduler.app.client_api import (
    initialize_scheduler_environment,
    submit_actor,
)


class Model:
    def infer(self, idx: int, split_name: str = "train") -> str:
        return f"{split_name}-{idx}"


def main() -> None:
    task_lifecycle_manager = initialize_scheduler_environment(
        config_file_path="/nowhere/pycharm/cluster.yaml"
    )
    predictors = [
        submit_actor(
            actor_class=Model,
            resource_requirements={"CPU": 1, "memory": 64 << 20},
            tags=["tradebot", "fund"],
            name=f"predictor-{number}",
        )[1]
        for number in range(2)
    ]

    def infer() -> list[str]:
        refs = []
        for idx, predictor in enumerate(predictors):
            refs.append(predictor.infer.remote(idx, split_name="test"))
            time.sleep(0.2)
        return ray.get(refs)

    print("before:", *infer(), flush=True)
    task_lifecycle_manager.stop()
    print("after:", *infer(), flush=True)
    by_name = ray.get_actor("predictor-1")
    print("by name:", ray.get(by_name.infer.remote(7)), flush=True)
    print("plain Ray:", ray.get(ray.remote(num_cpus=0)(lambda: "works").remote()), flush=True)
    _, again = submit_actor(Model, name="predictor-2")
    print("again:", ray.get(again.infer.remote(3)), flush=True)
    task_lifecycle_manager.stop()


if __name__ == "__main__":
    main()
