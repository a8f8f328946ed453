"""Dagster jobs as users of dagster-ray have them. Dagster reads annotations, not their texts."""

import os

import dagster as dg
from dagster_ray import PipesRayJobClient


@dg.op
def two() -> int:
    return 2


@dg.op
def doubled(number: int) -> int:
    return number * 2


@dg.job
def one_ray_job() -> None:
    doubled(two())


@dg.op
def waits() -> None:
    import time

    time.sleep(600)


@dg.job
def waiting() -> None:
    waits()


@dg.op
def piped(context: dg.OpExecutionContext) -> None:
    client = PipesRayJobClient(address=os.environ["PLANE"])
    # Dagster's own package, in the job that the cluster runs.
    python = os.environ["DAGSTER_PYTHON"]
    program = os.path.join(os.path.dirname(__file__), "piped.py")
    client.run(
        context=context,
        submit_job_params={
            "entrypoint": f"{python} {program}",
            "metadata": {"multicluster.tags": "linux"},
        },
        extras={"number": 21},
    )


@dg.job
def pipes() -> None:
    piped()


defs = dg.Definitions(jobs=[one_ray_job, waiting, pipes])
