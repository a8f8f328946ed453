"""Predicts from the graph of shareholdings: one actor for each index, all on this job's cluster."""

from __future__ import annotations

import ray
from predictors import GraphPredictor, where_i_am

from ray_multicluster_scheduler.app.client_api import (
    initialize_scheduler_environment,
    submit_actor,
)

INDEXES = {"hs300": 300, "zz500": 500, "sz50": 50}


def main() -> None:
    print(f"graph_prediction runs {where_i_am()}", flush=True)
    initialize_scheduler_environment()
    predictors = {}
    for index, size in INDEXES.items():
        _, predictors[index] = submit_actor(
            actor_class=GraphPredictor,
            args=(size,),
            resource_requirements={"CPU": 1, "memory": 64 * 1024 * 1024},
            tags=["tradebot", "fund"],
            name=f"graph-{index}",
        )
    for prediction in ray.get([actor.infer.remote(idx) for idx, actor in predictors.items()]):
        print(prediction)
    print("stopped:", *ray.get([actor.stop.remote() for actor in predictors.values()]))


if __name__ == "__main__":
    main()
