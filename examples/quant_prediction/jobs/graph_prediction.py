"""Predicts from the graph of shareholdings: sixteen actors of one CPU, on this job's cluster."""

from __future__ import annotations

import time

import ray
from predictors import GraphPredictor, where_i_am

from ray_multicluster_scheduler.app.client_api import (
    initialize_scheduler_environment,
    submit_actor,
)

# Not used inside a job: the job knows its cluster.
CONFIG = "/home/zorro/project/pycharm/Fund/cluster.yaml"
GIB = 1024 * 1024 * 1024


def main() -> None:
    print(f"graph_prediction runs {where_i_am()}", flush=True)
    task_lifecycle_manager = initialize_scheduler_environment(config_file_path=CONFIG)
    predictors = []
    for idx in range(16):
        _, predictor = submit_actor(
            actor_class=GraphPredictor,
            kwargs={"size": 300},
            resource_requirements={"CPU": 1, "memory": 1 * GIB},
            tags=["tradebot", "fund"],
            name=f"graph-{idx}",
        )
        predictors.append(predictor)
    predictions = []
    for idx, predictor in enumerate(predictors):
        predictions.append(predictor.infer.remote(idx, split_name="test"))
        time.sleep(0.2)
    for prediction in ray.get(predictions):
        print(prediction)
    task_lifecycle_manager.stop()


if __name__ == "__main__":
    main()
