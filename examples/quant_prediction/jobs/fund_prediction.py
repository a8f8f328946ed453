"""Predicts the net value of funds: one actor for each index, all on this job's cluster."""

from __future__ import annotations

import ray
from predictors import FundPredictor, where_i_am

from ray_multicluster_scheduler.app.client_api import (
    initialize_scheduler_environment,
    submit_actor,
)

INDEXES = ("hs300", "zz500")
DAYS = 30


def main() -> None:
    print(f"fund_prediction runs {where_i_am()}", flush=True)
    initialize_scheduler_environment()
    predictors = {}
    for index in INDEXES:
        _, predictors[index] = submit_actor(
            actor_class=FundPredictor,
            kwargs={"days": DAYS},
            resource_requirements={"CPU": 1, "memory": "64MiB"},
            tags=["tradebot", "fund"],
            name=f"fund-{index}",
        )
    for prediction in ray.get([actor.infer.remote(idx) for idx, actor in predictors.items()]):
        print(prediction)
    print("stopped:", *ray.get([actor.stop.remote() for actor in predictors.values()]))


if __name__ == "__main__":
    main()
